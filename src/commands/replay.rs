//! `trainmon replay`: a recording on the screen, read piece by piece so that its first moment shows at once.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::cli::ReplayArgs;
use crate::config::Settings;
use crate::errors::Failure;
use crate::jobs::JobEvent;
use crate::jobs::session::block_on;
use crate::pipeline::Pipeline;
use crate::rates::{GpuChoice, RatesOptions};
use crate::sample::recording::Header;
use crate::sources::recording::Recording;

/// Samples taken in between two looks at the keyboard.
const PIECE: usize = 20;

/// Reads a recording, and makes ticks of its samples.
pub struct Player {
    recording: Recording<File>,
    pipeline: Pipeline,
    over: bool,
}

/// Shows a recording.
///
/// # Errors
/// One line: the file is no recording, or there is no terminal.
pub fn run(settings: &Settings, arguments: &ReplayArgs) -> anyhow::Result<ExitCode> {
    let player = Player::open(&arguments.file, settings.gpus.as_deref())?;
    super::live::terminal_or(&format!("trainmon diagnose --replay {}", arguments.file.display()))?;
    block_on(super::screen::replay(player, settings))
}

/// A pipeline for the samples recorded under `header`. `gpus` are devices named by hand, instead of those that were named
/// when it was recorded.
#[must_use]
pub fn pipeline(header: &Header, gpus: Option<&[GpuChoice]>) -> Pipeline {
    let named = || header.gpus.iter().filter_map(|gpu| gpu.parse().ok()).collect();
    Pipeline::of_recording(header, RatesOptions { gpus: gpus.map_or_else(named, <[GpuChoice]>::to_vec) })
}

impl Player {
    /// Opens a recording. `gpus` as for [`pipeline`].
    ///
    /// # Errors
    /// One line: the file is no recording.
    pub fn open(path: &Path, gpus: Option<&[GpuChoice]>) -> anyhow::Result<Self> {
        let recording = Recording::open(path)
            .map_err(|error| Failure::failed(format!("cannot replay {}: {error}", path.display())))?;
        let pipeline = pipeline(recording.header(), gpus);
        Ok(Self { recording, pipeline, over: false })
    }

    /// The recording's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        self.recording.header()
    }

    /// The next few moments; for ever once all have come. Cancel safe.
    pub async fn next(&mut self) -> Vec<JobEvent> {
        if self.over {
            std::future::pending::<()>().await;
        }
        // Keys come first.
        tokio::task::yield_now().await;
        let mut events = Vec::new();
        for _ in 0..PIECE {
            let note = match self.recording.next() {
                Some(Ok(sample)) => {
                    let tick = self.pipeline.push(Arc::new(sample));
                    let alive = tick.alive;
                    events.push(JobEvent::Tick(tick));
                    if alive {
                        continue;
                    }
                    None
                }
                Some(Err(error)) => Some(format!("the recording cannot be read on: {error}")),
                None => self.recording.note().map(|note| format!("the recording {note}")),
            };
            events.push(JobEvent::Loaded(note));
            self.over = true;
            break;
        }
        events
    }
}
