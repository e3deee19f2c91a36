//! `trainmon doctor`: what can be seen from here, what cannot, and the command that mends it.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::config::Settings;
use crate::errors::{Exit, Failure};
use crate::sample::ProcessId;
use crate::sources::gpu::{GpuError, GpuErrorKind};
use crate::sources::py_spy::PySpy;
use crate::text::sanitise;
use crate::text::wrap_hanging;

/// How long the driver may take to answer (seconds without persistence mode).
const GPU_TIMEOUT: Duration = Duration::from_secs(8);
/// `CAP_SYS_PTRACE` (include/uapi/linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Can be seen.
    Ok,
    /// Can be seen in part, or with a condition.
    Limited,
    /// Refused by the kernel.
    Denied,
    /// Not there.
    Absent,
    /// Does not answer.
    Hung,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Denied => "denied",
            Self::Absent => "absent",
            Self::Hung => "hung",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub what: &'static str,
    /// How it stands.
    pub state: State,
    /// In words.
    pub detail: String,
    /// The command or setting that mends it.
    pub mend: Option<String>,
}

impl Finding {
    fn new(what: &'static str, state: State, detail: impl Into<String>) -> Self {
        Self { what, state, detail: sanitise(&detail.into()).into_owned(), mend: None }
    }

    fn mended_by(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(sanitise(&mend.into()).into_owned());
        self
    }
}

/// Runs the command.
///
/// # Errors
/// No such process (with `--pid`), or standard output cannot be written.
pub fn run(settings: &Settings, arguments: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let nvml_lib = settings.nvml_lib.clone();
    let gpu = move || {
        let mut reader = crate::sources::gpu::open(nvml_lib.as_deref(), None)?;
        let sample = reader.read(crate::sources::simulated_device::monotonic_ns())?;
        Ok(GpuFacts {
            driver: sample.driver.map(|driver| driver.to_string()),
            devices: sample
                .devices
                .iter()
                .map(|device| format!("{} {}", device.index, device.name.as_deref().unwrap_or("?")))
                .collect(),
        })
    };
    let findings = findings(settings, gpu, |name| std::env::var_os(name))?;
    let text = if arguments.json {
        let report = serde_json::json!({
            "schema": 1, "trainmon": env!("CARGO_PKG_VERSION"), "pid": settings.call.pid, "findings": findings,
        });
        serde_json::to_string_pretty(&report)? + "\n"
    } else {
        render(&findings)
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Done.into())
}

/// The answer of a call that may hang, or none when it takes longer than `time_out`. The thread of a call that hangs is
/// left to itself.
fn within<T: Send + 'static>(time_out: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new().name("doctor-gpu".to_owned()).spawn(move || {
        // The receiver may have stopped waiting.
        let _ = send.send(call());
    });
    spawned.ok().and_then(|_| receive.recv_timeout(time_out).ok())
}

/// What NVML has told.
#[derive(Debug, Clone, Default)]
pub struct GpuFacts {
    /// Driver version.
    pub driver: Option<String>,
    /// Index and name of each device.
    pub devices: Vec<String>,
}

/// Looks at everything. `gpu` may hang; it gets a thread of its own.
///
/// # Errors
/// When `--pid` names no process.
pub fn findings(
    settings: &Settings,
    gpu: impl FnOnce() -> Result<GpuFacts, GpuError> + Send + 'static,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Finding>, Failure> {
    let host = Host { proc: &settings.proc_root, sys: &settings.sys_root };
    let rights = host.rights();
    let mut findings = vec![
        host.kernel(),
        rights.finding(),
        host.yama(rights.ptrace),
        host.hidepid(rights.ptrace),
        host.pressure(),
        host.cgroup(),
        gpu_finding(within(GPU_TIMEOUT, gpu)),
        py_spy(settings, &environment),
        terminal(&environment),
    ];
    if let Some(pid) = settings.call.pid {
        findings.extend(host.process(pid, settings.ptrace)?);
    }
    Ok(findings)
}

fn render(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let begin = format!("{:<8}{:<12}", finding.state.word(), finding.what);
        let mend = finding.mend.iter().flat_map(|mend| wrap_hanging(&format!("{:20}to mend: ", ""), mend, 80));
        for line in wrap_hanging(&begin, &finding.detail, 80).into_iter().chain(mend) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

/// Where the kernel's files are.
struct Host<'a> {
    proc: &'a Path,
    sys: &'a Path,
}

/// Who we are.
struct Rights {
    uid: Option<u32>,
    ptrace: bool,
}

impl Rights {
    fn finding(&self) -> Finding {
        let who = match self.uid {
            Some(0) => "root".to_owned(),
            Some(uid) => format!("user {uid}"),
            None => "unknown user".to_owned(),
        };
        if self.ptrace {
            Finding::new("rights", State::Ok, format!("{who}, with CAP_SYS_PTRACE: every process can be read"))
        } else {
            Finding::new(
                "rights",
                State::Limited,
                format!(
                    "{who}, without CAP_SYS_PTRACE: of other users' processes only CPU time and states can be read"
                ),
            )
            .mended_by("sudo trainmon … (only needed for other users' processes)")
        }
    }
}

fn text_of(path: impl AsRef<Path>) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = Vec::new();
    std::fs::File::open(path)?.take(1 << 16).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

impl Host<'_> {
    fn kernel(&self) -> Finding {
        match text_of(self.proc.join("sys/kernel/osrelease")) {
            Ok(release) => Finding::new("kernel", State::Ok, format!("Linux {release}, {}", std::env::consts::ARCH)),
            Err(error) => Finding::new("kernel", State::Limited, format!("no release to be read: {error}")),
        }
    }

    fn rights(&self) -> Rights {
        let status = text_of(self.proc.join("self/status")).unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let uid = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)).and_then(|uid| uid.parse().ok());
        let capabilities = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        Rights { uid, ptrace: capabilities.is_some_and(|mask| mask & (1 << CAP_SYS_PTRACE) != 0) }
    }

    /// Documentation/admin-guide/LSM/Yama.rst.
    fn yama(&self, privileged: bool) -> Finding {
        let scope = text_of(self.proc.join("sys/kernel/yama/ptrace_scope")).ok();
        let sysctl = "sudo trainmon …, or: sudo sysctl kernel.yama.ptrace_scope=0";
        let blind = "waits are told apart by wchan and state alone";
        match (scope.as_deref(), privileged) {
            (None, _) => {
                Finding::new("yama", State::Ok, "not in this kernel: one's own processes can be read in full")
            }
            (Some("0"), _) => {
                Finding::new("yama", State::Ok, "ptrace_scope 0: one's own processes can be read in full")
            }
            (Some(scope @ ("1" | "2")), true) => Finding::new(
                "yama",
                State::Ok,
                format!("ptrace_scope {scope}, which does not bind us (CAP_SYS_PTRACE)"),
            ),
            (Some(scope @ ("1" | "2")), false) => Finding::new(
                "yama",
                State::Limited,
                format!("ptrace_scope {scope}: /proc/PID/syscall of running jobs is denied; {blind}"),
            )
            .mended_by(sysctl),
            (Some(scope), _) => Finding::new(
                "yama",
                State::Limited,
                format!("ptrace_scope {scope}: nobody may attach until the next boot; {blind}"),
            )
            .mended_by("set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot"),
        }
    }

    /// Mount option of /proc (proc(5)).
    fn hidepid(&self, privileged: bool) -> Finding {
        let mounts = text_of(self.proc.join("self/mountinfo")).unwrap_or_default();
        let option = mounts
            .lines()
            .filter(|line| line.split(' ').nth(4) == Some("/proc"))
            .flat_map(|line| line.rsplit(' ').next().unwrap_or_default().split(','))
            .find_map(|option| option.strip_prefix("hidepid="));
        match option {
            Some("0" | "off") | None => Finding::new("processes", State::Ok, "all are listed in /proc"),
            Some(option) if privileged => {
                Finding::new("processes", State::Ok, format!("/proc has hidepid={option}, which does not bind us"))
            }
            Some(option) => Finding::new(
                "processes",
                State::Limited,
                format!("/proc is mounted with hidepid={option}: other users' processes are hidden"),
            )
            .mended_by("sudo trainmon …, or: sudo mount -o remount,hidepid=0 /proc"),
        }
    }

    /// Documentation/accounting/psi.rst.
    fn pressure(&self) -> Finding {
        match text_of(self.proc.join("pressure/cpu")) {
            Ok(text) if text.starts_with("some") => Finding::new("pressure", State::Ok, "PSI of CPU, I/O and memory"),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                Finding::new("pressure", State::Denied, "/proc/pressure may not be read").mended_by("sudo trainmon …")
            }
            _ => Finding::new("pressure", State::Absent, "the kernel gives no pressure (PSI)")
                .mended_by("boot with psi=1 on the kernel command line (needs CONFIG_PSI)"),
        }
    }

    fn cgroup(&self) -> Finding {
        let root = self.sys.join("fs/cgroup");
        if root.join("cgroup.controllers").exists() {
            let controllers = text_of(root.join("cgroup.controllers")).unwrap_or_default();
            Finding::new("cgroup", State::Ok, format!("v2, controllers: {controllers}"))
        } else if root.join("unified/cgroup.controllers").exists() {
            Finding::new("cgroup", State::Ok, "hybrid: v1 controllers, v2 for processes")
        } else if root.join("cpu").exists() || root.join("cpu,cpuacct").exists() || root.join("memory").exists() {
            Finding::new("cgroup", State::Ok, "v1")
        } else {
            Finding::new(
                "cgroup",
                State::Absent,
                "no hierarchy at /sys/fs/cgroup: CPU and memory limits are not seen",
            )
            .mended_by(
                "mount it: sudo mount -t cgroup2 none /sys/fs/cgroup (in a container: start it with the host's)",
            )
        }
    }

    /// What may be read of one process.
    fn process(&self, pid: u32, ptrace: bool) -> Result<Vec<Finding>, Failure> {
        let folder = self.proc.join(pid.to_string());
        let stat = text_of(folder.join("stat")).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Failure::no_process(format!(
                "no process {pid}: it has ended, or /proc hides it (see doctor without --pid)"
            )),
            _ => Failure::no_process(format!("process {pid} may not be seen: {error}; try sudo trainmon doctor")),
        })?;
        let comm = text_of(folder.join("comm")).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next().unwrap_or('?');
        let mut findings = vec![Finding::new("process", State::Ok, format!("{pid} {comm}, state {state}"))];
        for (what, use_of_it) in [
            ("syscall", "tells waits for batches from other waits"),
            ("wchan", "tells what a thread waits for"),
            ("io", "bytes read and written"),
            ("fd", "open files: which disks hold the data, which devices are in use"),
            ("maps", "mapped libraries: is it a training program"),
        ] {
            if what == "syscall" && !ptrace {
                findings.push(Finding::new(what, State::Limited, format!("{use_of_it}: not read with --no-ptrace")));
                continue;
            }
            findings.push(access(&folder, what, use_of_it));
        }
        let namespace = |pid: &str| std::fs::read_link(self.proc.join(pid).join("ns/pid"));
        findings.push(match (namespace("self"), namespace(&pid.to_string())) {
            (Ok(own), Ok(other)) if own == other => {
                Finding::new("namespace", State::Ok, "the same PID namespace as ours")
            }
            (Ok(_), Ok(_)) => Finding::new(
                "namespace",
                State::Limited,
                "another PID namespace (a container): its own PIDs differ from ours",
            ),
            _ => Finding::new("namespace", State::Denied, "its PID namespace may not be read")
                .mended_by("sudo trainmon …"),
        });
        Ok(findings)
    }
}

/// Whether one file of a process may be read.
fn access(folder: &Path, what: &'static str, use_of_it: &str) -> Finding {
    let path = folder.join(what);
    let tried = if what == "fd" { std::fs::read_dir(&path).map(drop) } else { text_of(&path).map(drop) };
    // wchan does not refuse: it reads 0 to those who may not see it, as it does for a running thread.
    let hidden = what == "wchan"
        && std::fs::metadata(folder.join("fd")).is_ok()
        && std::fs::read_dir(folder.join("fd")).is_err();
    let (state, detail) = match tried {
        Ok(()) if hidden => (State::Denied, format!("reads 0 without the right to see more; {use_of_it}")),
        Ok(()) => (State::Ok, use_of_it.to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            (State::Denied, format!("{use_of_it}: may not be read"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            (State::Absent, format!("{use_of_it}: not in this kernel, or the process has just ended"))
        }
        Err(error) => (State::Denied, format!("{use_of_it}: {error}")),
    };
    let finding = Finding::new(what, state, detail);
    if state == State::Denied { finding.mended_by("sudo trainmon …") } else { finding }
}

fn gpu_finding(answer: Option<Result<GpuFacts, GpuError>>) -> Finding {
    match answer {
        None => Finding::new(
            "nvml",
            State::Hung,
            format!("the driver has not answered within {} s", GPU_TIMEOUT.as_secs()),
        )
        .mended_by("see sudo dmesg for Xid errors; everything else goes on without it"),
        Some(Ok(facts)) if facts.devices.is_empty() => {
            Finding::new("nvml", State::Absent, "the driver answers, with no device")
        }
        Some(Ok(facts)) => {
            let driver = facts.driver.map(|driver| format!("driver {driver}; ")).unwrap_or_default();
            Finding::new("nvml", State::Ok, format!("{driver}{}", facts.devices.join(", ")))
        }
        Some(Err(error)) => {
            let state = match error.kind {
                GpuErrorKind::Absent => State::Absent,
                GpuErrorKind::Denied => State::Denied,
                GpuErrorKind::Lost | GpuErrorKind::Failed => State::Limited,
            };
            let finding = Finding::new("nvml", state, error.reason);
            match error.mend {
                Some(mend) => finding.mended_by(mend),
                None => finding,
            }
        }
    }
}

/// The py-spy that would be used: for a process, also the one beside its interpreter.
fn py_spy(settings: &Settings, environment: &impl Fn(&str) -> Option<OsString>) -> Finding {
    if let Some(pid) = settings.call.pid {
        let target = ProcessId { pid, start_ticks: 0 };
        return match PySpy::find(&settings.proc_root, target, settings.py_spy.as_deref()) {
            Ok(found) => Finding::new(
                "py-spy",
                State::Ok,
                format!("{}, version {}", found.program().display(), found.version()),
            ),
            Err(refusal) => {
                let finding = Finding::new("py-spy", State::Absent, refusal.reason);
                match refusal.mend {
                    Some(mend) => finding.mended_by(mend),
                    None => finding,
                }
            }
        };
    }
    let found = match &settings.py_spy {
        Some(path) => Some(path.clone()).filter(|path| path.is_file()),
        None => on_path("py-spy", environment),
    };
    match found {
        Some(path) => Finding::new("py-spy", State::Ok, path.display().to_string()),
        None => Finding::new(
            "py-spy",
            State::Absent,
            "not on the path: worker stages and source lines are named only where the target's own environment has it",
        )
        .mended_by("pip install py-spy"),
    }
}

fn on_path(program: &str, environment: &impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = environment("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

fn terminal(environment: &impl Fn(&str) -> Option<OsString>) -> Finding {
    let utf8 = if crate::config::utf8_locale(environment) { "UTF-8" } else { "ASCII only" };
    let is = |name: &str, part: &str| environment(name).is_some_and(|value| value.to_string_lossy().contains(part));
    let colours = if environment("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        "no colours (NO_COLOR)"
    } else if is("COLORTERM", "truecolor") || is("COLORTERM", "24bit") {
        "16 million colours"
    } else if is("TERM", "256") {
        "256 colours"
    } else {
        "16 colours"
    };
    if !std::io::stdout().is_terminal() {
        return Finding::new("terminal", State::Absent, "standard output is none: use --log or diagnose here");
    }
    match crossterm::terminal::size() {
        Ok((columns, rows)) if columns < 80 || rows < 24 => Finding::new(
            "terminal",
            State::Limited,
            format!("{columns}×{rows}, {utf8}, {colours}; the screen wants 80×24"),
        )
        .mended_by("make the window larger, or use --log"),
        Ok((columns, rows)) => Finding::new("terminal", State::Ok, format!("{columns}×{rows}, {utf8}, {colours}")),
        Err(error) => Finding::new("terminal", State::Limited, format!("size unknown: {error}")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use unicode_width::UnicodeWidthStr;

    use super::*;
    use crate::config::{Call, PID_MAX};

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

    fn absent() -> Result<GpuFacts, GpuError> {
        Err(GpuError::new(GpuErrorKind::Absent, "libnvidia-ml.so.1 not found").mended_by("install the driver"))
    }

    fn nothing(_: &str) -> Option<OsString> {
        None
    }

    fn state(findings: &[Finding], what: &str) -> State {
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
            assert!(fine || finding.mend.is_some(), "{finding:?}");
        }
        let text = render(&findings);
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
        assert_eq!(super::findings(&of(PID_MAX), absent, nothing).unwrap_err().exit, Exit::NoProcess);
    }
}
