//! One interval of a run in the few numbers that a report or a comparison needs. It is made of a tick, of a digest in a
//! recording, or of a row of a log.

use serde::{Deserialize, Serialize};

use super::surroundings::Surroundings;
use super::timeline::{Compact, TimelinePoint};
use crate::diagnosis::Verdict;
use crate::diagnosis::verdict::{Phase, StepSource};
use trainmon_waits::Frame;
use trainmon_waits::time_split::TimeSplit;

/// When an interval was.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct WatchedTime {
    /// Wall clock at its end, milliseconds since 1970.
    pub unix_ms: i64,
    /// Its length, seconds; 0 for what was not watched.
    pub seconds: f64,
    /// It was not watched.
    pub gap: bool,
}

impl WatchedTime {
    /// The time of a frame.
    pub fn of_frame(frame: &Frame) -> Self {
        let seconds = if frame.gap || !frame.seconds.is_finite() { 0.0 } else { frame.seconds.max(0.0) };
        Self { unix_ms: frame.unix_ms, seconds, gap: frame.gap }
    }
}

/// The numbers of one interval.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Interval {
    /// When it was.
    pub time: WatchedTime,
    /// What the charts draw.
    pub point: TimelinePoint,
    /// What the job did.
    pub phase: Phase,
    /// Steps that began in it. Fractions where only a rate is known.
    pub steps: Compact,
    /// Workers of the data loader.
    pub workers: u32,
    /// The job's GPUs.
    pub gpus: u32,
    /// Their power together, W.
    pub power_w: Compact,
    /// What else the machine did.
    pub surroundings: Surroundings,
}

/// The part of an interval's other time that has the name of a wait, percent of the loop's time: as much of it as over the
/// verdict's window. `None` for several ranks: the verdict's waits are of one of them.
fn named_waits(frame: &Frame, verdict: &Verdict, shares: Option<TimeSplit>) -> Option<f64> {
    if frame.ranks.len() > 1 {
        return None;
    }
    let (told, shares) = (verdict.shares.filter(|told| told.other > 0.0)?, shares?);
    Some((verdict.named_waits() / told.other).clamp(0.0, 1.0) * shares.other * 100.0)
}

impl Interval {
    /// The numbers of a frame and its verdict. `shares` are those of the loop's time.
    pub fn new(frame: &Frame, verdict: &Verdict, shares: Option<TimeSplit>) -> Self {
        let time = WatchedTime::of_frame(frame);
        let ours = || frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost);
        let steps = frame.ranks.first().and_then(|rank| rank.steps_in(time.seconds));
        // Between two sets of workers no batch is asked for, but time passes.
        let none = || (verdict.steps.source == Some(StepSource::QueueWrites)).then_some(0.0);
        Self {
            time,
            point: TimelinePoint {
                named_waits: Compact::new(named_waits(frame, verdict, shares)),
                ..TimelinePoint::new(frame, verdict.class, verdict.steps.per_s, shares)
            },
            phase: verdict.phase,
            steps: Compact::new(steps.or_else(none)),
            workers: u32::try_from(frame.workers.len()).unwrap_or(u32::MAX),
            gpus: u32::try_from(ours().count()).unwrap_or(u32::MAX),
            power_w: Compact::new(ours().filter_map(|gpu| gpu.power_w).reduce(|a, b| a + b)),
            surroundings: Surroundings::of_frame(frame),
        }
    }

    /// Its seconds and steps, if it belongs to training and its steps are known: the mean step time and the mean rate of a
    /// run are those of its training.
    pub fn trained(&self) -> Option<(f32, f32)> {
        let steps = self.steps.get()?;
        (self.phase == Phase::Training).then_some((self.time.seconds as f32, steps))
    }

    /// The shares of the loop's time.
    pub fn shares(&self) -> Option<TimeSplit> {
        self.point.shares.map(|shares| TimeSplit::from(shares.map(f64::from)))
    }
}
