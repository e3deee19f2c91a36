//! Plain data of one tick: the raw counters that the sources read, and nothing derived from them.
//!
//! A [`Sample`] holds what the kernel and NVML reported, in their own units, with `None` for whatever was not measured.
//! Formulas live downstream (`rates`, `diagnosis`), so a stored sample can be judged again later by better formulas.
//! This folder has no I/O, no clock and no terminal.

pub mod connections;
pub mod ending;
pub mod gpu;
pub mod host;
pub mod job;
pub mod locals;
pub mod log_row;
pub mod loop_profile;
pub mod other_processes;
pub mod outlook;
pub mod private;
pub mod probe_counts;
pub mod process;
mod profile_account;
pub mod recording;
pub mod sampler;
pub mod source;
pub mod stacks;
pub mod storage;
pub mod syscall;

use std::sync::Arc;

use private::{Private, TextKind, Visit};
use serde::{Deserialize, Serialize};

use source::sources;
use trainmon_profiles::account::ProfileAccount;

pub use connections::{Channel, ConnectionsSample, LockWait};
pub use ending::{EndingSample, OutputEnd};
pub use gpu::{Gpm, GpuProcess, GpuReading, GpuSample, UtilizationPoint};
pub use host::{CgroupSample, CpuTimes, HostSample, NetInterface, Pressure};
pub use job::{JobAccess, JobSample, RunIdentity, Software, Unwatched};
pub use locals::{FrameLocals, LocalsSample, ThreadLocals};
pub use loop_profile::ProfileSample;
pub use other_processes::{OtherProcessProcess, OtherProcessesSample};
pub use outlook::{OutlookSample, ProcessMemory, ProgressBar};
pub use process::{IoCounters, ProcessId, ProcessRole, ProcessSample, RankPlace, ThreadRole, ThreadSample};
pub use sampler::{Descriptor, Observation, SampledProcess, SampledThread, SamplerSample};
pub use source::{SamplePart, SourceState, SourceStatus};
pub use stacks::{StackCount, StackFrame, StackWindow, StacksSample, ThreadStacks};
pub use storage::{BlockDevice, DataMount, MountKind, StorageSample};

/// Everything that was read for one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Counts the ticks of this session from 0.
    pub sequence: u64,
    /// Wall clock, milliseconds since 1970-01-01 UTC. For people and files; never for rates.
    pub unix_ms: i64,
    /// CLOCK_MONOTONIC, nanoseconds. Rates are computed over this clock.
    pub monotonic_ns: u64,
    /// CLOCK_BOOTTIME, nanoseconds: it counts suspend, so a jump relative to `monotonic_ns` marks one.
    pub boottime_ns: u64,
    /// The attached job: its processes, its threads and what the sampler recorded of them.
    pub job: Option<Arc<JobSample>>,
    /// The host the job runs on.
    pub host: Option<Arc<HostSample>>,
    /// Block devices, and the mounts that hold the job's data files.
    pub storage: Option<Arc<StorageSample>>,
    /// The GPUs.
    pub gpus: Option<Arc<GpuSample>>,
    /// Python stacks taken since the last tick; `None` without new ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stacks: Option<Arc<StacksSample>>,
    /// The training loop's time as recorded by another tool; only in imported recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<Arc<ProfileSample>>,
    /// The exact account of a profile of the run: of an imported trace, with the first sample; of one that was taken while the
    /// run was watched, with the sample after that.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "profile_account")]
    pub account: Option<Arc<ProfileAccount>>,
    /// The busiest processes outside the job, from the latest scan; `None` if they are not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "neighbours")]
    pub other_processes: Option<Arc<OtherProcessesSample>>,
    /// What says how the run will go on, where a job is followed for days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Arc<OutlookSample>>,
    /// How the attached process has ended, with the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Arc<EndingSample>>,
    /// The state of each source at this tick.
    pub sources: Sources,
    /// What trainmon itself costs.
    pub own: OwnSample,
}

sources! {
    without_status: other_processes, outlook, ending, profile, account;
    /// `/proc/PID` of the job.
    Job(JobSample) { value: job, status: job, title: "processes", seen: None }
    /// Host-wide files of `/proc` and the cgroup tree.
    Host(HostSample) { value: host, status: host, title: "host", seen: None }
    /// Disks and mounts.
    Storage(StorageSample) { value: storage, status: storage, title: "disks", seen: Some("disks") }
    /// NVML (or the simulated GPU).
    Gpu(GpuSample) { value: gpus, status: gpu, title: "GPU", seen: Some("nvml") }
    /// Python stacks through py-spy.
    Stacks(StacksSample) { value: stacks, status: stacks, title: "stacks", seen: Some("stacks") }
}

impl Private for Sample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        self.parts_mut().for_each(|part| part.visit_texts(visit));
        for status in self.sources.all_mut() {
            status.reason.iter_mut().chain(&mut status.fix).for_each(|text| visit(TextKind::Prose, text));
        }
    }

    fn leave_out(&mut self) {
        self.parts_mut().for_each(Private::leave_out);
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// trainmon's own cost, read from `/proc/self`.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct OwnSample {
    /// CPU time of all of trainmon's threads since start, nanoseconds (`clock_gettime(CLOCK_PROCESS_CPUTIME_ID)`).
    pub cpu_ns: Option<u64>,
    /// CPU time of helper programs that trainmon started and that have ended (py-spy), nanoseconds.
    pub children_cpu_ns: Option<u64>,
    /// Resident set, plus what the kernel charges for the files of `/proc` kept open, bytes.
    pub rss_bytes: Option<u64>,
}

/// Whether a class of the target's files can be read.
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
    /// The word in the JSON's `seen` object.
    pub fn seen(self) -> &'static str {
        match self {
            Self::Untried => "pending",
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Absent => "absent",
        }
    }
}
