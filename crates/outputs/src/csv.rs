//! The CSV of `--log`: one row per frame, columns fixed for as long as the file lives (RFC 4180, UTF-8).
//!
//! Each row goes out in ONE write, so that a reader that follows the file, or a full disk, never sees half a row. A
//! value that was not measured is empty, never 0.

mod columns;

use std::io::Write;
use std::sync::Arc;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use columns::CsvRow;
pub(super) use columns::hundredths;
pub use columns::{COLUMNS, Column, GPU_COLUMNS, LAST_COLUMNS};
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_rates::frame::GpuRates;
use trainmon_waits::Frame;

/// Most groups of GPU columns (the largest hosts have 16 GPUs, or a few dozen MIG instances).
pub const GROUPS_MAX: usize = 64;

/// The header for so many GPUs, without the line's end.
pub fn header(groups: usize) -> impl Iterator<Item = String> {
    let own = |columns: &'static [Column]| columns.iter().map(|column| column.name.to_owned());
    let devices = (0..groups).flat_map(|n| GPU_COLUMNS.iter().map(move |column| format!("gpu{n}_{}", column.name)));
    own(COLUMNS).chain(devices).chain(own(LAST_COLUMNS))
}

/// The number of GPU groups if this line (without its end) is a header of ours.
///
/// # Errors
/// The first column that differs, counted from 1.
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

/// A number of a frame, with the column that it has in the log.
#[derive(Debug)]
pub struct CsvNumber {
    /// For a GPU column: index of the GPU.
    pub gpu: Option<u32>,
    /// The column.
    pub column: &'static Column,
    /// The number.
    pub value: f64,
}

/// What was measured of a frame, in the order of the columns, with the GPUs that the job uses and without the loop's time.
pub fn numbers(frame: &Frame, verdict: &Verdict) -> Vec<CsvNumber> {
    let mut row =
        CsvRow { frame, verdict, timestamp: String::new(), elapsed_s: 0.0, shares: None, gpu: GpuRates::default() };
    let number =
        |gpu, column: &'static Column, row: &CsvRow<'_>| Some(CsvNumber { gpu, column, value: column.number(row)? });
    let mut numbers: Vec<_> = COLUMNS.iter().filter_map(|column| number(None, column, &row)).collect();
    for gpu in frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost) {
        row.gpu = gpu.clone();
        numbers.extend(GPU_COLUMNS.iter().filter_map(|column| number(Some(gpu.index), column, &row)));
    }
    numbers
}

/// The GPU of a group of columns, the same for the life of the file.
#[derive(Debug, Clone, PartialEq)]
struct DeviceSlot {
    index: u32,
    uuid: Option<Arc<str>>,
}

impl DeviceSlot {
    fn new(gpu: &GpuRates) -> Self {
        Self { index: gpu.index, uuid: gpu.uuid.clone() }
    }

    fn is(&self, gpu: &GpuRates) -> bool {
        match (&self.uuid, &gpu.uuid) {
            (Some(mine), Some(its)) => mine == its,
            _ => self.index == gpu.index,
        }
    }

    /// What the group's columns show: no readings while the job does not use the GPU.
    fn readings(&self, frame: &Frame) -> GpuRates {
        let used = frame.gpus.iter().find(|gpu| self.is(gpu)).filter(|gpu| gpu.attached && !gpu.lost);
        GpuRates { index: self.index, uuid: self.uuid.clone(), ..used.cloned().unwrap_or_default() }
    }
}

/// Writes frames as rows. The header goes out before the first row, unless the file has one already.
#[derive(Debug)]
pub struct CsvLog<W: Write> {
    /// Where the rows go.
    pub out: W,
    zone: TimeZone,
    /// False if the next row needs a header above it.
    pub(super) header_written: bool,
    /// The number of GPU groups, once the first row or the file's header has fixed it.
    pub(super) groups: Option<usize>,
    slots: Vec<DeviceSlot>,
    start_ns: Option<u64>,
}

impl<W: Write> CsvLog<W> {
    /// A log that begins with a header. Its columns are for the GPUs of the first row: those that the job uses, or, if it uses
    /// none yet, all that can be read (their readings stay empty until it does).
    pub fn new(out: W) -> Self {
        Self {
            out,
            zone: trainmon_base::zone::local(),
            header_written: false,
            groups: None,
            slots: Vec::new(),
            start_ns: None,
        }
    }

    /// A log that continues under a header with so many GPU groups.
    pub fn appending(out: W, groups: usize) -> Self {
        Self { header_written: true, groups: Some(groups), ..Self::new(out) }
    }

    /// Writes the row of a tick, after the header if it is the first, and flushes.
    ///
    /// # Errors
    /// What the writer answers; see [`super::log::LogOut::cannot_write`] for the words.
    pub fn write(&mut self, tick: &Tick) -> std::io::Result<()> {
        let frame = &*tick.frame;
        self.take_slots(frame);
        if !self.header_written {
            self.put(header(self.groups.unwrap_or(self.slots.len())))?;
            self.header_written = true;
        }
        // The first frame of a session has no length; it starts the clock.
        let length_ns = (frame.seconds.clamp(0.0, 1e6) * 1e9) as u64;
        let start = *self.start_ns.get_or_insert(frame.monotonic_ns.saturating_sub(length_ns));
        let mut row = CsvRow {
            frame,
            verdict: &tick.judged,
            timestamp: timestamp(frame.unix_ms, &self.zone),
            elapsed_s: frame.monotonic_ns.saturating_sub(start) as f64 / 1e9,
            shares: tick.shares.and_then(|shares| hundredths(&shares)),
            gpu: GpuRates::default(),
        };
        let mut fields: Vec<String> = COLUMNS.iter().map(|column| column.field(&row)).collect();
        for slot in &self.slots {
            row.gpu = slot.readings(frame);
            fields.extend(GPU_COLUMNS.iter().map(|column| column.field(&row)));
        }
        if let Some(groups) = self.groups {
            fields.resize(COLUMNS.len() + groups * GPU_COLUMNS.len(), String::new());
        }
        fields.extend(LAST_COLUMNS.iter().map(|column| column.field(&row)));
        self.put(fields.into_iter())
    }

    /// Fixes the GPUs of the column groups at the first row. Under an existing header, free groups are filled as the job starts
    /// to use GPUs.
    fn take_slots(&mut self, frame: &Frame) {
        let Some(groups) = self.groups else {
            let attached = frame.gpus.iter().any(|gpu| gpu.attached);
            let chosen = frame.gpus.iter().filter(|gpu| gpu.attached || !attached);
            self.slots = chosen.take(GROUPS_MAX).map(DeviceSlot::new).collect();
            self.groups = Some(self.slots.len());
            return;
        };
        for gpu in frame.gpus.iter().filter(|gpu| gpu.attached) {
            if self.slots.len() < groups && !self.slots.iter().any(|slot| slot.is(gpu)) {
                self.slots.push(DeviceSlot::new(gpu));
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

#[cfg(test)]
#[path = "csv_tests.rs"]
mod tests;
