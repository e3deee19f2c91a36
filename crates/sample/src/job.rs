//! The attached job: the process tree under the PID, and what may be read of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::{Private, TextKind, Visit};
use super::{Access, CgroupSample, ConnectionsSample, ProcessId, ProcessSample, SamplerSample};

/// The job at one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JobSample {
    /// CLOCK_MONOTONIC at the moment the tree was read, nanoseconds.
    pub monotonic_ns: u64,
    /// The process trainmon was attached to.
    pub target: ProcessId,
    /// False once the target has exited or become a zombie.
    pub alive: bool,
    /// The target and all its living descendants, target first, otherwise by PID.
    pub processes: Vec<ProcessSample>,
    /// What the sampler recorded since the last tick. Recordings of schema 1 have it in another form.
    #[serde(default)]
    pub sampler: SamplerSample,
    /// What connects the processes. `None` in recordings without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<Arc<ConnectionsSample>>,
    /// What may be read of the target.
    pub access: JobAccess,
    /// The command that reads what is denied. `None` where more rights bring nothing, and in older recordings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_more_rights: Option<Arc<str>>,
    /// The target's cgroup.
    pub cgroup: CgroupSample,
    /// CPUs that the target may run on: affinity mask limited by the cpuset. Empty if unknown.
    pub allowed_cpus: Vec<u16>,
    /// Number of physical cores behind those CPUs: hardware threads of one core count once. `None` if the machine does
    /// not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_cores: Option<u16>,
    /// Minors of `/dev/nvidiaN` files that the tree holds open. `None` if descriptors cannot be read.
    pub nvidia_minors: Option<Vec<u32>>,
    /// Device files of accelerators without a `/dev/nvidiaN` that the tree holds open: see [`is_accelerator`]. Empty in older
    /// recordings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Arc<str>>,
    /// The GPUs that the target's environment leaves visible, as in `CUDA_VISIBLE_DEVICES`: numbers, or starts of UUIDs.
    pub cuda_visible_devices: Option<Arc<str>>,
    /// What the run is called and when it must be done, by its environment. Empty in older recordings.
    #[serde(default, skip_serializing_if = "RunIdentity::is_unknown")]
    pub run: RunIdentity,
    /// A machine-learning library that the tree has mapped (`libtorch`, `libtensorflow`…): evidence that this is a
    /// training process at all.
    pub library: Option<Arc<str>>,
    /// Which Python and which torch its training process runs. Unknown in older recordings.
    #[serde(default, skip_serializing_if = "Software::is_unknown")]
    pub software: Software,
    /// True if the target is in another PID namespace than trainmon.
    pub other_pid_namespace: bool,
    /// Clock ticks per second (`sysconf(_SC_CLK_TCK)`), the unit of the tick counters below.
    pub ticks_per_second: u32,
    /// Parts of the job that are not watched because there are too many.
    #[serde(default, skip_serializing_if = "Unwatched::is_nothing")]
    pub unwatched: Unwatched,
}

impl Private for JobSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        self.processes.iter_mut().for_each(|process| process.visit_texts(visit));
        let descriptors = self.sampler.seen.iter_mut().flat_map(|seen| &mut seen.descriptors);
        descriptors.for_each(|descriptor| visit(TextKind::Link, &mut descriptor.link));
        if let Some(connections) = &mut self.connections {
            Arc::make_mut(connections).visit_texts(visit);
        }
        self.library.iter_mut().for_each(|library| visit(TextKind::Name, library));
        self.run.name.iter_mut().chain(&mut self.run.slurm_job_id).for_each(|name| visit(TextKind::Name, name));
        self.cgroup.path.iter_mut().for_each(|path| visit(TextKind::Path, path));
    }

    fn leave_out(&mut self) {
        self.run.name = None; // people name runs after their projects
        self.cgroup.thaw = None; // names the group's folder
        self.with_more_rights = None; // names the folder of trainmon
    }
}

/// What a job's launcher and scheduler say of its run in the environment of its processes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunIdentity {
    /// Its name, the same for all its ranks on all machines; raw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Arc<str>>,
    /// Slurm's number of the job, raw.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm_job_id: Option<Arc<str>>,
    /// When its time limit ends it, seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_unix_s: Option<i64>,
}

impl RunIdentity {
    /// Whether the environment says nothing.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// The versions of what a training process runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Software {
    /// Version of Python (`3.11.2`, or `3.11` where only its file name is known).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub python: Option<Arc<str>>,
    /// Version of torch (`2.6.0+cu124`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub torch: Option<Arc<str>>,
}

impl Software {
    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// How device files begin of accelerators without a `/dev/nvidiaN`: AMD's compute driver (amdkfd); DRM render nodes of AMD and Intel; the
/// kernel's compute accelerators (drivers/accel: Intel's and AMD's NPUs, Gaudi) and Google's TPUs, numbered in the same place; TPUs
/// passed to user space by VFIO; AWS Neuron; Ascend; Gaudi by its earlier driver; Tenstorrent; all GPUs under WSL; Jetson.
const ACCELERATORS: [&str; 10] = [
    "/dev/kfd",
    "/dev/dri/renderD",
    "/dev/accel",
    "/dev/vfio/",
    "/dev/neuron",
    "/dev/davinci",
    "/dev/hl",
    "/dev/tenstorrent/",
    "/dev/dxg",
    "/dev/nvhost-gpu",
];

/// Whether a path is the device file of such an accelerator.
pub fn is_accelerator(path: &str) -> bool {
    ACCELERATORS.iter().any(|known| path.starts_with(known))
}

/// Says that the job uses accelerators that trainmon cannot read, by their device files.
pub fn unread_accelerators(files: &[Arc<str>]) -> String {
    format!("the job uses an accelerator that trainmon cannot read ({})", files.join(", "))
}

/// What of a job is not watched, because there is too much of it, or too few resources to watch it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Unwatched {
    /// Processes that were found but left out; what they have started is unknown.
    pub processes: u32,
    /// Most processes watched.
    pub most_processes: u32,
    /// Threads of watched processes that are left out.
    pub threads: u32,
    /// Most threads of one process watched.
    pub most_threads: u32,
    /// Threads whose waits are not sampled, because their files cannot be kept open.
    pub waits: u32,
    /// Processes whose files are opened for each read, which costs more, because there are too few descriptors.
    pub reopened: u32,
    /// Processes that could not be read at all, because no file could be opened.
    pub unread: u32,
    /// Most threads whose waits could be sampled, where that is next to none because of too few descriptors; 0 elsewhere.
    #[serde(default)]
    pub room_for_waits: u32,
    /// Why no more files are kept open, if so.
    pub reason: Option<Arc<str>>,
    /// The command that fixes it.
    #[serde(alias = "mend")]
    pub fix: Option<Arc<str>>,
}

impl Unwatched {
    /// Whether everything is watched.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What may be read of the target.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAccess {
    /// `/proc/PID/syscall`: needs ptrace attach rights.
    pub syscall: Access,
    /// `/proc/PID/wchan`: needs ptrace read rights; reads `0` without them.
    pub wchan: Access,
    /// `/proc/PID/io`: needs ptrace read rights.
    pub io: Access,
    /// `/proc/PID/fd`: needs ptrace read rights.
    pub fd: Access,
    /// `syscall` is not opened because of `--no-ptrace`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_ptrace: bool,
}
