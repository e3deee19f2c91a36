//! Steps of the training loop, counted without its help: torch's queue-feeding threads write once for each batch index.
//!
//! An index is handed out when the loop takes a batch, so the counter rises by one each step, except at the start of an
//! epoch: there the loader hands out `prefetch_factor × num_workers` indices at once, and the same number of steps at
//! the end of the epoch hand out none. The burst is not counted when it comes (it would read as a second of very fast
//! steps) but when the next set of workers starts, because by then those steps were taken. With persistent workers the
//! set of feeding threads stays, and the burst looks the same as the quick steps that follow a stall: there it is
//! counted at once.

use super::frame::TimedSteps;

/// prefetch_factor's default in torch's `DataLoader`: indices handed out to each worker when an epoch starts.
const PREFETCH: u64 = 2;

/// The burst at the start of a set of workers is over within this time, nanoseconds. It takes a few milliseconds.
const SETTLE_NS: u64 = 500_000_000;

/// A second loader that ends within this time was for validation, nanoseconds: the first one hands out nothing meanwhile. Two that
/// feed the loop together stay.
const ASIDE_NS: u64 = 10_000_000_000;

/// Most lengths kept for one interval.
pub(super) const LENGTHS: usize = 256;

/// What one interval's readings show.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Stepped {
    /// Steps; `None` without two readings to compare.
    pub steps: Option<u64>,
    /// Seconds of each finished step, at most [`LENGTHS`].
    pub lengths: Vec<f32>,
    /// When they were finished, at most [`LENGTHS`].
    pub timed: Vec<TimedSteps>,
}

/// Carries the counter from one interval to the next.
#[derive(Debug, Default)]
pub(super) struct StepCounter {
    queue_threads: Option<u32>,
    /// The last reading.
    pub(super) last: Option<(u64, u64)>,
    last_rise: Option<u64>,
    settling_since: Option<u64>,
    /// Indices handed out in this set's burst, whose steps come at the end of the epoch; `None` if unknown.
    burst: Option<u64>,
    /// The reading before a second loader began beside the first.
    beside: Option<(u64, u64)>,
}

impl StepCounter {
    /// Takes the readings (time in nanoseconds, counter) of one interval, in time order.
    pub(super) fn fold(&mut self, queue_threads: u32, readings: &[(u64, u64)]) -> Stepped {
        if self.is_joined(queue_threads, readings) {
            self.beside = self.last;
        }
        self.queue_threads = Some(queue_threads);
        let mut out = Stepped::default();
        for &(at, count) in readings {
            let before = self.last.replace((at, count));
            let Some((read_ns, before)) = before else {
                if count <= PREFETCH.saturating_mul(queue_threads.into()) {
                    self.settling_since = Some(at);
                }
                continue;
            };
            let began = self.beside.take_if(|(since, _)| count < before || at.saturating_sub(*since) > ASIDE_NS);
            if let Some(steps) = began.and_then(|(_, began)| count.checked_sub(began))
                && count < before
            {
                // It ended, and what it has handed out is gone from the sum.
                out.steps = Some(out.steps.unwrap_or(0).saturating_add(steps));
                self.last_rise = None;
                continue;
            }
            let Some(rise) = count.checked_sub(before) else {
                let taken = self.burst.take().unwrap_or(PREFETCH.saturating_mul(queue_threads.into())).min(before);
                out.steps = Some(out.steps.unwrap_or(0).saturating_add(taken));
                self.last_rise = None;
                self.settling_since = Some(at);
                continue;
            };
            if let Some(since) = self.settling_since {
                let in_time = at.saturating_sub(since) < SETTLE_NS;
                if in_time && (rise > 0 || count < queue_threads.into()) {
                    continue;
                }
                self.settling_since = None;
                self.burst = Some(before);
            }
            out.steps.get_or_insert(0);
            if rise > 0 && self.beside.is_none() {
                out.steps = out.steps.map(|steps| steps.saturating_add(rise));
                self.lengths(&mut out.lengths, at, rise);
                let before = self.last_rise.replace(at);
                if let (Some(from_ns), true) = (before, out.timed.len() < LENGTHS) {
                    let within_ns = at.saturating_sub(read_ns);
                    out.timed.push(TimedSteps { from_ns, to_ns: at, steps: rise, within_ns });
                }
            }
        }
        out
    }

    /// Forgets the time of the last step and the counter's value: across a gap nothing is counted.
    pub(super) fn rebase(&mut self, queue_threads: u32, readings: &[(u64, u64)]) {
        self.last = readings.last().copied();
        self.last_rise = None;
        self.settling_since = None;
        self.beside = None;
        self.queue_threads = Some(queue_threads);
    }

    /// Whether a second loader began beside the first: there are more feeding threads while the counter did not fall, and it rose at
    /// once by its prefetch, at least one index per new thread.
    fn is_joined(&self, queue_threads: u32, readings: &[(u64, u64)]) -> bool {
        let more = self.queue_threads.and_then(|before| queue_threads.checked_sub(before)).filter(|more| *more > 0);
        let Some((more, (_, mut before))) = more.zip(self.last) else { return false };
        let mut most = 0;
        for &(_, count) in readings {
            let Some(rise) = count.checked_sub(before) else { return false };
            (before, most) = (count, most.max(rise));
        }
        most >= u64::from(more).max(2)
    }

    /// `rise` steps have ended since the last one; they share the time.
    fn lengths(&self, lengths: &mut Vec<f32>, at: u64, rise: u64) {
        let Some(ns) = self.last_rise.and_then(|since| at.checked_sub(since)) else { return };
        let each = (ns as f64 / rise as f64 / 1e9) as f32;
        let room = LENGTHS.saturating_sub(lengths.len());
        let count = usize::try_from(rise).unwrap_or(usize::MAX).min(room);
        lengths.extend(std::iter::repeat_n(each, count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn fold(counter: &mut StepCounter, queue_threads: u32, readings: &[(u64, u64)]) -> Stepped {
        let readings: Vec<_> = readings.iter().map(|&(ms, count)| (ms * MS, count)).collect();
        counter.fold(queue_threads, &readings)
    }

    #[test]
    fn steps_share_the_time_between_two_rises() {
        let mut counter = StepCounter::default();
        let out = fold(&mut counter, 4, &[(0, 100), (100, 101), (200, 101), (300, 103)]);
        assert_eq!(out.steps, Some(3));
        assert_eq!(out.lengths, [0.1, 0.1], "the first has no beginning");
        let two = TimedSteps { from_ns: 100 * MS, to_ns: 300 * MS, steps: 2, within_ns: 100 * MS };
        assert_eq!(out.timed, [two], "which of the two was longer is not known");
        let out = fold(&mut counter, 4, &[(400, 103), (900, 104)]);
        let timed = TimedSteps { from_ns: 300 * MS, to_ns: 900 * MS, steps: 1, within_ns: 500 * MS };
        assert_eq!(out, Stepped { steps: Some(1), lengths: vec![0.6], timed: vec![timed] });
        assert_eq!(fold(&mut counter, 4, &[]).steps, None);
        assert_eq!(fold(&mut counter, 4, &[(1000, 104)]).steps, Some(0));
    }

    #[test]
    fn the_burst_of_a_new_set_is_not_counted() {
        let mut counter = StepCounter::default();
        fold(&mut counter, 4, &[(0, 100), (100, 101)]);
        // Next epoch: the set is new, 16 indices go out at once over three readings.
        let out = fold(&mut counter, 4, &[(200, 3), (220, 11), (240, 16), (260, 16), (700, 17), (800, 18)]);
        assert_eq!(out.steps, Some(8 + 2), "the eight that the old set's burst had handed out, and two");
        assert_eq!(out.lengths, [0.1]);
        let out = fold(&mut counter, 4, &[(900, 18), (1000, 4), (1020, 16), (1040, 16), (1400, 16)]);
        assert_eq!(out.steps, Some(16), "as many as the burst that was seen");
    }

    #[test]
    fn attached_at_the_start_of_an_epoch() {
        let mut counter = StepCounter::default();
        let out = fold(&mut counter, 2, &[(0, 0), (20, 4), (40, 4), (60, 4), (400, 5)]);
        assert_eq!(out.steps, Some(1));
        assert!(out.lengths.is_empty());
    }

    #[test]
    fn a_second_loader_beside_the_first() {
        let mut counter = StepCounter::default();
        fold(&mut counter, 4, &[(0, 100), (100, 101)]);
        let out = fold(&mut counter, 8, &[(200, 102), (220, 110), (300, 111), (380, 125)]);
        assert_eq!(out.steps, Some(0), "these may all be of the second one");
        let out = fold(&mut counter, 4, &[(400, 103), (420, 103), (500, 104)]);
        assert_eq!(out.steps, Some(2 + 1), "the first loader's, once the second one's are gone");
        assert_eq!(fold(&mut counter, 4, &[(600, 106)]).steps, Some(2));
    }

    #[test]
    fn a_second_loader_that_stays_feeds_the_loop() {
        let mut counter = StepCounter::default();
        fold(&mut counter, 4, &[(0, 100), (100, 101)]);
        fold(&mut counter, 8, &[(200, 110), (9_000, 500)]);
        let out = fold(&mut counter, 8, &[(10_200, 510), (10_300, 512)]);
        assert_eq!(out.steps, Some(10 + 2));
    }

    #[test]
    fn fast_steps_end_the_settling_by_time() {
        let mut counter = StepCounter::default();
        fold(&mut counter, 4, &[(0, 900)]);
        let readings: Vec<_> = (0..20).map(|i| (100 + i * 100, 8 + i * 50)).collect();
        let out = fold(&mut counter, 4, &readings);
        assert_eq!(out.steps, Some(8 + 15 * 50));
        assert_eq!(out.lengths.len(), LENGTHS);
    }

    #[test]
    fn a_gap_is_not_a_step() {
        let mut counter = StepCounter::default();
        fold(&mut counter, 4, &[(0, 100), (100, 101)]);
        counter.rebase(4, &[(60_000 * MS, 700)]);
        let out = fold(&mut counter, 4, &[(60_100, 701), (60_200, 702)]);
        assert_eq!(out.steps, Some(2));
        assert_eq!(out.lengths, [0.1]);
    }
}
