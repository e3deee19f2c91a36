//! What the loop did in each interval, corrected so that over the verdict's window it is what the verdict says.
//!
//! The sampler alone cannot tell a thread that spins until the GPU is done from one that works, nor a batch that a
//! thread of the program makes from a wait for something else. The verdict can, but only over many samples. So the
//! sampler's numbers would contradict the number beside them. Charts, reports, the log and the metrics all take the loop's time
//! from here.

use std::collections::VecDeque;

use trainmon_sample::SourceState;
use trainmon_waits::Frame;
use trainmon_waits::frame::RankRates;
use trainmon_waits::time_split::TimeSplit;

use super::Verdict;
use super::subject::Subject;

/// Most intervals that are remembered: the longest window of a verdict is a minute, at ten a second.
const INTERVALS: usize = 600;
/// A window is given to a tenth of a second.
const SLACK_S: f64 = 0.1;

/// What the sampler saw in the last intervals.
#[derive(Debug, Clone, Default)]
pub struct LoopTime {
    recent: VecDeque<LoopInterval>,
}

#[derive(Debug, Clone, Copy)]
struct LoopInterval {
    /// CLOCK_MONOTONIC at its end, seconds.
    end_s: f64,
    seconds: f64,
    /// Shares of it.
    seen: TimeSplit,
}

impl LoopTime {
    /// The shares of the loop's time in this interval; `None` without samples, and before the first stacks: the sampler alone takes
    /// much for something else. With several ranks, the mean of the ranks' own: the verdict's are of one rank.
    pub fn shares(&mut self, frame: &Frame, verdict: &Verdict) -> Option<TimeSplit> {
        if frame.gap {
            self.recent.clear();
        }
        let (Some(told), [rank]) = (verdict.shares, &*frame.ranks) else { return frame.loop_shares() };
        let seen = measured(rank)?;
        if verdict.seen.get(&Subject::Stacks).is_some_and(|state| *state == SourceState::Pending.seen()) {
            return None;
        }
        let end_s = frame.monotonic_ns as f64 / 1e9;
        let seconds = if frame.seconds.is_finite() { frame.seconds.max(0.0) } else { 0.0 };
        self.recent.push_back(LoopInterval { end_s, seconds, seen });
        if self.recent.len() > INTERVALS {
            self.recent.pop_front();
        }
        if verdict.main_thread.is_none() && rank.measured_s.is_some() {
            // After a change the verdict's window has no stacks for a while; the frame still has the newest.
            return frame.loop_shares();
        }
        let mean = self.mean(end_s - verdict.window_s - SLACK_S).unwrap_or(seen);
        moved(&seen, &mean, &told).or(Some(seen))
    }

    /// The mean over the intervals since `begin_s`.
    fn mean(&self, begin_s: f64) -> Option<TimeSplit> {
        let inside = self.recent.iter().rev().take_while(|one| one.end_s - one.seconds >= begin_s);
        let mut sum = TimeSplit::default();
        inside.for_each(|one| sum += one.seen.map(|share| share * one.seconds));
        sum.shares_of(sum.total())
    }
}

/// What the sampler saw of a rank, as shares.
fn measured(rank: &RankRates) -> Option<TimeSplit> {
    let seconds = rank.measured().map(|s| if s.is_finite() { s.max(0.0) } else { 0.0 });
    seconds.shares_of(seconds.total())
}

/// `seen` with that part of each kind of time moved to others that turned out to be something else, where `told` is what `mean`
/// turned out to be: intervals that differ stay different, and their mean becomes `told`.
fn moved(seen: &TimeSplit, mean: &TimeSplit, told: &TimeSplit) -> Option<TimeSplit> {
    let (seen, mean, told) = (seen.values(), mean.values(), told.values());
    let gains = told.iter().zip(mean).map(|(told, mean)| (told - mean).max(0.0));
    let gained: f64 = gains.clone().sum();
    let stays = |(mean, told): (f64, f64)| if mean > told { told.max(0.0) / mean } else { 1.0 };
    let mut out = seen;
    for (share, both) in out.iter_mut().zip(mean.into_iter().zip(told)) {
        *share *= stays(both);
    }
    let taken = 1.0 - out.iter().sum::<f64>();
    if gained > 0.0 {
        out.iter_mut().zip(gains).for_each(|(share, gain)| *share += taken * gain / gained);
    }
    let out = TimeSplit::from(out);
    if out.total().is_finite() { out.shares_of(out.total()) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diagnosis::verdict::Class;

    fn frame(split_s: TimeSplit) -> Frame {
        Frame { seconds: 1.0, ranks: vec![RankRates { split_s, ..RankRates::default() }], ..Frame::default() }
    }

    fn verdict(shares: Option<TimeSplit>) -> Verdict {
        Verdict { class: Class::Cpu, shares, window_s: 12.0, ..Verdict::default() }
    }

    #[test]
    fn a_loop_that_spins_is_drawn_as_the_verdict_says() {
        let works = frame(TimeSplit { host_busy: 1.0, ..TimeSplit::default() });
        let told = verdict(Some(TimeSplit { device_sync: 0.6, host_busy: 0.4, ..TimeSplit::default() }));
        let mut time = LoopTime::default();
        for _ in 0..3 {
            let shares = time.shares(&works, &told).unwrap();
            assert!((shares.device_sync - 0.6).abs() < 1e-9 && (shares.host_busy - 0.4).abs() < 1e-9, "{shares:?}");
        }
    }

    #[test]
    fn the_mean_over_the_verdicts_window_is_what_the_verdict_says() {
        // The thread is blocked or runs; the verdict knows that it runs to make batches, nine times in ten.
        let seen = |blocked| TimeSplit { device_sync: blocked, host_busy: 1.0 - blocked, ..TimeSplit::default() };
        let told = TimeSplit { input_wait: 0.63, device_sync: 0.3, host_busy: 0.07, ..TimeSplit::default() };
        let rows = [0.0, 0.3, 0.6].map(|blocked| moved(&seen(blocked), &seen(0.3), &told).unwrap().input_wait);
        assert!((rows.iter().sum::<f64>() / 3.0 - 0.63).abs() < 1e-9, "{rows:?}");
        assert!((rows[0] - 0.9).abs() < 1e-9 && (rows[2] - 0.36).abs() < 1e-9, "{rows:?}");
    }

    #[test]
    fn before_the_first_stacks_nothing_is_known() {
        let split = TimeSplit { other: 0.9, host_busy: 0.1, ..TimeSplit::default() };
        let mut told = verdict(Some(split));
        told.seen.insert(Subject::Stacks, "pending".into());
        assert_eq!(LoopTime::default().shares(&frame(split), &told), None);
        told.seen.insert(Subject::Stacks, "absent".into());
        assert_eq!(LoopTime::default().shares(&frame(split), &told), Some(split));
    }

    #[test]
    fn a_second_that_differs_stays_different() {
        let split = |input_wait| TimeSplit { input_wait, host_busy: 1.0 - input_wait, ..TimeSplit::default() };
        let told = verdict(Some(split(0.5)));
        let mut time = LoopTime::default();
        for _ in 0..5 {
            time.shares(&frame(split(0.2)), &told);
            time.shares(&frame(split(0.8)), &told);
        }
        assert!(time.shares(&frame(split(0.9)), &told).unwrap().input_wait > 0.8);
    }

    #[test]
    fn without_a_verdict_or_with_several_ranks_it_is_what_was_seen() {
        let split = TimeSplit { input_wait: 0.25, host_busy: 0.75, ..TimeSplit::default() };
        assert_eq!(LoopTime::default().shares(&frame(split), &verdict(None)), Some(split));
        let mut both = frame(split);
        both.ranks.push(both.ranks[0].clone());
        let told = verdict(Some(TimeSplit { other: 1.0, ..TimeSplit::default() }));
        assert_eq!(LoopTime::default().shares(&both, &told), Some(split));
        assert_eq!(LoopTime::default().shares(&Frame::default(), &told), None);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_one(
            ticks in prop::collection::vec((prop::array::uniform5(0.0f64..1.0), any::<f64>(), any::<f64>()), 1..20),
        ) {
            let mut time = LoopTime::default();
            for (split, told, seconds) in ticks {
                let told = verdict(Some(TimeSplit { device_sync: told, ..TimeSplit::default() }));
                let frame = Frame { seconds, ..frame(split.into()) };
                if let Some(shares) = time.shares(&frame, &told) {
                    prop_assert!((shares.total() - 1.0).abs() < 1e-6, "{shares:?}");
                    prop_assert!(shares.values().into_iter().all(|share| share >= 0.0), "{shares:?}");
                }
            }
        }
    }
}
