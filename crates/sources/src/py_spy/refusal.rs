//! Why py-spy cannot read a process, in one line, with the command that fixes it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::install::upgrade_command;
use crate::clock::ticks_per_second;
use crate::files::read_once;
use crate::interpreter::Interpreter;
use crate::processes::uptime_s;
use trainmon_base::text;
use trainmon_sample::{ProcessId, SourceState, SourceStatus};

/// Most terminal cells of a py-spy message passed on.
const WIDTH: usize = 160;
/// A process younger than this may still be starting its interpreter, seconds.
const YOUNG: f64 = 15.0;

/// Why there are no stacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The source's status, and the command that would fix it.
    pub status: SourceStatus,
    /// Whether asking again is pointless for this process.
    pub last: bool,
    /// What the attempt cost, CPU time, where it was long.
    pub cpu: Duration,
}

impl Refusal {
    /// A refusal that asking again cannot change.
    pub(super) fn lasting(state: SourceState, reason: impl Into<Arc<str>>) -> Self {
        Self { status: SourceStatus::new(state, reason), last: true, cpu: Duration::ZERO }
    }

    /// A refusal that may pass.
    pub(super) fn passing(state: SourceState, reason: impl Into<Arc<str>>) -> Self {
        Self { last: false, ..Self::lasting(state, reason) }
    }

    /// The same without the command that installs another py-spy.
    pub(super) fn without_install(mut self) -> Self {
        self.status.fix = self.status.fix.filter(|fix| !fix.contains(" install "));
        self
    }

    pub(super) fn fixed_by(self, fix: impl Into<Arc<str>>) -> Self {
        Self { status: self.status.fixed_by(fix), ..self }
    }

    pub(super) fn gone(process: ProcessId) -> Self {
        Self::lasting(SourceState::Gone, format!("process {} has ended", process.pid))
    }

    /// That the kernel does not let `who` do something to the memory of a process.
    pub(super) fn denied(proc_root: &Path, process: ProcessId, who: &str) -> Self {
        let (reason, fix) = denied(proc_root, process, who, &format!("--pid {}", process.pid));
        let refusal = Self::lasting(SourceState::Denied, reason);
        match fix {
            Some(fix) => refusal.fixed_by(fix),
            None => refusal,
        }
    }

    /// What py-spy's own messages mean (its `src/main.rs`, `src/python_process_info.rs`, `src/python_spy.rs`).
    pub(super) fn of_words(words: &str, proc_root: &Path, process: ProcessId) -> Self {
        let has = |part: &str| words.contains(part);
        let pid = process.pid;
        // Checked first: its cause reads like a missing permission.
        if has("Failed to suspend") {
            let reason = format!("py-spy cannot read process {pid} while a debugger is attached: {}", said(words));
            return Self::passing(SourceState::Denied, reason);
        }
        if has("Permission Denied") || has("Permission denied") || has("Operation not permitted") {
            return Self::denied(proc_root, process, "py-spy read");
        }
        if has("Unsupported version") || has("unsupported version") {
            let reason = format!("py-spy does not support the Python of process {pid}: {}", said(words));
            return Self::lasting(SourceState::Absent, reason).fixed_by(upgrade_command());
        }
        let free_threaded = Interpreter::find(proc_root, pid).filter(Interpreter::is_free_threaded);
        if let Some(python) = free_threaded.filter(|_| !is_young(proc_root, process)) {
            // py-spy's issue 711. A later py-spy may read them, and fail once.
            let version = python.minor().map_or("3".to_owned(), |minor| format!("3.{minor}"));
            let reason = format!(
                "py-spy cannot read the free-threaded Python of process {pid} ({}): run the job on {version} with a GIL",
                said(words)
            );
            return Self::passing(SourceState::Absent, reason);
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

/// That the kernel does not let `who` do something to the memory of a process, and the command that fixes it here: trainmon with
/// these arguments, if more rights are needed.
pub fn denied(proc_root: &Path, process: ProcessId, who: &str, arguments: &str) -> (String, Option<String>) {
    let us = rustix::process::geteuid();
    let owner = fs::metadata(proc_root.join(process.pid.to_string())).map(|metadata| metadata.uid()).ok();
    let scope = read_once(proc_root.join("sys/kernel/yama/ptrace_scope"), 64).unwrap_or_default();
    let scope = String::from_utf8_lossy(&scope);
    let foreign = owner.is_some_and(|owner| owner != us.as_raw());
    let (why, fix) = denied_to(us.is_root(), foreign, scope.trim(), arguments);
    (format!("the kernel does not let {who} the memory of process {}{why}", process.pid), fix)
}

/// Why, and the fix, given whether trainmon is root, whether the process belongs to another user, and Yama's setting (empty
/// without Yama; Documentation/admin-guide/LSM/Yama.rst).
fn denied_to(root: bool, foreign: bool, ptrace_scope: &str, arguments: &str) -> (&'static str, Option<String>) {
    let sudo = text::sudo_command(arguments);
    match ptrace_scope {
        "3" => (" (kernel.yama.ptrace_scope is 3 until the next boot)", None),
        _ if root => (" (CAP_SYS_PTRACE is missing)", Some("docker run --cap-add SYS_PTRACE".to_owned())),
        _ if foreign => (" (it is another user's)", Some(sudo)),
        "1" => (" (kernel.yama.ptrace_scope is 1)", Some("sudo sysctl kernel.yama.ptrace_scope=0".to_owned())),
        "2" => (" (kernel.yama.ptrace_scope is 2)", Some(sudo)),
        _ => ("", Some(sudo)),
    }
}

/// The first line of what a program said, safe to print.
pub fn said(words: &str) -> String {
    let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no message");
    text::fit(line.strip_prefix("Error: ").unwrap_or(line), WIDTH)
}

fn is_young(proc_root: &Path, process: ProcessId) -> bool {
    let started_s = process.start_ticks as f64 / f64::from(ticks_per_second());
    uptime_s(proc_root).is_some_and(|now_s| now_s - started_s < YOUNG)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: ProcessId = ProcessId { pid: 7, start_ticks: 100 };

    fn of_words(words: &str, process: ProcessId) -> Refusal {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("uptime"), "5000.10 4000.00\n").unwrap();
        Refusal::of_words(words, root.path(), process)
    }

    #[test]
    fn the_words_of_py_spy_are_understood() {
        let cases = [
            (
                "Permission Denied: Try running again with elevated permissions by going 'sudo env \"PATH=$PATH\" !!'",
                SourceState::Denied,
                true,
            ),
            (
                "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n    0: Permission denied (os error 13)",
                SourceState::Denied,
                true,
            ),
            (
                "Error: Failed to get process executable name. Check that the process is running.\n\nCaused by:\n    0: No such file or directory (os error 2)",
                SourceState::Absent,
                true,
            ),
            ("Error: No python processes found in process 7 or any of its subprocesses", SourceState::Absent, true),
            ("Error: Failed to find python version from target process", SourceState::Absent, true),
            ("Error: Unsupported version of Python: 3.19.0", SourceState::Absent, true),
            (
                "Error: Failed to suspend process\nCaused by: EPERM: Operation not permitted",
                SourceState::Denied,
                false,
            ),
            ("Error: UNW_EBADREG: bad register number", SourceState::Absent, false),
            ("Error: Failed to copy PyThreadState head pointer", SourceState::Absent, false),
            ("", SourceState::Absent, false),
        ];
        for (words, state, last) in cases {
            let refusal = of_words(words, OLD);
            assert_eq!((refusal.status.state, refusal.last), (state, last), "{words}: {refusal:?}");
            assert_eq!(refusal.status.to_string().lines().count(), 1);
        }
        let fix = of_words("Unsupported version of Python: 4", OLD).status.fix.unwrap();
        assert!(fix.contains("pip install --upgrade py-spy"), "{fix}");
    }

    #[test]
    fn a_free_threaded_python_is_named() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("uptime"), "5000.10 4000.00\n").unwrap();
        fs::create_dir(root.path().join("7")).unwrap();
        std::os::unix::fs::symlink("/opt/bin/python3.14t", root.path().join("7/exe")).unwrap();
        let of = |process| Refusal::of_words("Error: failed to get gil_thread_id", root.path(), process).status;
        let said = of(OLD).to_string();
        assert!(said.contains("cannot read the free-threaded Python of process 7 (failed to get gil"), "{said}");
        let young = ProcessId { pid: 7, start_ticks: 4995 * rustix::param::clock_ticks_per_second() };
        assert!(of(young).to_string().contains("py-spy failed on process 7"), "it may be starting");
    }

    #[test]
    fn a_young_process_may_be_starting_its_interpreter() {
        let ticks = rustix::param::clock_ticks_per_second();
        let young = ProcessId { pid: 7, start_ticks: 4995 * ticks };
        assert!(!of_words("Failed to find python version from target process", young).last);
        let older = ProcessId { pid: 7, start_ticks: 4980 * ticks };
        assert!(of_words("Failed to find python version from target process", older).last);
    }

    #[test]
    fn access_is_fixed_where_it_was_refused() {
        let sudo = text::sudo_command("--pid 7");
        let fix = |root, foreign, scope| denied_to(root, foreign, scope, "--pid 7").1;
        assert_eq!(fix(true, false, "").unwrap(), "docker run --cap-add SYS_PTRACE");
        assert_eq!(fix(false, true, "1").unwrap(), sudo);
        assert_eq!(fix(false, false, "1").unwrap(), "sudo sysctl kernel.yama.ptrace_scope=0");
        assert_eq!(fix(false, false, "2").unwrap(), sudo);
        assert_eq!(fix(false, false, "").unwrap(), sudo);
        assert_eq!(fix(true, false, "3"), None);
    }

    #[test]
    fn what_was_said_is_one_safe_line() {
        assert_eq!(said("\n  Error: a\tb\u{1b}[2J\nmore"), "a b\u{FFFD}[2J");
        assert!(said(&"x".repeat(10_000)).len() < 200);
        assert_eq!(said(" \n"), "no message");
    }
}
