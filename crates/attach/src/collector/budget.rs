//! How much CPU time taking stacks may use, and how long it pauses when that is spent.
//!
//! A look usually takes 25 to 60 ms. It can take a hundred times as much: py-spy 0.4.3 needs 2.8 s of CPU time for one second of a
//! process with 100 Python threads, 30 frames deep.

use std::time::Duration;

/// Share of one CPU that taking stacks may use. Looks at an ordinary job, one after another, use 2 to 5%.
pub(super) const SHARE: f64 = 0.05;
/// What may be saved up, seconds of CPU time: a young verdict wants many looks at once.
const SAVED_MOST_S: f64 = 1.5;

/// What is left to spend, seconds of CPU time; less than zero after a look that cost more than what was left.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CpuBudget {
    left_s: f64,
}

impl Default for CpuBudget {
    fn default() -> Self {
        Self { left_s: SAVED_MOST_S }
    }
}

impl CpuBudget {
    /// A look began this long after the last one had begun, and took so much CPU time.
    pub(super) fn spend(&mut self, since_last: Duration, cpu: Duration) {
        let saved_s = (self.left_s + since_last.as_secs_f64() * SHARE).min(SAVED_MOST_S);
        self.left_s = saved_s - cpu.as_secs_f64();
    }

    /// How long nothing may be spent.
    pub(super) fn pause(&self) -> Duration {
        Duration::from_secs_f64((-self.left_s).max(0.0) / SHARE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(1);

    #[test]
    fn an_ordinary_look_never_pauses() {
        let mut budget = CpuBudget::default();
        for _ in 0..1000 {
            budget.spend(WINDOW, Duration::from_millis(50));
            assert_eq!(budget.pause(), Duration::ZERO);
        }
    }

    #[test]
    fn expensive_looks_use_no_more_than_their_share() {
        let (mut budget, mut passed, mut spent) = (CpuBudget::default(), Duration::ZERO, Duration::ZERO);
        let cpu = Duration::from_millis(2800);
        let mut since = Duration::ZERO;
        while passed < Duration::from_secs(600) {
            budget.spend(since, cpu);
            spent += cpu;
            since = 7 * WINDOW + budget.pause();
            passed += since;
        }
        let share = spent.as_secs_f64() / passed.as_secs_f64();
        assert!((0.04..0.054).contains(&share), "{share}");
    }

    #[test]
    fn what_is_not_used_is_saved_up_to_a_limit() {
        let mut budget = CpuBudget::default();
        budget.spend(Duration::from_secs(3600), Duration::from_secs_f64(SAVED_MOST_S + SHARE));
        assert!((budget.pause().as_secs_f64() - 1.0).abs() < 1e-6, "{budget:?}");
    }
}
