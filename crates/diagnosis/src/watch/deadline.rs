//! `deadline`: at its pace the run will not be done before its time limit ends it.
//!
//! How far it has come is told by a progress bar in its output, or by the loop's own variables. Both may be about one epoch of many:
//! then the run takes even longer, so a run that is told to be too slow is too slow. Only time in which the job trains counts, and of the
//! paces of the last minute and the last quarter of an hour the faster one.

use std::collections::VecDeque;

use super::lasting::{Lasting, LastingRule, Turn};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::verdict::Phase;
use trainmon_base::text::format::duration;
use trainmon_sample::ProgressBar;

/// The paces are measured over so many seconds of training.
const SPANS_S: [f64; 2] = [60.0, 900.0];
/// A pace needs so many seconds, and so many different readings: bars are written seldom where steps are long.
const LEAST_S: f64 = 12.0;
const LEAST_READINGS: usize = 3;
/// Time that is missing at the end, part of what the rest needs: less is within what a pace varies.
const MISSING: f64 = 0.05;
/// And at least so many seconds: near the end a part of the rest is next to nothing.
const LEAST_MISSING_S: f64 = 60.0;
/// Readings kept: one in a few seconds for a quarter of an hour.
const MOST: usize = 400;
/// A pace is not known better before.
const RULE: LastingRule = LastingRule { begins_s: 15.0, most_s: 1800.0, ends_s: 300.0 };

/// Seconds of training until then, and turns done.
type PaceReading = (f64, f64);

/// Whether the run will be done in time.
#[derive(Debug)]
pub(super) struct Deadline {
    trained_s: f64,
    /// Turns in all, of the readings that follow.
    total: f64,
    readings: VecDeque<PaceReading>,
    lasting: Lasting,
}

impl Default for Deadline {
    fn default() -> Self {
        Self { trained_s: 0.0, total: 0.0, readings: VecDeque::new(), lasting: Lasting::new(RULE) }
    }
}

impl Deadline {
    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        self.readings.len() <= MOST
    }

    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Option<WatchEvent> {
        let WatchedMoment { tick, seconds } = moment;
        let ends_s = tick.sample.job.as_ref()?.run.ends_unix_s? as f64;
        let bar = progress(moment)?;
        if tick.verdict.phase != Phase::Training {
            return None;
        }
        self.trained_s += seconds;
        self.take(bar);
        let left_s = ends_s - tick.frame.unix_ms as f64 / 1e3;
        let per_s = SPANS_S.iter().filter_map(|span_s| self.pace(*span_s)).reduce(f64::max)?;
        let needs_s = (bar.total - bar.done) / per_s.max(f64::MIN_POSITIVE);
        // Beyond the limit there is nothing left to warn of.
        let late = left_s > 0.0 && needs_s * (1.0 - MISSING) > left_s && needs_s - left_s > LEAST_MISSING_S;
        let turn = self.lasting.push(late, seconds)?;
        Some(tell(bar, needs_s, left_s, turn))
    }

    fn take(&mut self, bar: ProgressBar) {
        let last = self.readings.back().map(|(_, done)| *done);
        if bar.total != self.total || last.is_some_and(|last| bar.done < last) {
            // Another loop, or the next epoch.
            self.total = bar.total;
            self.readings.clear();
        } else if last == Some(bar.done) {
            return;
        }
        self.readings.push_back((self.trained_s, bar.done));
        let longest = SPANS_S.iter().copied().fold(0.0, f64::max);
        while self.readings.len() > MOST
            || self.readings.front().is_some_and(|(at_s, _)| self.trained_s - at_s > longest)
        {
            self.readings.pop_front();
        }
    }

    /// Turns a second over the last so many seconds of training, until now.
    fn pace(&self, span_s: f64) -> Option<f64> {
        let recent = self.readings.iter().filter(|(at_s, _)| self.trained_s - at_s <= span_s);
        let (begun_s, begun) = *recent.clone().next()?;
        let (_, done) = *self.readings.back()?;
        let seconds = self.trained_s - begun_s;
        (seconds >= LEAST_S && recent.count() >= LEAST_READINGS).then(|| (done - begun) / seconds)
    }
}

/// How far the job has come.
fn progress(moment: WatchedMoment<'_>) -> Option<ProgressBar> {
    let frame = &moment.tick.frame;
    let counted = || frame.ranks.iter().find_map(|rank| rank.counted.as_ref()?.place);
    let possible = |bar: &ProgressBar| bar.done >= 0.0 && bar.total >= bar.done && bar.total.is_finite();
    frame.job.progress.or_else(counted).filter(possible)
}

fn tell(bar: ProgressBar, needs_s: f64, left_s: f64, turn: Turn) -> WatchEvent {
    let ProgressBar { done, total, .. } = bar;
    let (state, text) = match turn {
        Turn::Begins => {
            let (needs, left) = (duration(needs_s), duration(left_s));
            (
                EventState::Begins,
                format!(
                    "the run will not be done in time: {done:.0} of {total:.0} turns are done, the rest needs {needs}, and its time limit is in {left}"
                ),
            )
        }
        Turn::Ends(_) => {
            (EventState::Ends, format!("the run can be done in time again: {done:.0} of {total:.0} turns are done"))
        }
    };
    let details =
        EventDetails::Deadline { done, total, needs_s: Some(needs_s).filter(|needs_s| needs_s.is_finite()), left_s };
    WatchEvent::new(EventKind::Deadline, Some(state), text, details)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::diagnosis::Verdict;
    use crate::pipeline::Tick;
    use trainmon_rates::frame::JobRates;
    use trainmon_sample::{JobSample, RunIdentity, Sample};
    use trainmon_waits::Frame;

    /// What is told, with its second, about a run that has come so far at each second, and whose limit is at `ends_s`.
    fn told(ends_s: i64, seconds: i64, total: f64, done: impl Fn(i64) -> f64) -> Vec<(i64, EventState)> {
        let mut deadline = Deadline::default();
        let verdict = Arc::new(Verdict { phase: Phase::Training, ..Verdict::default() });
        let run = RunIdentity { ends_unix_s: Some(ends_s), ..RunIdentity::default() };
        let sample =
            Arc::new(Sample { job: Some(Arc::new(JobSample { run, ..JobSample::default() })), ..Sample::default() });
        let events = (1..=seconds).filter_map(|second| {
            let progress = Some(ProgressBar { read_ns: second as u64, done: done(second), total });
            let job = JobRates { progress, ..JobRates::default() };
            let frame = Arc::new(Frame { unix_ms: second * 1000, seconds: 1.0, job, ..Frame::default() });
            let (sample, verdict) = (Arc::clone(&sample), Arc::clone(&verdict));
            let tick = Tick { sample, frame, verdict, alive: true, ..Tick::default() };
            let event = deadline.push(WatchedMoment { tick: &tick, seconds: 1.0 })?;
            assert!(event.text.contains("in time") && deadline.is_small(), "{event:?}");
            Some((second, event.state.unwrap()))
        });
        events.collect()
    }

    #[test]
    fn a_run_that_is_too_slow_is_told_soon() {
        let slow = told(3600, 1000, 3600.0, |second| 0.8 * second as f64);
        assert!(matches!(slow.as_slice(), [(second, EventState::Begins)] if *second <= 50), "{slow:?}");
    }

    #[test]
    fn a_run_that_is_fast_enough_or_nearly_is_not() {
        assert_eq!(told(3600, 3500, 3600.0, |second| second as f64), []);
        assert_eq!(told(3600, 3500, 3600.0, |second| 0.99 * second as f64 + 30.0), []);
        // It stands for half a minute now and then.
        assert_eq!(
            told(3600, 3500, 3000.0, |second| (second - second % 300 + (second % 300).min(270)) as f64 * 1.0),
            []
        );
    }

    #[test]
    fn one_that_slows_down_and_then_catches_up_is_told_twice() {
        let turns = told(3600, 3400, 3000.0, |second| match second {
            0..=1200 => second as f64,
            1201..=2200 => 1200.0 + 0.3 * (second - 1200) as f64,
            _ => 1500.0 + 1.5 * (second - 2200) as f64,
        });
        let states: Vec<EventState> = turns.iter().map(|(_, state)| *state).collect();
        assert_eq!(states, [EventState::Begins, EventState::Ends], "{turns:?}");
    }

    #[test]
    fn the_bars_of_epochs_are_no_alarm() {
        assert_eq!(told(36_000, 10_000, 100.0, |second| (second % 100) as f64), []);
    }
}
