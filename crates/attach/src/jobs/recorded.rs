//! A recording in the place of a live job, read piece by piece so that its first moment shows at once.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::JobEvent;
use trainmon_base::errors::Failure;
use trainmon_diagnosis::pipeline::Pipeline;
use trainmon_rates::GpuChoice;
use trainmon_sample::recording::Header;
use trainmon_sources::recording::Recording;

/// Samples read before keys have their turn.
const PIECE: usize = 20;

/// Reads a recording, and makes ticks of its samples.
#[derive(Debug)]
pub struct Player {
    recording: Recording<File>,
    pipeline: Pipeline,
    over: bool,
}

impl Player {
    /// Opens a recording. `gpus` as for [`Pipeline::of_recording`].
    pub fn open(path: &Path, gpus: Option<&[GpuChoice]>) -> Result<Self, Failure> {
        let recording = Recording::open(path)
            .map_err(|error| Failure::failed(format!("cannot replay {}: {error}", path.display())))?;
        let pipeline = Pipeline::of_recording(&recording.header, gpus);
        Ok(Self { recording, pipeline, over: false })
    }

    /// The recording's header.
    pub fn header(&self) -> &Header {
        &self.recording.header
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
                Some(Err(error)) => self.recording.ended_early(Some(&error)),
                None => self.recording.ended_early(None),
            };
            events.push(JobEvent::Loaded(note.map(|note| format!("the recording is {note}"))));
            self.over = true;
            break;
        }
        events
    }
}
