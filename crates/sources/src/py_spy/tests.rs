//! The reader against a stand-in for py-spy that behaves badly in every way that was thought of.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;
use crate::{process, task_files};

const DOCUMENT: &str = include_str!("../../../../tests/fixtures/py-spy/0.4.3-parent.txt");

/// A folder from which the stand-in is called; its name tells the stand-in what to do.
struct Stage {
    root: tempfile::TempDir,
    mode: &'static str,
}

impl Stage {
    fn new(mode: &'static str) -> Self {
        let tests = std::env::current_exe().unwrap();
        let supervisor = tests.ancestors().nth(2).unwrap().join("examples/py_spy_supervisor");
        assert!(supervisor.exists(), "{} is missing: cargo build --examples", supervisor.display());
        supervise_with(supervisor, &[supervisor::SUPERVISE]);
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join(mode)).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/fake_py_spy.sh");
        symlink(script, root.path().join(mode).join("py-spy")).unwrap();
        Self { root, mode }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(self.mode).join(name)
    }

    fn find(&self) -> Result<PySpy, Refusal> {
        // The stand-in is a script, which root would not run.
        PySpy::find_as(false, Path::new("/proc"), ourselves(), Some(&self.at("py-spy")))
    }

    fn program(&self) -> TrustedProgram {
        TrustedProgram { path: self.at("py-spy"), held: None, clean: false }
    }

    fn record(&self, stop: &AtomicBool) -> Result<Option<Taken<StackWindow>>, Refusal> {
        self.find().unwrap().record(Path::new("/proc"), ourselves(), 1, 20, stop)
    }

    /// The process whose number the stand-in left in a file; waits until it has done so.
    fn left(&self, name: &str) -> u32 {
        for _ in 0..500 {
            if let Ok(pid) = fs::read_to_string(self.at(name)).unwrap_or_default().trim().parse() {
                return pid;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no {name}");
    }
}

/// The test itself stands for the target: the stand-in does not look at it.
fn ourselves() -> ProcessId {
    let stat = fs::read("/proc/self/stat").unwrap();
    ProcessId { pid: std::process::id(), start_ticks: task_files::stat(&stat).unwrap().start_ticks }
}

/// Neither running nor a zombie: killed and reaped.
fn is_gone(pid: u32) -> bool {
    !Path::new("/proc").join(pid.to_string()).exists()
}

/// Killed; a grandchild is reaped by init, in a container perhaps never.
fn is_dead(pid: u32) -> bool {
    let stat = fs::read(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap_or_default();
    task_files::stat(&stat).is_none_or(|stat| matches!(stat.state, 'Z' | 'X'))
}

fn never() -> AtomicBool {
    AtomicBool::new(false)
}

#[test]
fn a_window_is_asked_for_without_stopping_the_target() {
    let stage = Stage::new("document");
    fs::write(stage.at("document"), DOCUMENT).unwrap();
    let Taken { what: window, cpu } = stage.record(&never()).unwrap().unwrap();
    assert_eq!((window.process, window.threads.len()), (ourselves(), 2));
    assert!(cpu < Duration::from_millis(500), "{cpu:?}");
    let arguments = fs::read_to_string(stage.at("arguments")).unwrap();
    assert!(arguments.starts_with("record --nonblocking "), "{arguments}");
    assert!(arguments.contains("--format raw --full-filenames "), "{arguments}");
    assert!(!arguments.contains("--native") && !arguments.contains("--subprocesses"), "{arguments}");
    assert!(is_gone(stage.left("pid")));
}

#[test]
fn what_a_window_cost_is_told() {
    let stage = Stage::new("busy");
    fs::write(stage.at("document"), DOCUMENT).unwrap();
    let began = Instant::now();
    let cpu = stage.record(&never()).unwrap().unwrap().cpu;
    assert!(Duration::from_millis(100) <= cpu && cpu <= began.elapsed(), "{cpu:?}");
}

#[test]
fn versions_are_read_and_old_ones_refused() {
    assert_eq!(Stage::new("document").find().unwrap().version, "0.4.3");
    assert_eq!(Stage::new("newer").find().unwrap().version, "1.12.0-rc1");
    for (mode, says) in [("old", "older than 0.3"), ("other", "is not py-spy"), ("broken", "command not found")] {
        let refusal = Stage::new(mode).find().unwrap_err();
        assert_eq!((refusal.status.state, refusal.last), (SourceState::Absent, true));
        assert!(refusal.status.to_string().contains(says), "{refusal:?}");
        assert_eq!(refusal.status.fix, None, "it was named by hand");
    }
    let refusal = PySpy::find(Path::new("/proc"), ourselves(), Some(Path::new("/no/py-spy"))).unwrap_err();
    assert_eq!((refusal.status.state, refusal.status.fix), (SourceState::Absent, None));
}

#[test]
fn a_program_that_does_not_tell_its_version_is_given_up() {
    let started = Instant::now();
    let refusal = Stage::new("mute").find().unwrap_err();
    assert_eq!(refusal.status.state, SourceState::Hung);
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_wish_to_stop_is_seen_at_once_and_leaves_nothing_behind() {
    for mode in ["hang", "wrapper"] {
        let stage = Stage::new(mode);
        let stop = never();
        let (result, took) = std::thread::scope(|scope| {
            let recording = scope.spawn(|| stage.record(&stop));
            stage.left(if mode == "hang" { "pid" } else { "inner" });
            let asked = Instant::now();
            stop.store(true, Ordering::Relaxed);
            (recording.join().unwrap(), asked.elapsed())
        });
        assert_eq!(result.unwrap(), None);
        assert!(took < Duration::from_millis(800), "{took:?}");
        assert!(is_gone(stage.left("pid")));
        if mode == "wrapper" {
            // It is killed with its group; the kernel may take a moment on a busy machine.
            let (inner, until) = (stage.left("inner"), Instant::now() + Duration::from_secs(5));
            while !is_dead(inner) {
                assert!(Instant::now() < until, "{inner} lives on");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

#[test]
fn nothing_that_it_has_started_is_left() {
    // In a session of its own and orphaned, so that neither a process group nor a parent leads to it.
    for mode in ["daemon", "daemon-hang"] {
        let stage = Stage::new(mode);
        fs::write(stage.at("document"), DOCUMENT).unwrap();
        let ran = child::run(
            &stage.program(),
            &["record", "--output", child::DOCUMENT],
            Duration::from_secs(5),
            1 << 20,
            &never(),
        );
        let ended = matches!(ran.unwrap().ending, ChildEnding::Exited(status) if status.success());
        assert_eq!(ended, mode == "daemon");
        let (inner, until) = (stage.left("inner"), Instant::now() + Duration::from_secs(20));
        while !is_gone(inner) && mode == "daemon-hang" && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_gone(inner), "{mode}: {inner} lives on");
        assert!(is_gone(stage.left("pid")));
    }
}

#[test]
fn a_supervisor_that_is_killed_is_told() {
    let stage = Stage::new("hang");
    let program = stage.program();
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| child::run(&program, &["record"], Duration::from_secs(60), 1 << 20, &never()));
        let py_spy = stage.left("pid");
        let supervisor = process::stat_of(Path::new("/proc"), py_spy).unwrap().parent;
        let kill = |pid: u32| {
            rustix::process::kill_process(
                rustix::process::Pid::from_raw(pid.cast_signed()).unwrap(),
                rustix::process::Signal::KILL,
            )
        };
        kill(supervisor).unwrap();
        let error = running.join().unwrap().unwrap_err();
        kill(py_spy).unwrap();
        error
    });
    assert!(error.to_string().contains("watches over it"), "{error}");
}

#[test]
fn a_program_that_hangs_is_killed_and_reaped() {
    let stage = Stage::new("hang");
    let time_out = Duration::from_millis(300);
    let ran = child::run(&stage.program(), &["record"], time_out, 1 << 20, &never()).unwrap();
    assert_eq!(ran.ending, ChildEnding::TimedOut);
    assert!(is_gone(stage.left("pid")));
}

#[test]
fn what_is_written_is_bounded() {
    for mode in ["flood", "chatter"] {
        let stage = Stage::new(mode);
        let ran =
            child::run(&stage.program(), &["record", "--output", child::DOCUMENT], EXTRA_TIME, 1 << 20, &never());
        let ran = ran.unwrap();
        assert_eq!(ran.ending, ChildEnding::TooMuch, "{mode}");
        assert!(ran.err(100).len() <= 300);
        assert!(is_gone(stage.left("pid")));
        let refusal = stage.record(&never()).unwrap_err();
        assert!(refusal.status.to_string().contains("16 MiB") && !refusal.last, "{refusal:?}");
    }
}

#[test]
fn failures_become_refusals() {
    let stage = Stage::new("words");
    fs::write(stage.at("document"), "Error: Unsupported version of Python: 3.19.0\nmore\n").unwrap();
    let refusal = stage.record(&never()).unwrap_err();
    assert!(
        refusal.last && refusal.status.to_string().ends_with("Unsupported version of Python: 3.19.0"),
        "{refusal:?}"
    );

    let refusal = Stage::new("crash").record(&never()).unwrap_err();
    assert!(!refusal.last && refusal.status.to_string().contains("signal: 11"), "{refusal:?}");
    let refusal = Stage::new("nothing").record(&never()).unwrap_err();
    assert!(!refusal.last && refusal.status.to_string().contains("no sample"), "{refusal:?}");

    let stage = Stage::new("document");
    fs::write(stage.at("document"), r#"{"profiles":[],"shared":{"frames":[]}}"#).unwrap();
    let refusal = stage.record(&never()).unwrap_err();
    assert!(!refusal.last && refusal.status.to_string().contains("returned no stacks"), "{refusal:?}");
}

#[test]
fn another_process_of_the_same_number_is_not_looked_at() {
    let stage = Stage::new("document");
    let process = ProcessId { start_ticks: 1, ..ourselves() };
    let refusal = stage.find().unwrap().record(Path::new("/proc"), process, 1, 20, &never()).unwrap_err();
    assert_eq!((refusal.status.state, refusal.last), (SourceState::Gone, true));
    assert!(!stage.at("pid").exists());
}

#[test]
fn a_process_that_was_left_stopped_is_reported_and_left_alone() {
    let stat = "7 (python) S 1 7 7 0 -1 4194304 1 0 0 0 1 1 0 0 20 0 1 0 500 1000 10 0\n";
    let process = ProcessId { pid: 7, start_ticks: 500 };
    let stage = Stage::new("stopper");
    fs::create_dir_all(stage.at("proc/7")).unwrap();
    fs::write(stage.at("stat"), stat).unwrap();
    fs::write(stage.at("proc/7/stat"), stat).unwrap();
    fs::write(stage.at("document"), DOCUMENT).unwrap();
    let reader = stage.find().unwrap();
    let refusal = reader.record(&stage.at("proc"), process, 1, 20, &never()).unwrap_err();
    assert!(refusal.last, "{refusal:?}");
    assert_eq!(refusal.status.fix.as_deref(), Some("kill -CONT 7"));
    // One that was stopped before is none of py-spy's doing.
    assert!(reader.record(&stage.at("proc"), process, 1, 20, &never()).unwrap().is_some());
}

#[test]
fn the_wheel_brings_a_version_that_is_accepted() {
    let project = include_str!("../../../../pyproject.toml");
    let (_, bound) = project.split_once("\"py-spy>=").unwrap();
    let bound = format!("py-spy {}", bound.split('"').next().unwrap());
    assert!(version_of(&bound).is_some_and(|(_, numbers)| numbers >= OLDEST), "{bound}");
}
