//! When to count, so that the job hardly notices: windows whose lengths follow from the rate that was just seen. Pure.
//!
//! A hit costs 1 µs on bare metal and up to 10 µs on virtual machines, for a trap into the kernel (measured with loops of calls; the
//! kernel's docs name no figure). The breakpoints are in the job's memory a little longer than a window: the kernel puts them in and
//! takes them out one after the other. So the hits of all that time count, not only those of the windows.

/// Shortest window, and the first one, seconds.
pub(crate) const FIRST_WINDOW_S: f64 = 0.005;
/// Share of the time since the first window that the job may lose.
pub(crate) const MOST_LOST: f64 = 0.005;
/// What a hit is taken to cost, seconds, if not even more was measured.
pub(crate) const HIT_S: f64 = 10e-6;
/// Around a window, the breakpoints are in place this much longer, seconds (measured on Linux 6.18 with two CPUs).
const AROUND_S: f64 = 0.003;
/// Windows come this often, seconds, if they need not be shorter than the first for that.
const EVERY_S: f64 = 0.25;
/// Longest window, seconds.
const LONGEST_WINDOW_S: f64 = 3600.0;
/// Windows come by what they cost on average, and that is to be this much of what they may: a costly one then delays none.
const OF_BUDGET: f64 = 0.8;
/// Times between windows vary by this much, so that they are never in step with the job.
const VARIES_BY: f64 = 0.6;
/// The golden ratio's fraction, whose multiples fill a range evenly.
const GOLDEN: f64 = 0.618_033_988_749;

/// The windows of one group of probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeSchedule {
    /// What a hit costs, seconds.
    hit_s: f64,
    /// Share of the time that this group may cost.
    may_cost: f64,
    /// Hits in all windows, and how long the job would have taken for them at its usual speed, seconds.
    seen: (f64, f64),
    /// When the next window may begin, seconds since the first, and its number.
    next: (f64, u32),
}

impl ProbeSchedule {
    /// A group that may cost so much of the time, where a hit costs `hit_s`.
    pub fn new(may_cost: f64, hit_s: f64) -> Self {
        Self { hit_s: hit_s.max(HIT_S), may_cost, seen: (0.0, 0.0), next: (0.0, 0) }
    }

    /// Takes what a window saw that ends now: so many hits in so many seconds.
    ///
    /// When the next one comes, and its length, follow from all windows. If a quiet moment brought it sooner or made it longer, quiet
    /// moments would count for more.
    pub fn seen(&mut self, hits: u64, length_s: f64, elapsed_s: f64) {
        let hits = hits as f64;
        // Meanwhile the job was slower.
        let usual_s = (length_s - hits * self.hit_s).max(length_s / 100.0);
        self.seen = (self.seen.0 + hits, self.seen.1 + usual_s);
        let number = self.next.1 + 1;
        let varies = 1.0 + VARIES_BY * ((f64::from(number) * GOLDEN).fract() - 0.5);
        let gap_s = self.loses() * (self.length_s() + AROUND_S) / (OF_BUDGET * self.may_cost);
        self.next = (if self.loses() > self.may_cost { elapsed_s - length_s + varies * gap_s } else { 0.0 }, number);
    }

    /// Share of its time that the job loses within a window, on average.
    fn loses(&self) -> f64 {
        let (hits, usual_s) = self.seen;
        let lost_s = hits * self.hit_s;
        if usual_s > 0.0 { lost_s / (usual_s + lost_s) } else { 0.0 }
    }

    /// The usual length of a window.
    fn length_s(&self) -> f64 {
        let loses = self.loses();
        if loses <= self.may_cost {
            return LONGEST_WINDOW_S;
        }
        (OF_BUDGET * self.may_cost * EVERY_S / loses - AROUND_S).max(FIRST_WINDOW_S)
    }

    /// The length of a window that may begin now, if one may: `elapsed_s` since the first began, when `hits` had come so far.
    pub fn window_s(&self, elapsed_s: f64, hits: u64) -> Option<f64> {
        if self.next.1 == 0 {
            return Some(FIRST_WINDOW_S);
        }
        let (loses, length_s) = (self.loses(), self.length_s());
        let left_s = self.may_cost * (elapsed_s + length_s) - hits as f64 * self.hit_s;
        let costs_s = loses * (length_s + AROUND_S);
        (elapsed_s >= self.next.0 && left_s >= costs_s).then_some(length_s)
    }

    /// Whether a window of so many seconds must end early: more hits came than it may cost.
    pub fn is_spent(&self, length_s: f64, elapsed_s: f64, hits: u64) -> bool {
        length_s > FIRST_WINDOW_S && hits as f64 * self.hit_s > self.may_cost * elapsed_s
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a job lost, how long it was counted, seconds, and how many calls a second were counted.
    struct Counted {
        lost_s: f64,
        counted_s: f64,
        calls_per_s: f64,
    }

    /// Lets a job be counted that makes so many calls a second in the first half of each 190 ms, and so many in the other.
    fn counted((first, second): (f64, f64), for_s: f64, hit_s: f64) -> Counted {
        const TICK_S: f64 = 0.001;
        let mut schedule = ProbeSchedule::new(MOST_LOST / 2.0, HIT_S);
        let (mut now, mut hits, mut counted_s, mut calls, mut lost_s) = (0.0, 0.0, 0.0, 0.0, 0.0);
        while now < for_s {
            let Some(length_s) = schedule.window_s(now, hits as u64) else {
                now += TICK_S;
                continue;
            };
            let (begun, before) = (now, hits);
            while now < for_s && now < begun + length_s && !schedule.is_spent(now - begun, now, hits as u64) {
                let rate = if now % 0.19 < 0.095 { first } else { second };
                let within = rate / (1.0 + rate * hit_s) * TICK_S;
                (hits, lost_s, now) = (hits + within, lost_s + within * hit_s, now + TICK_S);
            }
            schedule.seen((hits - before) as u64, now - begun, now);
            (counted_s, calls) = (counted_s + now - begun, calls + hits - before);
            now += AROUND_S;
        }
        Counted { lost_s, counted_s, calls_per_s: calls / (counted_s - lost_s) }
    }

    #[test]
    fn rare_calls_are_counted_all_the_time_and_frequent_ones_in_short_windows() {
        assert!(counted((100.0, 100.0), 3.0, HIT_S).counted_s > 2.8);
        let often = counted((100_000.0, 100_000.0), 60.0, HIT_S);
        assert!(often.lost_s < 0.003 * 60.0 && often.counted_s > 0.1, "{} {}", often.lost_s, often.counted_s);
    }

    #[test]
    fn quiet_moments_count_no_more_than_others() {
        for (first, second) in [(40_000.0, 0.0), (0.0, 40_000.0), (20_000.0, 2_000.0), (100.0, 1_000.0)] {
            let counted = counted((first, second), 60.0, HIT_S);
            let share = counted.calls_per_s / ((first + second) / 2.0);
            assert!((0.7..1.4).contains(&share), "{first} {second}: {}", counted.calls_per_s);
        }
    }

    #[test]
    fn the_first_window_is_the_shortest() {
        assert_eq!(ProbeSchedule::new(MOST_LOST, 1e-6).window_s(0.0, 0), Some(FIRST_WINDOW_S));
    }

    #[test]
    fn a_burst_ends_a_longer_window() {
        let schedule = ProbeSchedule::new(MOST_LOST, HIT_S);
        assert!(!schedule.is_spent(FIRST_WINDOW_S, 0.0, 500));
        assert!(!schedule.is_spent(0.1, 1.0, 499));
        assert!(schedule.is_spent(0.1, 1.0, 501));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_job_loses_no_more_than_it_may(first in 0.0..5e6_f64, second in 0.0..5e6_f64, hit_us in 0.5..10.0_f64) {
            let lost_s = counted((first, second), 60.0, hit_us * 1e-6).lost_s;
            // Half of 0.5%, and the first window.
            prop_assert!(lost_s <= 0.0025 * 60.0 + 0.01, "{}", lost_s);
        }
    }
}
