//! `trainmon` without a PID: the first screen, what cannot be attached to, and leaving.

use std::time::{Duration, Instant};

use trainmon::sources::simulated_gpu::{SimulatedGpu, SimulatedGpuState};

use crate::process::{PROGRAM, library, two_candidates};
use crate::pty::{Conditions, Left, Screen};

fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Screen {
    Screen::start(PROGRAM, arguments, &Conditions { environment, ..Conditions::default() })
}

/// It ended without having been told what to attach to, and the terminal is what it was: what is left on it.
fn ended(left: Left) -> String {
    left.assert_restored();
    assert_eq!(left.code, 2);
    left.contents
}

#[test]
fn the_first_screen_lists_tells_and_is_left() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let mut seen = start(&["--proc-root", proc.path().to_str().unwrap()], &[]);
    seen.wait_text("2 processes that may be training");
    seen.wait_text("python train7.py");
    seen.send("j");
    seen.wait_text("PID 17 · user");
    // Its memory is that of its tree; two samples give its CPU use.
    seen.wait_text("CPU 0%");
    seen.wait_text("4.0 MiB");
    seen.send("p4000000000\r");
    seen.wait_text("4000000000");
    assert!(seen.contents().contains("2 processes that may be training"), "the list stays:\n{}", seen.contents());
    assert!(ended(seen.quit()).contains("no process chosen: give its PID"));
}

#[test]
fn an_empty_list_waits_for_a_run_to_start() {
    let proc = tempfile::tempdir().unwrap();
    let mut seen = start(&["--proc-root", proc.path().to_str().unwrap()], &[]);
    seen.wait_text("No training process found");
    two_candidates(proc.path());
    seen.wait_text("python train7.py");
    seen.send("\x03");
    ended(seen.left());
}

#[test]
fn a_dumb_terminal_gets_the_question_in_lines() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let root = proc.path().to_str().unwrap();
    let mut seen = start(&["diagnose", "--proc-root", root], &[("TERM", "dumb")]);
    seen.wait_text("Watch which one? [1]");
    seen.send("q\r");
    ended(seen.left());
    // Where a screen would follow there is none.
    let said = ended(start(&["--proc-root", root], &[("TERM", "dumb")]).left());
    assert!(said.contains("give the PID of one"), "{said}");
}

#[test]
fn whoever_holds_device_memory_comes_first() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    // The made-up device belongs to this very process.
    let own = std::process::id();
    let folder = proc.path().join(own.to_string());
    std::fs::create_dir(&folder).unwrap();
    let stat = format!("{own} (job) R 1 1 1 0 -1 0 1 0 0 0 250 50 0 0 20 0 4 0 99 9000000 512 1 1\n");
    std::fs::write(folder.join("stat"), stat).unwrap();
    std::fs::write(folder.join("cmdline"), "./job\0--fast\0").unwrap();
    let state = proc.path().join("device");
    let device =
        SimulatedGpuState { owner_memory_bytes: 8 << 30, memory_used_bytes: 9 << 30, ..SimulatedGpuState::default() };
    let _owner = SimulatedGpu::create(&state, &[device]).unwrap();
    let arguments = ["--proc-root", proc.path().to_str().unwrap(), "--nvml-lib", &library("fake_nvml")];
    let environment = [("TRAINMON_SIMULATED_DEVICE", state.to_str().unwrap())];
    let seen = start(&arguments, &environment);
    seen.wait_text("3 processes that may be training");
    seen.wait_text("GPU memory 8.0 GiB");
    let text = seen.contents();
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}: {text}"));
    assert!(place("job --fast") < place("python train7.py"), "{text}");
    ended(seen.quit());
}

#[test]
fn a_driver_that_hangs_holds_up_neither_list_nor_keys() {
    let proc = tempfile::tempdir().unwrap();
    two_candidates(proc.path());
    let arguments = ["--proc-root", proc.path().to_str().unwrap(), "--nvml-lib", &library("fake_nvml")];
    let state = proc.path().join("device");
    let _owner = SimulatedGpu::create(&state, &[SimulatedGpuState::default()]).unwrap();
    let environment = [
        ("TRAINMON_SIMULATED_DEVICE", state.to_str().unwrap()),
        ("FAKE_NVML_FAIL", "hang:nvmlDeviceGetPowerUsage_60000"),
    ];
    let begun = Instant::now();
    let mut seen = start(&arguments, &environment);
    seen.wait_text("python train7.py");
    // The driver is given up on once, before the list: it does hang.
    assert!(begun.elapsed() > Duration::from_secs(2), "{:?}", begun.elapsed());
    for (key, pid) in [("j", "PID 17 · user"), ("k", "PID 7 · user"), ("j", "PID 17 · user")] {
        let begun = Instant::now();
        seen.send(key);
        seen.wait_text(pid);
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
    ended(seen.quit());
}
