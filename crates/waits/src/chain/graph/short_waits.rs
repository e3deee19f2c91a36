//! Waits that end before they can be sampled.

use crate::wait::Wait;
use trainmon_rates::levels::{BEYOND_CHANCE, EACH_MS};

/// The part of a thread's samples as running in which it really waited for a disk. A wait of about 50 µs ends while it
/// is being sampled, so a thread that reads a fast disk looks busier than its CPU time counter says. The first argument
/// is its pace: share of the time on a CPU, and wake-ups per second.
pub(super) fn short_waits(
    (cpu, wakes_per_s): (f64, f64),
    samples: impl Iterator<Item = (u32, u32)>,
    waits: &[Wait],
) -> f64 {
    if wakes_per_s < EACH_MS {
        return 0.0;
    }
    let (mut all, mut runs, mut reads) = (0.0, 0.0, 0.0);
    for (_, place) in samples {
        let wait = waits.get(place as usize).copied().unwrap_or_default();
        all += 1.0;
        runs += f64::from(u8::from(wait == Wait::Running));
        reads += f64::from(u8::from(wait == Wait::DiskRead));
    }
    let runs = runs / f64::max(all, 1.0);
    if reads < BEYOND_CHANCE * all || runs <= cpu { 0.0 } else { 1.0 - cpu / runs }
}
