//! Reads the simulated GPU: a made-up GPU that a training-like program keeps in a file (see [`state`]).
//!
//! It serves `trainmon demo` and the tests on machines without a GPU. Every value from it is marked as simulated.
//!
//! A real driver takes a utilization point about every sixth of a second. Here the busy time is known exactly, but only
//! at the moment of reading, so one read gives one point: the share since the previous read. For finer points, read
//! more often. The first read has no previous one and gives no utilization.

use std::path::{Path, PathBuf};

use super::Roots;
use super::clock::unix_us;
use super::gpu_reader::GpuReader;
use trainmon_sample::{Gpm, GpuProcess, GpuReading, GpuSample, SourceState, SourceStatus, UtilizationPoint};

mod file;
mod meter;
mod owner;
mod queue;
pub mod state;

pub use super::clock::monotonic_ns;
pub use file::StateFile;
pub use meter::{Meter, MeterActivity, Reading, activity};
pub use owner::SimulatedGpu;
pub use queue::Queue;
pub use state::SimulatedGpuState;

/// A blocking reader of a simulated GPU's file.
#[derive(Debug)]
pub struct SimulatedReader {
    file: StateFile,
    proc: PathBuf,
    /// One per simulated GPU.
    meters: Vec<Meter>,
}

impl SimulatedReader {
    /// Opens the file of a simulated GPU; `roots.proc` shows which of its processes still exist.
    ///
    /// # Errors
    /// If the file cannot be opened or has another format.
    pub fn open(path: &Path, roots: &Roots) -> Result<Self, SourceStatus> {
        let file = StateFile::open(path).map_err(|error| {
            let state = match error.kind() {
                std::io::ErrorKind::NotFound => SourceState::Absent,
                std::io::ErrorKind::PermissionDenied => SourceState::Denied,
                _ => SourceState::Gone,
            };
            SourceStatus::new(state, format!("cannot read the simulated GPU {}: {error}", path.display()))
        })?;
        let meters = (0..file.device_count).map(|_| Meter::default()).collect();
        Ok(Self { file, proc: roots.proc.clone(), meters })
    }
}

impl GpuReader for SimulatedReader {
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, SourceStatus> {
        let unix_us = unix_us();
        let mut sample = GpuSample {
            monotonic_ns: now_ns,
            driver: Some("simulated".into()),
            simulated: true,
            devices: Vec::with_capacity(self.meters.len()),
        };
        for (index, meter) in (0_u32..).zip(&mut self.meters) {
            let state = self.file.read(index).map_err(|error| {
                SourceStatus::new(SourceState::Gone, format!("cannot read the simulated GPU any more: {error}"))
            })?;
            // Half-written for as long as we tried: the writer died. The last reading still holds.
            let state = state.or(meter.last.map(|(state, _)| state));
            let alive = |pid: u32| self.proc.join(pid.to_string()).exists();
            sample.devices.push(match state {
                Some(state) => device(meter, index, state.without_the_dead(alive), now_ns, unix_us),
                None => GpuReading { index, ..GpuReading::default() },
            });
        }
        Ok(sample)
    }
}

fn device(meter: &mut Meter, index: u32, state: SimulatedGpuState, now_ns: u64, unix_us: u64) -> GpuReading {
    let identity = GpuReading {
        index,
        uuid: Some(format!("GPU-simulated-{index}").into()),
        name: Some(state.name().into()),
        lost: state.lost != 0,
        ..GpuReading::default()
    };
    if identity.lost {
        meter.last = None;
        return identity;
    }
    let activity = meter.read(state, now_ns);
    let busy = activity.map(|activity| activity.device);
    let pct = busy.map(percent);
    let while_busy = |value: u64| busy.map(|busy| (value as f64 * busy).round() as u32);
    let gpm_pct = |value: u64| busy.map(|busy| value.min(100) as f64 * busy);
    let process = |pid: Option<u32>, memory_bytes, share: Option<f64>| {
        let sm_utilization_pct = share.map(percent);
        pid.map(|pid| GpuProcess { pid, memory_bytes: Some(memory_bytes), sm_utilization_pct, compute: true })
    };
    let processes = [
        process(state.owner(), state.owner_memory_bytes, activity.map(|activity| activity.owner)),
        process(state.other_process(), state.other_memory_bytes, activity.map(|activity| activity.other_process)),
    ];
    GpuReading {
        utilization_pct: pct,
        utilization_points: pct.map(|pct| UtilizationPoint { unix_us, pct }).into_iter().collect(),
        memory_utilization_pct: while_busy(state.memory_busy_pct.min(100)),
        memory_used_bytes: Some(state.memory_used_bytes.min(state.memory_total_bytes)),
        memory_total_bytes: Some(state.memory_total_bytes),
        power_mw: narrow(state.power_mw(busy.unwrap_or(f64::from(u8::from(state.running(now_ns)))))),
        power_limit_mw: narrow(state.power_limit_mw).filter(|&limit| limit > 0),
        energy_mj: Some(meter.energy_mj as u64),
        temperature_c: narrow(state.temperature_c).filter(|&celsius| celsius < 200),
        sm_clock_mhz: narrow(state.sm_clock_mhz),
        sm_clock_max_mhz: narrow(state.sm_clock_max_mhz).filter(|&mhz| mhz > 0),
        clock_event_reasons: Some(state.clock_event_reasons),
        pcie_rx_kib_per_s: while_busy(state.pcie_rx_kib_per_s),
        pcie_tx_kib_per_s: while_busy(state.pcie_tx_kib_per_s),
        processes: processes.into_iter().flatten().collect(),
        gpm: (busy.is_some() && state.gpm_supported != 0).then(|| Gpm {
            sm_active_pct: gpm_pct(state.sm_active_pct),
            tensor_active_pct: None,
            dram_active_pct: gpm_pct(state.dram_active_pct),
        }),
        ..identity
    }
}

fn narrow(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}

/// A share as whole percent.
pub(crate) fn percent(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 100.0).round() as u32
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::state::{FILE_BYTES, RECORD_BYTES, encode_header, name_bytes};
    use super::*;

    fn open(path: &Path) -> Result<SimulatedReader, SourceStatus> {
        SimulatedReader::open(path, &Roots::default())
    }

    #[test]
    fn a_training_like_owner_is_seen_as_it_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let me = std::process::id();
        let mut gpu = SimulatedGpu::create(
            &path,
            &[SimulatedGpuState {
                name: name_bytes("Test GPU"),
                owner_memory_bytes: 1 << 30,
                gpm_supported: 1,
                ..SimulatedGpuState::default()
            }],
        )
        .unwrap();
        let mut reader = open(&path).unwrap();
        let t0 = monotonic_ns();
        let first = reader.read(t0).unwrap();
        assert!(first.simulated);
        assert_eq!(first.devices[0].name.as_deref(), Some("Test GPU"));
        assert_eq!((first.devices[0].utilization_pct, first.devices[0].power_mw), (None, Some(30_000)));

        gpu.launch(Duration::from_millis(500)).unwrap();
        let device = reader.read(t0 + 1_000_000_000).unwrap().devices.remove(0);
        assert_eq!(device.utilization_pct, Some(50));
        assert_eq!(device.utilization_points.len(), 1);
        assert_eq!(device.memory_utilization_pct, Some(20));
        assert!((device.power_mw.unwrap() as f64 - 125_000.0).abs() < 10.0);
        assert!((device.energy_mj.unwrap() as f64 - 125_000.0).abs() < 10.0);
        assert_eq!(device.memory_used_bytes, Some(1 << 30));
        assert_eq!(
            device.processes,
            [GpuProcess { pid: me, memory_bytes: Some(1 << 30), sm_utilization_pct: Some(50), compute: true }]
        );
        assert!((device.gpm.unwrap().sm_active_pct.unwrap() - 35.0).abs() < 0.1);
    }

    #[test]
    fn a_other_process_shares_the_device_and_the_dead_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, proc) = (folder.path().join("device"), folder.path().join("proc"));
        std::fs::create_dir_all(proc.join("70")).unwrap();
        std::fs::create_dir_all(proc.join("71")).unwrap();
        let spec = SimulatedGpuState { owner_pid: 70, other_pid: 71, ..SimulatedGpuState::default() };
        let mut gpu = SimulatedGpu::create(&path, &[spec, SimulatedGpuState::default()]).unwrap();
        let roots = Roots { proc: proc.clone(), ..Roots::default() };
        let mut reader = SimulatedReader::open(&path, &roots).unwrap();
        let t0 = monotonic_ns();
        reader.read(t0).unwrap();
        gpu.launch(Duration::from_millis(900)).unwrap();
        gpu.update(0, |device| device.other_queue.launch(monotonic_ns(), 500_000_000)).unwrap();
        let sample = reader.read(t0 + 1_000_000_000).unwrap();
        let seen: Vec<_> = sample.devices[0].processes.iter().map(|p| (p.pid, p.sm_utilization_pct)).collect();
        assert_eq!(seen, [(70, Some(90)), (71, Some(50))]);
        assert_eq!(sample.devices[0].utilization_pct, Some(100));
        assert_eq!(sample.devices[1].utilization_pct, Some(0));

        std::fs::remove_dir(proc.join("70")).unwrap();
        let sample = reader.read(t0 + 2_000_000_000).unwrap();
        assert_eq!(sample.devices[0].processes.len(), 1);
        assert_eq!(sample.devices[0].utilization_pct, Some(0));
    }

    #[test]
    fn a_lost_device_has_no_readings_and_the_others_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let mut gpu =
            SimulatedGpu::create(&path, &[SimulatedGpuState::default(), SimulatedGpuState::default()]).unwrap();
        let mut reader = open(&path).unwrap();
        reader.read(1).unwrap();
        gpu.update(0, |device| device.lost = 1).unwrap();
        let sample = reader.read(2).unwrap();
        assert!(sample.devices[0].lost && sample.devices[0].memory_used_bytes.is_none());
        assert!(!sample.devices[1].lost && sample.devices[1].memory_used_bytes.is_some());
    }

    #[test]
    fn a_reader_beside_a_busy_writer_sees_whole_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let mut gpu = SimulatedGpu::create(&path, &[SimulatedGpuState::default()]).unwrap();
        let file = StateFile::open(&path).unwrap();
        let writer = std::thread::spawn(move || {
            for value in 1..20_000 {
                gpu.update(0, |device| (device.memory_used_bytes, device.dram_active_pct) = (value, value)).unwrap();
            }
        });
        let mut whole = 0;
        while !writer.is_finished() {
            if let Some(state) = file.read(0).unwrap().filter(|state| state.memory_used_bytes > 0) {
                assert_eq!(state.memory_used_bytes, state.dram_active_pct);
                whole += 1;
            }
        }
        writer.join().unwrap();
        assert!(whole > 0 && file.read(0).unwrap().unwrap().memory_used_bytes == 19_999);
    }

    #[test]
    fn a_record_left_half_written_keeps_its_last_reading() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let _gpu = SimulatedGpu::create(&path, &[SimulatedGpuState::default()]).unwrap();
        let raw = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let tear = || raw.write_all_at(&7_u64.to_le_bytes(), RECORD_BYTES as u64).unwrap();
        tear();
        assert_eq!(open(&path).unwrap().read(1).unwrap().devices[0].memory_total_bytes, None);
        raw.write_all_at(&8_u64.to_le_bytes(), RECORD_BYTES as u64).unwrap();
        let mut reader = open(&path).unwrap();
        reader.read(1).unwrap();
        tear();
        assert_eq!(reader.read(2).unwrap().devices[0].memory_total_bytes, Some(24 << 30));
        raw.set_len(300).unwrap();
        assert_eq!(reader.read(3).unwrap_err().state, SourceState::Gone);
    }

    #[test]
    fn what_is_no_state_file_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        assert_eq!(open(&path).unwrap_err().state, SourceState::Absent);
        for bytes in [&b""[..], b"TMSIM", &[0; FILE_BYTES], &encode_header(1)] {
            std::fs::write(&path, bytes).unwrap();
            let error = open(&path).unwrap_err();
            assert_eq!(error.state, SourceState::Gone);
            assert!(error.to_string().contains("simulated GPU") && !error.to_string().contains('\n'), "{error}");
        }
        assert_eq!(open(folder.path()).unwrap_err().state, SourceState::Gone);
        assert_eq!(open(Path::new("/dev/zero")).unwrap_err().state, SourceState::Gone);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_records_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), FILE_BYTES),
            times in prop::collection::vec(any::<u64>(), 1..4)) {
            let file = tempfile::NamedTempFile::new().unwrap();
            let mut bytes = bytes;
            bytes[..RECORD_BYTES].copy_from_slice(&encode_header(16));
            for device in 1..=16 { bytes[device * RECORD_BYTES] &= !1; }
            std::fs::write(file.path(), &bytes).unwrap();
            let mut reader = open(file.path()).unwrap();
            for time in times {
                let sample = reader.read(time).unwrap();
                prop_assert_eq!(sample.devices.len(), 16);
                for device in sample.devices {
                    prop_assert!(device.utilization_pct.is_none_or(|pct| pct <= 100));
                    prop_assert!(device.memory_utilization_pct.is_none_or(|pct| pct <= 100));
                }
            }
        }
    }
}
