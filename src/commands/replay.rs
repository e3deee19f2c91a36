//! `trainmon replay`: a recording on the screen.

use std::path::Path;

use crate::config::Settings;
use crate::errors::ExitCode;
use crate::jobs::recorded::Player;
use crate::jobs::session::block_on;

/// Shows a recording.
pub fn run(settings: &Settings, file: &Path) -> anyhow::Result<ExitCode> {
    let player = Player::open(file, settings.gpus.as_deref())?;
    super::live::terminal_or(&format!("trainmon diagnose --replay {}", file.display()))?;
    block_on(super::screen::replay(player, settings))
}
