//! When to count, so that the job hardly notices: windows whose lengths follow from the rate that was just seen. Pure.
//!
//! A hit costs 1 µs on bare metal and up to 10 µs on virtual machines, for a trap into the kernel (measured with loops of calls; the
//! kernel's docs name no figure). The breakpoints are in the job's memory a little longer than a window: the kernel puts them in and
//! takes them out one after the other. So the hits of all that time count, not only those of the windows.

/// Shortest window, and the first one, seconds.
pub const SHORTEST_S: f64 = 0.005;
/// Share of the time since the first window that the job may lose.
pub const MOST_LOST: f64 = 0.005;
/// What a hit is taken to cost, seconds, if not even more was measured.
pub const HIT_S: f64 = 10e-6;
/// Around a window, the breakpoints are in place this much longer, seconds (measured on Linux 6.18 with two CPUs).
const AROUND_S: f64 = 0.020;
/// Longest window, seconds.
const LONGEST_S: f64 = 3600.0;

/// The windows of one group of probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeSchedule {
    /// What a hit costs, seconds.
    hit_s: f64,
    /// Share of the time that this group may cost.
    may_cost: f64,
    /// Hits per second of the job at its usual speed; `None` before the first window.
    rate: Option<f64>,
}

impl ProbeSchedule {
    /// A group that may cost so much of the time, where a hit costs `hit_s`.
    pub fn new(may_cost: f64, hit_s: f64) -> Self {
        Self { hit_s: hit_s.max(HIT_S), may_cost, rate: None }
    }

    /// Takes what a window saw: so many hits in so many seconds.
    pub fn seen(&mut self, hits: u64, length_s: f64) {
        let hits = hits as f64;
        // Meanwhile the job was slower.
        let usual_s = (length_s - hits * self.hit_s).max(length_s / 100.0);
        self.rate = (usual_s > 0.0).then_some(hits / usual_s);
    }

    /// The length of a window that may begin now, if one may: `elapsed_s` since the first began, when `hits` had come so far.
    pub fn window_s(&self, elapsed_s: f64, hits: u64) -> Option<f64> {
        let Some(rate) = self.rate else { return Some(SHORTEST_S) };
        let spent_s = hits as f64 * self.hit_s;
        let left_s = self.may_cost * elapsed_s - spent_s;
        // Share of its time that the job loses within a window.
        let loses = rate * self.hit_s / (1.0 + rate * self.hit_s);
        let length_s = if loses > self.may_cost {
            (left_s - loses * AROUND_S) / (loses - self.may_cost)
        } else if left_s > loses * AROUND_S {
            LONGEST_S
        } else {
            0.0
        };
        // A longer one is worth more than several short ones: what is around it costs as well.
        (length_s >= AROUND_S).then(|| length_s.min(LONGEST_S))
    }

    /// Whether a window must end early: more hits came than it may cost.
    pub fn is_spent(&self, elapsed_s: f64, hits: u64) -> bool {
        self.rate.is_some() && hits as f64 * self.hit_s > self.may_cost * elapsed_s
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lets a job with so many calls a second be counted for so long: what it lost, and how long it was counted, seconds.
    fn counted(calls_per_s: f64, for_s: f64, hit_s: f64) -> (f64, f64) {
        let mut schedule = ProbeSchedule::new(MOST_LOST / 2.0, HIT_S);
        let (mut now, mut hits, mut counted) = (0.0, 0, 0.0);
        while now < for_s {
            let Some(length) = schedule.window_s(now, hits) else {
                now += 0.001;
                continue;
            };
            let length = length.min(for_s - now);
            let probed = calls_per_s / (1.0 + calls_per_s * hit_s);
            let within = (probed * length) as u64;
            hits += within + (probed * AROUND_S) as u64;
            schedule.seen(within, length);
            counted += length;
            now += length + AROUND_S;
        }
        (hits as f64 * hit_s, counted)
    }

    #[test]
    fn rare_calls_are_counted_all_the_time_and_frequent_ones_in_short_windows() {
        assert!(counted(100.0, 3.0, HIT_S).1 > 2.8);
        let (lost, time) = counted(100_000.0, 60.0, HIT_S);
        assert!(lost < 0.0025 * 60.0 && time > 0.1, "{lost} {time}");
    }

    #[test]
    fn the_first_window_is_the_shortest() {
        assert_eq!(ProbeSchedule::new(MOST_LOST, 1e-6).window_s(0.0, 0), Some(SHORTEST_S));
    }

    #[test]
    fn a_burst_ends_a_window() {
        let mut schedule = ProbeSchedule::new(MOST_LOST, HIT_S);
        assert!(!schedule.is_spent(0.0, 500), "the first is not to be cut");
        schedule.seen(0, SHORTEST_S);
        assert!(!schedule.is_spent(1.0, 499));
        assert!(schedule.is_spent(1.0, 501));
    }

    proptest! {
        #[test]
        fn the_job_loses_no_more_than_it_may(calls_per_s in 0.0..5e6_f64, hit_us in 0.5..10.0_f64) {
            let (lost, _) = counted(calls_per_s, 60.0, hit_us * 1e-6);
            prop_assert!(lost <= 0.0026 * 60.0, "{}", lost);
        }
    }
}
