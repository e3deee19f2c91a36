//! Jobs: the processes that may be training, those that are attached to, and what may be done to them. Nothing is drawn, asked
//! or confirmed here.
//!
//! The plain types here are what the screen knows of them.

pub mod actions;
pub mod attached;
pub mod candidates;
pub mod followed;
pub mod output;
pub mod output_file;
pub mod profile;
pub mod profile_taker;
pub mod recorded;
pub mod recorded_profile;
pub mod restart;
pub mod session;
pub mod watched;

use std::sync::Arc;

use trainmon_base::text::sanitize;
use trainmon_diagnosis::pipeline::Tick;

/// Names an attached job for as long as the program runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobKey(pub u32);

/// What the attached process is called.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// PID.
    pub pid: u32,
    /// Command line, raw.
    pub command: String,
}

/// Something that comes from an attached job or a recording.
#[derive(Debug, Clone)]
pub enum JobEvent {
    /// The next interval.
    Tick(Arc<Tick>),
    /// The recording has been read to its end; a note where something is missing there.
    Loaded(Option<String>),
}

/// What the screen needs beyond the ordinary samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Fresh stacks, one window after the other.
    pub stacks: bool,
    /// The heaviest processes beside the job.
    pub other_processes: bool,
    /// The list of processes that may be training.
    pub candidates: bool,
}

/// A process that may be training, with what it has started: rates and sizes are sums over both.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobCandidate {
    /// PID.
    pub pid: u32,
    /// Command line, raw.
    pub command: String,
    /// Owner, raw.
    pub user: Option<String>,
    /// Owner.
    pub uid: Option<u32>,
    /// State letter of `/proc/PID/stat` (proc(5)).
    pub state: Option<char>,
    /// Percent of one core between the last two scans.
    pub cpu_pct: Option<f64>,
    /// Resident memory.
    pub rss_bytes: Option<u64>,
    /// GPU memory; `None` where no visible GPU is used, 0 where one is and the amount is unknown.
    pub gpu_memory_bytes: Option<u64>,
    /// Its use of the GPUs, percent, summed over GPUs.
    pub gpu_pct: Option<f64>,
    /// Data-loader workers.
    pub workers: u32,
    /// A machine-learning library that it has mapped, as its file is called. Raw.
    pub library: Option<String>,
    /// Seconds since it was started.
    pub age_s: Option<u64>,
}

impl JobCandidate {
    /// The library's name without what files have around it: `torch` for `libtorch_cpu.so`.
    pub fn library_name(&self) -> Option<String> {
        let file = self.library.as_deref()?;
        let name = file.trim_start_matches("lib");
        let end = name.find(['.', '_']).unwrap_or(name.len());
        Some(sanitize(name.get(..end).unwrap_or(name)).into_owned())
    }
}
