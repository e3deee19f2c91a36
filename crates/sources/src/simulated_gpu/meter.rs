//! What a reader measures of a simulated GPU between two readings: how busy it was, and how much energy it used.

use super::queue::Queue;
use super::state::SimulatedGpuState;

/// How busy a simulated GPU was over a stretch of time, shares 0–1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MeterActivity {
    /// By the owner's work.
    pub owner: f64,
    /// By the other process's work.
    pub other_process: f64,
    /// By either: their sum, at most 1 (two processes take turns on a GPU).
    pub device: f64,
}

/// A record and the CLOCK_MONOTONIC nanoseconds at which it was read.
pub type Reading = (SimulatedGpuState, u64);

/// Activity between two readings. `None` if no time has passed.
pub fn activity((before, then_ns): &Reading, (after, now_ns): &Reading) -> Option<MeterActivity> {
    let elapsed = now_ns.checked_sub(*then_ns).filter(|&elapsed| elapsed > 0)? as f64;
    let share = |old: &Queue, new: &Queue| {
        (new.busy_ns(*now_ns).saturating_sub(old.busy_ns(*then_ns)) as f64 / elapsed).clamp(0.0, 1.0)
    };
    let owner = share(&before.queue, &after.queue);
    let other_process = share(&before.other_queue, &after.other_queue);
    Some(MeterActivity { owner, other_process, device: (owner + other_process).min(1.0) })
}

/// Follows one simulated GPU from reading to reading.
#[derive(Debug, Default)]
pub struct Meter {
    /// The last reading.
    pub last: Option<Reading>,
    /// Energy used since the first reading, millijoules.
    pub energy_mj: f64,
}

impl Meter {
    /// Takes a reading and returns the activity since the previous one. `None` for the first, or if no time has passed.
    pub fn read(&mut self, state: SimulatedGpuState, now_ns: u64) -> Option<MeterActivity> {
        let now = (state, now_ns);
        let seen = self.last.as_ref().and_then(|last| activity(last, &now));
        let then_ns = self.last.replace(now).map_or(now_ns, |(_, then_ns)| then_ns);
        if let Some(seen) = seen {
            self.energy_mj += state.power_mw(seen.device) as f64 * (now_ns - then_ns) as f64 * 1e-9;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_device_is_busy_at_most_all_the_time() {
        let before = SimulatedGpuState::default();
        let mut after = before;
        after.queue.launch(0, 800);
        after.other_queue.launch(0, 500);
        let seen = activity(&(before, 0), &(after, 1_000)).unwrap();
        assert_eq!(seen, MeterActivity { owner: 0.8, other_process: 0.5, device: 1.0 });
        assert_eq!(activity(&(before, 5), &(after, 5)), None);
    }
}
