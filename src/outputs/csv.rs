//! The CSV of `--log`: one row per frame, columns fixed for as long as the file lives (RFC 4180, UTF-8).
//!
//! Each row goes out in ONE write, so that a reader that follows the file, or a full disk, never sees half a row. A
//! value that was not measured is empty, never 0.

use std::io::Write;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::diagnosis::Verdict;
use crate::diagnosis::causes::Cause;
use crate::diagnosis::chain::{ChainNode, waits_for};
use crate::rates::frame::{GpuRates, TrainerRates, WorkerRates};
use crate::rates::time_split::LoopActivity;
use crate::rates::{Frame, mean};
use crate::sample::gpu::{CLOCK_EVENT_REASONS, clock_event_words};
use crate::text::format::MIB;

/// A column of a row: its name, and its value as text, empty where it was not measured.
type Column = (&'static str, fn(&CsvRow<'_>) -> String);
/// A column of a device, after `gpuN_`.
type GpuColumn = (&'static str, fn(&GpuRates) -> String);

/// The fixed columns, in their order.
const COLUMNS: [Column; 44] = [
    ("timestamp", |row| text(&row.timestamp)),
    ("elapsed_s", |row| number(row.elapsed_s, 3)),
    ("pid", |row| whole(Some(row.verdict.pid))),
    ("phase", |row| text(row.verdict.phase.word())),
    ("class", |row| text(row.verdict.class.word())),
    ("cause", |row| text(row.verdict.cause.map_or("", Cause::name))),
    ("confidence", |row| number(row.verdict.confidence.clamp(0.0, 1.0), 3)),
    ("input_wait_pct", |row| row.loop_share(LoopActivity::InputWait)),
    ("device_sync_pct", |row| row.loop_share(LoopActivity::DeviceSync)),
    ("host_busy_pct", |row| row.loop_share(LoopActivity::HostBusy)),
    ("checkpoint_pct", |row| row.loop_share(LoopActivity::Checkpoint)),
    ("other_pct", |row| row.loop_share(LoopActivity::Other)),
    ("steps_per_s", |row| number(row.steps_per_s(), 3)),
    ("step_p50_ms", |row| number(row.step_ms(0.5), 2)),
    ("step_p95_ms", |row| number(row.step_ms(0.95), 2)),
    // Over the attached devices. A sum is empty when a part of it is not known.
    ("gpu_util_pct", |row| percent(mean(row.gpus().map(|gpu| gpu.utilization_pct)))),
    ("gpu_mem_used_mib", |row| mib(sum(row.gpus().map(|gpu| bytes(gpu.memory_used_bytes))))),
    ("gpu_power_w", |row| number(sum(row.gpus().map(|gpu| gpu.power_w)), 2)),
    ("cpu_util_pct", |row| percent(row.frame.host.allowed_cpu_pct)),
    ("cpus_allowed", |row| whole(row.frame.job.cpus_allowed)),
    ("job_cpu_pct", |row| percent(row.frame.job.cpu_pct)),
    ("run_delay_pct", |row| share(row.frame.job.run_delay_share)),
    ("cgroup_throttled_pct", |row| share(row.frame.job.throttled_share)),
    ("psi_cpu_some_pct", |row| percent(row.frame.host.psi_cpu_some_pct)),
    ("psi_io_some_pct", |row| percent(row.frame.host.psi_io_some_pct)),
    ("psi_memory_some_pct", |row| percent(row.frame.host.psi_memory_some_pct)),
    ("mem_used_mib", |row| mib(bytes(row.frame.host.memory_used_bytes))),
    ("mem_available_mib", |row| mib(bytes(row.frame.host.memory_available_bytes))),
    ("job_rss_mib", |row| mib(bytes(row.frame.job.rss_bytes))),
    ("workers", |row| whole(Some(row.frame.workers.len()))),
    ("workers_busy_pct", |row| row.workers(|worker| worker.busy)),
    ("workers_io_wait_pct", |row| row.workers(|worker| worker.io_wait)),
    ("workers_runnable_pct", |row| row.workers(|worker| worker.runnable)),
    ("workers_idle_pct", |row| row.workers(|worker| worker.idle)),
    ("disk_read_mib_s", |row| mib(row.of_disks(row.frame.storage.read_bytes_per_s))),
    ("disk_write_mib_s", |row| mib(row.of_disks(row.frame.storage.write_bytes_per_s))),
    ("disk_util_pct", |row| percent(row.of_disks(row.frame.storage.utilization_pct))),
    ("disk_await_ms", |row| number(row.of_disks(row.frame.storage.await_ms), 3)),
    ("job_read_mib_s", |row| mib(row.frame.job.read_bytes_per_s)),
    ("job_write_mib_s", |row| mib(row.frame.job.write_bytes_per_s)),
    ("major_faults_per_s", |row| number(row.frame.job.major_faults_per_s, 2)),
    ("net_rx_mib_s", |row| mib(row.frame.host.net_rx_bytes_per_s)),
    ("self_cpu_pct", |row| percent(row.frame.own_cpu_pct)),
    ("self_rss_mib", |row| mib(bytes(row.frame.own_rss_bytes))),
];

/// The columns of one device. The last three are empty on devices without GPM.
const GPU_COLUMNS: [GpuColumn; 18] = [
    ("index", |gpu| whole(Some(gpu.index))),
    ("uuid", |gpu| text(gpu.uuid.as_deref().unwrap_or_default())),
    ("util_pct", |gpu| percent(gpu.utilization_pct)),
    ("mem_util_pct", |gpu| percent(gpu.memory_utilization_pct)),
    ("mem_used_mib", |gpu| mib(bytes(gpu.memory_used_bytes))),
    ("mem_total_mib", |gpu| mib(bytes(gpu.memory_total_bytes))),
    ("power_w", |gpu| number(gpu.power_w, 2)),
    ("power_limit_w", |gpu| number(gpu.power_limit_w, 2)),
    ("temp_c", |gpu| whole(gpu.temperature_c)),
    ("sm_clock_mhz", |gpu| whole(gpu.sm_clock_mhz)),
    ("pcie_rx_mib_s", |gpu| mib(gpu.pcie_rx_bytes_per_s)),
    ("pcie_tx_mib_s", |gpu| mib(gpu.pcie_tx_bytes_per_s)),
    ("throttle", |gpu| text(&gpu.clock_event_reasons.map(reasons).unwrap_or_default())),
    ("job_util_pct", |gpu| percent(gpu.job_utilization_pct)),
    ("job_mem_mib", |gpu| mib(bytes(gpu.job_memory_bytes))),
    ("sm_active_pct", |gpu| percent(gpu.sm_active_pct)),
    ("tensor_active_pct", |gpu| percent(gpu.tensor_active_pct)),
    ("dram_active_pct", |gpu| percent(gpu.dram_active_pct)),
];

/// Behind the columns of the devices: the end of the longest wait in a word, empty where the loop waits for nobody.
const LAST: &str = "waits_for";

/// More groups of device columns than this are not written (the largest hosts have 16 devices, or a few dozen MIG
/// instances).
pub const GROUPS_MAX: usize = 64;

/// The header for so many devices, without the line's end.
pub fn header(groups: usize) -> impl Iterator<Item = String> {
    let devices = (0..groups).flat_map(|n| GPU_COLUMNS.iter().map(move |(name, _)| format!("gpu{n}_{name}")));
    COLUMNS.iter().map(|(name, _)| (*name).to_owned()).chain(devices).chain([LAST.to_owned()])
}

/// The number of device groups if this line (without its end) is a header of ours, else the first column that
/// differs, counted from 1.
///
/// # Errors
/// The position of the first column that is not ours.
pub fn groups_of_header(line: &str) -> Result<usize, usize> {
    let found: Vec<&str> = line.split(',').map(|column| column.trim_matches('"')).collect();
    let groups = found.len().saturating_sub(COLUMNS.len()) / GPU_COLUMNS.len();
    let wanted: Vec<String> = header(groups.min(GROUPS_MAX)).collect();
    let differs = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
    match differs.unwrap_or(found.len().min(wanted.len())) {
        all if all == found.len() && all == wanted.len() => Ok(groups),
        first => Err(first + 1),
    }
}

/// The device that a group of columns stands for: kept for the life of the file.
#[derive(Debug, Clone, PartialEq)]
struct DeviceSlot {
    index: u32,
    uuid: Option<Arc<str>>,
}

impl DeviceSlot {
    fn of(gpu: &GpuRates) -> Self {
        Self { index: gpu.index, uuid: gpu.uuid.clone() }
    }

    fn is(&self, gpu: &GpuRates) -> bool {
        match (&self.uuid, &gpu.uuid) {
            (Some(mine), Some(its)) => mine == its,
            _ => self.index == gpu.index,
        }
    }

    /// What the columns of the group show: no readings while the job does not use the device.
    fn readings(&self, frame: &Frame) -> GpuRates {
        let used = frame.gpus.iter().find(|gpu| self.is(gpu)).filter(|gpu| gpu.attached && !gpu.lost);
        GpuRates { index: self.index, uuid: self.uuid.clone(), ..used.cloned().unwrap_or_default() }
    }
}

/// Writes frames as rows. The header goes out before the first row, unless the file has one already.
#[derive(Debug)]
pub struct CsvLog<W: Write> {
    pub(super) out: W,
    zone: TimeZone,
    /// Cleared where there is nothing, or something else, before the next row in the file.
    pub(super) header_written: bool,
    /// The number of device groups, once the first row or the file's header has fixed it.
    pub(super) groups: Option<usize>,
    slots: Vec<DeviceSlot>,
    start_ns: Option<u64>,
}

impl<W: Write> CsvLog<W> {
    /// A log that begins with a header. The devices of its columns are those of the first row: the ones that the job
    /// uses, or, where it uses none yet, all that can be seen (their readings stay empty until it does).
    pub fn new(out: W) -> Self {
        Self {
            out,
            zone: crate::zone::local(),
            header_written: false,
            groups: None,
            slots: Vec::new(),
            start_ns: None,
        }
    }

    /// A log that goes on under a header with so many device groups.
    pub fn appending(out: W, groups: usize) -> Self {
        Self { header_written: true, groups: Some(groups), ..Self::new(out) }
    }

    /// Writes the row of a frame and what was judged at it, after the header if it is the first, and flushes.
    ///
    /// # Errors
    /// What the writer answers; see [`super::log::explain`] for the words.
    pub fn write(&mut self, frame: &Frame, verdict: &Verdict) -> std::io::Result<()> {
        self.take_slots(frame);
        if !self.header_written {
            self.put(header(self.groups.unwrap_or(self.slots.len())))?;
            self.header_written = true;
        }
        // The first frame of a session has no length; it starts the clock.
        let length_ns = (frame.seconds.clamp(0.0, 1e6) * 1e9) as u64;
        let start = *self.start_ns.get_or_insert(frame.monotonic_ns.saturating_sub(length_ns));
        let row = CsvRow {
            frame,
            verdict,
            timestamp: timestamp(frame.unix_ms, &self.zone),
            elapsed_s: frame.monotonic_ns.saturating_sub(start) as f64 / 1e9,
            shares: frame.trainers.first().and_then(hundredths),
        };
        let mut fields: Vec<String> = COLUMNS.iter().map(|(_, value)| value(&row)).collect();
        for slot in &self.slots {
            let gpu = slot.readings(frame);
            fields.extend(GPU_COLUMNS.iter().map(|(_, value)| value(&gpu)));
        }
        if let Some(groups) = self.groups {
            fields.resize(COLUMNS.len() + groups * GPU_COLUMNS.len(), String::new());
        }
        fields.push(text(&waits_for(&verdict.chain).map(ChainNode::word).unwrap_or_default()));
        self.put(fields.into_iter())
    }

    /// Fixes the devices of the column groups at the first row. Under an existing header, groups that no device
    /// was there for are filled as devices get attached.
    fn take_slots(&mut self, frame: &Frame) {
        let Some(groups) = self.groups else {
            let attached = frame.gpus.iter().any(|gpu| gpu.attached);
            let chosen = frame.gpus.iter().filter(|gpu| gpu.attached || !attached);
            self.slots = chosen.take(GROUPS_MAX).map(DeviceSlot::of).collect();
            self.groups = Some(self.slots.len());
            return;
        };
        for gpu in frame.gpus.iter().filter(|gpu| gpu.attached) {
            if self.slots.len() < groups && !self.slots.iter().any(|slot| slot.is(gpu)) {
                self.slots.push(DeviceSlot::of(gpu));
            }
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

/// What the columns of one row are made of.
struct CsvRow<'r> {
    frame: &'r Frame,
    verdict: &'r Verdict,
    timestamp: String,
    elapsed_s: f64,
    /// What the loop's thread did, hundredths of a percent.
    shares: Option<[u32; LoopActivity::COUNT]>,
}

impl CsvRow<'_> {
    fn loop_share(&self, activity: LoopActivity) -> String {
        let share = self.shares.as_ref().and_then(|shares| shares.get(activity.index()));
        share.map(|share| format!("{}.{:02}", share / 100, share % 100)).unwrap_or_default()
    }

    fn steps_per_s(&self) -> Option<f64> {
        let trainer = self.frame.trainers.first().filter(|_| self.frame.seconds > 0.0)?;
        let exactly = trainer.steps.map(|steps| steps as f64 / self.frame.seconds);
        exactly.or(trainer.counted.as_ref().map(|counted| counted.per_s))
    }

    /// Nearest-rank quantile of the lengths of the steps.
    fn step_ms(&self, quantile: f64) -> Option<f64> {
        let mut lengths = self.frame.trainers.first()?.step_lengths_s.clone();
        lengths.retain(|length| length.is_finite());
        lengths.sort_by(f32::total_cmp);
        let rank = (quantile * lengths.len() as f64).ceil() as usize;
        lengths.get(rank.saturating_sub(1)).map(|seconds| f64::from(*seconds) * 1000.0)
    }

    /// The attached devices; one that is lost takes no part.
    fn gpus(&self) -> impl Iterator<Item = &GpuRates> {
        self.frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost)
    }

    fn workers(&self, part: fn(&WorkerRates) -> Option<f64>) -> String {
        share(mean(self.frame.workers.iter().map(part)))
    }

    /// These columns are about the job's own devices: where those are not known, nothing was measured.
    fn of_disks(&self, value: Option<f64>) -> Option<f64> {
        value.filter(|_| self.frame.storage.data_devices_known)
    }
}

fn text(text: &str) -> String {
    crate::text::sanitise(text).into_owned()
}

/// A number with so many decimals; empty when there is none, or when it is no number.
fn number(value: impl Into<Option<f64>>, decimals: usize) -> String {
    let Some(value) = value.into().filter(|value| value.is_finite()) else { return String::new() };
    let text = format!("{value:.decimals$}");
    // A tiny negative value would print as -0.00.
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|b| b == b'0' || b == b'.') => rest.to_owned(),
        _ => text,
    }
}

fn percent(value: Option<f64>) -> String {
    number(value, 2)
}

fn share(value: Option<f64>) -> String {
    percent(value.map(|value| value * 100.0))
}

fn mib(bytes: Option<f64>) -> String {
    number(bytes.map(|bytes| bytes / MIB), 3)
}

fn whole(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn bytes(value: Option<u64>) -> Option<f64> {
    value.map(|value| value as f64)
}

/// Sum, where every part is known and there is one.
fn sum(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let first = values.next()??;
    values.try_fold(first, |total, value| Some(total + value?))
}

/// The five shares of the main thread's time in hundredths of a percent that add up to exactly 10000 (largest
/// remainder), or none where nothing was seen.
fn hundredths(trainer: &TrainerRates) -> Option<[u32; LoopActivity::COUNT]> {
    let seconds = trainer.split_s.map(|s| if s.is_finite() { s.max(0.0) } else { 0.0 });
    let exact = seconds.shares_of(seconds.total())?.values().map(|share| share * 10_000.0);
    let mut whole = exact.map(|share| share.floor() as u32);
    let missing = 10_000u32.saturating_sub(whole.iter().sum()) as usize;
    let mut order = LoopActivity::ALL.map(LoopActivity::index);
    let rest = |position: usize| exact.get(position).map_or(0.0, |share| share.fract());
    order.sort_by(|&a, &b| rest(b).total_cmp(&rest(a)));
    for &position in order.iter().cycle().take(missing) {
        if let Some(share) = whole.get_mut(position) {
            *share += 1;
        }
    }
    Some(whole)
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
