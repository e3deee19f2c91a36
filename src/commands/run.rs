//! `trainmon run -- CMD`: start a program and attach to it.
//!
//! It takes the place of the program, also as a container's entry point: signals go on to the program ([`program`]),
//! process 1 collects orphans ([`init`]), and once the program has started its status is the status of the whole.
//! Any other failure is reported on one line.
//!
//! Where Yama lets only ancestors attach (ptrace_scope 1), py-spy, a sibling of the program, may not. A process may allow it for
//! itself, though, and the leave outlasts an exec: the program is then started through this executable, which gives the leave and
//! becomes the program. Its data-loader workers give none, so py-spy gets no stacks of them.

mod init;
mod program;

use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{PTracer, getppid, set_ptracer};

use super::output::{Output, OutputReader};
use crate::config::Settings;
use program::{Forwarder, ProcessGroup};
use trainmon_attach::jobs::session::{EndSignals, Reopening, Session, block_on};
use trainmon_base::errors::{ExitCode, Failure, exit_of, note, report};
use trainmon_base::text::secrets;
use trainmon_profiling::kineto::USE_DAEMON;

/// This executable.
const OWN: &str = "/proc/self/exe";
/// First argument of this executable where it becomes the program. Not offered to people: [`crate::cli`] knows nothing of it.
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

/// Starts the program and watches it; its exit code is passed on.
///
/// With `--log` the program keeps the terminal to itself. Under the screen its output goes to a file, of which the screen
/// shows the last lines; they are printed when the screen is left. Leaving the screen does not end the program.
///
/// # Errors
/// What keeps the program from starting.
pub fn run(settings: &Settings, program: &[OsString], profiler: bool) -> anyhow::Result<ExitCode> {
    let Some((name, rest)) = program.split_first() else {
        return Err(Failure::usage("run needs a program: trainmon run -- python train.py").into());
    };
    if let Some(code) = init::run() {
        return Ok(code);
    }
    let mut command = command_for(name, rest, &settings.proc_root);
    if profiler {
        may_be_profiled(&mut command);
    }
    let mut output = None;
    let mut group = ProcessGroup::Shared;
    if settings.call.log.is_none() {
        super::live::terminal_or("trainmon run --log FILE -- …")?;
        let file = Output::create()?;
        command.stdin(Stdio::null()).stdout(file.for_program()?).stderr(file.for_errors()?);
        // Python holds 8 KiB of what it prints into a file back, and nothing of it on a terminal.
        if std::env::var_os("PYTHONUNBUFFERED").is_none() {
            command.env("PYTHONUNBUFFERED", "1");
        }
        output = Some(file);
        group = ProcessGroup::Own;
    }
    let forwarder = Forwarder::listen(group)?;
    let program = forwarder.start(&mut command).map_err(|why| cannot_start(name, why))?;
    if command.get_program() == OWN {
        wait_until_it_is_the_program(program.id());
    }
    // A program that is over before it could be watched is no failure of the watching.
    let reader = output.as_ref().and_then(|output| output.reader().ok());
    if let Err(error) = unwinding_stops_here(|| watch(settings, program.id(), reader))
        && exit_of(&error) != ExitCode::NO_PROCESS
    {
        let _ = report(&error);
    }
    if output.is_some() && !program.has_ended() {
        let pid = program.id();
        note(&format!("process {pid} keeps running; waiting for it to end (Ctrl-C interrupts it)"));
    }
    let status = program.wait()?;
    if let Some(output) = output {
        output.show();
    }
    Ok(code(status))
}

/// Watches the program on the screen or into the log.
fn watch(settings: &Settings, pid: u32, output: Option<OutputReader>) -> anyhow::Result<ExitCode> {
    let options = super::attach_options(settings, pid, None);
    let Some(path) = &settings.call.log else {
        block_on(async { super::screen::live(Session::attach(options)?, settings, output).await })?;
        return Ok(ExitCode::DONE);
    };
    // Signals are for the program.
    let unheard = || Ok((EndSignals::never(), Reopening::never()));
    let session = Session::attach(options)?;
    super::log::run(session, path, settings.call.existing(), unheard).map(|_| ExitCode::DONE)
}

/// A bug of ours must not leave the program alone: its status is still waited for, and signals go on to it.
fn unwinding_stops_here(watching: impl FnOnce() -> anyhow::Result<ExitCode>) -> anyhow::Result<ExitCode> {
    // The state that the panic has left behind is not used again.
    let watched = std::panic::catch_unwind(AssertUnwindSafe(watching));
    watched.unwrap_or_else(|_| Err(anyhow::anyhow!("watching failed; the program keeps running")))
}

/// The program, or what becomes it once py-spy has leave to attach.
fn command_for(program: &OsString, rest: &[OsString], proc_root: &Path) -> Command {
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
fn may_be_profiled(command: &mut Command) {
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
fn wait_until_it_is_the_program(pid: u32) {
    let own = std::fs::read_link(OWN).ok();
    let is_own = || own.is_some() && std::fs::read_link(format!("/proc/{pid}/exe")).ok() == own;
    let begun = Instant::now();
    while is_own() && begun.elapsed() < BECOMES {
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn cannot_start(program: &OsString, why: std::io::Error) -> anyhow::Error {
    let name = program.to_string_lossy();
    let script =
        if name.ends_with(".py") { format!(" (a script: trainmon run -- python {name})") } else { String::new() };
    anyhow::Error::new(why).context(secrets::line(&format!("cannot start {name}{script}")).into_owned())
}

/// The program's exit code; 128 + N for one that signal N has ended, as a shell gives it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode(u8::try_from(code & 0xff).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_while_watching_is_an_error() {
        let watched = unwinding_stops_here(|| panic!("a bug"));
        assert!(watched.is_err_and(|error| error.to_string().contains("the program keeps running")));
    }
}
