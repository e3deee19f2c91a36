//! Plain data of one tick: the raw counters that the sources read, and nothing derived from them.
//!
//! A [`Sample`] holds what the kernel and NVML said, in their own units, with `None` for whatever was not
//! measured. Formulas live downstream (`rates`, `diagnosis`), so a stored sample can be judged again later by
//! better formulas. There is no I/O, no clock and no terminal in this folder.

pub mod connections;
pub mod gpu;
pub mod host;
pub mod job;
pub mod locals;
pub mod neighbours;
pub mod process;
pub mod recording;
pub mod sampler;
pub mod stacks;
pub mod storage;
pub mod syscall;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use connections::{Channel, ConnectionsSample, LockWait};
pub use gpu::{Gpm, GpuDevice, GpuProcess, GpuSample, UtilizationPoint};
pub use host::{CgroupSample, CpuTimes, HostSample, NetInterface, Pressure};
pub use job::{JobAccess, JobSample, Unwatched};
pub use locals::{FrameLocals, LocalsSample, ThreadLocals};
pub use neighbours::{NeighbourProcess, NeighboursSample};
pub use process::{IoCounters, ProcessId, ProcessRole, ProcessSample, RankPlace, ThreadRole, ThreadSample};
pub use sampler::{Descriptor, Observation, SampledProcess, SampledThread, SamplerSample};
pub use stacks::{StackCount, StackFrame, StackWindow, StacksSample, ThreadStacks};
pub use storage::{BlockDevice, DataMount, MountKind, StorageSample};

/// Everything that was read for one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Counts the ticks of this session from 0.
    pub sequence: u64,
    /// Wall clock, milliseconds since 1970-01-01 UTC. For people and files; never for rates.
    pub unix_ms: i64,
    /// CLOCK_MONOTONIC, nanoseconds. Rates are taken over this clock.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME, nanoseconds: runs on through a suspend, so a jump against `monotonic_ns` marks one.
    pub boottime_ns: u64,
    /// The attached job: its processes, its threads and what the sampler saw them doing.
    pub job: Option<Arc<JobSample>>,
    /// The host the job runs on.
    pub host: Option<Arc<HostSample>>,
    /// Block devices and the mounts that the job's data files lie on.
    pub storage: Option<Arc<StorageSample>>,
    /// The GPUs.
    pub gpus: Option<Arc<GpuSample>>,
    /// Python stacks that were taken since the last tick; `None` where there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Arc<StacksSample>>,
    /// The busiest processes besides the job's, as of the latest scan; `None` where nobody asked for them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub neighbours: Option<Arc<NeighboursSample>>,
    /// How each source stands at this tick.
    pub sources: Sources,
    /// What trainmon itself costs.
    pub own: OwnSample,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// How each source stands.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sources {
    /// `/proc/PID` of the job.
    pub job: SourceStatus,
    /// Host-wide files of `/proc` and the cgroup tree.
    pub host: SourceStatus,
    /// Disks and mounts.
    pub storage: SourceStatus,
    /// NVML (or the simulated device).
    pub gpu: SourceStatus,
    /// Python stacks through py-spy.
    #[serde(default)]
    pub stacks: SourceStatus,
}

/// State of one source, with the reason in words where it is not [`SourceState::Fresh`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceStatus {
    /// The state.
    pub state: SourceState,
    /// Why, in one short line ("libnvidia-ml.so.1 not found").
    pub reason: Option<Arc<str>>,
    /// The command or setting that would mend it.
    #[serde(alias = "mend")]
    pub fix: Option<Arc<str>>,
    /// Milliseconds since the value shown was read.
    pub age_ms: Option<u64>,
}

/// Whether a source's latest value can be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceState {
    /// Nothing has been read yet.
    #[default]
    Pending,
    /// Read within the last two intervals.
    Fresh,
    /// The last value is older than two intervals.
    Stale,
    /// A call has been outstanding for longer than its time-out.
    Hung,
    /// What was read has ended (process exited, GPU lost).
    Gone,
    /// There is nothing to read here (no driver, no library, no such file).
    Absent,
    /// The kernel refuses access.
    Denied,
}

impl SourceState {
    /// The word that the JSON's `seen` object uses: `ok`, `denied`, `absent`, `hung`, or a short kind.
    #[must_use]
    pub fn seen(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Fresh => "ok",
            Self::Stale => "stale",
            Self::Hung => "hung",
            Self::Gone => "gone",
            Self::Absent => "absent",
            Self::Denied => "denied",
        }
    }
}

/// trainmon's own cost, read from `/proc/self`.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct OwnSample {
    /// CPU time of all our threads since start, nanoseconds (`clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`).
    pub cpu_ns: Option<u64>,
    /// CPU time of the helper programs that we started and that have ended (py-spy), nanoseconds.
    pub children_cpu_ns: Option<u64>,
    /// Resident set, and what the kernel charges for the files of `/proc` that are kept open, bytes.
    pub rss_bytes: Option<u64>,
}

/// Whether a class of files of the target may be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Not tried yet.
    #[default]
    Untried,
    /// Readable.
    Ok,
    /// EACCES or EPERM.
    Denied,
    /// The file does not exist on this kernel.
    Absent,
}

impl Access {
    /// The word that the JSON's `seen` object uses.
    #[must_use]
    pub fn seen(self) -> &'static str {
        match self {
            Self::Untried => "pending",
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Absent => "absent",
        }
    }
}
