//! What the loop did in each interval, corrected so that over the verdict's window it is what the verdict says.
//!
//! The sampler alone cannot tell a thread that spins until the GPU is done from one that works, nor a batch that a
//! thread of the program makes from a wait for something else. The verdict can, but only over many samples. So a chart
//! of the sampler's numbers would contradict the number beside it.

use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::Class;
use crate::rates::Frame;
use crate::rates::time_split::TimeSplit;

use super::timeline::loop_shares;

/// Seconds over which the mean is taken: the diagnosis' usual window.
const WINDOW_S: f64 = 12.0;

/// The mean of what the sampler saw since the verdict last changed.
#[derive(Debug, Clone, Default)]
pub struct LoopTime {
    mean: TimeSplit,
    /// Seconds that the mean covers.
    seconds: f64,
    verdict: Option<(Class, Option<Cause>)>,
}

impl LoopTime {
    /// The shares of the loop's time in this interval; `None` without samples. With several ranks, those of the
    /// sampler: the verdict's are of one rank.
    pub fn shares(&mut self, frame: &Frame, verdict: &Verdict) -> Option<TimeSplit> {
        let seen = loop_shares(frame)?;
        let about = Some((verdict.class, verdict.cause));
        if self.verdict != about || frame.gap {
            *self = Self { verdict: about, ..Self::default() };
        }
        self.seconds = (self.seconds + frame.seconds.max(0.0)).min(WINDOW_S);
        let weight = if self.seconds > 0.0 { frame.seconds.max(0.0) / self.seconds } else { 1.0 };
        self.mean = combine(self.mean, seen, |mean, seen| mean + (seen - mean) * weight.min(1.0));
        let Some(told) = verdict.shares.filter(|_| frame.trainers.len() == 1) else { return Some(seen) };
        let missing = combine(told, self.mean, |told, mean| told - mean);
        let moved = combine(
            seen,
            missing,
            |seen, missing| if missing.is_finite() { (seen + missing).max(0.0) } else { seen },
        );
        moved.shares_of(moved.total()).or(Some(seen))
    }
}

fn combine(a: TimeSplit, b: TimeSplit, with: impl Fn(f64, f64) -> f64) -> TimeSplit {
    let mut values = a.values();
    for (value, other) in values.iter_mut().zip(b.values()) {
        *value = with(*value, other);
    }
    values.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rates::frame::TrainerRates;

    fn frame(split_s: TimeSplit) -> Frame {
        Frame {
            seconds: 1.0,
            trainers: vec![TrainerRates { split_s, ..TrainerRates::default() }],
            ..Frame::default()
        }
    }

    fn verdict(shares: Option<TimeSplit>) -> Verdict {
        Verdict { class: Class::Cpu, shares, ..Verdict::default() }
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
        both.trainers.push(both.trainers[0].clone());
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
