//! The NVML source on devices that are as unkind as real ones: under MIG, with late and coarse points, PIDs of another
//! namespace, averaged power, a driver lock that process lists hold. Each case in a process of its own: see `nvml.rs`.
use std::time::{Duration, Instant};

use trainmon::sources::simulated_gpu::monotonic_ns;

use crate::nvml::{SECOND, alone_in, close, open, owner, read, spec};
use crate::process::pause;

fn alone(name: &str, failures: &str, body: impl FnOnce()) {
    alone_in(module_path!(), name, &[("FAKE_NVML_FAIL", failures)], body);
}

#[test]
fn under_mig_the_load_is_unknown_and_the_rest_is_there() {
    alone("under_mig_the_load_is_unknown_and_the_rest_is_there", "mig", || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        for tick in 0..4 {
            owner.launch(Duration::from_millis(200)).unwrap();
            pause(200);
            let device = reader.read(start + tick * SECOND).unwrap().devices.remove(0);
            assert_eq!(device.mig, Some(true));
            assert_eq!((device.utilization_pct, device.memory_utilization_pct), (None, None));
            assert_eq!((device.encoder_pct, device.decoder_pct), (None, None));
            assert!(device.utilization_points.is_empty());
            assert_eq!(device.memory_used_bytes, Some(9 << 30));
            assert!(device.power_mw.is_some());
            // In use, and by how much nobody knows: no zero.
            assert_eq!((device.processes.len(), device.processes[0].sm_utilization_pct), (1, None));
        }
    });
}

#[test]
fn coarse_and_late_points_are_each_seen_once() {
    alone("coarse_and_late_points_are_each_seen_once", "coarse,late:300", || {
        let mut owner = owner(&[spec()]);
        owner.launch(Duration::from_secs(20)).unwrap();
        let mut reader = open();
        let mut points = Vec::new();
        for _ in 0..18 {
            pause(200);
            let seen = read(&mut reader).devices.remove(0).utilization_points;
            assert!(seen.len() <= 1, "one at a time: {seen:?}");
            points.extend(seen);
        }
        assert!((2..=4).contains(&points.len()), "about one a second of 3.6 s: {points:?}");
        for pair in points.windows(2) {
            let apart_us = pair[1].unix_us - pair[0].unix_us;
            assert!((800_000..1_600_000).contains(&apart_us), "{points:?}");
        }
        assert!(points.iter().all(|point| point.pct >= 95), "{points:?}");
    });
}

#[test]
fn average_power_follows_within_a_second() {
    alone("average_power_follows_within_a_second", "average_power", || {
        let mut owner = owner(&[spec()]);
        owner.launch(Duration::from_millis(1_500)).unwrap();
        let mut reader = open();
        pause(1_450);
        let power_w = |reader: &mut _| read(reader).devices.remove(0).power_mw.unwrap() / 1000;
        let working = power_w(&mut reader);
        pause(550);
        let between = power_w(&mut reader);
        pause(1_200);
        let idle = power_w(&mut reader);
        assert!(close(Some(working), 220, 15) && close(Some(idle), 30, 5), "{working} and {idle} W");
        assert!(between > idle + 20 && between + 20 < working, "{working}, {between}, {idle} W");
    });
}

#[test]
fn a_process_of_another_namespace_is_nobody_here() {
    alone("a_process_of_another_namespace_is_nobody_here", "other_pids", || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        owner.launch(Duration::from_secs(5)).unwrap();
        pause(700);
        let device = read(&mut reader).devices.remove(0);
        let process = device.processes[0];
        assert_eq!((device.processes.len(), process.memory_bytes), (1, Some(8 << 30)));
        assert_ne!(process.pid, std::process::id());
        assert!(close(process.sm_utilization_pct, 100, 20), "{process:?}");
    });
}

#[test]
fn maxima_of_processes_do_not_raise_the_use_of_the_device() {
    alone("maxima_of_processes_do_not_raise_the_use_of_the_device", "maxima", || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        read(&mut reader);
        owner.launch(Duration::from_millis(400)).unwrap();
        pause(1_200);
        let device = read(&mut reader).devices.remove(0);
        let points = &device.utilization_points;
        let mean = points.iter().map(|point| point.pct).sum::<u32>() / points.len() as u32;
        assert!(close(Some(mean), 33, 14), "{points:?}");
        assert!(device.processes[0].sm_utilization_pct.unwrap() >= 90, "{device:?}");
    });
}

#[test]
fn a_list_that_holds_the_drivers_lock_makes_others_wait() {
    let lock = "lock:nvmlDeviceGetGraphicsRunningProcesses_v3_400";
    alone("a_list_that_holds_the_drivers_lock_makes_others_wait", lock, || {
        let _owner = owner(&[spec()]);
        let mut slow = open();
        let (now, its_turn) = std::sync::mpsc::channel();
        let waits = std::thread::spawn(move || {
            let mut other = open();
            let start = monotonic_ns();
            read(&mut other);
            now.send(()).unwrap();
            pause(100);
            let began = Instant::now();
            // Its own list is not due, so what it waits for is the other's.
            other.read(start + SECOND).unwrap();
            began.elapsed()
        });
        its_turn.recv().unwrap();
        read(&mut slow);
        let waited = waits.join().unwrap();
        assert!(waited >= Duration::from_millis(150), "{waited:?}");
        // Every five seconds only: four of five ticks hold nobody up.
        let start = monotonic_ns();
        let held = (1..=10).filter(|tick| {
            let began = Instant::now();
            slow.read(start + tick * SECOND).unwrap();
            began.elapsed() >= Duration::from_millis(300)
        });
        assert_eq!(held.count(), 2);
    });
}

#[test]
fn each_of_several_devices_has_its_own_load() {
    alone("each_of_several_devices_has_its_own_load", "coarse", || {
        let mut owner = owner(&[spec(), spec(), spec()]);
        owner.launch_on(1, Duration::from_secs(20)).unwrap();
        let mut reader = open();
        pause(1_300);
        let sample = read(&mut reader);
        let seen: Vec<_> = sample.devices.iter().map(|device| (device.index, device.utilization_pct)).collect();
        assert_eq!(seen.len(), 3);
        assert!(seen[0].1 == Some(0) && seen[2].1 == Some(0), "{seen:?}");
        assert!(close(seen[1].1, 100, 5), "{seen:?}");
    });
}

#[test]
fn processes_are_listed_now_and_then_and_when_memory_changes() {
    let slow = "lock:nvmlDeviceGetComputeRunningProcesses_v3_150";
    alone("processes_are_listed_now_and_then_and_when_memory_changes", slow, || {
        let mut owner = owner(&[spec()]);
        let mut reader = open();
        let start = monotonic_ns();
        let mut listed = |tick: u64| {
            let began = Instant::now();
            let processes = reader.read(start + tick * SECOND).unwrap().devices.remove(0).processes;
            assert_eq!(processes.len(), 1, "a list that is not due stays");
            began.elapsed() >= Duration::from_millis(150)
        };
        let ticks: Vec<u64> = (0..12).filter(|tick| listed(*tick)).collect();
        assert_eq!(ticks, [0, 5, 10]);
        owner.update(0, |device| device.memory_used_bytes += 1 << 20).unwrap();
        assert!(listed(12));
        assert!(!listed(13));
    });
}
