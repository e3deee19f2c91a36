//! What a run was like, added up tick by tick: for how long it was watched, what held it back, what its loop did.
//!
//! The sums stay after the archive has let go of the moments themselves: a night is summed up from its beginning.

use std::sync::Arc;

use super::timeline::loop_shares;
use crate::diagnosis::verdict::{Advice, Class, Verdict};
use crate::pipeline::same_cause;
use crate::rates::Frame;
use crate::rates::time_split::TimeSplit;

/// A stretch of time in which one class and cause stood.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The first verdict that said so.
    pub verdict: Arc<Verdict>,
    /// Its length, seconds.
    pub seconds: f64,
    /// Wall clock at the end of its first interval, milliseconds since 1970.
    pub from_unix_ms: i64,
}

/// All the time of one class and cause.
#[derive(Debug, Clone)]
pub struct CauseTime {
    /// The newest verdict that said so.
    pub verdict: Arc<Verdict>,
    /// Seconds.
    pub seconds: f64,
}

/// The sums so far.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// Time watched, seconds; gaps not counted.
    pub watched_s: f64,
    /// Steps counted.
    pub steps: Option<u64>,
    /// The longest time for which class and cause did not change.
    pub longest: Option<Stretch>,
    /// What the loops' threads did, seconds.
    pub split_s: TimeSplit,
    running: Option<Stretch>,
    causes: Vec<CauseTime>,
}

impl Totals {
    /// Adds an interval with its verdict. A gap, in which nothing was seen, counts for nothing.
    pub fn push(&mut self, frame: &Frame, verdict: &Arc<Verdict>) {
        let seconds = if frame.gap || !frame.seconds.is_finite() { 0.0 } else { frame.seconds.max(0.0) };
        self.watched_s += seconds;
        self.steps = verdict.steps.count.or(self.steps);
        if let Some(shares) = loop_shares(frame) {
            self.split_s += shares.map(|share| share * seconds);
        }
        if let Some(known) = self.causes.iter_mut().find(|known| same_cause(&known.verdict, verdict)) {
            known.seconds += seconds;
            known.verdict = Arc::clone(verdict);
        } else {
            self.causes.push(CauseTime { verdict: Arc::clone(verdict), seconds });
        }
        self.stretch(frame, verdict, seconds);
    }

    fn stretch(&mut self, frame: &Frame, verdict: &Arc<Verdict>, seconds: f64) {
        match &mut self.running {
            Some(running) if !frame.gap && same_cause(&running.verdict, verdict) => running.seconds += seconds,
            running => {
                let verdict = Arc::clone(verdict);
                *running = Some(Stretch { verdict, seconds, from_unix_ms: frame.unix_ms });
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

    /// The class and cause that held the run back for the longest time in all.
    pub fn costliest(&self) -> Option<&CauseTime> {
        self.longest_of(|v| !v.is_healthy() && !matches!(v.class, Class::Idle | Class::Unknown))
    }

    /// First advice of the verdict with advice that stood longest in all.
    pub fn advice(&self) -> Option<&Advice> {
        self.longest_of(|verdict| !verdict.advice.is_empty())?.verdict.advice.first()
    }

    fn longest_of(&self, wanted: impl Fn(&Verdict) -> bool) -> Option<&CauseTime> {
        let found = self.causes.iter().filter(|known| known.seconds > 0.0 && wanted(&known.verdict));
        found.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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
            totals.push(&frame, &verdict(Class::Cpu, None));
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
                totals.push(&Frame { seconds, gap, ..frame(n as u64) }, &verdict);
            }
            prop_assert!(totals.causes.len() <= 100 && totals.watched_s >= 0.0);
        }
    }
}
