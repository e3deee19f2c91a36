//! What keeps py-spy from reading a process, in one line, with the command that mends it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sample::{ProcessId, SourceState};
use crate::text;

/// Longest text of py-spy that is passed on, terminal cells.
const WIDTH: usize = 160;
/// A process younger than this may still be starting its interpreter, seconds.
const YOUNG: f64 = 15.0;

/// Why there are no stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// How the source stands now.
    pub state: SourceState,
    /// One line.
    pub reason: String,
    /// The command that would mend it.
    pub mend: Option<String>,
    /// Whether asking again is useless for this process.
    pub last: bool,
}

impl Refusal {
    /// One that asking again cannot change.
    pub(super) fn lasting(state: SourceState, reason: impl Into<String>) -> Self {
        Self { state, reason: reason.into(), mend: None, last: true }
    }

    /// One that may pass.
    pub(super) fn passing(state: SourceState, reason: impl Into<String>) -> Self {
        Self { state, reason: reason.into(), mend: None, last: false }
    }

    pub(super) fn mended_by(self, mend: impl Into<String>) -> Self {
        Self { mend: Some(mend.into()), ..self }
    }

    pub(super) fn gone(process: ProcessId) -> Self {
        Self::lasting(SourceState::Gone, format!("process {} has ended", process.pid))
    }

    /// What py-spy's own words mean (its `src/main.rs`, `src/python_process_info.rs`, `src/python_spy.rs`).
    pub(super) fn of_words(words: &str, proc_root: &Path, process: ProcessId) -> Self {
        let has = |part: &str| words.contains(part);
        let pid = process.pid;
        if has("Permission Denied") || has("Permission denied") || has("Operation not permitted") {
            return denied(proc_root, process);
        }
        if has("Unsupported version") || has("unsupported version") {
            let reason = format!("py-spy does not know the Python of process {pid}: {}", said(words));
            return Self::lasting(SourceState::Absent, reason).mended_by("pip install --upgrade py-spy");
        }
        let no_python =
            ["Failed to find python version", "No python processes found", "Failed to find a python interp"];
        if no_python.into_iter().any(has) {
            let reason = format!("py-spy finds no Python in process {pid}: {}", said(words));
            // Between fork and the interpreter's start every process looks like this.
            let last = !is_young(proc_root, process);
            return Self { last, ..Self::lasting(SourceState::Absent, reason) };
        }
        if has("Failed to get process executable name") {
            let reason = format!("py-spy cannot find the program of process {pid}: {}", said(words));
            return Self::lasting(SourceState::Absent, reason);
        }
        Self::passing(SourceState::Absent, format!("py-spy failed on process {pid}: {}", said(words)))
    }
}

/// The refusal of access, with what mends it here.
fn denied(proc_root: &Path, process: ProcessId) -> Refusal {
    let pid = process.pid;
    let denied = |why: &str| {
        let reason = format!("the kernel does not let py-spy read the memory of process {pid}{why}");
        Refusal::lasting(SourceState::Denied, reason)
    };
    let ours = rustix::process::geteuid();
    if ours.is_root() {
        return denied(" (CAP_SYS_PTRACE is missing)").mended_by("docker run --cap-add SYS_PTRACE");
    }
    let owner = fs::metadata(proc_root.join(pid.to_string())).map(|metadata| metadata.uid()).ok();
    if owner.is_some_and(|owner| owner != ours.as_raw()) {
        return denied(" (it is another user's)").mended_by(format!("sudo trainmon --pid {pid}"));
    }
    let scope = fs::read_to_string(proc_root.join("sys/kernel/yama/ptrace_scope")).unwrap_or_default();
    match scope.trim() {
        "1" => denied(" (kernel.yama.ptrace_scope is 1)").mended_by("sudo sysctl kernel.yama.ptrace_scope=0"),
        "2" => denied(" (kernel.yama.ptrace_scope is 2)").mended_by(format!("sudo trainmon --pid {pid}")),
        "3" => denied(" (kernel.yama.ptrace_scope is 3, until the next boot)"),
        _ => denied("").mended_by(format!("sudo trainmon --pid {pid}")),
    }
}

/// The first line of what a program said, safe to print.
pub(super) fn said(words: &str) -> String {
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it said nothing");
    text::fit(line.strip_prefix("Error: ").unwrap_or(line), WIDTH)
}

fn is_young(proc_root: &Path, process: ProcessId) -> bool {
    let Ok(uptime) = fs::read_to_string(proc_root.join("uptime")) else { return false };
    let Some(now) = uptime.split(' ').next().and_then(|seconds| seconds.parse::<f64>().ok()) else { return false };
    now - process.start_ticks as f64 / (rustix::param::clock_ticks_per_second() as f64) < YOUNG
}
