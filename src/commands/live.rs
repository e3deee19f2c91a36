//! `trainmon` without a command: the live screen, or the headless log.

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;

use crate::config::Settings;
use crate::errors::Failure;
use crate::outputs::log;

use super::session::{Session, block_on};
use super::{headless, screen};

/// `trainmon` without a command.
///
/// # Errors
/// One line.
pub fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let pid = super::pick::target(settings)?;
    attach(settings, pid, None)
}

/// Watches `pid` on the screen or into the log; `simulated` is the file of a simulated device instead of NVML.
///
/// # Errors
/// One line.
pub fn attach(settings: &Settings, pid: u32, simulated: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(log_settings) = &settings.log {
        let session = Session::attach(settings, pid, simulated)?;
        let opened = log::open(log_settings)?;
        return block_on(headless::run(session, opened, log_settings));
    }
    terminal_or(&format!("trainmon --pid {pid} --log -` or `trainmon diagnose --pid {pid}"))?;
    block_on(async { screen::run(Session::attach(settings, pid, simulated)?, settings, pid).await })
}

/// Refuses to draw where there is no terminal.
///
/// # Errors
/// Usage, with the command that does without one.
pub fn terminal_or(instead: &str) -> Result<(), Failure> {
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("the screen needs a terminal; without one use `{instead}`")))
}
