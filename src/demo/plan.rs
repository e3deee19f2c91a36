//! How long each part of a demo step takes, for each bottleneck.
//!
//! With T = a worker's time for a batch, N = workers, C = the trainer's own time for a step, the mean wait for a
//! batch is max(0, T/N − C). All plans leave a CPU free on a machine with two, except where the CPU is the point.

use std::time::Duration;

use crate::cli::DemoBottleneck;

/// Batches that each worker may be ahead.
pub const PREFETCH: usize = 2;
/// Bytes of a batch: fits into a pipe (64 KiB, pipe(7)), so that a worker can hand over without being waited for.
pub const BATCH_BYTES: usize = 48 * 1024;
/// Bytes read for a batch.
pub const SOURCE_BYTES: usize = 256 * 1024;
/// Bytes of the data set.
pub const DATASET_BYTES: u64 = 16 * 1024 * 1024;

/// The times of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemoPlan {
    /// Number of workers.
    pub workers: usize,
    /// CPU time of a worker for a batch.
    pub transform: Duration,
    /// Time that the storage server takes for a batch; `None` reads the local file.
    pub storage: Option<Duration>,
    /// CPU time of the trainer's main thread for a step.
    pub host: Duration,
    /// Device time of a step.
    pub device: Duration,
    /// Steps launched ahead of the one whose end is waited for.
    pub run_ahead: usize,
    /// Power drawn while the device works, milliwatts (its limit is 300 W).
    pub power_busy_mw: u64,
}

impl DemoPlan {
    /// The plan of a bottleneck.
    pub fn new(bottleneck: DemoBottleneck) -> Self {
        let ms = Duration::from_millis;
        let base = Self {
            workers: 2,
            transform: ms(6),
            storage: None,
            host: ms(2),
            device: ms(12),
            run_ahead: 0,
            power_busy_mw: 230_000,
        };
        match bottleneck {
            // T/N − C = 45 − 14 = 31 ms of waiting in a step of 45.
            DemoBottleneck::DataLoader => Self { workers: 1, transform: ms(45), ..base },
            DemoBottleneck::Cpu => Self { host: ms(40), device: ms(6), ..base },
            // T/N − C = 86/2 − 11 = 32 ms of waiting in a step of 43, with the CPUs nearly free.
            DemoBottleneck::Io => Self { storage: Some(ms(80)), device: ms(9), ..base },
            DemoBottleneck::Gpu => Self { device: ms(40), run_ahead: 2, power_busy_mw: 275_000, ..base },
            // A batch every 22 ms is there before a step of 25 ms on the device and 5 ms on the host is over.
            DemoBottleneck::Balanced => Self { workers: 1, transform: ms(22), host: ms(5), device: ms(25), ..base },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn each_plan_is_held_back_by_what_it_says() {
        for &bottleneck in DemoBottleneck::value_variants() {
            let plan = DemoPlan::new(bottleneck);
            let worker = plan.transform + plan.storage.unwrap_or_default();
            let own = if plan.run_ahead > 0 { plan.host.max(plan.device) } else { plan.host + plan.device };
            let step = own.max(worker / plan.workers as u32);
            let share = |time: Duration| time.as_secs_f64() / step.as_secs_f64();
            let wait = step.saturating_sub(own);
            match bottleneck {
                DemoBottleneck::DataLoader => assert!(share(wait) > 0.5 && plan.storage.is_none()),
                DemoBottleneck::Io => assert!(share(wait) > 0.5 && plan.transform < worker / 8),
                DemoBottleneck::Cpu => assert!(share(plan.host) > 0.8),
                DemoBottleneck::Gpu => assert!(share(plan.device) > 0.95),
                DemoBottleneck::Balanced => {
                    assert!((0.75..0.85).contains(&share(plan.device)));
                    // The device runs dry only while the host works, so no wait for a batch is lost.
                    assert!(step - plan.device <= plan.host && share(plan.host) < 0.35);
                }
            }
        }
    }
}
