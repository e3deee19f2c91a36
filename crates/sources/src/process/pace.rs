//! How active a thread is, to choose among many threads those that others may wait for.

use crate::task_files::SchedStat;

/// How active a thread is: a mean in which older ticks fade.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// Times per second that it got a CPU.
    pub timeslices_per_s: f64,
    /// Share of the time on a CPU.
    pub cpu: f64,
}

impl Pace {
    /// Weight of the newest tick.
    const NEWEST: f64 = 0.3;
    /// A thread that neither wakes this often per second …
    const WAKES_S: f64 = 0.5;
    /// … nor computes for this share of the time wakes no other thread.
    pub(super) const CPU: f64 = 0.02;

    /// Whether others may wait for it; before two reads it may be anything.
    pub fn is_active(self) -> bool {
        self == Self::default() || self.timeslices_per_s > Self::WAKES_S || self.cpu > Self::CPU
    }

    /// The pace after a tick of this many seconds in which the counters moved by `moved`.
    pub(super) fn after(self, moved: SchedStat, seconds: f64) -> Self {
        // Resting must differ from unknown.
        let timeslices_per_s = (moved.timeslices as f64 / seconds).max(f64::MIN_POSITIVE);
        let cpu = moved.on_cpu_ns as f64 / 1e9 / seconds;
        let mean = |before: f64, now: f64| before + Self::NEWEST * (now - before);
        match self == Self::default() {
            true => Self { timeslices_per_s, cpu },
            false => {
                Self { timeslices_per_s: mean(self.timeslices_per_s, timeslices_per_s), cpu: mean(self.cpu, cpu) }
            }
        }
    }
}
