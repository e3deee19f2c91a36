//! How the program of `trainmon run` is started.
//!
//! Where Yama lets only ancestors attach (ptrace_scope 1), py-spy, a sibling of the program, may not. A process may allow it for
//! itself, though, and the leave outlasts an exec: the program is then started through this executable, which gives the leave and
//! becomes the program. Its data-loader workers give none, so py-spy gets no stacks of them.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{PTracer, getppid, set_ptracer};

use super::OWN;
use trainmon_base::errors::ExitCode;
use trainmon_base::text::secrets;
use trainmon_profiling::kineto::USE_DAEMON;

/// First argument of this executable where it becomes the program. Not offered to people: the command line knows nothing of it.
const BECOME: &str = "become-program";
/// Yama lets only ancestors attach.
const ANCESTORS_ONLY: &str = "1";
/// The variable for what libkineto logs, and a level above all of its own (libkineto/src/ILoggerObserver.h ends at 6).
const LOG_LEVEL: &str = "KINETO_LOG_LEVEL";
const NOTHING_LOGGED: &str = "99";
/// Longest time that the start of the program is waited for.
const BECOMES: Duration = Duration::from_secs(1);
/// Between two looks whether it has started.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The program, or what becomes it once py-spy has leave to attach.
pub fn command(program: &OsString, rest: &[OsString], proc_root: &Path) -> Command {
    let scope = std::fs::read_to_string(proc_root.join("sys/kernel/yama/ptrace_scope")).unwrap_or_default();
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if scope.trim() == ANCESTORS_ONLY && !is_root {
        let mut command = Command::new(OWN);
        command.arg(BECOME).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(rest);
    command
}

/// Lets `trainmon profile` ask the program: libkineto then looks for a daemon. Without one it
/// would complain in the program's output every ten seconds, so what it logs is left out unless the user wants it.
pub fn may_be_profiled(command: &mut Command) {
    for (variable, value) in [(USE_DAEMON, "1"), (LOG_LEVEL, NOTHING_LOGGED)] {
        if std::env::var_os(variable).is_none() {
            command.env(variable, value);
        }
    }
}

/// Becomes the program that the arguments name, if they ask for that. It returns where the program cannot be started.
pub fn run_part(arguments: &[OsString]) -> Option<ExitCode> {
    let (_, [word, program, rest @ ..]) = arguments.split_first()? else { return None };
    if word != BECOME {
        return None;
    }
    // The leave is a convenience: where the kernel knows no such call the program starts all the same.
    let _ = set_ptracer(getppid().map_or(PTracer::None, PTracer::ProcessID));
    let failed = Command::new(program).args(rest).exec();
    Some(trainmon_base::errors::report(&cannot_start(program, failed)))
}

/// What is attached to is the program, not this executable on its way to become it: an exec takes some milliseconds.
pub fn wait_until_it_runs(command: &Command, pid: u32) {
    if command.get_program() != OWN {
        return;
    }
    let own = std::fs::read_link(OWN).ok();
    let is_own = || own.is_some() && std::fs::read_link(format!("/proc/{pid}/exe")).ok() == own;
    let begun = Instant::now();
    while is_own() && begun.elapsed() < BECOMES {
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Why a program was not started, in one line.
pub fn cannot_start(program: &OsString, why: std::io::Error) -> anyhow::Error {
    let name = program.to_string_lossy();
    let script =
        if name.ends_with(".py") { format!(" (a script: trainmon run -- python {name})") } else { String::new() };
    anyhow::Error::new(why).context(secrets::line(&format!("cannot start {name}{script}")).into_owned())
}
