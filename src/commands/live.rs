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
    // A terminal that can hold no screen gets the question in lines.
    let asks_in_lines = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    if settings.call.log.is_some() || asks_in_lines || !is_terminal() {
        return attach(settings, super::pick::target(settings)?, None);
    }
    match super::pick::certain(settings)? {
        Ok(pid) => attach(settings, pid, None),
        Err(_) => block_on(async {
            let (session, pid) = super::pick_screen::run(settings).await?;
            screen::run(session, settings, pid).await
        }),
    }
}

fn is_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

/// Watches `pid` on the screen or into the log; `simulated` is the file of a simulated device instead of NVML.
///
/// # Errors
/// One line.
pub fn attach(settings: &Settings, pid: u32, simulated: Option<&Path>) -> anyhow::Result<ExitCode> {
    if let Some(log_settings) = &settings.call.log_settings() {
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
    if is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("the screen needs a terminal; without one use `{instead}`")))
}
