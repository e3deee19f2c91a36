//! The simulated GPU, shown as an AMD card by the example `amd_tree`, reads like the simulated GPU itself.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use trainmon::sample::gpu::HW_THERMAL;
use trainmon::sources::gpu;
use trainmon::sources::simulated_gpu::{SimulatedGpu, SimulatedGpuState, monotonic_ns};
use trainmon::sources::{Roots, SourceOptions};

use crate::process::{example, pause, until};

/// Ends the process that shows the card.
struct Shown(Child);

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn show(state: &Path, folder: &Path) -> (Shown, SourceOptions) {
    let shown = Shown(Command::new(example("amd_tree")).args([state, folder]).spawn().unwrap());
    until("the card is not shown", || folder.join("ready").exists());
    let roots = Roots { sys: folder.join("sys"), ..Roots::default() };
    (shown, SourceOptions { roots, nvml_lib: Some("/nowhere/libnvidia-ml.so.1".into()), simulated_gpu: None })
}

#[test]
fn a_simulated_amd_card_reads_like_the_simulated_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("device");
    let spec = SimulatedGpuState {
        owner_memory_bytes: 8 << 30,
        memory_used_bytes: 9 << 30,
        clock_event_reasons: HW_THERMAL,
        ..SimulatedGpuState::default()
    };
    let mut simulated = SimulatedGpu::create(&state, &[spec, SimulatedGpuState::default()]).unwrap();
    let (_shown, options) = show(&state, &folder.path().join("amd"));
    let mut card = gpu::open(&options).unwrap();
    let own = SourceOptions { simulated_gpu: Some(state), ..SourceOptions::default() };
    let mut itself = gpu::open(&own).unwrap();
    let (mut sums, rounds) = ([0; 2], 8);
    for round in 0..=rounds {
        let now_ns = monotonic_ns();
        let [amd, truth] = [&mut card, &mut itself].map(|reader| reader.read(now_ns).unwrap().devices);
        assert_eq!((amd.len(), truth.len()), (2, 2));
        assert_eq!(amd[0].memory_used_bytes, truth[0].memory_used_bytes);
        assert_eq!(amd[0].processes[0].pid, std::process::id());
        assert_eq!(amd[0].processes[0].memory_bytes, Some(8 << 30));
        assert_eq!(amd[0].uuid.as_deref(), Some("GPU-5ead10ad00000000"));
        // The first read has none before it.
        if round > 0 {
            for (sum, gpu) in sums.iter_mut().zip([&amd[0], &truth[0]]) {
                *sum += gpu.utilization_pct.unwrap();
            }
            assert_eq!(amd[0].clock_event_reasons, Some(HW_THERMAL));
            assert_eq!(amd[1].utilization_pct, Some(0));
        }
        simulated.launch(Duration::from_millis(if round % 2 == 0 { 300 } else { 60 })).unwrap();
        pause(400);
    }
    let [amd, truth] = sums.map(|sum| f64::from(sum) / f64::from(rounds));
    assert!((amd - truth).abs() < 6.0 && truth > 20.0, "{amd}% read from the files of {truth}%");
}
