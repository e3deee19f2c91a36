//! Drives the NVML source against the made-up library of `tests/support/fake_nvml.rs`, loaded by dlopen as the real one is.
//!
//! The library is steered by the environment and keeps its state for a whole process, so each case runs in a process of
//! its own: a test starts this very binary again for itself alone, with the environment it wants.
use std::path::PathBuf;
use std::time::{Duration, Instant};

use trainmon::sample::SourceState;
use trainmon::sample::gpu::{GpuReading, GpuSample};
use trainmon::sources::gpu::{self, GpuReader};
use trainmon::sources::simulated_gpu::state::name_bytes;
use trainmon::sources::simulated_gpu::{SimulatedGpu, SimulatedGpuState, monotonic_ns};
use trainmon::sources::{Roots, SourceOptions};

use crate::process::{Target, library, pause, this_test};

const CHILD: &str = "TRAINMON_TEST_NVML_CHILD";
const STATE: &str = "TRAINMON_SIMULATED_DEVICE";
pub const SECOND: u64 = 1_000_000_000;

/// Runs `body` in a process of its own whose environment has `failures` and a place for a state file. The test must be
/// named `name`.
fn alone(name: &str, failures: &str, body: impl FnOnce()) {
    alone_with(name, &[("FAKE_NVML_FAIL", failures)], body);
}

fn alone_with(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    alone_in(module_path!(), name, environment, body);
}

/// The same for a test of another file, whose `module_path!()` is given.
pub fn alone_in(module: &str, name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return body();
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = this_test(module, name);
    command.arg("--nocapture").env(CHILD, "1");
    command.env(STATE, folder.path().join("device")).env_remove("FAKE_NVML_SLOW_PCIE");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} with {environment:?}:\n{text}\n{errors}");
    // What a case measured is shown with --nocapture.
    text.lines().filter(|line| line.contains("one tick")).for_each(|line| println!("{line}"));
    assert!(text.contains("1 passed"), "no test is named {name}:\n{text}");
}

pub fn fake() -> PathBuf {
    library("fake_nvml").into()
}

/// NVML alone, or a simulated GPU: cards of the machine that runs the tests are not looked for.
fn options(nvml_lib: Option<PathBuf>, simulated_gpu: Option<PathBuf>) -> SourceOptions {
    let roots = Roots { sys: "/nowhere".into(), ..Roots::default() };
    SourceOptions { roots, nvml_lib, simulated_gpu }
}

fn state_path() -> PathBuf {
    PathBuf::from(std::env::var_os(STATE).unwrap())
}

pub fn owner(devices: &[SimulatedGpuState]) -> SimulatedGpu {
    SimulatedGpu::create(&state_path(), devices).unwrap()
}

pub fn open() -> Box<dyn GpuReader> {
    gpu::open(&options(Some(fake()), None)).unwrap()
}

pub fn read(reader: &mut Box<dyn GpuReader>) -> GpuSample {
    reader.read(monotonic_ns()).unwrap()
}

pub fn spec() -> SimulatedGpuState {
    SimulatedGpuState {
        name: name_bytes("Test A10G"),
        memory_used_bytes: 9 << 30,
        owner_memory_bytes: 8 << 30,
        clock_event_reasons: 0x4,
        gpm_supported: 1,
        ..SimulatedGpuState::default()
    }
}

/// Everything of a device that is not identity and not a list.
fn readings(device: &GpuReading) -> Vec<(&'static str, bool)> {
    vec![
        ("utilization", device.utilization_pct.is_some()),
        ("memory utilization", device.memory_utilization_pct.is_some()),
        ("memory used", device.memory_used_bytes.is_some()),
        ("memory total", device.memory_total_bytes.is_some()),
        ("power", device.power_mw.is_some()),
        ("power limit", device.power_limit_mw.is_some()),
        ("energy", device.energy_mj.is_some()),
        ("temperature", device.temperature_c.is_some()),
        ("SM clock", device.sm_clock_mhz.is_some()),
        ("SM clock maximum", device.sm_clock_max_mhz.is_some()),
        ("memory clock", device.memory_clock_mhz.is_some()),
        ("memory clock maximum", device.memory_clock_max_mhz.is_some()),
        ("clock event reasons", device.clock_event_reasons.is_some()),
        ("PCIe rx", device.pcie_rx_kib_per_s.is_some()),
        ("PCIe tx", device.pcie_tx_kib_per_s.is_some()),
        ("PCIe generation", device.pcie_generation.is_some()),
        ("PCIe width", device.pcie_width.is_some()),
        ("PCIe generation maximum", device.pcie_generation_max.is_some()),
        ("PCIe width maximum", device.pcie_width_max.is_some()),
        ("encoder", device.encoder_pct.is_some()),
        ("decoder", device.decoder_pct.is_some()),
        ("GPM", device.gpm.is_some()),
        ("MIG", device.mig.is_some()),
        ("ECC", device.ecc_uncorrected.is_some()),
    ]
}

pub fn close(seen: Option<u32>, expected: u32, by: u32) -> bool {
    seen.is_some_and(|seen| seen.abs_diff(expected) <= by)
}

#[test]
fn every_reading_is_right() {
    alone("every_reading_is_right", "", || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        let first = read(&mut reader);
        assert!(!first.simulated);
        assert_eq!(first.driver.as_deref(), Some("580.95.05"));
        assert!(first.devices[0].utilization_points.is_empty(), "the buffer's past is not ours");

        // Half busy: 50 ms of work every 100 ms.
        let (began, before) = (Instant::now(), owner.busy());
        while began.elapsed() < Duration::from_millis(1_500) {
            owner.launch(Duration::from_millis(50)).unwrap();
            pause(100);
        }
        let sample = read(&mut reader);
        let truth = (owner.busy() - before).as_secs_f64() / began.elapsed().as_secs_f64();
        let busy = |of: f64| (truth * of).round() as u32;
        let device = &sample.devices[0];
        let absent: Vec<_> = readings(device).into_iter().filter(|(_, present)| !present).collect();
        assert_eq!(absent, []);

        assert_eq!(device.name.as_deref(), Some("Test A10G"));
        assert_eq!(device.uuid.as_deref(), Some("GPU-51a1a7ed-0000-4000-8000-000000000000"));
        assert_eq!((device.index, device.minor, device.lost), (0, Some(0), false));
        assert!(close(device.utilization_pct, busy(100.0), 30), "{:?}", device.utilization_pct);
        assert!(close(device.memory_utilization_pct, busy(40.0), 12));
        assert_eq!((device.memory_used_bytes, device.memory_total_bytes), (Some(9 << 30), Some(24 << 30)));
        assert!(close(device.power_mw, 30_000 + busy(190_000.0), 60_000));
        assert_eq!((device.power_limit_mw, device.temperature_c), (Some(300_000), Some(45)));
        assert!(device.energy_mj.unwrap() > 60_000, "{:?}", device.energy_mj);
        assert_eq!((device.sm_clock_mhz, device.sm_clock_max_mhz), (Some(1_710), Some(1_710)));
        assert_eq!((device.memory_clock_mhz, device.memory_clock_max_mhz), (Some(6_251), Some(6_251)));
        assert_eq!(device.clock_event_reasons, Some(4));
        assert_eq!((device.pcie_generation, device.pcie_generation_max), (Some(3), Some(4)));
        assert_eq!((device.pcie_width, device.pcie_width_max), (Some(8), Some(16)));
        assert_eq!((device.encoder_pct, device.decoder_pct), (Some(0), Some(0)));
        assert_eq!((device.mig, device.ecc_uncorrected), (Some(false), Some(0)));
        let gpm = device.gpm.unwrap();
        assert!((gpm.sm_active_pct.unwrap() - 70.0 * truth).abs() < 2.0, "{gpm:?}");
        assert!((gpm.dram_active_pct.unwrap() - 35.0 * truth).abs() < 2.0, "{gpm:?}");
        assert_eq!(gpm.tensor_active_pct, None);

        let process = device.processes[0];
        assert_eq!((device.processes.len(), process.pid), (1, std::process::id()));
        assert_eq!((process.memory_bytes, process.compute), (Some(8 << 30), true));
        assert!(close(process.sm_utilization_pct, busy(100.0), 15), "{process:?}");
    });
}

#[test]
fn points_come_once_in_order_and_add_up() {
    alone("points_come_once_in_order_and_add_up", "", || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        read(&mut reader);
        let before = owner.busy();
        let began = Instant::now();
        let mut points = Vec::new();
        for milliseconds in [400, 0, 700, 400] {
            owner.launch(Duration::from_millis(milliseconds / 2)).unwrap();
            pause(500);
            points.extend(read(&mut reader).devices[0].utilization_points.clone());
        }
        assert!(points.windows(2).all(|pair| pair[0].unix_us < pair[1].unix_us), "{points:?}");
        assert!((9..=13).contains(&points.len()), "{} points", points.len());
        let mean = points.iter().map(|point| f64::from(point.pct)).sum::<f64>() / points.len() as f64;
        let truth = (owner.busy() - before).as_secs_f64() / began.elapsed().as_secs_f64() * 100.0;
        assert!((mean - truth).abs() < 10.0, "mean of the points {mean}, truth {truth}");
        assert!(read(&mut reader).devices[0].utilization_points.len() <= 1);
    });
}

#[test]
fn processes_share_a_device_and_leave_it() {
    alone("processes_share_a_device_and_leave_it", "", || {
        let mut other_process = Target::sleeping();
        let mut owner = owner(&[SimulatedGpuState {
            other_pid: u64::from(other_process.id()),
            other_memory_bytes: 1 << 30,
            ..spec()
        }]);
        let mut reader = open();
        owner.launch(Duration::from_millis(300)).unwrap();
        let length_ns = 900_000_000;
        owner.update(0, |device| device.other_queue.launch(monotonic_ns(), length_ns)).unwrap();
        pause(1_100);
        let sample = read(&mut reader);
        let by_pid = |pid| sample.devices[0].processes.iter().find(|process| process.pid == pid).copied().unwrap();
        assert!(close(by_pid(std::process::id()).sm_utilization_pct, 30, 12), "{sample:?}");
        assert!(close(by_pid(other_process.id()).sm_utilization_pct, 85, 15), "{sample:?}");
        assert_eq!(by_pid(other_process.id()).memory_bytes, Some(1 << 30));

        other_process.end();
        pause(500);
        let device = read(&mut reader).devices.remove(0);
        assert_eq!(device.processes.len(), 1);
        assert_eq!(device.utilization_pct, Some(0));
        assert_eq!(device.processes[0].sm_utilization_pct, Some(0), "idle and known to be");
        assert_eq!(device.memory_used_bytes, Some(8 << 30));
    });
}

#[test]
fn a_library_that_lacks_nearly_everything_still_names_the_device() {
    alone("a_library_that_lacks_nearly_everything_still_names_the_device", "", || {
        let mut reader = gpu::open(&options(Some(library("fake_nvml_bare").into()), None)).unwrap();
        for _ in 0..3 {
            let sample = read(&mut reader);
            assert_eq!((sample.devices.len(), sample.driver.as_deref()), (1, None));
            let device = &sample.devices[0];
            assert_eq!(device.name.as_deref(), Some("Bare GPU"));
            assert!(readings(device).iter().all(|(_, present)| !present), "{device:?}");
            assert!(device.processes.is_empty() && !device.lost);
        }
        drop(reader);
    });
}

#[test]
fn what_keeps_nvml_from_starting_is_said_in_one_line() {
    for (failure, state, says) in [
        ("init_fails", SourceState::Gone, "internal driver error"),
        ("no_driver", SourceState::Absent, "driver is not loaded"),
        ("no_permission", SourceState::Denied, "permission"),
        ("version_mismatch", SourceState::Gone, "mismatch"),
        ("no_devices", SourceState::Absent, "no GPU"),
        ("fail:nvmlDeviceGetCount_v2_999", SourceState::Gone, "count"),
        ("fail:nvmlDeviceGetHandleByIndex_v2_4", SourceState::Denied, "permission"),
        ("fail:nvmlDeviceGetHandleByIndex_v2_15", SourceState::Gone, "fell off the bus"),
    ] {
        alone("what_keeps_nvml_from_starting_is_said_in_one_line", failure, || {
            // The child runs this loop too: it looks for its own line.
            if std::env::var("FAKE_NVML_FAIL").unwrap() != failure {
                return;
            }
            let _owner = owner(&[spec()]);
            let error = gpu::open(&options(Some(fake()), None)).err().unwrap();
            assert_eq!(error.state, state, "{error}");
            assert!(error.to_string().contains(says) && !error.to_string().contains('\n'), "{error}");
            let mendable = state == SourceState::Denied || says.contains("bus") || says.contains("driver is");
            assert_eq!(error.fix.is_some(), mendable || says == "mismatch", "{error:?}");
        });
    }
}

#[test]
fn no_state_file_is_no_device() {
    alone("no_state_file_is_no_device", "", || {
        assert_eq!(gpu::open(&options(Some(fake()), None)).err().unwrap().state, SourceState::Absent);
        let _owner = owner(&[spec()]);
        assert_eq!(read(&mut open()).devices.len(), 1, "a device that comes later is found by opening again");
    });
}

#[test]
fn no_library_is_no_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let absent = gpu::open(&options(Some(folder.path().join("libnvidia-ml.so.1")), None)).err().unwrap();
    assert_eq!(absent.state, SourceState::Absent);
    let wrong = folder.path().join("wrong.so");
    std::fs::write(&wrong, "no library").unwrap();
    let error = gpu::open(&options(Some(wrong.clone()), None)).err().unwrap();
    assert_eq!(error.state, SourceState::Gone);
    assert!(error.to_string().contains("wrong.so") && !error.to_string().contains('\n'), "{error}");
    let simulated = folder.path().join("device");
    SimulatedGpu::create(&simulated, &[spec()]).unwrap();
    let mut reader = gpu::open(&options(Some(wrong), Some(simulated))).unwrap();
    assert!(read(&mut reader).simulated, "a simulated device needs no library");
    // Where the loader finds one (a machine with a GPU), that is right too.
    if let Err(error) = gpu::open(&options(None, None)) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn one_lost_device_leaves_the_others() {
    alone("one_lost_device_leaves_the_others", "", || {
        let mut owner = owner(&[spec(), spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        assert!(reader.read(start).unwrap().devices.iter().all(|device| !device.lost));
        owner.update(0, |device| device.lost = 1).unwrap();
        for second in 1..4 {
            let sample = reader.read(start + second * SECOND).unwrap();
            let [lost, kept] = &sample.devices[..] else { panic!("{sample:?}") };
            assert!(lost.lost && !kept.lost);
            assert_eq!(lost.name.as_deref(), Some("Test A10G"));
            assert_eq!((lost.memory_used_bytes, lost.power_mw, lost.processes.len()), (None, None, 0));
            assert_eq!(kept.memory_used_bytes, Some(9 << 30));
        }
        owner.update(0, |device| device.lost = 0).unwrap();
        assert!(reader.read(start + 5 * SECOND).unwrap().devices[0].lost, "not asked again at once");
        let back = reader.read(start + 20 * SECOND).unwrap().devices.remove(0);
        assert!(!back.lost && back.memory_used_bytes.is_some());
    });
}

#[test]
fn a_driver_that_goes_away_is_an_error() {
    alone("a_driver_that_goes_away_is_an_error", "gone", || {
        let _owner = owner(&[spec()]);
        let mut reader = open();
        for _ in 0..3 {
            let error = reader.read(monotonic_ns()).unwrap_err();
            assert_eq!(error.state, SourceState::Gone);
            assert!(error.to_string().contains("no longer answers"), "{error}");
        }
    });
}

#[test]
fn all_devices_lost_is_told_of_each() {
    alone("all_devices_lost_is_told_of_each", "lost", || {
        let _owner = owner(&[spec(), spec()]);
        assert!(read(&mut open()).devices.iter().all(|device| device.lost));
    });
}

#[test]
fn garbage_is_no_reading() {
    alone("garbage_is_no_reading", "garbage", || {
        let mut owner = owner(&[spec(), spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        for tick in 0..12 {
            owner.launch(Duration::from_millis(20)).unwrap();
            let sample = reader.read(start + tick * SECOND).unwrap();
            assert_eq!(sample.devices.len(), 2);
            for device in &sample.devices {
                // Total is plausible in the garbage, used is not.
                let present: Vec<_> = readings(device)
                    .into_iter()
                    .filter(|(name, present)| *present && *name != "memory total")
                    .collect();
                assert_eq!(present, []);
                assert_eq!((device.minor, device.memory_used_bytes), (None, None));
                assert!(device.processes.is_empty() && device.utilization_points.is_empty());
                assert!(device.name.as_ref().unwrap().chars().all(|letter| letter == '\u{fffd}'));
            }
        }
    });
}

#[test]
fn what_a_device_does_not_offer_costs_nothing_else() {
    let unsupported = [
        "nvmlDeviceGetUtilizationRates",
        "nvmlDeviceGetSamples",
        "nvmlDeviceGetProcessUtilization",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetTotalEccErrors",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlGpmQueryDeviceSupport",
    ];
    let failures = unsupported.map(|function| format!("unsupported:{function}")).join(",");
    alone("what_a_device_does_not_offer_costs_nothing_else", &failures, || {
        let _owner = owner(&[spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        reader.read(start).unwrap();
        let device = reader.read(start + SECOND).unwrap().devices.remove(0);
        let absent: Vec<_> =
            readings(&device).iter().filter(|(_, present)| !present).map(|(name, _)| *name).collect();
        assert_eq!(absent, ["utilization", "memory utilization", "GPM", "MIG", "ECC"]);
        assert!(!device.lost && device.utilization_points.is_empty());
        assert_eq!((device.processes.len(), device.processes[0].sm_utilization_pct), (1, None));
        assert_eq!(device.memory_used_bytes, Some(9 << 30), "by the older call");
    });
}

#[test]
fn a_gpu_without_memory_of_its_own_shows_the_host_s_and_no_link() {
    let lacks = "unsupported:nvmlDeviceGetMemoryInfo_v2,unsupported:nvmlDeviceGetMemoryInfo";
    alone("a_gpu_without_memory_of_its_own_shows_the_host_s_and_no_link", lacks, || {
        let mut gpu = owner(&[spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        for second in 0..6 {
            gpu.launch(Duration::from_millis(300)).unwrap();
            let sample = reader.read(start + second * SECOND).unwrap();
            let device = &sample.devices[0];
            assert!(device.integrated && !device.for_display);
            let (used, total) = (device.memory_used_bytes.unwrap(), device.memory_total_bytes.unwrap());
            assert!(used > 0 && used < total && total != spec().memory_total_bytes, "{used} of {total} bytes");
            let link = [
                device.pcie_rx_kib_per_s,
                device.pcie_tx_kib_per_s,
                device.pcie_width_max,
                device.pcie_generation_max,
            ];
            assert_eq!(link, [None; 4]);
        }
    });
}

#[test]
fn a_call_that_hangs_returns_late_and_right() {
    alone("a_call_that_hangs_returns_late_and_right", "hang:nvmlDeviceGetPowerUsage_300", || {
        let _owner = owner(&[spec()]);
        let mut reader = open();
        let began = Instant::now();
        let sample = read(&mut reader);
        assert!(began.elapsed() >= Duration::from_millis(300));
        assert!(sample.devices[0].power_mw.is_some());
    });
}

#[test]
fn a_tick_waits_for_one_pcie_rate_at_most() {
    alone_with("a_tick_waits_for_one_pcie_rate_at_most", &[("FAKE_NVML_SLOW_PCIE", "1")], || {
        let mut owner = owner(&[spec(), spec(), spec(), spec()]);
        for device in 0..4 {
            owner.launch_on(device, Duration::from_secs(60)).unwrap();
        }
        pause(400);
        let mut reader = open();
        pause(400);
        let start = monotonic_ns();
        let mut slow = 0;
        let mut last = GpuSample::default();
        for tick in 0..16 {
            let began = Instant::now();
            last = reader.read(start + tick * SECOND / 2).unwrap();
            slow += u32::from(began.elapsed() >= Duration::from_millis(40));
        }
        assert!(slow <= 3, "{slow} of 16 ticks waited for more than one rate");
        for device in &last.devices {
            assert_eq!(
                (device.pcie_rx_kib_per_s, device.pcie_tx_kib_per_s),
                (Some(200_000), Some(20_000)),
                "{device:?}"
            );
        }
        // Ticks faster than that do not ask more often.
        let began = Instant::now();
        for tick in 0..10 {
            reader.read(start + 9 * SECOND + tick * SECOND / 100).unwrap();
        }
        assert!(began.elapsed() < Duration::from_millis(120), "{:?}", began.elapsed());
    });
}

#[test]
fn nvml_can_be_closed_and_opened_again() {
    alone("nvml_can_be_closed_and_opened_again", "", || {
        let _owner = owner(&[spec()]);
        for _ in 0..3 {
            let mut reader = open();
            let start = monotonic_ns();
            reader.read(start).unwrap();
            assert!(reader.read(start + SECOND).unwrap().devices[0].memory_used_bytes.is_some());
        }
    });
}

#[test]
fn a_tick_stays_within_its_time() {
    alone("a_tick_stays_within_its_time", "", || {
        let _owner = owner(&[spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        let began = Instant::now();
        for tick in 0..500 {
            reader.read(start + tick * SECOND).unwrap();
        }
        // Mostly the made-up library's own reading of its file; the bound is against accidents only.
        let each = began.elapsed() / 500;
        println!("one device, one tick: {each:?}");
        assert!(each < Duration::from_millis(10), "{each:?}");
    });
}
