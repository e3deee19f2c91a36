//! `trainmon doctor`: what trainmon can read here, what it cannot, and the command that fixes it.
//!
//! A check gives a state, a sentence, and a fix. [`findings`] and [`kernel_files::of_process`] list the checks.

mod host;
mod kernel_files;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use serde::Serialize;

use crate::config::Settings;
use trainmon_base::errors::{ExitCode, Failure, shorten};
use trainmon_base::text::{named_enum, sanitise, wrap_hanging};
use trainmon_sample::{GpuDevice, GpuSample, ProcessId, SourceState, SourceStatus};
use trainmon_sources::py_spy::{self, PySpy};
use trainmon_tui::Theme;
use trainmon_tui::theme::Depth;

/// How long the driver may take to answer: seconds without persistence mode, and longer than the trial of its library.
const GPU_TIMEOUT: Duration = Duration::from_secs(6);
/// A driver that takes longer than this is not waited for in silence.
const TELL_AFTER: Duration = Duration::from_secs(1);

/// No more of what the kernel's files say is repeated, characters: under another root they may hold anything.
const DETAIL_MAX: usize = 600;

named_enum! {
    /// The result of one check.
    pub enum State {
        /// Readable.
        Ok = "ok",
        /// Readable in part, or with a condition.
        Limited = "limited",
        /// Refused by the kernel.
        Denied = "denied",
        /// Not there.
        Absent = "absent",
        /// Does not answer.
        Hung = "hung",
    }
}

/// One check with its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DoctorFinding {
    /// What was checked.
    pub what: &'static str,
    /// The result.
    pub state: State,
    /// In words.
    pub detail: String,
    /// The command or setting that fixes it.
    pub fix: Option<String>,
}

/// What a check gives: its result, a sentence, and what fixes it.
type Told = (State, Cow<'static, str>, Option<Cow<'static, str>>);

fn told(state: State, detail: impl Into<Cow<'static, str>>) -> Told {
    (state, detail.into(), None)
}

fn fixed(state: State, detail: impl Into<Cow<'static, str>>, fix: impl Into<Cow<'static, str>>) -> Told {
    (state, detail.into(), Some(fix.into()))
}

fn with_status(state: State, status: &SourceStatus) -> Told {
    (state, status.to_string().into(), status.fix.as_deref().map(|fix| fix.to_owned().into()))
}

fn finding((what, (state, detail, fix)): (&'static str, Told)) -> DoctorFinding {
    let clean = |text: Cow<'static, str>| shorten(&sanitise(&text), DETAIL_MAX);
    DoctorFinding { what, state, detail: clean(detail), fix: fix.map(clean) }
}

/// Runs the command.
///
/// # Errors
/// No such process (with `--pid`), or standard output cannot be written.
pub fn run(settings: &Settings, as_json: bool) -> anyhow::Result<ExitCode> {
    let findings = findings(settings, gpus(settings), |name| std::env::var_os(name))?;
    if as_json {
        return super::print_json(&serde_json::json!({
            "schema": 1, "trainmon": env!("CARGO_PKG_VERSION"), "pid": settings.call.pid, "findings": findings,
        }));
    }
    super::print(render(&findings, settings.call.pid))
}

/// What NVML reports. It may hang.
pub(super) fn gpus(settings: &Settings) -> impl FnOnce() -> Result<GpuSample, SourceStatus> + Send + 'static {
    let nvml_lib = settings.nvml_lib.clone();
    move || {
        let mut reader = trainmon_sources::gpu::open(nvml_lib.as_deref(), None)?;
        reader.read(trainmon_sources::simulated_device::monotonic_ns())
    }
}

/// Looks at everything. `gpu` may hang; it gets a thread of its own.
///
/// # Errors
/// When `--pid` names no process.
pub fn findings(
    settings: &Settings,
    gpu: impl FnOnce() -> Result<GpuSample, SourceStatus> + Send + 'static,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<DoctorFinding>, Failure> {
    let (proc, sys) = (&settings.proc_root, &settings.sys_root);
    let own = kernel_files::own_rights(proc);
    let mut all = vec![
        ("host", host::host()),
        ("kernel", kernel_files::kernel(proc)),
        ("rights", kernel_files::rights(own)),
        ("yama", kernel_files::yama(proc, own)),
        ("processes", kernel_files::hidepid(proc, own)),
        ("descriptors", kernel_files::descriptors()),
        ("pressure", kernel_files::pressure(proc, own)),
        ("cgroup", kernel_files::cgroup(&sys.join("fs/cgroup"))),
        ("nvml", nvml(within(GPU_TIMEOUT, gpu))),
        ("py-spy", py_spy(settings, &environment)),
        ("terminal", terminal(settings.ascii, &environment)),
    ];
    if let Some(pid) = settings.call.pid {
        all.extend(kernel_files::of_process(proc, pid, own, settings.ptrace)?);
    }
    Ok(all.into_iter().map(finding).collect())
}

/// The answer, then what is missing with its fix, then what works.
fn render(findings: &[DoctorFinding], pid: Option<u32>) -> String {
    let (works, missing): (Vec<_>, Vec<_>) = findings.iter().partition(|finding| finding.state == State::Ok);
    let target = pid.map_or_else(|| "on this machine".to_owned(), |pid| format!("for process {pid}"));
    let mut text = match missing.len() {
        0 => format!("trainmon works {target}: all {} checks passed.\n", works.len()),
        some => {
            let checks = findings.len();
            format!("trainmon works {target}, with limits: {some} of {checks} checks failed.\n")
        }
    };
    for (title, part) in [("Missing", missing), ("Works", works)] {
        if !part.is_empty() {
            text += &format!("\n{title}\n");
        }
        for finding in part {
            let fix = finding.fix.iter().flat_map(|fix| wrap_hanging(&format!("{:15}fix: ", ""), fix, 80));
            for line in wrap_hanging(&format!("  {:<13}", finding.what), &finding.detail, 80).into_iter().chain(fix) {
                text += &(line + "\n");
            }
        }
    }
    text
}

/// The answer of a call that may hang, or none when it takes longer than `time_out`. The thread of a call that hangs is
/// left to itself.
fn within<T: Send + 'static>(time_out: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = sync_channel(1);
    let spawned = std::thread::Builder::new().name("doctor-gpu".to_owned()).spawn(move || {
        // The receiver may have stopped waiting.
        let _ = send.send(call());
    });
    spawned.ok()?;
    receive.recv_timeout(TELL_AFTER).ok().or_else(|| {
        trainmon_base::errors::note("waiting for the NVIDIA driver (NVML)");
        receive.recv_timeout(time_out.saturating_sub(TELL_AFTER)).ok()
    })
}

fn nvml(answer: Option<Result<GpuSample, SourceStatus>>) -> Told {
    match answer {
        None => with_status(State::Hung, &trainmon_sources::gpu::hangs(GPU_TIMEOUT.as_secs())),
        Some(Ok(gpus)) if gpus.devices.is_empty() => told(State::Absent, "the driver reports no GPU"),
        Some(Ok(gpus)) => {
            let driver = gpus.driver.map(|driver| format!("driver {driver}; ")).unwrap_or_default();
            let name = |gpu: &GpuDevice| format!("{} {}", gpu.index, gpu.name.as_deref().unwrap_or("?"));
            told(State::Ok, driver + &gpus.devices.iter().map(name).collect::<Vec<_>>().join(", "))
        }
        Some(Err(error)) => {
            let state = match error.state {
                SourceState::Absent => State::Absent,
                SourceState::Denied => State::Denied,
                SourceState::Hung => State::Hung,
                _ => State::Limited,
            };
            with_status(state, &error)
        }
    }
}

/// The py-spy that would be used: for a process, also the one beside its interpreter.
fn py_spy(settings: &Settings, environment: &impl Fn(&str) -> Option<OsString>) -> Told {
    let (proc_root, named) = (&settings.proc_root, settings.py_spy.as_deref());
    let found = match settings.call.pid {
        Some(pid) => PySpy::find(proc_root, ProcessId { pid, start_ticks: 0 }, named)
            .map(|found| format!("{}, version {}", found.path().display(), found.version)),
        None => py_spy::locate(environment("PATH"), named).map(|program| program.display().to_string()),
    };
    match found {
        Ok(found) => told(State::Ok, found),
        Err(refusal) => with_status(State::Absent, &refusal.status),
    }
}

fn terminal(ascii: bool, environment: &impl Fn(&str) -> Option<OsString>) -> Told {
    let theme = Theme::detect(false, ascii, |name| environment(name)?.into_string().ok());
    let characters = if theme.ascii { "ASCII only" } else { "UTF-8" };
    let colors = match theme.depth {
        Depth::None if environment("NO_COLOR").is_some() => "no colors (NO_COLOR)",
        Depth::None => "no colors",
        Depth::Ansi16 => "16 colors",
        Depth::Indexed256 => "256 colors",
        Depth::TrueColor => "16 million colors",
    };
    if !std::io::stdout().is_terminal() {
        return told(
            State::Absent,
            "standard output is not one: trainmon diagnose and --log work here, the screen does not",
        );
    }
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns < 80 || rows < 24 => fixed(
            State::Limited,
            format!("{columns}×{rows}, {characters}, {colors}; the screen needs 80×24 to show everything"),
            "enlarge the window, or use trainmon diagnose or --log",
        ),
        Ok((columns, rows)) => told(State::Ok, format!("{columns}×{rows}, {characters}, {colors}")),
        Err(error) => told(State::Limited, format!("cannot read its size: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::config::Call;
    use trainmon_sample::process::PID_MAX;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Settings) {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let settings = Settings {
            proc_root: root.path().join("proc"),
            sys_root: root.path().join("sys"),
            ..Settings::default()
        };
        (root, settings)
    }

    fn absent() -> Result<GpuSample, SourceStatus> {
        Err(SourceStatus::new(SourceState::Absent, "libnvidia-ml.so.1 not found").fixed_by("install the driver"))
    }

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    fn state(findings: &[DoctorFinding], what: &str) -> State {
        findings.iter().find(|finding| finding.what == what).unwrap().state
    }

    #[test]
    fn an_ordinary_user_on_ubuntu() {
        let (_root, settings) = tree(&[
            ("proc/sys/kernel/osrelease", "6.8.0\n"),
            ("proc/sys/kernel/yama/ptrace_scope", "1\n"),
            ("proc/self/status", "Name:\tx\nUid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n"),
            ("proc/self/mountinfo", "24 30 0:22 / /proc rw,nosuid - proc proc rw,hidepid=2\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu io memory\n"),
        ]);
        let findings = findings(&settings, absent, nothing).unwrap();
        for (what, wanted) in [
            ("host", State::Ok),
            ("kernel", State::Ok),
            ("rights", State::Limited),
            ("yama", State::Limited),
            ("processes", State::Limited),
            ("pressure", State::Absent),
            ("cgroup", State::Ok),
            ("nvml", State::Absent),
            ("py-spy", State::Absent),
        ] {
            assert_eq!(state(&findings, what), wanted, "{what}");
        }
        for finding in &findings {
            let fine = finding.state == State::Ok || matches!(finding.what, "py-spy" | "terminal");
            assert!(fine || finding.fix.is_some(), "{finding:?}");
        }
        let text = render(&findings, None);
        assert!(text.starts_with("trainmon works on this machine, with limits: "), "{text}");
        assert!(
            text.find("nvml").unwrap() < text.find("Linux 6.8.0").unwrap(),
            "what is missing comes first: {text}"
        );
        assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    }

    #[test]
    fn root_is_bound_by_little() {
        let (_root, settings) = tree(&[
            ("proc/sys/kernel/yama/ptrace_scope", "1\n"),
            ("proc/self/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n"),
        ]);
        let findings = findings(&settings, absent, nothing).unwrap();
        assert_eq!((state(&findings, "rights"), state(&findings, "yama")), (State::Ok, State::Ok));
    }

    #[test]
    fn a_process_is_looked_into() {
        let of = |pid| Settings { call: Call { pid: Some(pid), ..Call::default() }, ..Settings::default() };
        let findings = findings(&of(std::process::id()), absent, nothing).unwrap();
        for what in ["syscall", "wchan", "io", "fd", "maps", "namespace"] {
            assert_eq!(state(&findings, what), State::Ok, "{what}");
        }
        assert_eq!(
            super::findings(&of(PID_MAX), absent, nothing).unwrap_err().exit,
            trainmon_base::errors::ExitCode::NO_PROCESS
        );
    }
}
