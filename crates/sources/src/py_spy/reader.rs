//! What takes stacks: py-spy, or else the reader that the job's own Python brings along.

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::PySpy;
use super::own_reader::OwnReader;
use super::reader_program::TakenWindow;
use super::refusal::Refusal;
use crate::interpreter::Interpreter;
use trainmon_sample::{LocalsSample, ProcessId, SourceState};

/// What takes stacks.
#[derive(Debug)]
pub enum StackReader {
    /// py-spy.
    PySpy(PySpy),
    /// The reader that the job's own Python brings along.
    Own(OwnReader),
}

impl fmt::Display for StackReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PySpy(py_spy) => write!(f, "{}, version {}", py_spy.path().display(), py_spy.version),
            Self::Own(own) => {
                write!(f, "none; {} takes stacks: {}", own.program.name, own.program.program.path.display())
            }
        }
    }
}

impl StackReader {
    /// py-spy, or where none may run, the reader of the process's own Python.
    ///
    /// # Errors
    /// Why py-spy may not run, if there is no such reader either.
    pub fn find(proc_root: &Path, process: ProcessId, wanted: Option<&Path>) -> Result<Self, Refusal> {
        match PySpy::find(proc_root, process, wanted) {
            Ok(py_spy) => Ok(Self::PySpy(py_spy)),
            Err(refusal) => OwnReader::find(proc_root, process).map(Self::Own).map_err(|_| refusal),
        }
    }

    /// The other one, if this one is py-spy and the process's own Python has a reader.
    pub fn instead(&self, proc_root: &Path, process: ProcessId) -> Option<Self> {
        match self {
            Self::PySpy(_) => OwnReader::find(proc_root, process).ok().map(Self::Own),
            Self::Own(_) => None,
        }
    }

    /// How messages call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::PySpy(py_spy) => py_spy.program.name,
            Self::Own(own) => own.program.name,
        }
    }

    /// Samples one process for some seconds. `None` if `stop` was set meanwhile.
    ///
    /// # Errors
    /// As those of [`PySpy::record`].
    pub fn record(
        &self,
        proc_root: &Path,
        process: ProcessId,
        seconds: u32,
        rate_hz: u32,
        stop: &AtomicBool,
    ) -> Result<Option<TakenWindow>, Refusal> {
        match self {
            Self::PySpy(py_spy) => py_spy
                .record(proc_root, process, seconds, rate_hz, stop)
                .map_err(|refusal| without_a_gil(refusal, proc_root, process)),
            Self::Own(own) => own.record(proc_root, process, seconds, rate_hz, stop),
        }
    }

    /// Reads the whole numbers among the local variables of one process, once. `None` if `stop` was set meanwhile, or if
    /// this reader shows no variables.
    ///
    /// # Errors
    /// As those of [`PySpy::locals`].
    pub fn locals(
        &self,
        proc_root: &Path,
        process: ProcessId,
        stop: &AtomicBool,
    ) -> Result<Option<LocalsSample>, Refusal> {
        match self {
            Self::PySpy(py_spy) => py_spy.locals(proc_root, process, stop),
            Self::Own(_) => Ok(None),
        }
    }
}

/// Names what py-spy fails on, if that is a build of Python without a GIL (py-spy's issue 711).
fn without_a_gil(refusal: Refusal, proc_root: &Path, process: ProcessId) -> Refusal {
    let fails = refusal.status.state == SourceState::Absent;
    match Interpreter::find(proc_root, process.pid).filter(|python| fails && python.is_free_threaded()) {
        Some(python) => {
            let version = python.minor().map_or("3".to_owned(), |minor| format!("3.{minor}"));
            let reason = format!(
                "py-spy cannot read the free-threaded Python {version} of process {}: run the job on {version} with a GIL",
                process.pid
            );
            Refusal::lasting(SourceState::Absent, reason)
        }
        None => refusal,
    }
}
