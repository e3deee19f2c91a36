//! How much a thread moves: which of many threads others may wait for.

use crate::sources::task_files::SchedStat;

/// How much a thread moves, as a mean in which older ticks fade.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pace {
    /// Times a second that it was given a CPU.
    pub timeslices_per_s: f64,
    /// Share of the time on a CPU.
    pub cpu: f64,
}

impl Pace {
    /// What the newest tick counts.
    const NEWEST: f64 = 0.3;
    /// Threads that neither wake this often a second …
    const WAKES_S: f64 = 0.5;
    /// … nor compute for this share of the time wake nobody.
    pub(super) const CPU: f64 = 0.02;

    /// Whether others may wait for it; one that has not been read twice may be anything.
    pub fn is_active(self) -> bool {
        self == Self::default() || self.timeslices_per_s > Self::WAKES_S || self.cpu > Self::CPU
    }

    /// The pace after a tick of so many seconds in which the counters have moved so far.
    pub(super) fn after(self, moved: SchedStat, seconds: f64) -> Self {
        // A rest is not "unknown".
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
