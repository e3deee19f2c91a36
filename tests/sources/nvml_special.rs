//! What is special about some of NVIDIA's GPUs, played by the made-up library: vGPUs, confidential computing, MPS, NVLink, errors, and
//! DCGM beside trainmon.

use std::time::Duration;

use trainmon::sample::gpu::{GpuReading, GpuXids, MpsUse};
use trainmon::sources::gpu::{self, GpuReader};
use trainmon::sources::simulated_gpu::{SimulatedGpuState, monotonic_ns};
use trainmon::sources::{Roots, SourceOptions};

use crate::nvml::{SECOND, alone_in, fake, open, owner, spec};
use crate::process::pause;

fn alone(name: &str, environment: &[(&str, &str)], body: impl FnOnce()) {
    alone_in(module_path!(), name, environment, body);
}

/// Reads in the last of some seconds.
fn after(reader: &mut Box<dyn GpuReader>, seconds: u64) -> GpuReading {
    let start = monotonic_ns();
    let mut last = GpuReading::default();
    for second in 0..=seconds {
        last = reader.read(start + second * SECOND).unwrap().devices.remove(0);
    }
    last
}

#[test]
fn an_ordinary_gpu_is_not_special() {
    alone("an_ordinary_gpu_is_not_special", &[], || {
        let _owner = owner(&[spec()]);
        let gpu = after(&mut open(), 2);
        assert_eq!((gpu.vgpu, gpu.confidential, gpu.mps), (Some(false), Some(false), None));
        assert_eq!((gpu.nvlink_rx_kib, gpu.nvlink_tx_kib, gpu.gpm_beside), (None, None, None));
        assert_eq!(gpu.xids, Some(GpuXids::default()));
    });
}

#[test]
fn a_library_without_these_functions_knows_nothing_of_them() {
    let lacks = [
        "nvmlDeviceGetVirtualizationMode",
        "nvmlDeviceGetFieldValues",
        "nvmlDeviceRegisterEvents",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    ];
    let lacks = lacks.map(|function| format!("unsupported:{function}")).join(",");
    alone("a_library_without_these_functions_knows_nothing_of_them", &[("FAKE_NVML_FAIL", &lacks)], || {
        let _owner = owner(&[spec()]);
        let gpu = after(&mut open(), 2);
        assert_eq!((gpu.vgpu, gpu.mps, gpu.nvlink_rx_kib, gpu.xids), (None, None, None, None));
        assert!(gpu.utilization_pct.is_some() && !gpu.lost);
    });
}

#[test]
fn a_vgpu_is_not_told_what_belongs_to_the_whole_gpu() {
    alone("a_vgpu_is_not_told_what_belongs_to_the_whole_gpu", &[("FAKE_NVML_FAIL", "vgpu")], || {
        let untold = SimulatedGpuState { sm_clock_mhz: 0, temperature_c: 0, clock_event_reasons: 0, ..spec() };
        let _owner = owner(&[untold]);
        let gpu = after(&mut open(), 2);
        assert_eq!(gpu.vgpu, Some(true));
        assert_eq!((gpu.sm_clock_mhz, gpu.temperature_c, gpu.clock_event_reasons), (None, None, None));
        assert!(gpu.utilization_pct.is_some() && gpu.memory_used_bytes.is_some());
    });
}

#[test]
fn garbage_makes_no_gpu_special() {
    alone("garbage_makes_no_gpu_special", &[("FAKE_NVML_FAIL", "garbage,vgpu,nvlink,confidential,mps")], || {
        let _owner = owner(&[spec()]);
        let gpu = after(&mut open(), 3);
        assert_eq!((gpu.vgpu, gpu.confidential, gpu.mps, gpu.gpm_beside), (None, None, None, None));
        assert_eq!((gpu.nvlink_rx_kib, gpu.nvlink_tx_kib), (None, None));
        assert_eq!(gpu.xids, Some(GpuXids::default()), "events of GPUs that nobody knows");
    });
}

#[test]
fn confidential_computing_is_told() {
    alone("confidential_computing_is_told", &[("FAKE_NVML_FAIL", "confidential")], || {
        let _owner = owner(&[spec()]);
        assert_eq!(after(&mut open(), 1).confidential, Some(true));
    });
}

#[test]
fn mps_has_a_server_and_clients() {
    let environment = [("FAKE_NVML_FAIL", "mps"), ("FAKE_NVML_MPS_SERVER", "4000000")];
    alone("mps_has_a_server_and_clients", &environment, || {
        let server = 4_000_000;
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join(server.to_string())).unwrap();
        std::fs::write(root.path().join(format!("{server}/comm")), "nvidia-cuda-mps\n").unwrap();
        let mut owner = owner(&[spec()]);
        let mut reader = gpu::open(&with_proc(root.path())).unwrap();
        owner.launch(Duration::from_millis(700)).unwrap();
        pause(1_000);
        let gpu = after(&mut reader, 0);
        let own = std::process::id();
        assert_eq!(gpu.mps, Some(MpsUse { server: Some(server), clients: vec![own] }));
        let used = |pid| gpu.processes.iter().find(|process| process.pid == pid).unwrap().sm_utilization_pct;
        assert!(used(own) == Some(0) && used(server).is_some_and(|pct| pct > 40), "{:?}", gpu.processes);
    });
}

fn with_proc(proc: &std::path::Path) -> SourceOptions {
    let roots = Roots { proc: proc.into(), sys: "/nowhere".into() };
    SourceOptions { roots, nvml_lib: Some(fake()), simulated_gpu: None }
}

#[test]
fn nvlink_is_counted_where_there_is_one() {
    alone("nvlink_is_counted_where_there_is_one", &[("FAKE_NVML_FAIL", "nvlink")], || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        let before = after(&mut reader, 0);
        owner.launch(Duration::from_secs(10)).unwrap();
        pause(1_000);
        let now = after(&mut reader, 0);
        let received = now.nvlink_rx_kib.unwrap() - before.nvlink_rx_kib.unwrap();
        let sent = now.nvlink_tx_kib.unwrap() - before.nvlink_tx_kib.unwrap();
        assert!((500_000..1_300_000).contains(&received), "{received} KiB");
        assert!(sent.abs_diff(received / 2) < 1_000, "{sent} of {received} KiB");
    });
}

#[test]
fn errors_are_counted_for_the_gpu_that_has_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("xids");
    let environment = [("FAKE_NVML_XIDS", file.to_str().unwrap())];
    alone("errors_are_counted_for_the_gpu_that_has_them", &environment, || {
        let _owner = owner(&[spec(), spec()]);
        let file = std::env::var("FAKE_NVML_XIDS").unwrap();
        let mut reader = open();
        let start = monotonic_ns();
        let mut at = |second| {
            let devices = reader.read(start + second * SECOND).unwrap().devices;
            devices.iter().map(|gpu| gpu.xids.map(|xids| (xids.count, xids.last))).collect::<Vec<_>>()
        };
        assert_eq!(at(0), [Some((0, None)); 2]);
        // Of a GPU that nobody knows, and one whose number is none.
        std::fs::write(&file, "1 13\n7 79\n0 99999999\n1 79\n").unwrap();
        assert_eq!(at(1), [Some((0, None)), Some((2, Some(79)))]);
        assert_eq!(at(2)[1], Some((2, Some(79))), "told once");
        std::fs::write(&file, format!("1 13\n7 79\n0 99999999\n1 79\n{}", "0 31\n".repeat(20))).unwrap();
        assert_eq!(at(3)[0], Some((16, Some(31))), "a tick takes so many at most");
        assert_eq!(at(4)[0], Some((20, Some(31))));
    });
}

#[test]
fn errors_of_a_divided_gpu_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("xids");
    let environment = [("FAKE_NVML_XIDS", file.to_str().unwrap()), ("FAKE_NVML_FAIL", "mig")];
    alone("errors_of_a_divided_gpu_are_not_read", &environment, || {
        let _owner = owner(&[spec()]);
        std::fs::write(std::env::var("FAKE_NVML_XIDS").unwrap(), "0 79\n").unwrap();
        let gpu = after(&mut open(), 2);
        assert!(gpu.mig == Some(true) && gpu.xids.is_none(), "{gpu:?}");
    });
}

#[test]
fn errors_that_cannot_be_waited_for_are_unknown() {
    let environment = [("FAKE_NVML_FAIL", "fail:nvmlEventSetWait_v2_999")];
    alone("errors_that_cannot_be_waited_for_are_unknown", &environment, || {
        let _owner = owner(&[spec()]);
        let gpu = after(&mut open(), 2);
        assert!(gpu.xids.is_none() && gpu.utilization_pct.is_some(), "{gpu:?}");
    });
}

#[test]
fn dcgm_is_named_only_where_gpm_refuses() {
    let refuses = [("FAKE_NVML_FAIL", "fail:nvmlGpmSampleGet_999")];
    for (environment, expected) in [(&refuses[..], Some("nv-hostengine (4321)")), (&[("FAKE_NVML_FAIL", "x")], None)]
    {
        alone("dcgm_is_named_only_where_gpm_refuses", environment, || {
            if std::env::var("FAKE_NVML_FAIL").unwrap() != environment[0].1 {
                return;
            }
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir(root.path().join("4321")).unwrap();
            std::fs::write(root.path().join("4321/comm"), "nv-hostengine\n").unwrap();
            let _owner = owner(&[spec()]);
            let gpu = after(&mut gpu::open(&with_proc(root.path())).unwrap(), 2);
            assert_eq!((gpu.gpm_beside.as_deref(), gpu.gpm.is_none()), (expected, expected.is_some()));
        });
    }
}
