//! Two samples in, their difference out. The only crate that subtracts counters.
//!
//! What belongs here: everything computed from the counters of two samples, and what a single sample shows of the host, the
//! job, its disks and its GPUs. What does not: reading anything, a clock, what a thread waits for (`trainmon-waits`), and any
//! judgment of the run.
//!
//! [`Rates`] is a deterministic fold that keeps the previous sample.
//!
//! Rules that hold everywhere below:
//! - A counter that went backwards gives `None` for its field: a gap, never a spike. So does the first sample, and a
//!   process or thread that is new (identity is PID plus start time, so a reused PID is a new process).
//! - Each part (job, host, storage, GPUs) has its own reading time, and its rates are computed over that. A part whose
//!   reading time has not moved is stale: its rates are `None`, not zero, and its counts are not counted twice.
//! - A break in the series (see [`Rates::next`]) gives one difference with `gap: true` and without rates.

pub mod delta;
pub mod device;
pub mod frame;
pub mod gpu;
mod gpu_choice;
mod gpu_link;
mod host;
pub mod job;
pub mod levels;
pub mod other_processes;
mod pages;
pub mod short_lived;
mod storage;
#[cfg(test)]
mod testing;
pub mod threads;

use std::sync::Arc;

pub use gpu_choice::GpuChoice;
pub use pages::PAGE;

use delta::{rate, span};

use gpu::GpuFold;
use host::HostRates;
use job::JobFold;
use other_processes::OtherProcesses;
use storage::StorageRates;
use trainmon_sample::Sample;

/// CLOCK_MONOTONIC stops during suspend, CLOCK_BOOTTIME does not (clock_gettime(2)). If they drift apart by more than
/// this in one interval, the machine was suspended. Nanoseconds.
const SUSPEND_NS: u64 = 1_000_000_000;

/// An interval this many times longer than the previous one has lost ticks …
const LATE_FACTOR: u64 = 3;

/// … if it is also longer by this much, so that a quick first frame, or switching between short `--interval`s, is not a
/// break. Nanoseconds.
const LATE_NS: u64 = 1_000_000_000;

/// What the fold cannot learn from the samples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RatesOptions {
    /// GPUs named with `--gpu`; if empty, the GPUs that the job is found to use.
    pub gpus: Vec<GpuChoice>,
}

/// The fold of samples into their differences.
#[derive(Debug, Default)]
pub struct Rates {
    options: RatesOptions,
    previous: Option<Arc<Sample>>,
    previous_interval_ns: Option<u64>,
}

/// What lies between two samples.
#[derive(Debug, Default)]
pub struct Difference {
    /// The earlier sample; `None` at the first one and across a gap.
    pub before: Option<Arc<Sample>>,
    /// The series is broken before the later sample (first sample, suspend, missing ticks).
    pub gap: bool,
    /// Its length, seconds; 0 for the first sample of a session.
    pub seconds: f64,
    /// The job; `None` where the later sample has none.
    pub job: Option<JobFold>,
    /// The host.
    pub host: HostRates,
    /// The busiest processes outside the job; `None` if not shown.
    pub other_processes: Option<OtherProcesses>,
    /// Storage.
    pub storage: StorageRates,
    /// The GPUs.
    pub gpu: GpuFold,
    /// CPU use of trainmon and the programs it starts, percent of one CPU.
    pub own_cpu_pct: Option<f64>,
}

impl Rates {
    /// A fold without samples.
    pub fn new(options: RatesOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Starts over: the next samples are from another program.
    pub fn begin_anew(&mut self) {
        *self = Self::new(std::mem::take(&mut self.options));
    }

    /// The difference between the previous sample and this one.
    ///
    /// The series breaks (`gap`, no rates) at the first sample, if the sequence does not increase by one, if the clock
    /// went backwards, over a suspend, and if the interval is both more than three times the previous one and more than
    /// a second longer. Readings that are not differences (memory, temperatures, the GPU's own utilization) are there all
    /// the same.
    pub fn next(&mut self, sample: Arc<Sample>) -> Difference {
        let interval_ns =
            self.previous.as_deref().and_then(|before| sample.monotonic_ns.checked_sub(before.monotonic_ns));
        let gap = self.is_gap(&sample, interval_ns);
        self.previous_interval_ns = interval_ns;
        let previous = self.previous.replace(Arc::clone(&sample));
        let before = if gap { None } else { previous.clone() };
        let difference = self.between(before.as_deref(), &sample, previous.as_deref());
        Difference { before, gap, seconds: interval_ns.map_or(0.0, |ns| ns as f64 / 1e9), ..difference }
    }

    fn is_gap(&self, sample: &Sample, interval_ns: Option<u64>) -> bool {
        let (Some(before), Some(interval_ns)) = (self.previous.as_deref(), interval_ns) else { return true };
        let suspended = sample
            .boottime_ns
            .checked_sub(before.boottime_ns)
            .is_none_or(|boot_ns| boot_ns.abs_diff(interval_ns) > SUSPEND_NS);
        let late = self
            .previous_interval_ns
            .is_some_and(|usual| interval_ns > usual.saturating_mul(LATE_FACTOR) && interval_ns - usual > LATE_NS);
        before.sequence.checked_add(1) != Some(sample.sequence) || suspended || late
    }

    /// `before` is `None` across a gap. `stale_against` is the previous sample even then, so that stale parts are
    /// recognized.
    fn between(&self, before: Option<&Sample>, sample: &Sample, stale_against: Option<&Sample>) -> Difference {
        let gpu = gpu::fold(&self.options.gpus, before, sample, stale_against);
        let job = sample.job.as_deref().map(|job| {
            let before_job = before.and_then(|before| before.job.as_deref());
            let stale = stale_against
                .and_then(|before| before.job.as_deref())
                .is_some_and(|before| before.monotonic_ns == job.monotonic_ns);
            JobFold { stale, ..job::fold(before_job, sample, job, &gpu) }
        });
        let own_cpu_pct = before.and_then(|before| {
            let seconds = span(Some(before.monotonic_ns), sample.monotonic_ns);
            let own = rate(sample.own.cpu_ns, before.own.cpu_ns, seconds)?;
            let children = rate(sample.own.children_cpu_ns, before.own.children_cpu_ns, seconds).unwrap_or(0.0);
            Some((own + children) / 1e7)
        });
        Difference {
            host: host::fold(before, sample, job.as_ref().and_then(|job| job.rates.cpu_pct)),
            storage: storage::fold(before, sample),
            other_processes: other_processes::fold(sample.other_processes.as_deref()),
            own_cpu_pct,
            job,
            gpu,
            ..Difference::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;
    use trainmon_sample::OwnSample;

    fn sample(sequence: u64, ms: u64) -> Sample {
        tick(sequence, ms)
    }

    #[test]
    fn first_sample_is_a_gap_without_rates() {
        let mut rates = Rates::default();
        let difference = rates.next(Arc::new(sample(7, 1000)));
        assert!(difference.gap);
        assert_eq!(difference.seconds, 0.0);
        assert_eq!(difference.own_cpu_pct, None);
    }

    #[test]
    fn own_cpu_is_over_the_samples_clock() {
        let mut rates = Rates::default();
        let own = |cpu_ns| OwnSample { cpu_ns: Some(cpu_ns), rss_bytes: Some(9), ..OwnSample::default() };
        rates.next(Arc::new(Sample { own: own(0), ..sample(0, 0) }));
        let difference = rates.next(Arc::new(Sample { own: own(20_000_000), ..sample(1, 2000) }));
        assert!(!difference.gap);
        assert_eq!(difference.seconds, 2.0);
        assert!((difference.own_cpu_pct.unwrap() - 1.0).abs() < 1e-9);
        let difference = rates.next(Arc::new(Sample { own: own(10_000_000), ..sample(2, 4000) }));
        assert_eq!(difference.own_cpu_pct, None, "went backwards");
    }

    #[test]
    fn breaks_of_the_series() {
        let gap_after = |later: Sample| {
            let mut rates = Rates::default();
            rates.next(Arc::new(sample(0, 1000)));
            rates.next(Arc::new(sample(1, 2000)));
            rates.next(Arc::new(later)).gap
        };
        assert!(!gap_after(sample(2, 3000)));
        assert!(!gap_after(sample(2, 4900)), "late, but less than three times");
        assert!(gap_after(sample(2, 5100)), "more than three times the interval");
        assert!(gap_after(sample(3, 3000)), "a tick is missing");
        assert!(gap_after(sample(1, 3000)), "the same sequence again");
        assert!(gap_after(sample(2, 1500)), "clock went backwards");
        let suspended = Sample { boottime_ns: sample(2, 3000).boottime_ns + 2_000_000_000, ..sample(2, 3000) };
        assert!(gap_after(suspended));
    }

    #[test]
    fn a_quick_first_interval_is_no_break() {
        let mut rates = Rates::default();
        rates.next(Arc::new(sample(0, 0)));
        rates.next(Arc::new(sample(1, 100)));
        assert!(!rates.next(Arc::new(sample(2, 1100))).gap);
    }

    #[test]
    fn after_a_gap_rates_come_back() {
        let own = |cpu_ns| OwnSample { cpu_ns: Some(cpu_ns), ..OwnSample::default() };
        let mut rates = Rates::default();
        rates.next(Arc::new(Sample { own: own(0), ..sample(0, 0) }));
        let difference = rates.next(Arc::new(Sample { own: own(50), ..sample(5, 1000) }));
        assert!(difference.gap && difference.own_cpu_pct.is_none());
        let difference = rates.next(Arc::new(Sample { own: own(50 + 10_000_000), ..sample(6, 2000) }));
        assert!((difference.own_cpu_pct.unwrap() - 1.0).abs() < 1e-9);
    }
}
