//! `slower`: steps take longer than they did.
//!
//! Steps are counted in blocks of a few seconds of training. The median of the newest blocks is compared with that of the last hour.
//! A single stall, such as saving state, is one block, however long, and does not move a median. How many blocks are the newest
//! depends on how much this job's blocks differ: an even job is judged after fifteen seconds, an uneven one later.

use std::collections::VecDeque;

use super::lasting::{Lasting, LastingRule, Turn};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::verdict::Phase;
use trainmon_base::stats;
use trainmon_base::text::format;
use trainmon_waits::Frame;

/// Shortest block, seconds of training. Its steps are counted whole.
const BLOCK_S: f64 = 4.0;
/// Blocks that are remembered: an hour of training.
const PAST: usize = 900;
/// Before so many blocks, three minutes, the job has no past: caches are cold and kernels are being chosen.
const LEAST_PAST: usize = 45;
/// Newest blocks: the fewest whose median ten slow seconds at the begin of an epoch do not move, and the most, five minutes.
const NEWEST: (usize, usize) = (5, 75);
/// Newest blocks that are not counted where training is interrupted: the verdict names another phase some seconds after it began.
const UNSETTLED: usize = 3;
/// A difference must be this many standard errors of the median of the newest blocks: by chance once in some thousand
/// blocks, and seldom for two in a row that are both slow.
const SURE: f64 = 3.5;
/// Standard error of a median of n values over their deviation, times the square root of n, for a normal distribution.
const OF_MEDIAN: f64 = 1.25;
/// Standard deviations of a normal distribution between its first and its last tenth.
const BETWEEN_TENTHS: f64 = 2.563;
/// The spread of n values may be larger than it seems by this over n.
const FEW: f64 = 10.0;
const RULE: LastingRule = LastingRule { begins_s: 6.0, most_s: 1200.0, ends_s: 20.0 };
/// Steps are as before when this part of the difference has gone.
const BACK: f64 = 0.5;

/// Whether steps take longer than they did.
#[derive(Debug)]
pub(super) struct SlowSteps {
    /// Logarithm of the ratio from which on they are told.
    threshold: f64,
    /// The block that is being filled: seconds and steps.
    open: (f64, f64),
    /// Logarithms of the step time of each block in seconds, oldest first. None is added while steps are told to be slower.
    past: VecDeque<f32>,
    /// The newest blocks.
    newest: VecDeque<f32>,
    lasting: Lasting,
    /// The job does something else than training.
    interrupted: bool,
    /// The median of the past when it was told.
    usual: Option<f64>,
}

/// Seconds of training and the steps in them, of the first loop whose steps are known.
fn steps(frame: &Frame, seconds: f64) -> Option<(f64, f64)> {
    frame.ranks.iter().find_map(|rank| {
        if !rank.step_lengths_s.is_empty() {
            let sum: f64 = rank.step_lengths_s.iter().map(|seconds| f64::from(*seconds)).sum();
            return Some((sum, rank.step_lengths_s.len() as f64));
        }
        // A step that has not ended counts when it has.
        let counted = rank.counted.as_ref()?;
        let counts = rank.steps.is_none() && counted.per_s > 0.0;
        counts.then_some((seconds, counted.per_s * seconds))
    })
}

/// The value below which this part of the values lies.
fn quantile(values: &VecDeque<f32>, part: f64) -> Option<f64> {
    stats::quantile(values.iter().copied().map(f64::from), part)
}

impl SlowSteps {
    pub(super) fn new(slower: f64) -> Self {
        Self {
            threshold: slower.max(0.0).ln_1p(),
            open: (0.0, 0.0),
            past: VecDeque::new(),
            newest: VecDeque::new(),
            lasting: Lasting::new(RULE),
            interrupted: false,
            usual: None,
        }
    }

    /// Training is interrupted: what was counted last may belong to something else.
    fn interrupt(&mut self) {
        if !std::mem::replace(&mut self.interrupted, true) {
            self.open = (0.0, 0.0);
            self.newest.truncate(self.newest.len().saturating_sub(UNSETTLED));
        }
    }

    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Option<WatchEvent> {
        let frame = &moment.tick.frame;
        if frame.gap {
            // The step that spans it tells nothing.
            self.open = (0.0, 0.0);
            return None;
        }
        if moment.tick.verdict.phase != Phase::Training {
            self.interrupt();
            return None;
        }
        self.interrupted = false;
        let (seconds, count) = steps(frame, moment.seconds)?;
        if !(seconds > 0.0 && seconds.is_finite() && count.is_finite()) {
            return None;
        }
        self.open = (self.open.0 + seconds, self.open.1 + count);
        if self.open.0 < BLOCK_S || self.open.1 < 1.0 {
            return None;
        }
        let (seconds, count) = std::mem::take(&mut self.open);
        self.add((seconds / count).ln() as f32, seconds)
    }

    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        self.past.len() <= PAST && self.newest.len() <= NEWEST.1 + 1
    }

    /// Adds a block of so many seconds.
    fn add(&mut self, block: f32, seconds: f64) -> Option<WatchEvent> {
        self.newest.push_back(block);
        let (Some(median), Some(low), Some(high)) =
            (quantile(&self.past, 0.5), quantile(&self.past, 0.1), quantile(&self.past, 0.9))
        else {
            self.remember(NEWEST.0);
            return None;
        };
        let usual = self.usual.unwrap_or(median);
        // The spread of few is not well known.
        let spread = (high - low) / BETWEEN_TENTHS * (1.0 + FEW / self.past.len() as f64);
        let wanted = (SURE * OF_MEDIAN * spread / self.threshold).powi(2).ceil();
        let count = (wanted as usize).clamp(NEWEST.0, NEWEST.1);
        self.remember(count);
        let now = quantile(&self.newest, 0.5)?;
        if self.past.len() < LEAST_PAST || self.newest.len() < count {
            return None;
        }
        let sure = SURE * OF_MEDIAN * spread / (count as f64).sqrt();
        let least = self.threshold.max(sure) * if self.lasting.is_told() { BACK } else { 1.0 };
        // Ten slow seconds stay in the median for twenty.
        let is_still_slow = count > NEWEST.0 || f64::from(block) - usual >= least * BACK;
        let turn = self.lasting.push(now - usual >= least && is_still_slow, seconds.min(BLOCK_S * 2.0))?;
        self.usual = (turn == Turn::Begins).then_some(usual);
        Some(tell(turn, now.exp(), usual.exp()))
    }

    /// Moves blocks that are not among the newest so many any more into the past.
    fn remember(&mut self, count: usize) {
        while self.newest.len() > count {
            let Some(block) = self.newest.pop_front() else { return };
            if self.lasting.is_told() {
                continue;
            }
            self.past.push_back(block);
            if self.past.len() > PAST {
                self.past.pop_front();
            }
        }
    }
}

fn tell(turn: Turn, step_s: f64, usual_s: f64) -> WatchEvent {
    let (step_ms, usual_step_ms, longer_pct) = (step_s * 1e3, usual_s * 1e3, (step_s / usual_s - 1.0) * 100.0);
    let (step, usual) = (format::step_time(step_ms), format::step_time(usual_step_ms));
    let (state, text) = match turn {
        Turn::Begins => {
            let longer = format::percent(Some(longer_pct));
            (EventState::Begins, format!("steps take {longer} longer than before: {step} instead of {usual}"))
        }
        Turn::Ends(_) => (EventState::Ends, format!("steps take {step} again (usual: {usual})")),
    };
    let details = EventDetails::Slower { step_ms, usual_step_ms, longer_pct };
    WatchEvent::new(EventKind::Slower, Some(state), text, details)
}
