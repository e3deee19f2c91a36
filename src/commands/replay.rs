//! `trainmon replay`: a recording on the screen.

use std::process::ExitCode;

use crate::cli::ReplayArgs;
use crate::config::Settings;
use crate::jobs::recorded::Player;
use crate::jobs::session::block_on;

/// Shows a recording.
///
/// # Errors
/// One line: the file is no recording, or there is no terminal.
pub fn run(settings: &Settings, arguments: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let player = Player::open(&arguments.file, settings.gpus.as_deref())?;
    super::live::terminal_or(&format!("trainmon diagnose --replay {}", arguments.file.display()))?;
    block_on(super::screen::replay(player, settings))
}
