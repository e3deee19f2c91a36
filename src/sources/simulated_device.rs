//! Reads the simulated device: a made-up GPU that a training-like program keeps in a file (see [`state`]).
//!
//! It serves `trainmon demo` and the tests on machines without a GPU. Every value it gives is marked as simulated.
//!
//! A real driver takes a utilisation point about every sixth of a second. Here the busy time is known exactly, but only at
//! the moment of reading, so one read gives ONE point: the share of the time since the previous read. Whoever wants finer
//! points reads more often. The first read has no previous one and gives no utilisation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Roots;
use super::clock::unix_us;
use super::gpu::{GpuError, GpuErrorKind, GpuReader};
use crate::sample::gpu::{Gpm, GpuDevice, GpuProcess, GpuSample, UtilizationPoint};

pub mod file;
pub mod owner;
pub mod state;

pub use super::clock::monotonic_ns;
pub use file::StateFile;
pub use owner::{SimulatedGpu, sleep_until};
pub use state::{Activity, DeviceState, Queue, activity};

/// A blocking reader of a simulated device's file.
#[derive(Debug)]
pub struct SimulatedReader {
    file: StateFile,
    proc: PathBuf,
    driver: Arc<str>,
    devices: Vec<Seen>,
}

/// What is remembered of a device between reads.
#[derive(Debug, Default)]
struct Seen {
    name: Option<Arc<str>>,
    uuid: Option<Arc<str>>,
    before: Option<(DeviceState, u64)>,
    energy_mj: f64,
}

impl SimulatedReader {
    /// Opens the file of a simulated device; `roots.proc` says which of its processes still exist.
    ///
    /// # Errors
    /// When the file cannot be opened or is no such file.
    pub fn open(path: &Path, roots: &Roots) -> Result<Self, GpuError> {
        let file = StateFile::open(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => GpuErrorKind::Absent,
                std::io::ErrorKind::PermissionDenied => GpuErrorKind::Denied,
                _ => GpuErrorKind::Failed,
            };
            GpuError::new(kind, format!("cannot read the simulated device {}: {error}", path.display()))
        })?;
        let devices = (0..file.device_count()).map(|_| Seen::default()).collect();
        Ok(Self { file, proc: roots.proc.clone(), driver: Arc::from("simulated"), devices })
    }
}

impl GpuReader for SimulatedReader {
    fn read(&mut self, now_ns: u64) -> Result<GpuSample, GpuError> {
        let unix_us = unix_us();
        let mut sample = GpuSample {
            monotonic_ns: now_ns,
            driver: Some(Arc::clone(&self.driver)),
            simulated: true,
            devices: Vec::with_capacity(self.devices.len()),
        };
        for (index, seen) in (0_u32..).zip(&mut self.devices) {
            let state = self.file.read(index).map_err(|error| {
                GpuError::new(GpuErrorKind::Failed, format!("cannot read the simulated device any more: {error}"))
            })?;
            // Torn for as long as we tried: the writer died half-way. What was seen last still holds.
            let state = state.or(seen.before.map(|(state, _)| state));
            let alive = |pid: u32| self.proc.join(pid.to_string()).exists();
            sample.devices.push(match state {
                Some(state) => seen.device(index, state.without_the_dead(alive), now_ns, unix_us),
                None => GpuDevice { index, ..GpuDevice::default() },
            });
        }
        Ok(sample)
    }
}

impl Seen {
    fn device(&mut self, index: u32, state: DeviceState, now_ns: u64, unix_us: u64) -> GpuDevice {
        let name = state.name();
        if self.name.as_deref() != Some(name.as_ref()) {
            self.name = Some(Arc::from(name.as_ref()));
        }
        let uuid = self.uuid.get_or_insert_with(|| Arc::from(format!("GPU-simulated-{index}")));
        let mut device = GpuDevice {
            index,
            uuid: Some(Arc::clone(uuid)),
            name: self.name.clone(),
            lost: state.lost != 0,
            ..GpuDevice::default()
        };
        if device.lost {
            self.before = None;
            return device;
        }
        let elapsed_ns = self.before.map_or(0, |(_, then_ns)| now_ns.saturating_sub(then_ns));
        let window = self.before.as_ref().and_then(|(then, then_ns)| activity((then, *then_ns), (&state, now_ns)));
        if let Some(seen) = window {
            let pct = percent(seen.device);
            device.utilization_pct = Some(pct);
            device.utilization_points.push(UtilizationPoint { unix_us, pct });
            device.memory_utilization_pct = Some(scaled(state.memory_busy_pct.min(100), seen.device));
            device.pcie_rx_kib_s = Some(scaled(state.pcie_rx_kib_s, seen.device));
            device.pcie_tx_kib_s = Some(scaled(state.pcie_tx_kib_s, seen.device));
            if state.gpm_supported != 0 {
                let while_busy = |pct: u64| Some(pct.min(100) as f64 * seen.device);
                device.gpm = Some(Gpm {
                    sm_active_pct: while_busy(state.sm_active_pct),
                    tensor_active_pct: None,
                    dram_active_pct: while_busy(state.dram_active_pct),
                });
            }
        }
        let share = window.map_or(f64::from(u8::from(state.running(now_ns))), |seen| seen.device);
        let power_mw = state.power_mw(share);
        self.energy_mj += power_mw as f64 * elapsed_ns as f64 * 1e-9;
        device.energy_mj = Some(self.energy_mj as u64);
        device.power_mw = narrow(power_mw);
        device.power_limit_mw = narrow(state.power_limit_mw).filter(|&limit| limit > 0);
        device.memory_used_bytes = Some(state.memory_used_bytes.min(state.memory_total_bytes));
        device.memory_total_bytes = Some(state.memory_total_bytes);
        device.temperature_c = narrow(state.temperature_c).filter(|&celsius| celsius < 200);
        device.sm_clock_mhz = narrow(state.sm_clock_mhz);
        device.sm_clock_max_mhz = narrow(state.sm_clock_max_mhz).filter(|&mhz| mhz > 0);
        device.clock_event_reasons = Some(state.clock_event_reasons);
        for (pid, memory, share) in [
            (state.owner(), state.owner_memory_bytes, window.map(|seen| seen.owner)),
            (state.neighbour(), state.neighbour_memory_bytes, window.map(|seen| seen.neighbour)),
        ] {
            device.processes.extend(pid.map(|pid| GpuProcess {
                pid,
                memory_bytes: Some(memory),
                sm_utilization_pct: share.map(percent),
                compute: true,
            }));
        }
        self.before = Some((state, now_ns));
        device
    }
}

fn narrow(value: u64) -> Option<u32> {
    u32::try_from(value).ok()
}

fn percent(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 100.0).round() as u32
}

fn scaled(value: u64, share: f64) -> u32 {
    (value as f64 * share).round() as u32
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::state::{FILE_BYTES, RECORD_BYTES, encode_header, name_bytes};
    use super::*;

    fn open(path: &Path) -> Result<SimulatedReader, GpuError> {
        SimulatedReader::open(path, &Roots::default())
    }

    #[test]
    fn a_training_like_owner_is_seen_as_it_works() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        let me = std::process::id();
        let mut gpu = SimulatedGpu::create(
            &path,
            &[DeviceState {
                name: name_bytes("Test GPU"),
                owner_memory_bytes: 1 << 30,
                gpm_supported: 1,
                ..DeviceState::default()
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
    fn a_neighbour_shares_the_device_and_the_dead_are_not_listed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, proc) = (folder.path().join("device"), folder.path().join("proc"));
        std::fs::create_dir_all(proc.join("70")).unwrap();
        std::fs::create_dir_all(proc.join("71")).unwrap();
        let spec = DeviceState { owner_pid: 70, neighbour_pid: 71, ..DeviceState::default() };
        let mut gpu = SimulatedGpu::create(&path, &[spec, DeviceState::default()]).unwrap();
        let roots = Roots { proc: proc.clone(), ..Roots::default() };
        let mut reader = SimulatedReader::open(&path, &roots).unwrap();
        let t0 = monotonic_ns();
        reader.read(t0).unwrap();
        gpu.launch(Duration::from_millis(900)).unwrap();
        gpu.launch_for_neighbour(0, Duration::from_millis(500)).unwrap();
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
        let mut gpu = SimulatedGpu::create(&path, &[DeviceState::default(), DeviceState::default()]).unwrap();
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
        let mut gpu = SimulatedGpu::create(&path, &[DeviceState::default()]).unwrap();
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
        let _gpu = SimulatedGpu::create(&path, &[DeviceState::default()]).unwrap();
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
        assert_eq!(reader.read(3).unwrap_err().kind, GpuErrorKind::Failed);
    }

    #[test]
    fn what_is_no_state_file_is_refused_in_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("device");
        assert_eq!(open(&path).unwrap_err().kind, GpuErrorKind::Absent);
        for bytes in [&b""[..], b"TMSIM", &[0; FILE_BYTES], &encode_header(1)] {
            std::fs::write(&path, bytes).unwrap();
            let error = open(&path).unwrap_err();
            assert_eq!(error.kind, GpuErrorKind::Failed);
            assert!(error.reason.contains("simulated device") && !error.reason.contains('\n'), "{error}");
        }
        assert_eq!(open(folder.path()).unwrap_err().kind, GpuErrorKind::Failed);
        assert_eq!(open(Path::new("/dev/zero")).unwrap_err().kind, GpuErrorKind::Failed);
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
