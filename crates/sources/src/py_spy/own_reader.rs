//! The reader of stacks that Python 3.15 and later bring along, run by the interpreter of the job itself: it must have the version of
//! what it reads, and the same build.
//!
//! `python -m profiling.sampling attach` prints file names without their folders in every format that has whole stacks, and takes
//! 170 ms of CPU time to start and end. So the script that runs here calls the reader below it, `_remote_debugging.RemoteUnwinder`,
//! which is no documented interface: whatever fails is told, and trainmon goes on without stacks. Measured with 3.15.0: 22 ms of CPU
//! time for 40 samples of two threads, 120 ms for 100 threads 30 frames deep, where py-spy 0.4.3 takes 2.8 s. The one of 3.14 sees
//! nothing of a stack beyond the last call from C, so it is not used.
//!
//! It stops nothing and, without its cache of frames, writes nothing: that cache keeps a mark in each thread of the process
//! (`process_vm_writev`, CPython's issue 149521).

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::child;
use super::reader_program::{ReaderProgram, Taken};
use super::refusal::{self, Refusal};
use crate::interpreter::Interpreter;
use trainmon_sample::{ProcessId, SourceState, StackWindow};

/// What the interpreter runs.
const SAMPLE_STACKS: &str = include_str!("../../assets/sample_stacks.py");
/// It reads no settings, imports nothing of the user's, and writes no compiled files.
const ALONE: [&str; 4] = ["-I", "-S", "-B", "-c"];
/// The first version whose reader sees whole stacks.
const WHOLE_SINCE_MINOR: u32 = 15;
/// How messages call it.
pub const OWN_READER: &str = "the reader of the job's Python";

/// The reader of one interpreter, ready to run.
#[derive(Debug)]
pub struct OwnReader {
    pub(super) program: ReaderProgram,
}

impl OwnReader {
    /// The one of the interpreter that a process runs.
    ///
    /// # Errors
    /// It has none, or it must not be run from here.
    pub fn find(proc_root: &Path, process: ProcessId) -> Result<Self, Refusal> {
        let pid = process.pid;
        let none = |why: String| Refusal::lasting(SourceState::Absent, why);
        let python =
            Interpreter::find(proc_root, pid).ok_or_else(|| none(format!("process {pid} does not run Python")))?;
        if python.minor().is_none_or(|minor| minor < WHOLE_SINCE_MINOR) {
            return Err(none(format!("the Python of process {pid} has no reader of stacks")));
        }
        if !python.sees_the_same(proc_root) {
            return Err(none(format!("process {pid} sees other files or processes")));
        }
        let program = python.open().map_err(|why| none(why.to_string()))?;
        Ok(Self { program: ReaderProgram { program, name: OWN_READER, refuse } })
    }

    /// Samples one process for some seconds. `None` if `stop` was set meanwhile.
    pub fn record(
        &self,
        proc_root: &Path,
        process: ProcessId,
        seconds: u32,
        rate_hz: u32,
        stop: &AtomicBool,
    ) -> Result<Option<Taken<StackWindow>>, Refusal> {
        let (seconds, rate_hz) = (seconds.max(1), rate_hz.max(1));
        let (duration, rate, pid) = (seconds.to_string(), rate_hz.to_string(), process.pid.to_string());
        let arguments: Vec<&str> =
            ALONE.into_iter().chain([SAMPLE_STACKS, &pid, &duration, &rate, child::DOCUMENT]).collect();
        self.program.window(proc_root, process, &arguments, seconds, stop)
    }
}

/// What the script's messages mean.
fn refuse(words: &str, proc_root: &Path, process: ProcessId) -> Refusal {
    let pid = process.pid;
    if words.contains("PermissionError") || words.contains("Operation not permitted") {
        return Refusal::denied(proc_root, process, &format!("{OWN_READER} read"));
    }
    let reason = format!("{OWN_READER} failed on process {pid}: {}", refusal::said(words));
    let last = ["no reader", "no known reader"].iter().any(|begin| words.starts_with(begin));
    Refusal { last, ..Refusal::passing(SourceState::Absent, reason) }
}
