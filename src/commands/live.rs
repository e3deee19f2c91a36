//! `trainmon` without a command: the live screen, or the log.

use std::io::IsTerminal;
use std::path::Path;

use super::{LastMoment, attach_options, screen};
use crate::config::Settings;
use trainmon_attach::jobs::session::{EndSignals, Session, block_on};
use trainmon_base::errors::{self, ExitCode, Failure};
use trainmon_base::foreground;
use trainmon_tui::terminal;

/// `trainmon` without a command.
pub fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let logs = settings.call.log.is_some();
    if logs || !is_terminal() {
        // Without a log there is nothing to ask for: no screen could follow.
        return attach(settings, super::pick::choose(settings, logs)?);
    }
    match super::pick::certain(settings) {
        Ok(pid) => attach(settings, pid),
        Err(_) => {
            terminal_or("trainmon diagnose PID` or `trainmon PID --log -")?;
            block_on(async { screen::live(super::pick_screen::run(settings).await?, settings, None).await })?;
            Ok(ExitCode::DONE)
        }
    }
}

/// Whether there is a terminal to draw on and to read keys from.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal() && !is_dumb()
}

/// Whether the terminal cannot move its cursor, like the shell inside an editor.
fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Watches `pid` on the screen or into the log.
pub fn attach(settings: &Settings, pid: u32) -> anyhow::Result<ExitCode> {
    watch(settings, pid, None).map(|_| ExitCode::DONE)
}

/// Watches `pid` on the screen or into the log; `simulated` is the file of a simulated GPU instead of NVML.
pub fn watch(settings: &Settings, pid: u32, simulated: Option<&Path>) -> anyhow::Result<Option<LastMoment>> {
    let options = attach_options(settings, pid, simulated);
    if let Some(path) = &settings.call.log {
        let existing = settings.call.existing();
        return super::log::run(Session::attach(options)?, path, existing, EndSignals::listen_beside_a_file);
    }
    terminal_or(&format!("trainmon diagnose {pid}` or `trainmon {pid} --log -"))?;
    block_on(async { screen::live(Session::attach(options)?, settings, None).await })
}

/// Refuses to draw where there is no terminal, and names the command that does without one. In the background the process stops
/// until it is in the foreground: call it before anything is started.
pub fn terminal_or(instead: &str) -> Result<(), Failure> {
    let usage = |why: &str| Failure::usage(format!("{why}: use `{instead}`"));
    if !is_terminal() {
        return Err(usage(if is_dumb() {
            "TERM=dumb cannot show the screen"
        } else {
            "the screen needs a terminal"
        }));
    }
    foreground::wait(say_what_to_do).map_err(|error| usage(&error.to_string()))?;
    terminal::check_size().map_err(|error| Failure::failed(error.to_string()))
}

/// What brings the screen to the foreground.
pub fn say_what_to_do() {
    errors::note("in the background: type fg to see the screen, or use timeout --foreground");
}
