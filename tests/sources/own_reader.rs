//! The reader of stacks of Python 3.15 and later, played by a stand-in (`support/fake_python.rs`). `python measure stacks` tries the real
//! one.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use trainmon::sample::{ProcessId, SourceState, StackWindow};
use trainmon::sources::py_spy::{self, OwnReader, Refusal, Taken};

use crate::process::{PROGRAM, Target, fake_python_of, process_id};

const PROC: &str = "/proc";

/// A job of that stand-in; its interpreter does what the mode says.
struct Job {
    target: Target,
    folder: tempfile::TempDir,
}

impl Job {
    fn start(mode: &str, minor: u32) -> Self {
        py_spy::supervise_with(PROGRAM, &["supervise-py-spy"]);
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(fake_python_of(folder.path(), mode, minor));
        command.args(["--trace", "none"]).stdin(Stdio::null());
        Self { target: Target::spawn(&mut command), folder }
    }

    fn id(&self) -> ProcessId {
        process_id(self.target.id())
    }

    fn reader(&self) -> Result<OwnReader, Refusal> {
        OwnReader::find(Path::new(PROC), self.id())
    }

    fn record(&self) -> Result<Option<Taken<StackWindow>>, Refusal> {
        self.reader()?.record(Path::new(PROC), self.id(), 1, 25, &AtomicBool::new(false))
    }
}

#[test]
fn the_jobs_own_python_takes_stacks() {
    let job = Job::start("works", 15);
    let window = job.record().unwrap().unwrap().what;
    let [thread] = window.threads.as_slice() else { panic!("{window:?}") };
    assert_eq!((&*thread.name, thread.tid, thread.stacks[0].samples), ("MainThread", Some(job.id().pid), 25));
    let functions: Vec<&str> = window.frames.iter().map(|frame| &*frame.function).collect();
    assert_eq!(functions, ["step", "<module>"]);
}

#[test]
fn what_is_no_such_python_has_no_reader() {
    let refusal = Job::start("works", 14).reader().unwrap_err();
    assert!(refusal.last && refusal.status.to_string().ends_with("has no reader of stacks"), "{refusal:?}");
    let own = process_id(std::process::id());
    let refusal = OwnReader::find(Path::new(PROC), own).unwrap_err();
    assert!(refusal.last && refusal.status.to_string().ends_with("does not run Python"), "{refusal:?}");
}

#[test]
fn what_fails_is_told_with_its_fix() {
    for (mode, state, last, says) in [
        (
            "denied",
            SourceState::Denied,
            true,
            "the kernel does not let the reader of the job's Python read the memory",
        ),
        ("no-reader", SourceState::Absent, true, "No module named"),
        ("other-reader", SourceState::Absent, true, "TypeError"),
    ] {
        let refusal = Job::start(mode, 15).record().unwrap_err();
        assert_eq!((refusal.status.state, refusal.last), (state, last), "{refusal:?}");
        assert!(refusal.status.to_string().contains(says), "{refusal:?}");
    }
}

#[test]
fn an_interpreter_that_another_user_can_have_written_is_not_run() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for theirs in ["bin/python3.15", "bin", "lib/python3.15", "lib/python3.15/os.py", "lib/python3.15/lib-dynload"] {
        let job = Job::start("works", 15);
        assert!(job.reader().is_ok());
        std::os::unix::fs::chown(job.folder.path().join(theirs), Some(65534), None).unwrap();
        let refusal = job.reader().unwrap_err();
        assert!(refusal.status.to_string().contains("belongs to user 65534"), "{theirs}: {refusal:?}");
    }
    // Its library is elsewhere.
    for (name, removed) in [("bin/pyvenv.cfg", false), ("pyvenv.cfg", false), ("lib/python3.15/os.py", true)] {
        let job = Job::start("works", 15);
        let file = job.folder.path().join(name);
        if removed {
            fs::remove_file(file).unwrap()
        } else {
            fs::write(file, "home = /tmp").unwrap()
        }
        let refusal = job.reader().unwrap_err();
        assert!(refusal.status.to_string().contains("library"), "{name}: {refusal:?}");
    }
}
