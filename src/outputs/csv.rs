//! The CSV of `--log`: one row per frame, columns fixed for as long as the file lives (RFC 4180, UTF-8).
//!
//! Each row goes out in ONE write, so that a reader that follows the file, or a full disk, never sees half a row. A
//! value that was not measured is empty, never 0.

use std::io::Write;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::diagnosis::Verdict;
use crate::diagnosis::verdict::{Class, Phase};
use crate::rates::Frame;
use crate::rates::frame::{GpuRates, TrainerRates};
use crate::rates::time_split::LoopActivity;
use crate::sample::gpu::{CLOCK_EVENT_REASONS, clock_event_words};

/// The fixed columns, in their order.
pub const COLUMNS: [&str; 44] = [
    "timestamp",
    "elapsed_s",
    "pid",
    "phase",
    "class",
    "cause",
    "confidence",
    "input_wait_pct",
    "device_sync_pct",
    "host_busy_pct",
    "checkpoint_pct",
    "other_pct",
    "steps_per_s",
    "step_p50_ms",
    "step_p95_ms",
    "gpu_util_pct",
    "gpu_mem_used_mib",
    "gpu_power_w",
    "cpu_util_pct",
    "cpus_allowed",
    "job_cpu_pct",
    "run_delay_pct",
    "cgroup_throttled_pct",
    "psi_cpu_some_pct",
    "psi_io_some_pct",
    "psi_memory_some_pct",
    "mem_used_mib",
    "mem_available_mib",
    "job_rss_mib",
    "workers",
    "workers_busy_pct",
    "workers_io_wait_pct",
    "workers_runnable_pct",
    "workers_idle_pct",
    "disk_read_mib_s",
    "disk_write_mib_s",
    "disk_util_pct",
    "disk_await_ms",
    "job_read_mib_s",
    "job_write_mib_s",
    "major_faults_per_s",
    "net_rx_mib_s",
    "self_cpu_pct",
    "self_rss_mib",
];

/// The columns of one device, after `gpuN_`. The last three are empty on devices without GPM.
pub const GPU_COLUMNS: [&str; 18] = [
    "index",
    "uuid",
    "util_pct",
    "mem_util_pct",
    "mem_used_mib",
    "mem_total_mib",
    "power_w",
    "power_limit_w",
    "temp_c",
    "sm_clock_mhz",
    "pcie_rx_mib_s",
    "pcie_tx_mib_s",
    "throttle",
    "job_util_pct",
    "job_mem_mib",
    "sm_active_pct",
    "tensor_active_pct",
    "dram_active_pct",
];

/// More groups of device columns than this are not written (the largest hosts have 16 devices, or a few dozen MIG
/// instances).
pub const GROUPS_MAX: usize = 64;

const MIB: f64 = 1024.0 * 1024.0;

/// The header for so many devices, without the line's end.
pub fn header(groups: usize) -> impl Iterator<Item = String> {
    let devices = (0..groups).flat_map(|n| GPU_COLUMNS.iter().map(move |column| format!("gpu{n}_{column}")));
    COLUMNS.iter().map(|&column| column.to_owned()).chain(devices)
}

/// The number of device groups if this line (without its end) is a header of ours, else the first column that
/// differs, counted from 1.
///
/// # Errors
/// The position of the first column that is not ours.
pub fn groups_of_header(line: &str) -> Result<usize, usize> {
    let columns: Vec<&str> = line.split(',').map(|column| column.trim_matches('"')).collect();
    let groups = columns.len().saturating_sub(COLUMNS.len()) / GPU_COLUMNS.len();
    let mut found = columns.iter();
    for (position, wanted) in header(groups.min(GROUPS_MAX)).enumerate() {
        if found.next().is_none_or(|column| **column != wanted) {
            return Err(position + 1);
        }
    }
    if found.next().is_some() { Err(columns.len() - found.len()) } else { Ok(groups) }
}

/// What the verdict adds to a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Summary {
    /// The attached PID.
    pub pid: u32,
    /// What the job is doing.
    pub phase: Phase,
    /// The class.
    pub class: Class,
    /// The cause, where it is known.
    pub cause: Option<String>,
    /// 0–1.
    pub confidence: Option<f64>,
}

impl From<&Verdict> for Summary {
    fn from(verdict: &Verdict) -> Self {
        Self {
            pid: verdict.pid,
            phase: verdict.phase,
            class: verdict.class,
            cause: verdict.cause.clone(),
            confidence: Some(verdict.confidence),
        }
    }
}

/// The device that a group of columns stands for: kept for the life of the file.
#[derive(Debug, Clone, PartialEq)]
struct Slot {
    index: u32,
    uuid: Option<Arc<str>>,
}

impl Slot {
    fn is(&self, gpu: &GpuRates) -> bool {
        match (&self.uuid, &gpu.uuid) {
            (Some(mine), Some(its)) => mine == its,
            _ => self.index == gpu.index,
        }
    }
}

/// Writes frames as rows. The header goes out before the first row, unless the file has one already.
#[derive(Debug)]
pub struct CsvLog<W: Write> {
    out: W,
    zone: TimeZone,
    header_written: bool,
    groups: Option<usize>,
    slots: Vec<Slot>,
    start_ns: Option<u64>,
}

impl<W: Write> CsvLog<W> {
    /// A log that begins with a header. The devices of its columns are those of the first row: the ones that the job
    /// uses, or, where it uses none yet, all that can be seen (their readings stay empty until it does).
    pub fn new(out: W) -> Self {
        Self { out, zone: TimeZone::system(), header_written: false, groups: None, slots: Vec::new(), start_ns: None }
    }

    /// A log that goes on under a header with so many device groups.
    pub fn appending(out: W, groups: usize) -> Self {
        Self { header_written: true, groups: Some(groups), ..Self::new(out) }
    }

    /// The same with another time zone for the timestamps; the default is the system's.
    #[must_use]
    pub fn in_zone(mut self, zone: TimeZone) -> Self {
        self.zone = zone;
        self
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.out
    }

    /// Writes the row of a frame, after the header if it is the first, and flushes.
    ///
    /// # Errors
    /// What the writer answers; see [`super::log::explain`] for the words.
    pub fn write(&mut self, frame: &Frame, summary: &Summary) -> std::io::Result<()> {
        self.take_slots(frame);
        if !self.header_written {
            self.put(header(self.slots.len()))?;
            self.header_written = true;
        }
        // The first frame of a session has no length; it starts the clock.
        let length_ns = (frame.seconds.clamp(0.0, 1e6) * 1e9) as u64;
        let start = *self.start_ns.get_or_insert(frame.monotonic_ns.saturating_sub(length_ns));
        let elapsed = frame.monotonic_ns.saturating_sub(start) as f64 / 1e9;
        let mut row = Row(Vec::with_capacity(COLUMNS.len() + self.slots.len() * GPU_COLUMNS.len()));
        row.text(timestamp(frame.unix_ms, &self.zone));
        row.number(Some(elapsed), 3);
        row.fixed(frame, summary);
        for slot in &self.slots {
            row.device(slot, frame.gpus.iter().find(|gpu| slot.is(gpu)));
        }
        if let Some(groups) = self.groups {
            row.0.resize(COLUMNS.len() + groups * GPU_COLUMNS.len(), String::new());
        }
        self.put(row.0.into_iter())
    }

    /// Fixes the devices of the column groups at the first row. Under an existing header, groups that no device
    /// was there for are filled as devices get attached.
    fn take_slots(&mut self, frame: &Frame) {
        let slot = |gpu: &GpuRates| Slot { index: gpu.index, uuid: gpu.uuid.clone() };
        match self.groups {
            None => {
                let attached = frame.gpus.iter().any(|gpu| gpu.attached);
                let chosen = frame.gpus.iter().filter(|gpu| gpu.attached || !attached);
                self.slots = chosen.take(GROUPS_MAX).map(slot).collect();
                self.groups = Some(self.slots.len());
            }
            Some(groups) if self.slots.len() < groups => {
                for gpu in frame.gpus.iter().filter(|gpu| gpu.attached) {
                    if self.slots.len() < groups && !self.slots.iter().any(|slot| slot.is(gpu)) {
                        self.slots.push(slot(gpu));
                    }
                }
            }
            Some(_) => {}
        }
    }

    fn put(&mut self, fields: impl Iterator<Item = String>) -> std::io::Result<()> {
        let mut writer = ::csv::WriterBuilder::new().terminator(::csv::Terminator::CRLF).from_writer(Vec::new());
        writer.write_record(fields.map(String::into_bytes)).map_err(std::io::Error::other)?;
        let bytes = writer.into_inner().map_err(|error| std::io::Error::other(error.to_string()))?;
        self.out.write_all(&bytes)?;
        self.out.flush()
    }
}

/// RFC 3339 with milliseconds and offset.
fn timestamp(unix_ms: i64, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(unix_ms) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string(),
        Err(_) => String::new(),
    }
}

/// The fields of one row, in order.
struct Row(Vec<String>);

impl Row {
    fn text(&mut self, text: impl AsRef<str>) {
        self.0.push(crate::text::sanitise(text.as_ref()).into_owned());
    }

    /// A number with at most so many decimals; empty when there is none, or when it is no number.
    fn number(&mut self, value: Option<f64>, decimals: usize) {
        let text = value.filter(|value| value.is_finite()).map(|value| format!("{value:.decimals$}"));
        // A tiny negative value would print as -0.00.
        let text = text.map(|text| match text.strip_prefix('-') {
            Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
            _ => text,
        });
        self.0.push(text.unwrap_or_default());
    }

    fn percent(&mut self, value: Option<f64>) {
        self.number(value, 2);
    }

    fn mib(&mut self, bytes: Option<f64>) {
        self.number(bytes.map(|bytes| bytes / MIB), 3);
    }

    fn whole(&mut self, value: Option<impl Into<u64>>) {
        self.0.push(value.map(|value| value.into().to_string()).unwrap_or_default());
    }

    /// The fixed columns from `pid` on.
    fn fixed(&mut self, frame: &Frame, summary: &Summary) {
        self.whole(Some(summary.pid));
        self.text(summary.phase.word());
        self.text(summary.class.word());
        self.text(summary.cause.as_deref().unwrap_or_default());
        self.number(summary.confidence.map(|confidence| confidence.clamp(0.0, 1.0)), 3);
        let trainer = frame.trainers.first();
        match trainer.and_then(hundredths) {
            Some(shares) => shares.into_iter().for_each(|share| self.0.push(hundredth_text(share))),
            None => self.0.extend(std::iter::repeat_n(String::new(), 5)),
        }
        self.steps(frame, trainer);
        self.devices(&frame.gpus);
        let (job, host, storage) = (&frame.job, &frame.host, &frame.storage);
        self.percent(host.allowed_cpu_pct);
        self.whole(job.cpus_allowed);
        self.percent(job.cpu_pct);
        self.percent(share(job.run_delay_share));
        self.percent(share(job.throttled_share));
        self.percent(host.psi_cpu_some_pct);
        self.percent(host.psi_io_some_pct);
        self.percent(host.psi_memory_some_pct);
        self.mib(bytes(host.memory_used_bytes));
        self.mib(bytes(host.memory_available_bytes));
        self.mib(bytes(job.rss_bytes));
        self.whole(Some(frame.workers.len() as u64));
        self.percent(share(mean(frame.workers.iter().map(|worker| worker.busy))));
        self.percent(share(mean(frame.workers.iter().map(|worker| worker.io_wait))));
        self.percent(share(mean(frame.workers.iter().map(|worker| worker.runnable))));
        self.percent(share(mean(frame.workers.iter().map(|worker| worker.idle))));
        // These columns are about the job's own devices: where those are not known, nothing was measured.
        let known = |value: Option<f64>| value.filter(|_| storage.data_devices_known);
        self.mib(known(storage.read_bytes_s));
        self.mib(known(storage.write_bytes_s));
        self.percent(known(storage.utilization_pct));
        self.number(known(storage.await_ms), 3);
        self.mib(job.read_bytes_s);
        self.mib(job.write_bytes_s);
        self.number(job.major_faults_s, 2);
        self.mib(host.net_rx_bytes_s);
        self.percent(frame.own_cpu_pct);
        self.mib(bytes(frame.own_rss_bytes));
    }

    fn steps(&mut self, frame: &Frame, trainer: Option<&TrainerRates>) {
        let steps = trainer.and_then(|trainer| trainer.steps).filter(|_| frame.seconds > 0.0);
        self.number(steps.map(|steps| steps as f64 / frame.seconds), 3);
        let mut lengths: Vec<f32> = trainer.map(|trainer| trainer.step_lengths_s.clone()).unwrap_or_default();
        lengths.retain(|length| length.is_finite());
        lengths.sort_by(f32::total_cmp);
        for quantile in [0.5, 0.95] {
            self.number(nearest_rank(&lengths, quantile).map(|seconds| f64::from(seconds) * 1000.0), 2);
        }
    }

    /// Over the attached devices: mean utilisation, sum of memory, sum of power. A sum is empty when a part of it is
    /// not known; a device that is lost takes no part.
    fn devices(&mut self, gpus: &[GpuRates]) {
        let attached = || gpus.iter().filter(|gpu| gpu.attached && !gpu.lost);
        self.percent(mean(attached().map(|gpu| gpu.utilization_pct)));
        self.mib(sum(attached().map(|gpu| bytes(gpu.memory_used_bytes))));
        self.number(sum(attached().map(|gpu| gpu.power_w)), 2);
    }

    /// One group of device columns. The readings are empty while the job does not use the device.
    fn device(&mut self, slot: &Slot, gpu: Option<&GpuRates>) {
        self.whole(Some(slot.index));
        self.text(slot.uuid.as_deref().unwrap_or_default());
        let nothing = GpuRates::default();
        let gpu = gpu.filter(|gpu| gpu.attached && !gpu.lost).unwrap_or(&nothing);
        self.percent(gpu.utilization_pct);
        self.percent(gpu.memory_utilization_pct);
        self.mib(bytes(gpu.memory_used_bytes));
        self.mib(bytes(gpu.memory_total_bytes));
        self.number(gpu.power_w, 2);
        self.number(gpu.power_limit_w, 2);
        self.whole(gpu.temperature_c);
        self.whole(gpu.sm_clock_mhz);
        self.mib(gpu.pcie_rx_bytes_s);
        self.mib(gpu.pcie_tx_bytes_s);
        self.text(gpu.clock_event_reasons.map(reasons).unwrap_or_default());
        self.percent(gpu.job_utilization_pct);
        self.mib(bytes(gpu.job_memory_bytes));
        self.percent(gpu.sm_active_pct);
        self.percent(gpu.tensor_active_pct);
        self.percent(gpu.dram_active_pct);
    }
}

fn share(value: Option<f64>) -> Option<f64> {
    value.map(|value| value * 100.0)
}

fn bytes(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Mean of what is known.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (sum, count) = values.flatten().fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// Sum, where every part is known and there is one.
fn sum(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let first = values.next()??;
    values.try_fold(first, |total, value| Some(total + value?))
}

/// Nearest-rank quantile of sorted values.
fn nearest_rank(sorted: &[f32], quantile: f64) -> Option<f32> {
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

/// The five shares of the main thread's time in hundredths of a percent that add up to exactly 10000 (largest
/// remainder), or none where nothing was seen.
fn hundredths(trainer: &TrainerRates) -> Option<[u32; LoopActivity::COUNT]> {
    let seconds = trainer.split_s.values().map(|s| if s.is_finite() { s.max(0.0) } else { 0.0 });
    let total: f64 = seconds.iter().sum();
    if total <= 0.0 {
        return None;
    }
    let exact = seconds.map(|s| s / total * 10_000.0);
    let mut whole = exact.map(|share| share.floor() as u32);
    let missing = 10_000u32.saturating_sub(whole.iter().sum()) as usize;
    let mut order = [0usize, 1, 2, 3, 4];
    let rest = |position: usize| exact.get(position).map_or(0.0, |share| share.fract());
    order.sort_by(|&a, &b| rest(b).total_cmp(&rest(a)));
    for &position in order.iter().cycle().take(missing) {
        if let Some(share) = whole.get_mut(position) {
            *share += 1;
        }
    }
    Some(whole)
}

fn hundredth_text(value: u32) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

/// The clock event reasons in words, joined by `|`, with bits of no known meaning as a number; `none` where no bit is set.
#[must_use]
pub fn reasons(mask: u64) -> String {
    let mut words: Vec<String> = clock_event_words(mask).map(str::to_owned).collect();
    let unknown = CLOCK_EVENT_REASONS.iter().fold(mask, |mask, (bit, _)| mask & !bit);
    if unknown != 0 {
        words.push(format!("0x{unknown:x}"));
    }
    if words.is_empty() { "none".to_owned() } else { words.join("|") }
}

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
