//! A run in sums, added up tick by tick: how long it was watched, what held it back, what its loop did.
//!
//! The sums remain after the archive has dropped the moments themselves: a night is summed up from its beginning.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::diagnosis::verdict::{Advice, Class, Verdict};
use crate::pipeline::same_cause;
use crate::rates::Frame;
use crate::rates::time_split::TimeSplit;

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

/// A stretch of time with one class and cause.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The first verdict with them.
    pub verdict: Arc<Verdict>,
    /// Its length, seconds.
    pub seconds: f64,
    /// Wall clock at the end of its first interval, milliseconds since 1970.
    pub from_unix_ms: i64,
}

/// All the time of one class and cause.
#[derive(Debug, Clone)]
pub struct CauseTime {
    /// The newest verdict with them.
    pub verdict: Arc<Verdict>,
    /// Seconds.
    pub seconds: f64,
}

/// The sums so far.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Time watched, seconds, without gaps.
    pub watched_s: f64,
    /// Steps counted.
    pub steps: Option<u64>,
    /// The longest time for which class and cause did not change.
    pub longest: Option<Stretch>,
    /// What the loops did, seconds.
    pub split_s: TimeSplit,
    running: Option<Stretch>,
    causes: Vec<CauseTime>,
}

impl Totals {
    /// Adds an interval with its verdict and the shares of the loop's time. A gap, which was not watched, does not count.
    pub fn push(&mut self, frame: &Frame, verdict: &Arc<Verdict>, shares: Option<TimeSplit>) {
        self.add(WatchedTime::of_frame(frame), verdict, shares);
    }

    /// The same for what is known of a frame's time.
    pub fn add(&mut self, time: WatchedTime, verdict: &Arc<Verdict>, shares: Option<TimeSplit>) {
        let seconds = time.seconds;
        self.watched_s += seconds;
        self.steps = verdict.steps.count.or(self.steps);
        if let Some(shares) = shares {
            self.split_s += shares.map(|share| share * seconds);
        }
        if let Some(known) = self.causes.iter_mut().find(|known| same_cause(&known.verdict, verdict)) {
            known.seconds += seconds;
            known.verdict = Arc::clone(verdict);
        } else {
            self.causes.push(CauseTime { verdict: Arc::clone(verdict), seconds });
        }
        self.stretch(time, verdict);
    }

    fn stretch(&mut self, WatchedTime { seconds, gap, unix_ms }: WatchedTime, verdict: &Arc<Verdict>) {
        match &mut self.running {
            Some(running) if !gap && same_cause(&running.verdict, verdict) => running.seconds += seconds,
            running => {
                let verdict = Arc::clone(verdict);
                *running = Some(Stretch { verdict, seconds, from_unix_ms: unix_ms });
            }
        }
        if let Some(running) = &self.running
            && self.longest.as_ref().is_none_or(|longest| running.seconds > longest.seconds)
        {
            self.longest = Some(running.clone());
        }
    }

    /// Classes with their time, seconds, longest first.
    pub fn classes(&self) -> Vec<(Class, f64)> {
        let of = |class| self.causes.iter().filter(move |known| known.verdict.class == class);
        let sums = Class::ALL.map(|class| (class, of(class).map(|known| known.seconds).sum()));
        let mut classes: Vec<(Class, f64)> = sums.into_iter().filter(|(_, seconds)| *seconds > 0.0).collect();
        classes.sort_by(|a, b| b.1.total_cmp(&a.1));
        classes
    }

    /// The class and cause that held the run back for the longest total time.
    pub fn costliest(&self) -> Option<&CauseTime> {
        self.longest_of(|v| !v.is_healthy() && !matches!(v.class, Class::Idle | Class::Unknown))
    }

    /// The first advice of the verdict that has advice and lasted longest in total.
    pub fn advice(&self) -> Option<&Advice> {
        self.longest_of(|verdict| !verdict.advice.is_empty())?.verdict.advice.first()
    }

    /// Seconds in total for which class and cause were those of this verdict.
    pub fn seconds_of(&self, verdict: &Verdict) -> f64 {
        let found = self.causes.iter().find(|known| same_cause(&known.verdict, verdict));
        found.map_or(0.0, |known| known.seconds)
    }

    fn longest_of(&self, wanted: impl Fn(&Verdict) -> bool) -> Option<&CauseTime> {
        let found = self.causes.iter().filter(|known| known.seconds > 0.0 && wanted(&known.verdict));
        found.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::timeline::loop_shares;
    use super::*;
    use crate::diagnosis::causes::Cause;

    fn frame(second: u64) -> Frame {
        Frame { seconds: 1.0, unix_ms: second as i64 * 1000, ..Frame::default() }
    }

    fn verdict(class: Class, cause: Option<Cause>) -> Arc<Verdict> {
        Arc::new(Verdict { class, cause, ..Verdict::default() })
    }

    #[test]
    fn a_gap_is_no_time_and_ends_a_stretch() {
        let mut totals = Totals::default();
        for second in 0..10 {
            let mut frame = frame(second);
            if second == 6 {
                (frame.gap, frame.seconds) = (true, 28_800.0);
            }
            totals.push(&frame, &verdict(Class::Cpu, None), loop_shares(&frame));
        }
        assert_eq!((totals.watched_s, totals.longest.unwrap().seconds), (9.0, 6.0));
    }

    proptest! {
        #[test]
        fn any_ticks_give_bounded_sums(
            ticks in prop::collection::vec((any::<f64>(), any::<bool>(), 0usize..7, prop::option::of(0..Cause::ALL.len())), 0..100),
        ) {
            let mut totals = Totals::default();
            for (n, (seconds, gap, class, cause)) in ticks.into_iter().enumerate() {
                let verdict = verdict(Class::ALL[class], cause.map(|cause| Cause::ALL[cause]));
                let frame = Frame { seconds, gap, ..frame(n as u64) };
                totals.push(&frame, &verdict, loop_shares(&frame));
            }
            prop_assert!(totals.causes.len() <= 100 && totals.watched_s >= 0.0);
        }
    }
}
