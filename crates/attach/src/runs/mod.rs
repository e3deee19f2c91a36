//! Runs that are over, read as a whole: recordings, logs, traces of profilers. What is missing at their end is told on standard
//! error.

pub mod traces;
pub mod whole;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use trainmon_base::errors;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::pipeline::Pipeline;
use trainmon_rates::GpuChoice;
use trainmon_sample::Sample;
use trainmon_sources::recording::Recording;

/// The verdict of a recording, with a note of what is missing at its end, which is told on standard error, too. `each` sees the
/// samples, and says whether to go on.
pub fn verdict(
    path: &Path,
    gpus: Option<&[GpuChoice]>,
    mut each: impl FnMut(&Sample) -> bool,
) -> anyhow::Result<(Arc<Verdict>, Option<String>)> {
    let mut recording = Recording::open(path).with_context(|| format!("recording {}", path.display()))?;
    let pipeline = Pipeline::of_recording(&recording.header, gpus);
    let mut damage = None;
    let whole = recording.by_ref().map_while(|sample| sample.map_err(|error| damage = Some(error)).ok());
    let Ok(verdict) = pipeline.last_verdict(whole.take_while(|sample| each(sample)).map(Ok::<_, Infallible>));
    with_its_end(verdict, recording.ended_early(damage.as_ref()), path)
}

/// What was made of a recording, with a note of what is missing at its end. That is one line on standard error, too, or where
/// nothing could be made of it, the error.
pub fn with_its_end<T>(made: Option<T>, missing: Option<String>, path: &Path) -> anyhow::Result<(T, Option<String>)> {
    let line = |why: &str| format!("recording {}: {why}", path.display());
    match (made, missing) {
        (Some(made), missing) => {
            missing.iter().for_each(|why| errors::note(&line(why)));
            Ok((made, missing))
        }
        (None, Some(why)) => anyhow::bail!(line(&why)),
        (None, None) => anyhow::bail!(line("no samples in it: it was stopped before the first")),
    }
}
