//! Signals and nice values: a real child gets them, and nobody else ever does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use trainmon::jobs::actions;
use trainmon::sample::ProcessId;

const TERM: i32 = 15;

/// A sleeping child that does not outlive its test.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Self(Command::new("sleep").arg("600").spawn().unwrap())
    }

    fn id(&self) -> ProcessId {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 1..].split_whitespace().collect();
        // Field 22 of proc(5); the first after the name is field 3.
        ProcessId { pid: self.0.id(), start_ticks: fields[19].parse().unwrap() }
    }

    fn nice(&self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::getpriority_process(Some(pid)).unwrap()
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn proc_root() -> &'static Path {
    Path::new("/proc")
}

#[test]
fn a_signal_reaches_its_process() {
    let mut child = Sleeper::start();
    let id = child.id();
    assert_eq!(actions::signal(proc_root(), id, TERM), format!("SIGTERM was sent to {}", id.pid));
    assert_eq!(child.0.wait().unwrap().signal(), Some(TERM));
    let text = actions::signal(proc_root(), id, TERM);
    assert_eq!(text, format!("SIGTERM was not sent to {}: it has gone", id.pid));
}

#[test]
fn one_that_has_ended_and_is_not_waited_for_has_gone() {
    let mut child = Sleeper::start();
    let id = child.id();
    child.0.kill().unwrap();
    let stat = format!("/proc/{}/stat", id.pid);
    while !std::fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    assert!(actions::signal(proc_root(), id, TERM).ends_with("it has gone"));
    assert!(actions::renice(proc_root(), id, 19).ends_with("it has gone"));
}

#[test]
fn a_number_that_is_used_again_is_not_hit() {
    let mut child = Sleeper::start();
    let before = child.nice();
    let other = ProcessId { start_ticks: child.id().start_ticks + 1, ..child.id() };
    assert!(actions::signal(proc_root(), other, 9).ends_with("it has gone"));
    assert!(actions::renice(proc_root(), other, before + 1).ends_with("it has gone"));
    assert!(child.runs());
    assert_eq!(child.nice(), before);
}

#[test]
fn a_process_of_another_root_is_not_mistaken_for_ours() {
    let mut child = Sleeper::start();
    let id = child.id();
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(id.pid.to_string());
    std::fs::create_dir(&folder).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap();
    // The same number, started at another time: what a PID of another namespace looks like from there.
    let other = ProcessId { start_ticks: id.start_ticks + 77, ..id };
    let made_up = stat.replace(&format!(" {} ", id.start_ticks), &format!(" {} ", other.start_ticks));
    std::fs::write(folder.join("stat"), made_up).unwrap();
    assert!(actions::signal(root.path(), other, 9).ends_with("it has gone"));
    assert!(child.runs());
    std::fs::write(folder.join("stat"), stat).unwrap();
    assert!(actions::signal(root.path(), id, 9).ends_with(&format!("was sent to {}", id.pid)));
}

#[test]
fn a_nice_value_is_set() {
    let child = Sleeper::start();
    let nice = (child.nice() + 1).min(19);
    let text = actions::renice(proc_root(), child.id(), nice);
    assert_eq!(text, format!("the nice value of {} is {nice} now", child.0.id()));
    assert_eq!(child.nice(), nice);
}

#[test]
#[ignore = "not a test: the child of the next one, with threads of its own"]
fn a_child_with_threads() {
    for _ in 0..3 {
        std::thread::spawn(|| std::thread::sleep(Duration::from_secs(60)));
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_nice_value_is_set_for_every_thread() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "a_child_with_threads"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let child = Sleeper(child);
    let tasks = || std::fs::read_dir(format!("/proc/{}/task", child.0.id())).unwrap();
    // Its main thread, that of the test, and three more.
    while tasks().count() < 5 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(
        actions::renice(proc_root(), child.id(), 19),
        format!("the nice value of {} is 19 now, for 5 threads", child.0.id())
    );
    for task in tasks() {
        let tid = task.unwrap().file_name().to_str().unwrap().parse().unwrap();
        let tid = rustix::process::Pid::from_raw(tid);
        assert_eq!(rustix::process::getpriority_process(tid).unwrap(), 19);
    }
}

#[test]
fn the_first_process_and_trainmon_itself_are_refused() {
    let of = |pid| ProcessId { pid, start_ticks: 0 };
    assert!(actions::signal(proc_root(), of(1), TERM).ends_with("the system's own"));
    assert!(actions::renice(proc_root(), of(1), 19).ends_with("the system's own"));
    assert!(actions::signal(proc_root(), of(std::process::id()), TERM).ends_with("trainmon itself"));
    assert!(actions::signal(proc_root(), of(0), TERM).ends_with("gone"));
    assert!(actions::signal(proc_root(), of(u32::MAX), TERM).ends_with("gone"));
    assert_eq!(actions::signal(proc_root(), of(0), 4711), "no signal has the number 4711");
}
