//! The live screen and the headless log.

use std::path::Path;
use std::process::ExitCode;

use crate::config::Settings;

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
pub fn attach(_settings: &Settings, _pid: u32, _simulated: Option<&Path>) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not wired yet")
}
