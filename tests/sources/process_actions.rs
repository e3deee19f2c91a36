//! Signals: a real child gets them, and no other process ever does.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use trainmon::jobs::actions;
use trainmon::sample::ProcessId;

use crate::process::{Target, process_id, state, until};

const TERM: i32 = 15;

fn proc_root() -> &'static Path {
    Path::new("/proc")
}

fn id(target: &Target) -> ProcessId {
    process_id(target.id())
}

#[test]
fn a_signal_reaches_its_process() {
    let mut child = Target::sleeping();
    let id = id(&child);
    assert_eq!(actions::signal(proc_root(), id, TERM), format!("sent SIGTERM to {}", id.pid));
    assert_eq!(child.0.wait().unwrap().signal(), Some(TERM));
    let text = actions::signal(proc_root(), id, TERM);
    assert_eq!(text, format!("cannot send SIGTERM to {}: it has ended", id.pid));
}

#[test]
fn a_process_that_has_ended_and_is_not_waited_for_has_gone() {
    let mut child = Target::sleeping();
    let id = id(&child);
    child.0.kill().unwrap();
    until("it has ended", || state(id.pid) == Some('Z'));
    assert!(actions::signal(proc_root(), id, TERM).ends_with("it has ended"));
}

#[test]
fn a_number_that_is_used_again_is_not_hit() {
    let mut child = Target::sleeping();
    let other = ProcessId { start_ticks: id(&child).start_ticks + 1, ..id(&child) };
    assert!(actions::signal(proc_root(), other, 9).ends_with("it has ended"));
    assert!(child.lives());
}

#[test]
fn a_process_of_another_root_is_not_mistaken_for_ours() {
    let mut child = Target::sleeping();
    let id = id(&child);
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(id.pid.to_string());
    std::fs::create_dir(&folder).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.pid)).unwrap();
    // The same number, started at another time: what a PID of another namespace looks like from there.
    let other = ProcessId { start_ticks: id.start_ticks + 77, ..id };
    let made_up = stat.replace(&format!(" {} ", id.start_ticks), &format!(" {} ", other.start_ticks));
    std::fs::write(folder.join("stat"), made_up).unwrap();
    assert!(actions::signal(root.path(), other, 9).ends_with("it has ended"));
    assert!(child.lives());
    std::fs::write(folder.join("stat"), stat).unwrap();
    assert!(actions::signal(root.path(), id, 9).ends_with(&format!("to {}", id.pid)));
}

#[test]
fn the_first_process_and_trainmon_itself_are_refused() {
    let of = |pid| ProcessId { pid, start_ticks: 0 };
    assert!(actions::signal(proc_root(), of(1), TERM).ends_with("belongs to the system"));
    assert!(actions::signal(proc_root(), of(std::process::id()), TERM).ends_with("trainmon itself"));
    assert!(actions::signal(proc_root(), of(0), TERM).ends_with("ended"));
    assert!(actions::signal(proc_root(), of(u32::MAX), TERM).ends_with("ended"));
    assert_eq!(actions::signal(proc_root(), of(0), 4711), "there is no signal 4711");
}
