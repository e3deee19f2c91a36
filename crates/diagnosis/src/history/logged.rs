//! A run from the rows of a log. They have the numbers of each interval, but not the reasons: no advice, no wait chain, no workers
//! one by one.

use std::sync::Arc;

use jiff::Timestamp;

use super::environment::{Environment, EnvironmentGpu};
use super::interval::{Interval, WatchedTime};
use super::run::WholeRun;
use super::surroundings::Surroundings;
use super::timeline::{Compact, GPUS, Percent, TimelinePoint};
use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::verdict::{Class, Phase, Steps};
use trainmon_base::stats::mean;
use trainmon_base::text::format::MIB;
use trainmon_sample::log_row::LogRow;
use trainmon_waits::time_split::TimeSplit;

/// Columns of the loop's time, in the order of the split.
const SPLIT: [&str; 5] = ["input_wait_pct", "device_sync_pct", "host_busy_pct", "checkpoint_pct", "other_pct"];
/// More than this many intervals' length between two rows was not watched.
const GAP_AT: f64 = 10.0;

/// Adds rows to a run.
#[derive(Debug, Default)]
pub struct LoggedRun {
    /// The run so far.
    pub run: WholeRun,
    /// The attached PID of the newest row.
    pub pid: u32,
    /// Usual time between two rows, seconds: that of the first two.
    pub interval_s: Option<f64>,
    elapsed_s: Option<f64>,
    clock_ns: u64,
}

impl LoggedRun {
    /// Adds the next row.
    pub fn push(&mut self, row: &LogRow) {
        let time = self.time(row);
        let verdict = Arc::new(verdict(row));
        let interval = self.interval(row, time, &verdict);
        self.run.add(&interval, &verdict);
        self.pid = verdict.pid;
        if let Some(environment) = environment(row) {
            self.run.environment = environment;
        }
    }

    /// When its interval was. A log that is continued counts from 0 again.
    fn time(&mut self, row: &LogRow) -> WatchedTime {
        let unix_ms = row.text("timestamp").parse::<Timestamp>().map_or(0, Timestamp::as_millisecond);
        let elapsed_s = row.number("elapsed_s").unwrap_or(0.0);
        let seconds = self.elapsed_s.replace(elapsed_s).map_or(0.0, |before| elapsed_s - before);
        let usual_s = *self.interval_s.get_or_insert(seconds);
        if usual_s <= 0.0 {
            self.interval_s = (seconds > 0.0).then_some(seconds);
        }
        let gap = seconds < 0.0 || usual_s > 0.0 && seconds > GAP_AT * usual_s;
        let seconds = if gap { 0.0 } else { seconds };
        self.clock_ns += if gap { 1 } else { (seconds * 1e9) as u64 };
        WatchedTime { unix_ms, seconds, gap }
    }

    fn interval(&self, row: &LogRow, time: WatchedTime, verdict: &Verdict) -> Interval {
        let workers = row.number("workers").unwrap_or(0.0) as u32;
        let gpus = (0..GPUS).filter(|gpu| row.number(&format!("gpu{gpu}_util_pct")).is_some()).count();
        let steps_per_s = row.number("steps_per_s");
        Interval {
            time,
            point: self.point(row, time, verdict, steps_per_s),
            phase: verdict.phase,
            steps: Compact::new(steps_per_s.map(|per_s| per_s * time.seconds)),
            workers,
            gpus: u32::try_from(gpus).unwrap_or(0),
            power_w: Compact::new(row.number("gpu_power_w")),
            surroundings: Surroundings::of_row(row),
        }
    }

    fn point(&self, row: &LogRow, time: WatchedTime, verdict: &Verdict, steps_per_s: Option<f64>) -> TimelinePoint {
        let of = |column: &str| Compact::new(row.number(column));
        let bytes = |column: &str| Compact::new(row.number(column).map(|mib| mib * MIB));
        let of_gpu = |gpu: usize, column: &str| row.number(&format!("gpu{gpu}_{column}"));
        let part = |part: &'static str, whole: &'static str| {
            mean((0..GPUS).map(|gpu| {
                of_gpu(gpu, part).zip(of_gpu(gpu, whole)).filter(|of| of.1 > 0.0).map(|of| 100.0 * of.0 / of.1)
            }))
        };
        let each = |column: &'static str| (0..GPUS).filter_map(move |gpu| of_gpu(gpu, column));
        let sum_mib = |column| Compact::new(each(column).reduce(|a, b| a + b).map(|mib| mib * MIB));
        let job = row.number("job_cpu_pct").zip(row.number("cpus_allowed")).filter(|(_, cpus)| *cpus > 0.0);
        let read = row.number("job_read_mib_s").or_else(|| row.number("disk_read_mib_s"));
        TimelinePoint {
            start_ns: self.clock_ns.saturating_sub((time.seconds * 1e9) as u64),
            end_ns: self.clock_ns,
            class: verdict.class,
            shares: verdict.shares.map(|shares| shares.values().map(|share| share as f32)),
            gpus: std::array::from_fn(|gpu| Percent::new(of_gpu(gpu, "util_pct"))),
            gpu: of("gpu_util_pct"),
            gpu_memory: Compact::new(part("mem_used_mib", "mem_total_mib")),
            gpu_power: Compact::new(part("power_w", "power_limit_w")),
            gpu_temperature: Compact::new(each("temp_c").reduce(f64::max)),
            gpu_clock: Compact::new(mean(each("sm_clock_mhz").map(Some))),
            pcie_rx: sum_mib("pcie_rx_mib_s"),
            pcie_tx: sum_mib("pcie_tx_mib_s"),
            cpu: of("cpu_util_pct"),
            cpu_job: Compact::new(job.map(|(pct, cpus)| pct / cpus)),
            run_delay: of("run_delay_pct"),
            psi_cpu: of("psi_cpu_some_pct"),
            psi_io: of("psi_io_some_pct"),
            psi_memory: of("psi_memory_some_pct"),
            io: Compact::new(read.map(|mib| mib * MIB)),
            disk_util: of("disk_util_pct"),
            disk_read: bytes("disk_read_mib_s"),
            net_rx: bytes("net_rx_mib_s"),
            loader: Compact::new(row.number("workers_idle_pct").map(|idle| 100.0 - idle)),
            steps: Compact::new(steps_per_s),
            ..TimelinePoint::default()
        }
    }
}

/// What a row says of its verdict.
fn verdict(row: &LogRow) -> Verdict {
    let shares = SPLIT.map(|column| row.number(column));
    let known = shares.iter().all(Option::is_some);
    let split = TimeSplit::from(shares.map(|pct| pct.unwrap_or(0.0).max(0.0)));
    Verdict {
        pid: row.number("pid").unwrap_or(0.0) as u32,
        class: Class::named(row.text("class")).unwrap_or(Class::Unknown),
        cause: Cause::ALL.into_iter().find(|cause| cause.name() == row.text("cause")),
        phase: Phase::named(row.text("phase")).unwrap_or(Phase::Unknown),
        confidence: row.number("confidence").unwrap_or(0.0).clamp(0.0, 1.0),
        shares: if known { split.shares_of(split.total()) } else { None },
        steps: Steps {
            per_s: row.number("steps_per_s"),
            p50_ms: row.number("step_p50_ms"),
            p95_ms: row.number("step_p95_ms"),
            ..Steps::default()
        },
        summary: "A log has no reasons: trainmon record keeps them, too.".to_owned(),
        ..Verdict::default()
    }
}

/// The machine, as far as a row says.
fn environment(row: &LogRow) -> Option<Environment> {
    let gpus = (0..GPUS).filter_map(|gpu| {
        let memory_mib = row.number(&format!("gpu{gpu}_mem_total_mib"))?;
        let index = row.number(&format!("gpu{gpu}_index")).unwrap_or(gpu as f64) as u32;
        Some(EnvironmentGpu { index, name: None, memory_bytes: Some((memory_mib * MIB) as u64), simulated: false })
    });
    let memory_mib = row.number("mem_used_mib").zip(row.number("mem_available_mib")).map(|(used, free)| used + free);
    Some(Environment {
        gpus: gpus.collect(),
        cpus_allowed: Some(row.number("cpus_allowed")? as u32),
        memory_bytes: memory_mib.map(|mib| (mib * MIB) as u64),
        ..Environment::default()
    })
}
