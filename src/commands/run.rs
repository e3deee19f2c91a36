//! `trainmon run -- CMD`: start a program and attach to it.

use std::process::ExitCode;

use crate::cli::RunArgs;
use crate::config::Settings;

/// Starts the program and watches it; its exit code is passed on.
///
/// # Errors
/// One line.
pub fn run(_settings: &Settings, _arguments: &RunArgs) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not wired yet")
}
