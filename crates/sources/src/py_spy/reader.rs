//! What takes stacks: py-spy, or else the reader that the job's own Python brings along.

use std::fmt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::child::{self, ChildEnding, Ran};
use super::find::TrustedProgram;
use super::own_reader::OwnReader;
use super::refusal::Refusal;
use super::{EXTRA_TIME, MESSAGES, PySpy, collapsed, source_lines};
use crate::interpreter::Interpreter;
use crate::job_rights::JobRights;
use crate::process::{main_tids, stat_of};
use crate::secrets;
use trainmon_sample::{LocalsSample, ProcessId, SourceState, StackWindow};

/// A window of stacks, and what it cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenWindow {
    /// The stacks.
    pub window: StackWindow,
    /// CPU time of the program that took them, to 10 ms.
    pub cpu: Duration,
}

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
    match Interpreter::of(proc_root, process.pid).filter(|python| fails && python.is_free_threaded()) {
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

/// A program that reads a process.
#[derive(Debug)]
pub(super) struct ReaderProgram {
    pub(super) program: TrustedProgram,
    /// How messages call it.
    pub(super) name: &'static str,
    /// What its own messages mean.
    pub(super) refuse: fn(&str, &Path, ProcessId) -> Refusal,
}

impl ReaderProgram {
    /// Has it write a window of stacks, of so many seconds, in py-spy's raw format. `None` if `stop` was set meanwhile.
    pub(super) fn window(
        &self,
        proc_root: &Path,
        process: ProcessId,
        arguments: &[&str],
        seconds: u32,
        stop: &AtomicBool,
    ) -> Result<Option<TakenWindow>, Refusal> {
        let time_out = Duration::from_secs(u64::from(seconds)).saturating_add(EXTRA_TIME);
        let (pid, name) = (process.pid, self.name);
        let folder = proc_root.join(pid.to_string());
        let rights = JobRights::find(&folder);
        let Some(ran) = self.run(proc_root, process, arguments, time_out, stop)? else { return Ok(None) };
        let document = ran.document().unwrap_or_default();
        let window = collapsed::parse(&document, process, &main_tids(proc_root, process));
        let no_stacks = || Refusal::passing(SourceState::Absent, format!("{name} returned no stacks"));
        let mut window = window.ok_or_else(no_stacks)?;
        if window.threads.is_empty() {
            let nothing = Refusal::passing(SourceState::Absent, format!("{name} got no sample of process {pid}"));
            return Err(if state(proc_root, process).is_none() { Refusal::gone(process) } else { nothing });
        }
        // If they changed meanwhile, it is unclear whose code the frames show.
        if let Some(rights) = rights.filter(|rights| JobRights::find(&folder).as_ref() == Some(rights)) {
            source_lines::fill(&mut window, proc_root, &rights);
        }
        // Only now, because the lines are found by the files' real names.
        secrets::mask(&mut window);
        Ok(Some(TakenWindow { window, cpu: ran.cpu }))
    }

    /// Runs it on a process. `None` if `stop` was set meanwhile.
    pub(super) fn run(
        &self,
        proc_root: &Path,
        process: ProcessId,
        arguments: &[&str],
        time_out: Duration,
        stop: &AtomicBool,
    ) -> Result<Option<Ran>, Refusal> {
        let (pid, name) = (process.pid, self.name);
        let before = state(proc_root, process).ok_or_else(|| Refusal::gone(process))?;
        let ran = child::run(&self.program, arguments, time_out, collapsed::LARGEST_STACKS as u64, stop);
        let after = state(proc_root, process);
        if is_stopped(after) && !is_stopped(Some(before)) {
            let reason = format!("process {pid} was stopped while {name} read it, so {name} no longer reads it");
            return Err(Refusal::lasting(SourceState::Denied, reason).fixed_by(format!("kill -CONT {pid}")));
        }
        let ran = ran.map_err(|error| {
            let path = super::shown(&self.program.path);
            Refusal::passing(SourceState::Absent, format!("cannot start {path}: {error}"))
        })?;
        match ran.ending {
            ChildEnding::Stopped => Ok(None),
            ChildEnding::TimedOut => {
                let reason = format!("{name} took longer than {} s", time_out.as_secs());
                Err(Refusal { cpu: ran.cpu, ..Refusal::passing(SourceState::Hung, reason) })
            }
            ChildEnding::TooMuch => {
                Err(Refusal::passing(SourceState::Absent, format!("{name} wrote more than 16 MiB")))
            }
            ChildEnding::Exited(status) if !status.success() => {
                if after.is_none() {
                    return Err(Refusal::gone(process));
                }
                let words = ran.err(MESSAGES);
                let words = if words.trim().is_empty() { format!("it ended with {status}") } else { words };
                Err((self.refuse)(&words, proc_root, process))
            }
            ChildEnding::Exited(_) => Ok(Some(ran)),
        }
    }
}

/// State letter of the process; `None` if it has ended or its PID belongs to another one.
fn state(proc_root: &Path, process: ProcessId) -> Option<char> {
    let stat = stat_of(proc_root, process.pid)?;
    (stat.start_ticks == process.start_ticks && stat.is_alive()).then_some(stat.state)
}

/// Whether it is stopped by a signal or held by a debugger.
fn is_stopped(state: Option<char>) -> bool {
    matches!(state, Some('T' | 't'))
}
