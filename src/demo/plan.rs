//! How long each part of a demo step takes, for each bottleneck.
//!
//! With T = a worker's time for a batch, N = workers, C = the loop's own time for a step, the mean wait for a
//! batch is max(0, T/N − C). All plans leave a CPU free on a machine with two, except where the CPU is the point.

use std::time::Duration;

use crate::cli::DemoBottleneck;

/// The times of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DemoPlan {
    /// Number of workers.
    workers: usize,
    /// Images of a batch, at most 24: a pipe (64 KiB, pipe(7)) then holds the four batches that a worker may be ahead, of 576
    /// bytes an image, so that it never waits to hand one over. Each image is a request to the storage server.
    batch_size: u32,
    /// CPU time of a worker for a batch.
    batch: Duration,
    /// Time that the storage server takes for an image; `None` reads the local file.
    pub(super) storage_delay: Option<Duration>,
    /// CPU time of the training loop for a step.
    step: Duration,
    /// GPU time of a step.
    gpu: Duration,
    /// Steps launched ahead of the one whose end is waited for.
    run_ahead: usize,
    /// Power drawn while the GPU works, milliwatts (its limit is 300 W).
    pub(super) power_busy_mw: u64,
}

impl DemoPlan {
    /// The plan of a bottleneck.
    pub(super) fn new(bottleneck: DemoBottleneck) -> Self {
        let ms = Duration::from_millis;
        let base = Self {
            workers: 2,
            batch_size: 8,
            batch: ms(10),
            storage_delay: None,
            step: ms(5),
            gpu: ms(28),
            run_ahead: 0,
            power_busy_mw: 230_000,
        };
        match bottleneck {
            // T/N − C = 75 − 33 = 42 ms of waiting in a step of 75.
            DemoBottleneck::DataLoader => Self { workers: 1, batch_size: 24, batch: ms(75), ..base },
            DemoBottleneck::Cpu => Self { step: ms(40), gpu: ms(6), ..base },
            // T/N − C = 150/2 − 33 = 42 ms of waiting in a step of 75, with the CPUs nearly free.
            DemoBottleneck::Io => Self { storage_delay: Some(ms(140) / base.batch_size), ..base },
            DemoBottleneck::Gpu => Self { gpu: ms(40), run_ahead: 2, power_busy_mw: 275_000, ..base },
            // A batch every 22 ms is there before a step of 28 ms on the GPU and 5 ms in the loop is over.
            DemoBottleneck::Healthy => Self { workers: 1, batch: ms(22), ..base },
        }
    }

    /// The options of `train.py`, with this many workers instead of the plan's where given.
    pub(super) fn arguments(&self, workers: Option<u8>) -> Vec<String> {
        let ms = |time: Duration| time.as_millis().to_string();
        let workers = workers.map_or(self.workers, usize::from);
        [
            ("--workers", workers.to_string()),
            ("--batch-size", self.batch_size.to_string()),
            ("--batch-ms", ms(self.batch)),
            ("--step-ms", ms(self.step)),
            ("--gpu-ms", ms(self.gpu)),
            ("--run-ahead", self.run_ahead.to_string()),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect()
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
            let worker = plan.batch + plan.storage_delay.unwrap_or_default() * plan.batch_size;
            let own = if plan.run_ahead > 0 { plan.step.max(plan.gpu) } else { plan.step + plan.gpu };
            let step = own.max(worker / plan.workers as u32);
            let share = |time: Duration| time.as_secs_f64() / step.as_secs_f64();
            let wait = step.saturating_sub(own);
            match bottleneck {
                DemoBottleneck::DataLoader => assert!(share(wait) > 0.5 && plan.storage_delay.is_none()),
                DemoBottleneck::Io => assert!(share(wait) > 0.5 && plan.batch < worker / 8),
                DemoBottleneck::Cpu => assert!(share(plan.step) > 0.8),
                DemoBottleneck::Gpu => assert!(share(plan.gpu) > 0.95),
                DemoBottleneck::Healthy => {
                    assert!((0.75..0.85).contains(&share(plan.gpu)));
                    // The GPU runs dry only while the loop works, so no wait for a batch is lost.
                    assert!(step - plan.gpu <= plan.step && share(plan.step) < 0.35);
                }
            }
        }
    }
}
