//! What a run shared its machine with and what slowed the machine down: the reasons for a longer step that are not in the
//! program. Two runs are compared with care where these differ.

use serde::{Deserialize, Serialize};

use super::timeline::{Compact, GPUS};
use trainmon_base::stats::mean;
use trainmon_rates::frame::GpuRates;
use trainmon_sample::gpu::{HELD_DOWN, clock_event_words};
use trainmon_sample::log_row::LogRow;
use trainmon_waits::Frame;

/// GPUs that are used less say nothing by their clocks: they lower them when idle. Percent.
const WORKS_AT: f64 = 10.0;

/// Numbers in [`Surroundings`].
const SURROUNDINGS: usize = 6;

/// The surroundings of an interval, or their means over a run.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Surroundings {
    /// CPU use of all other processes, percent of the CPUs that the job may use.
    pub others_cpu_pct: Compact,
    /// Share of the periods of the CPU quota in which the job was throttled, percent.
    pub cpu_throttled_pct: Compact,
    /// Share of the CPUs' time that the hypervisor took, percent.
    pub stolen_cpu_pct: Compact,
    /// SM clock of the job's GPUs while they work, MHz.
    pub gpu_clock_mhz: Compact,
    /// Share of the job's GPUs whose clocks heat or power held down, percent.
    pub gpu_held_down_pct: Compact,
    /// Use of the job's GPUs by other processes, percent.
    pub gpu_others_pct: Compact,
}

impl Surroundings {
    /// Those of a frame.
    pub(super) fn of_frame(frame: &Frame) -> Self {
        let (host, job) = (&frame.host, &frame.job);
        let of_gpus = |value: fn(&GpuRates) -> Option<f64>| {
            Compact::new(mean(frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost).map(value)))
        };
        let cpus = job.cpus_allowed.filter(|cpus| *cpus > 0);
        Self {
            others_cpu_pct: Compact::new(host.others_cpu_pct.zip(cpus).map(|(pct, cpus)| pct / f64::from(cpus))),
            cpu_throttled_pct: Compact::new(job.throttled_share.map(|share| share * 100.0)),
            stolen_cpu_pct: Compact::new(host.steal_pct),
            gpu_clock_mhz: of_gpus(|gpu| {
                let works = gpu.utilization_pct? >= WORKS_AT;
                if works { gpu.sm_clock_mhz.map(f64::from) } else { None }
            }),
            gpu_held_down_pct: of_gpus(|gpu| {
                let is_held_down = gpu.clock_event_reasons? & HELD_DOWN != 0;
                Some(if is_held_down { 100.0 } else { 0.0 })
            }),
            gpu_others_pct: of_gpus(|gpu| Some((gpu.utilization_pct? - gpu.job_utilization_pct?).max(0.0))),
        }
    }

    /// Those of a row of a log, which does not know what the hypervisor takes.
    pub(super) fn of_row(row: &LogRow) -> Self {
        let of_gpus = |value: &dyn Fn(usize) -> Option<f64>| Compact::new(mean((0..GPUS).map(value)));
        let of_gpu = |gpu: usize, column: &str| row.number(&format!("gpu{gpu}_{column}"));
        let others_pct = || {
            let cpus = row.number("cpus_allowed").filter(|cpus| *cpus > 0.0)?;
            Some((row.number("cpu_util_pct")? - row.number("job_cpu_pct")? / cpus).max(0.0))
        };
        Self {
            others_cpu_pct: Compact::new(others_pct()),
            cpu_throttled_pct: Compact::new(row.number("cgroup_throttled_pct")),
            stolen_cpu_pct: Compact::default(),
            gpu_clock_mhz: of_gpus(&|gpu| {
                let works = of_gpu(gpu, "util_pct")? >= WORKS_AT;
                if works { of_gpu(gpu, "sm_clock_mhz") } else { None }
            }),
            gpu_held_down_pct: of_gpus(&|gpu| {
                let reasons = row.text(&format!("gpu{gpu}_throttle"));
                if reasons.is_empty() {
                    return None;
                }
                let is_held_down = clock_event_words(HELD_DOWN).any(|word| reasons.split('|').any(|one| one == word));
                Some(if is_held_down { 100.0 } else { 0.0 })
            }),
            gpu_others_pct: of_gpus(&|gpu| Some((of_gpu(gpu, "util_pct")? - of_gpu(gpu, "job_util_pct")?).max(0.0))),
        }
    }

    fn values(self) -> [Compact; SURROUNDINGS] {
        let Self { others_cpu_pct, cpu_throttled_pct, stolen_cpu_pct, .. } = self;
        let Self { gpu_clock_mhz, gpu_held_down_pct, gpu_others_pct, .. } = self;
        [others_cpu_pct, cpu_throttled_pct, stolen_cpu_pct, gpu_clock_mhz, gpu_held_down_pct, gpu_others_pct]
    }
}

/// Adds up the surroundings of a run's intervals.
#[derive(Debug, Clone, Default)]
pub struct SurroundingsSum {
    /// Sums weighted by seconds, and the seconds, in the order of the fields of [`Surroundings`].
    sums: [(f64, f64); SURROUNDINGS],
}

impl SurroundingsSum {
    /// Adds an interval of so many seconds.
    pub(super) fn add(&mut self, interval: Surroundings, seconds: f64) {
        for ((sum, weight), value) in self.sums.iter_mut().zip(interval.values()) {
            if let Some(value) = value.get() {
                *sum += f64::from(value) * seconds;
                *weight += seconds;
            }
        }
    }

    /// The means over the run.
    pub fn mean(&self) -> Surroundings {
        let mut means = self.sums.into_iter().map(|(sum, weight)| Compact::new((weight > 0.0).then(|| sum / weight)));
        let mut next = || means.next().unwrap_or_default();
        Surroundings {
            others_cpu_pct: next(),
            cpu_throttled_pct: next(),
            stolen_cpu_pct: next(),
            gpu_clock_mhz: next(),
            gpu_held_down_pct: next(),
            gpu_others_pct: next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use trainmon_rates::frame::{HostRates, JobRates};

    fn frame() -> Frame {
        let gpu = GpuRates {
            attached: true,
            utilization_pct: Some(80.0),
            job_utilization_pct: Some(50.0),
            sm_clock_mhz: Some(1200),
            clock_event_reasons: Some(0x40),
            ..GpuRates::default()
        };
        let idle = GpuRates {
            attached: true,
            utilization_pct: Some(0.0),
            sm_clock_mhz: Some(300),
            clock_event_reasons: Some(0x4),
            ..GpuRates::default()
        };
        Frame {
            host: HostRates { others_cpu_pct: Some(128.0), steal_pct: Some(3.0), ..HostRates::default() },
            job: JobRates { cpus_allowed: Some(4), throttled_share: Some(0.25), ..JobRates::default() },
            gpus: vec![gpu, idle],
            ..Frame::default()
        }
    }

    #[test]
    fn a_run_has_the_means_of_its_intervals() {
        let mut sum = SurroundingsSum::default();
        sum.add(Surroundings::of_frame(&frame()), 3.0);
        sum.add(Surroundings::default(), 100.0);
        let mut quiet = frame();
        quiet.host.others_cpu_pct = Some(0.0);
        sum.add(Surroundings::of_frame(&quiet), 1.0);
        let mean = sum.mean().values().map(Compact::get);
        assert_eq!(mean, [Some(24.0), Some(25.0), Some(3.0), Some(1200.0), Some(50.0), Some(30.0)]);
        assert_eq!(SurroundingsSum::default().mean().values().map(Compact::get), [None; SURROUNDINGS]);
    }

    #[test]
    fn a_row_of_a_log_says_the_same() {
        let fields = [
            ("cpus_allowed", "4"),
            ("cpu_util_pct", "50"),
            ("job_cpu_pct", "72"),
            ("cgroup_throttled_pct", "25"),
            ("gpu0_util_pct", "80"),
            ("gpu0_job_util_pct", "50"),
            ("gpu0_sm_clock_mhz", "1200"),
            ("gpu0_throttle", "power-cap|hw-thermal"),
            ("gpu1_util_pct", "0"),
            ("gpu1_sm_clock_mhz", "300"),
            ("gpu1_throttle", "none"),
        ];
        let columns = fields.iter().enumerate().map(|(place, (name, _))| ((*name).to_owned(), place)).collect();
        let row = LogRow {
            columns: Arc::new(columns),
            fields: fields.iter().map(|(_, field)| (*field).to_owned()).collect(),
        };
        let values = Surroundings::of_row(&row).values().map(Compact::get);
        assert_eq!(values, [Some(32.0), Some(25.0), None, Some(1200.0), Some(50.0), Some(30.0)]);
    }
}
