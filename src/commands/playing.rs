//! `trainmon replay`: a recording on the screen, read piece by piece so that its first moment shows at once.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::ReplayArgs;
use crate::config::Settings;
use crate::errors::Failure;
use crate::history::archive::Limits;
use crate::sample::recording::Header;
use crate::sources::recording::Recording;

use super::fold::{Fold, fold_of};
use super::session::block_on;
use super::watching::Arrived;

/// How much of a recording is kept for looking at: a day, packed.
pub const LIMITS: Limits = Limits { span: Duration::from_secs(26 * 3600), bytes: 256 << 20 };

/// Samples taken in between two looks at the keyboard.
const PIECE: usize = 20;

/// Reads a recording, and folds its samples to frames and verdicts.
pub struct Player {
    recording: Recording<File>,
    fold: Fold,
    over: bool,
}

/// Shows a recording.
///
/// # Errors
/// One line: the file is no recording, or there is no terminal.
pub fn run(settings: &Settings, arguments: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let player = Player::open(&arguments.file, settings)?;
    super::live::terminal_or(&format!("trainmon diagnose --replay {}", arguments.file.display()))?;
    block_on(super::screen::replay(player, settings))
}

impl Player {
    fn open(path: &Path, settings: &Settings) -> anyhow::Result<Self> {
        let recording = Recording::open(path)
            .map_err(|error| Failure::failed(format!("cannot replay {}: {error}", path.display())))?;
        let fold = fold_of(recording.header(), settings.gpus.as_deref());
        Ok(Self { recording, fold, over: false })
    }

    /// The recording's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.recording.header()
    }

    /// The next few moments; for ever once all have come. Cancel safe.
    pub async fn next(&mut self) -> Arrived<'_> {
        if self.over {
            std::future::pending::<()>().await;
        }
        // Keys come first.
        tokio::task::yield_now().await;
        let (mut ticks, mut loaded) = (Vec::new(), None);
        for _ in 0..PIECE {
            let sample = match self.recording.next() {
                Some(Ok(sample)) => Arc::new(sample),
                Some(Err(error)) => {
                    loaded = Some(Some(format!("the recording cannot be read on: {error}")));
                    break;
                }
                None => {
                    loaded = Some(self.recording.note().map(|note| format!("the recording {note}")));
                    break;
                }
            };
            let tick = self.fold.next(sample);
            let alive = tick.alive();
            ticks.push(tick);
            if !alive {
                loaded = Some(None);
                break;
            }
        }
        self.over = loaded.is_some();
        Arrived::recorded(ticks, &mut self.fold, loaded)
    }
}
