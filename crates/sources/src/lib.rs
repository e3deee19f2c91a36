//! Readers of the outside world, one file for each source. They block, take their root as an argument, and know neither
//! threads nor time; parsing is a pure function of bytes.
//!
//! A reader that the collector asks once a tick on its own thread is an [`AskedSource`], listed in [`start_asked`].

pub mod accelerators;
mod block;
pub mod cgroup;
pub mod clock;
pub mod connections;
mod data_files;
mod data_mounts;
pub mod descriptors;
pub mod ending;
pub mod environ;
pub mod fields;
pub mod files;
pub mod gpu;
mod gpu_reader;
pub mod hidepid;
pub mod host;
pub mod interpreter;
pub mod job;
pub mod job_rights;
mod kernel_log;
mod last_lines;
mod links;
pub mod log_file;
pub mod maps;
mod mounts;
mod mountstats;
pub mod namespaces;
pub mod other_processes;
pub mod outlook;
pub mod process;
pub mod processes;
pub mod py_spy;
pub mod python;
pub mod recording;
pub mod regular_file;
mod roles;
pub mod sampler;
mod secrets;
pub mod simulated_gpu;
pub mod software;
pub mod storage;
pub mod task_files;
pub mod trusted_program;
pub mod unpacked;

use std::io;
use std::path::PathBuf;

use trainmon_sample::{SamplePart, SourceState, SourceStatus};

/// Where the kernel's file systems are mounted; a test or a container's host mount gives other paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// Where the sources are found.
#[derive(Debug, Clone, Default)]
pub struct SourceOptions {
    /// Where `/proc` and `/sys` are.
    pub roots: Roots,
    /// The NVML library, if not the loader's choice.
    pub nvml_lib: Option<PathBuf>,
    /// The state file of a simulated GPU, which then replaces NVML.
    pub simulated_gpu: Option<PathBuf>,
}

/// A request to a source.
#[derive(Debug)]
pub struct Ask {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub now_ns: u64,
    /// The job's processes, the most informative first.
    pub pids: Vec<u32>,
    /// Sparing mode: what is read now and then is read less often.
    pub sparing: bool,
}

/// A source that is read once a tick, on a thread of its own because it may be slow or hang. A tick waits for it only
/// briefly.
pub trait AskedSource: Sized {
    /// What it reads.
    type Value: SamplePart;
    /// Name of its thread.
    const THREAD: &'static str;
    /// Whether it reads with all of trainmon's rights. Not for one that loads libraries or runs programs.
    const WITH_RIGHTS: bool;

    /// Opens it. After a failure it is reopened, but not at once.
    ///
    /// # Errors
    /// Why there is nothing to read.
    fn open(options: &SourceOptions) -> Result<Self, SourceStatus>;

    /// Reads it once.
    ///
    /// # Errors
    /// Why there is no value.
    fn read(&mut self, ask: &Ask) -> Result<Self::Value, SourceStatus>;
}

/// Starts the thread of a source.
pub trait StartAsked {
    /// Starts the thread of `S`.
    fn start<S: AskedSource>(&mut self);
}

/// Starts every [`AskedSource`].
pub fn start_asked(starter: &mut impl StartAsked) {
    starter.start::<Box<dyn gpu::GpuReader>>();
    starter.start::<storage::StorageReader>();
}

/// The status of a source whose file `what` cannot be read.
pub fn unreadable(what: &str, error: &io::Error) -> SourceStatus {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    SourceStatus::new(if denied { SourceState::Denied } else { SourceState::Absent }, format!("{what}: {error}"))
}
