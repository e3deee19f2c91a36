//! The signals that verdicts rest on. The one table of their names in the JSON, units, sources and labels.

use serde::{Deserialize, Serialize};

use trainmon_base::text::format::Unit;
use trainmon_base::text::named_enum;
use trainmon_sample::SourceId;

macro_rules! signals {
    ($($Signal:ident = $name:literal, $Unit:ident, $Source:ident, $label:literal;)*) => {
        named_enum! {
            /// A signal.
            pub enum Signal { $(#[doc = $label] $Signal = $name,)* }
        }

        impl Signal {
            /// The unit of its values.
            pub(super) fn unit(self) -> Unit {
                match self { $(Self::$Signal => Unit::$Unit),* }
            }

            /// What its values are read from.
            pub(super) fn source(self) -> SourceId {
                match self { $(Self::$Signal => SourceId::$Source),* }
            }

            /// What it measures, as a noun phrase: "GPU busy" before ": 73% (limit 85%)".
            pub fn label(self) -> &'static str {
                match self { $(Self::$Signal => $label),* }
            }
        }
    };
}

signals! {
    InputWait = "input_wait", Share, Job, "loop waiting for data";
    LostWait = "lost_wait", Share, Gpu, "GPU idle while the loop waits for data";
    HostBusy = "host_busy", Share, Job, "loop doing its own work";
    DeviceSync = "device_sync", Share, Job, "loop waiting for the GPU";
    Checkpoint = "checkpoint", Share, Job, "loop saving";
    MainRunDelay = "main_run_delay", Share, Job, "loop queueing for a CPU, of the time it could run";
    Loading = "loading", Share, Stacks, "loop loading batches itself";
    Receiving = "receiving", Share, Stacks, "loop receiving batches";
    LoaderStart = "loader_start", Share, Stacks, "loop starting workers";
    QueueWait = "queue_wait", Share, Stacks, "loop waiting on a queue of the program";
    Model = "model", Share, Stacks, "loop in forward, backward, optimizer and copies";
    Report = "report", Share, Stacks, "loop logging and reporting";
    Collectives = "collectives", Share, Stacks, "loop in collectives";
    SyncLines = "sync_lines", Share, Stacks, "loop at lines that wait for the GPU";
    FutexWait = "futex_wait", Share, Job, "loop waiting in a futex";
    OtherThread = "other_thread", Share, Job, "busiest other thread of the loop's process, running or queueing";
    MainRead = "main_read", BytesPerS, Job, "data that the loop's process reads (read calls)";
    WaitsForProcess = "waits_for_process", Share, Job, "loop waiting for another process";
    WaitsForThread = "waits_for_thread", Share, Job, "loop waiting for another thread of its process";
    WaitsForRemote = "waits_for_remote", Share, Job, "loop waiting for an answer over the network";
    WaitsForReader = "waits_for_reader", Share, Job, "loop waiting for the reader of its output";
    WaitsForLock = "waits_for_lock", Share, Job, "loop waiting for a file lock";
    WaitsForInterpreter = "waits_for_interpreter", Share, Job, "loop waiting for the interpreter lock";
    Sleeps = "sleeps", Share, Job, "loop sleeping while nothing else of the job works";
    GpuBusy = "gpu_busy", Share, Gpu, "GPU busy";
    GpuOthers = "gpu_others", Share, Gpu, "GPU busy for other processes";
    GpuPower = "gpu_power", Share, Gpu, "GPU power draw, of its limit";
    GpuMemoryBusy = "gpu_memory_busy", Share, Gpu, "GPU memory busy";
    SmActive = "sm_active", Share, Gpu, "GPU multiprocessors active";
    GpuThrottled = "gpu_throttled", Share, Gpu, "GPU throttled, of the samples";
    Pcie = "pcie", Share, Gpu, "PCIe link in use";
    Nvlink = "nvlink", BytesPerS, Gpu, "NVLink traffic, the larger direction";
    Workers = "workers", Count, Job, "workers";
    WorkersBusy = "workers_busy", Share, Job, "workers on a CPU";
    WorkersIoWait = "workers_io_wait", Share, Job, "workers waiting for data";
    WorkersRunnable = "workers_runnable", Share, Job, "workers queueing for a CPU";
    WorkersIdle = "workers_idle", Share, Job, "workers idle";
    WorkersLockWait = "workers_lock_wait", Share, Job, "each worker waiting for a lock that another worker holds, as part of idle";
    WorkersLoad = "workers_load", Share, Stacks, "workers reading";
    WorkersDecode = "workers_decode", Share, Stacks, "workers decoding";
    WorkersTransform = "workers_transform", Share, Stacks, "workers transforming";
    WorkersCollate = "workers_collate", Share, Stacks, "workers collating";
    WorkersHandOver = "workers_hand_over", Share, Stacks, "workers' threads sending batches";
    StallEvery = "stall_every", Steps, Job, "distance between stalls";
    CpuFull = "cpu_full", Share, Host, "allowed CPUs in use";
    CpuJob = "cpu_job", Cores, Host, "CPUs used by the job";
    CpuOthers = "cpu_others", Cores, Host, "allowed CPUs used by other processes";
    CgroupThrottled = "cgroup_throttled", Share, Host, "CPU quota periods throttled";
    DiskBusy = "disk_busy", Percent, Storage, "disk busy";
    DiskRead = "disk_read", BytesPerS, Storage, "data read from the disk";
    DiskReadSize = "disk_read_size", Bytes, Storage, "mean size of a read";
    DiskAwait = "disk_await", Ms, Storage, "mean time of an I/O";
    IoLimit = "io_limit", BytesPerS, Storage, "read limit of the control group";
    PsiMemory = "psi_memory", Percent, Host, "some task stalled on memory (PSI)";
}

named_enum! {
    /// On which side of its threshold a value lies.
    pub enum Side {
        /// It reaches it.
        Over = "over",
        /// It does not.
        Under = "under",
    }
}

named_enum! {
    /// Which of the two a number comes from where a verdict is one of a profile and of what is seen from outside.
    pub enum EvidenceFrom {
        /// Counted in the profile.
        Profile = "profile",
        /// Measured from outside.
        Outside = "outside",
    }
}

/// A number that the verdict rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Signal name (`input_wait`, `workers_busy`, …).
    pub signal: Signal,
    /// Its value.
    pub value: Option<f64>,
    /// `share`, `percent`, `cores`, `bytes/s`, `ms`, `count`, …
    pub unit: Unit,
    /// The limit it was compared with, in the same unit.
    pub threshold: Option<f64>,
    /// What it measures, for a person.
    pub text: String,
    /// Where it comes from, if the verdict has numbers of a profile as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<EvidenceFrom>,
}

impl Evidence {
    /// What it measures, and where: `GPU busy, in the profile`.
    pub fn words(&self) -> String {
        let place = match self.from {
            None => "",
            Some(EvidenceFrom::Profile) => ", in the profile",
            Some(EvidenceFrom::Outside) => ", from outside",
        };
        format!("{}{place}", self.text)
    }

    /// The side of the threshold that it is on, where both are known.
    pub fn side(&self) -> Option<Side> {
        let (value, threshold) = (self.value.filter(|v| v.is_finite())?, self.threshold.filter(|v| v.is_finite())?);
        Some(if value >= threshold { Side::Over } else { Side::Under })
    }
}
