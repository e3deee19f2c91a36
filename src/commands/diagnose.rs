//! `trainmon diagnose`: watch, print one verdict, exit.

use std::process::ExitCode;

use crate::cli::DiagnoseArgs;
use crate::config::Settings;

/// Watches the target and prints its verdict.
///
/// # Errors
/// One line.
pub fn run(settings: &Settings, _arguments: &DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let _pid = super::pick::target(settings)?;
    anyhow::bail!("not wired yet")
}
