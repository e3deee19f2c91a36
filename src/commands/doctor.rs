//! `trainmon doctor`: what trainmon can read here, what it cannot, and the command that fixes it.

use std::ffi::OsString;
use std::io::IsTerminal;

use crate::config::Settings;
use trainmon_attach::doctor::{self, DoctorFinding, DoctorOptions, State, Told, fixed, gpus, told};
use trainmon_base::errors::{ExitCode, Failure};
use trainmon_base::text::wrap_hanging;
use trainmon_sample::{GpuSample, SourceStatus};
use trainmon_sources::Roots;
use trainmon_tui::Theme;
use trainmon_tui::theme::Depth;

/// Runs the command.
///
/// # Errors
/// No such process (with `--pid`), or standard output cannot be written.
pub fn run(settings: &Settings, as_json: bool) -> anyhow::Result<ExitCode> {
    let findings = findings(settings, gpus(super::sources(settings, None)), |name| std::env::var_os(name))?;
    if as_json {
        return super::print_json(&serde_json::json!({
            "schema": 1, "trainmon": env!("CARGO_PKG_VERSION"), "pid": settings.call.pid, "findings": findings,
        }));
    }
    super::print(render(&findings, settings.call.pid))
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
    let options = DoctorOptions {
        roots: Roots { proc: settings.proc_root.clone(), sys: settings.sys_root.clone() },
        pid: settings.call.pid,
        ptrace: settings.ptrace,
        py_spy: settings.py_spy.as_deref(),
        path: environment("PATH"),
    };
    doctor::findings(&options, gpu, terminal(settings.ascii, &environment))
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
    use trainmon_sample::SourceState;
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
