//! Samples → frames → verdicts: the part of a session that has no clock. A live run and a recording go through the same
//! one, so the same samples give the same verdicts.

use std::io::Read;
use std::sync::Arc;

use crate::diagnosis::{Context, Diagnosis, Verdict};
use crate::history::{History, Mark};
use crate::rates::{Frame, GpuChoice, Rates, RatesOptions};
use crate::sample::Sample;
use crate::sample::recording::Header;
use crate::sources::recording::{Recording, RecordingError};
use crate::text::sanitise;

/// What one tick brought.
#[derive(Debug)]
pub struct Tick {
    /// The raw sample.
    pub sample: Arc<Sample>,
    /// Its rates.
    pub frame: Frame,
}

impl Tick {
    /// Whether the target is still there.
    #[must_use]
    pub fn alive(&self) -> bool {
        self.sample.job.as_ref().is_none_or(|job| job.alive)
    }
}

/// Rates and diagnosis of one attachment.
#[derive(Debug)]
pub struct Fold {
    rates: Rates,
    diagnosis: Diagnosis,
}

impl Fold {
    /// A fold that has seen nothing yet. `gpus` are the devices named by hand.
    #[must_use]
    pub fn new(context: Context, gpus: &[GpuChoice]) -> Self {
        Self { rates: Rates::new(RatesOptions { gpus: gpus.to_vec() }), diagnosis: Diagnosis::new(context) }
    }

    /// The tick of the next sample.
    pub fn next(&mut self, sample: Arc<Sample>) -> Tick {
        let frame = self.rates.next(Arc::clone(&sample));
        Tick { sample, frame }
    }

    /// Judges the history, whose newest frame is that of `sample`.
    pub fn judge(&mut self, history: &History, sample: &Sample) -> Verdict {
        self.diagnosis.observe(history, sample)
    }

    /// The mark of the verdict that stands, for the newest frame.
    #[must_use]
    pub fn mark(&self, sequence: u64) -> Mark {
        self.diagnosis.mark(sequence)
    }
}

/// The verdict that stands after a series of ticks: what `diagnose` prints.
#[derive(Debug, Default)]
pub struct Standing {
    history: History,
    verdict: Option<Verdict>,
}

impl Standing {
    /// Takes the next tick, and tells whether the target lives on.
    pub fn take(&mut self, fold: &mut Fold, tick: Tick) -> bool {
        let alive = tick.alive();
        // The run's own verdict says more than that it has ended.
        if alive || self.verdict.is_none() {
            self.history.push(tick.frame);
            self.verdict = Some(fold.judge(&self.history, &tick.sample));
        }
        alive
    }

    /// The verdict so far.
    #[must_use]
    pub fn latest(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The verdict, once a sample has been taken.
    #[must_use]
    pub fn verdict(self) -> Option<Verdict> {
        self.verdict
    }
}

/// The verdict that stands at the end of a recording; none where it holds no samples. `gpus` are devices named by hand,
/// instead of those that were named when it was recorded.
///
/// # Errors
/// [`RecordingError`], for a line that is not a sample.
pub fn replay<R: Read>(
    recording: &mut Recording<R>,
    gpus: Option<&[GpuChoice]>,
) -> Result<Option<Verdict>, RecordingError> {
    let header = recording.header().clone();
    judge_all(&header, gpus, recording)
}

/// The verdict that stands after all of `samples`, recorded under `header`; none without samples. `gpus` as for
/// [`replay`].
///
/// # Errors
/// The first of the samples that is one.
pub fn judge_all<E>(
    header: &Header,
    gpus: Option<&[GpuChoice]>,
    samples: impl IntoIterator<Item = Result<Sample, E>>,
) -> Result<Option<Verdict>, E> {
    let mut fold = fold_of(header, gpus);
    let mut standing = Standing::default();
    for sample in samples {
        let tick = fold.next(Arc::new(sample?));
        if !standing.take(&mut fold, tick) {
            break;
        }
    }
    Ok(standing.verdict())
}

/// A fold for the samples recorded under `header`. `gpus` as for [`replay`].
#[must_use]
pub fn fold_of(header: &Header, gpus: Option<&[GpuChoice]>) -> Fold {
    let named: Vec<GpuChoice> = header.gpus.iter().filter_map(|gpu| gpu.parse().ok()).collect();
    Fold::new(context(header), gpus.unwrap_or(&named))
}

/// What a recording's header says about the session.
fn context(header: &Header) -> Context {
    Context {
        pid: header.pid,
        command: sanitise(&header.command).into_owned(),
        started: sanitise(&header.started).into_owned(),
    }
}
