//! One run of a program that reads a process: bounded, and what is left of it checked.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::child::{self, ChildEnding, Ran};
use super::refusal::Refusal;
use super::{EXTRA_TIME, MESSAGES, collapsed, source_lines};
use crate::job_rights::JobRights;
use crate::process::{main_tids, stat_of};
use crate::secrets;
use crate::trusted_program::TrustedProgram;
use trainmon_sample::{ProcessId, SourceState, StackWindow};

/// What was read of a process, and what that cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken<T> {
    /// What was read.
    pub what: T,
    /// CPU time of the program that read it, to 10 ms.
    pub cpu: Duration,
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
    ) -> Result<Option<Taken<StackWindow>>, Refusal> {
        let time_out = Duration::from_secs(u64::from(seconds)).saturating_add(EXTRA_TIME);
        let (pid, name) = (process.pid, self.name);
        let folder = proc_root.join(pid.to_string());
        let rights = JobRights::find(&folder);
        let Some(ran) = self.run(proc_root, process, arguments, time_out, stop)? else { return Ok(None) };
        let cpu = ran.cpu;
        let document = ran.document().unwrap_or_default();
        let window = collapsed::parse(&document, process, &main_tids(proc_root, process));
        let nothing = |why: String| Refusal { cpu, ..Refusal::passing(SourceState::Absent, why) };
        let mut window = window.ok_or_else(|| nothing(format!("{name} returned no stacks")))?;
        if window.threads.is_empty() {
            let is_gone = state(proc_root, process).is_none();
            let nothing = nothing(format!("{name} got no sample of process {pid}"));
            return Err(if is_gone { Refusal::gone(process) } else { nothing });
        }
        // If they changed meanwhile, it is unclear whose code the frames show.
        if let Some(rights) = rights.filter(|rights| JobRights::find(&folder).as_ref() == Some(rights)) {
            source_lines::fill(&mut window, proc_root, &rights);
        }
        // Only now, because the lines are found by the files' real names.
        secrets::mask(&mut window);
        Ok(Some(Taken { what: window, cpu }))
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
        let cpu = ran.cpu;
        let refusal = match ran.ending {
            ChildEnding::Stopped => return Ok(None),
            ChildEnding::Exited(status) if status.success() => return Ok(Some(ran)),
            ChildEnding::TimedOut => {
                Refusal::passing(SourceState::Hung, format!("{name} took longer than {} s", time_out.as_secs()))
            }
            ChildEnding::TooMuch => Refusal::passing(SourceState::Absent, format!("{name} wrote more than 16 MiB")),
            ChildEnding::Exited(_) if after.is_none() => Refusal::gone(process),
            ChildEnding::Exited(status) => {
                let words = ran.err(MESSAGES);
                let words = if words.trim().is_empty() { format!("it ended with {status}") } else { words };
                (self.refuse)(&words, proc_root, process)
            }
        };
        Err(Refusal { cpu, ..refusal })
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
