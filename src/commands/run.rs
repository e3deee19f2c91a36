//! `trainmon run -- CMD`: start a program and attach to it.
//!
//! It takes the place of the program, also as a container's entry point: signals go on to the program ([`trainmon_attach::started::program`]),
//! process 1 collects orphans ([`init`]), and once the program has started its status is the status of the whole.
//! Any other failure is reported on one line.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::panic::AssertUnwindSafe;
use std::process::{ExitStatus, Stdio};

use crate::config::Settings;
use trainmon_attach::jobs::output_file::{Output, OutputReader};
use trainmon_attach::jobs::session::{EndSignals, Reopening, Session, block_on};
use trainmon_attach::started::command::{cannot_start, command, may_be_profiled, wait_until_it_runs};
use trainmon_attach::started::init;
use trainmon_attach::started::program::{Forwarder, ProcessGroup};
use trainmon_base::errors::{ExitCode, Failure, exit_of, note, report};

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
    let mut command = command(name, rest, &settings.proc_root);
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
    wait_until_it_runs(&command, program.id());
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
