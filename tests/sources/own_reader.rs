//! The reader of stacks of Python 3.15 and later, played by a stand-in (`support/fake_python.rs`). `python measure stacks` tries the real
//! one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;

use trainmon::sample::{ProcessId, SourceState};
use trainmon::sources::py_spy::{self, Refusal, StackReader, TakenWindow};

use crate::process::{PROGRAM, Target, fake_py_spy, fake_python_of, process_id};

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

    /// The reader found where this py-spy is named.
    fn reader(&self, py_spy: &Path) -> Result<StackReader, Refusal> {
        StackReader::find(Path::new(PROC), self.id(), Some(py_spy))
    }

    fn record(&self, reader: &StackReader) -> Result<Option<TakenWindow>, Refusal> {
        reader.record(Path::new(PROC), self.id(), 1, 25, &AtomicBool::new(false))
    }
}

fn no_py_spy() -> PathBuf {
    PathBuf::from("/no/py-spy")
}

#[test]
fn without_py_spy_the_jobs_own_python_takes_stacks() {
    let job = Job::start("works", 15);
    let reader = job.reader(&no_py_spy()).unwrap();
    assert_eq!(reader.name(), "the reader of the job's Python");
    let window = job.record(&reader).unwrap().unwrap().window;
    let [thread] = window.threads.as_slice() else { panic!("{window:?}") };
    assert_eq!((&*thread.name, thread.tid, thread.stacks[0].samples), ("MainThread", Some(job.id().pid), 25));
    let functions: Vec<&str> = window.frames.iter().map(|frame| &*frame.function).collect();
    assert_eq!(functions, ["step", "<module>"]);
    let locals = reader.locals(Path::new(PROC), job.id(), &AtomicBool::new(false)).unwrap();
    assert!(locals.is_none(), "it shows no variables");
}

#[test]
fn py_spy_comes_first_and_older_versions_have_no_other() {
    let job = Job::start("works", 15);
    let folder = job.folder.path().join("document");
    fs::create_dir(&folder).unwrap();
    let py_spy = fake_py_spy(&folder);
    let reader = job.reader(&py_spy).unwrap();
    assert_eq!(reader.name(), "py-spy");
    let other = reader.instead(Path::new(PROC), job.id()).unwrap();
    assert!(job.record(&other).unwrap().is_some() && other.instead(Path::new(PROC), job.id()).is_none());

    let old = Job::start("works", 14);
    assert!(reader.instead(Path::new(PROC), old.id()).is_none());
    let refusal = old.reader(&no_py_spy()).unwrap_err();
    assert!(refusal.status.to_string().contains("/no/py-spy"), "what py-spy lacks is told: {refusal:?}");
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
    ] {
        let job = Job::start(mode, 15);
        let refusal = job.record(&job.reader(&no_py_spy()).unwrap()).unwrap_err();
        assert_eq!((refusal.status.state, refusal.last), (state, last), "{refusal:?}");
        assert!(refusal.status.to_string().contains(says), "{refusal:?}");
    }
}

#[test]
fn an_interpreter_that_another_user_can_have_written_is_not_run() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let job = Job::start("works", 15);
    std::os::unix::fs::chown(job.folder.path().join("bin/python3.15"), Some(65534), None).unwrap();
    assert!(job.reader(&no_py_spy()).is_err());
}

#[test]
fn a_free_threaded_python_that_py_spy_cannot_read_is_named() {
    let job = Job::start("works", 14);
    let free_threaded = job.folder.path().join("bin/python3.14t");
    fs::rename(job.folder.path().join("bin/python3.14"), &free_threaded).unwrap();
    let folder = job.folder.path().join("words");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("document"), "Error: failed to get gil_thread_id\n").unwrap();
    let refusal = job.record(&job.reader(&fake_py_spy(&folder)).unwrap()).unwrap_err();
    assert!(
        refusal.last && refusal.status.to_string().contains("free-threaded Python 3.14 of process"),
        "{refusal:?}"
    );
}
