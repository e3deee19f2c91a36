//! What other tools recorded, as samples: a reader per format, and [`merge`], which puts several files on one clock.
//!
//! Files come from anywhere. A reader is a pure function of bytes, with a bound on lines, rows and memory, and whatever a file does
//! not say stays `None`. What does not belong here: opening files, and any judgment.

mod dmon;
mod kineto;
pub mod merge;
mod profiles;
mod py_spy;
mod smi_query;
mod smi_rounds;
mod spans;
mod sysstat;
mod sysstat_rows;
mod tables;

use std::io::{self, Read, Seek};

use jiff::tz::TimeZone;

use trainmon_base::text::named_enum;
use trainmon_profiles::account::ProfileAccount;
use trainmon_sample::{BlockDevice, CpuTimes, GpuReading, IoCounters, NetInterface, ProfileSample};
use trainmon_sources::unpacked;

/// Longest line of a text format, bytes.
const TEXT_LINE_MAX: usize = 64 << 10;
/// Most readings of a file: eight GPUs once a second for seven hours, or one for two days.
const READINGS: usize = 200_000;
/// As much of a file shows its format.
const PEEKED: usize = 16 << 10;

named_enum! {
    /// A format that can be imported.
    pub enum ImportFormat {
        /// `nvidia-smi --query-gpu=… --format=csv`.
        NvidiaSmi = "nvidia-smi",
        /// `nvidia-smi dmon`.
        Dmon = "dmon",
        /// `pidstat`.
        Pidstat = "pidstat",
        /// `sar`.
        Sar = "sar",
        /// `py-spy record -f raw`.
        PySpyRaw = "py-spy-raw",
        /// `py-spy record -f speedscope`.
        Speedscope = "speedscope",
        /// A trace of torch.profiler, as JSON.
        Kineto = "kineto",
    }
}

/// Why a file cannot be imported, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It cannot be read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// Its format is unknown.
    #[error(
        "not of a format that trainmon imports ({}); name the format with --format",
        ImportFormat::ALL.map(ImportFormat::word).join(", ")
    )]
    Unknown,
    /// It is of a known format, but not as its tool writes it.
    #[error("{0}")]
    Bad(String),
    /// It has nothing that a recording needs.
    #[error("no {what} in it: record it with `{with}`")]
    Nothing {
        /// What is missing.
        what: &'static str,
        /// The command that records it.
        with: &'static str,
    },
    /// It is larger than anything its tool writes.
    #[error("larger than trainmon imports: {0}")]
    TooLarge(&'static str),
}

/// What a reader needs besides the bytes.
#[derive(Debug, Clone)]
pub struct ImportContext {
    /// The zone of times without one.
    pub zone: TimeZone,
    /// When the file was last written, milliseconds since 1970: the date of times without one.
    pub written_ms: i64,
}

/// One file's readings.
#[derive(Debug, Default)]
pub struct Imported {
    /// Its readings, in the order of time.
    pub readings: Vec<ToolReading>,
    /// The usual time between two of them, milliseconds.
    pub interval_ms: u64,
    /// The file has no times: its readings are taken as one interval apart, the last when the file was written.
    pub timeless: bool,
    /// The process that it is about.
    pub pid: Option<u32>,
    /// The exact account of it, if it is a profile.
    pub account: Option<ProfileAccount>,
    /// What was left out, for a note each.
    pub notes: Vec<String>,
}

/// What a tool measured in the interval that ends here. Counters are sums since the file's begin.
#[derive(Debug, Clone, Default)]
pub struct ToolReading {
    /// Wall clock at its end, milliseconds since 1970.
    pub unix_ms: i64,
    /// GPUs.
    pub gpus: Vec<GpuReading>,
    /// CPUs of the host, in units of which [`TICKS_PER_S`] make a second.
    pub cpus: Vec<CpuTimes>,
    /// Network interfaces.
    pub nets: Vec<NetInterface>,
    /// Memory of the host in total and available, bytes.
    pub memory: Option<(u64, u64)>,
    /// Disks.
    pub disks: Vec<BlockDevice>,
    /// The job's process.
    pub process: Option<ProcessReading>,
    /// The loop's time.
    pub profile: Option<ProfileSample>,
}

/// The job's process by its counters.
#[derive(Debug, Clone, Default)]
pub struct ProcessReading {
    /// Its PID.
    pub pid: u32,
    /// Its command, as far as the tool shows it.
    pub command: String,
    /// CPU time in user mode and in the kernel, in units of which [`TICKS_PER_S`] make a second.
    pub ticks: (u64, u64),
    /// Page faults without and with a read.
    pub faults: (u64, u64),
    /// Resident set, bytes.
    pub rss_bytes: u64,
    /// What it read from and wrote to storage.
    pub io: Option<IoCounters>,
}

/// Clock ticks per second of imported counters: fine enough for a tool's hundredths of a percent.
pub(crate) const TICKS_PER_S: u32 = 10_000;

/// Reads a file of any known format.
///
/// # Errors
/// One line: what is wrong with it.
pub fn read(
    mut file: impl Read + Seek,
    format: Option<ImportFormat>,
    context: &ImportContext,
) -> Result<(ImportFormat, Imported), ImportError> {
    let mut head = vec![0; PEEKED];
    let length = fill(&mut unpacked::reader(&mut file)?, &mut head)?;
    head.truncate(length);
    let text = String::from_utf8_lossy(&head);
    let format = format.or_else(|| recognize(&text)).ok_or(ImportError::Unknown)?;
    let input = unpacked::reader(file)?;
    let imported = match format {
        ImportFormat::NvidiaSmi => smi_query::read(input, context),
        ImportFormat::Dmon => dmon::read(input, context),
        ImportFormat::Pidstat => sysstat::pidstat(input, context),
        ImportFormat::Sar => sysstat::sar(input, context),
        ImportFormat::PySpyRaw => py_spy::raw(input, context),
        ImportFormat::Speedscope => py_spy::speedscope(input, context),
        ImportFormat::Kineto => kineto::read(input),
    }?;
    Ok((format, imported))
}

/// The format of a file that begins like this.
fn recognize(head: &str) -> Option<ImportFormat> {
    let head = head.trim_start_matches('\u{feff}').trim_start();
    let first = head.lines().next().unwrap_or_default();
    if head.starts_with(['{', '[']) {
        let speedscope = head.contains("speedscope.app/file-format-schema");
        // A trace may begin with anything; the reader says why another file cannot be read.
        return Some(if speedscope { ImportFormat::Speedscope } else { ImportFormat::Kineto });
    }
    if let Some(format) = sysstat_rows::recognize(head) {
        return Some(format);
    }
    if first.starts_with('#') && first.split([' ', ',', '#']).any(|word| word == "gpu") {
        return Some(ImportFormat::Dmon);
    }
    if smi_query::is_header(first) {
        return Some(ImportFormat::NvidiaSmi);
    }
    py_spy::is_raw(first).then_some(ImportFormat::PySpyRaw)
}

/// Reads until the buffer is full or the input ends.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = buffer.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match from.read(rest)? {
            0 => break,
            more => length += more,
        }
    }
    Ok(length)
}

/// The usual distance of moments, milliseconds: the median, at least 100 ms.
fn usual_interval_ms(times: impl Iterator<Item = i64> + Clone) -> Option<u64> {
    let mut gaps: Vec<i64> = times.clone().zip(times.skip(1)).map(|(a, b)| b.saturating_sub(a)).collect();
    gaps.retain(|gap| *gap > 0);
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map(|gap| gap.unsigned_abs().max(100))
}
