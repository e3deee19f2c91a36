//! `trainmon replay`: a recording or a trace on the screen.

use std::path::Path;

use super::{live, screen};
use crate::config::Settings;
use trainmon_attach::jobs::recorded::Player;
use trainmon_attach::jobs::session::block_on;
use trainmon_attach::runs::traces;
use trainmon_base::errors::ExitCode;

/// Shows a recording or a trace.
pub fn run(settings: &Settings, file: &Path) -> anyhow::Result<ExitCode> {
    if traces::is_trace(file)? {
        let verdict = traces::verdict(&[file])?;
        live::terminal_or(&format!("trainmon diagnose {}", file.display()))?;
        return block_on(screen::trace(verdict, settings));
    }
    let player = Player::open(file, settings.gpus.as_deref())?;
    live::terminal_or(&format!("trainmon diagnose --replay {}", file.display()))?;
    block_on(screen::replay(player, settings))
}
