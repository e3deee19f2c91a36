//! The signals that verdicts rest on: name in the JSON, unit, source, and what each is in words. The one table of them.

use serde::{Deserialize, Serialize};

use crate::sample::SourceId;
use crate::text::format::Unit;
use crate::text::named_enum;

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

            /// What it is, in words that stand alone.
            pub fn label(self) -> &'static str {
                match self { $(Self::$Signal => $label),* }
            }
        }
    };
}

signals! {
    InputWait = "input_wait", Share, Job, "main thread waits for batches";
    LostWait = "lost_wait", Share, Gpu, "waits for batches with the GPU idle";
    HostBusy = "host_busy", Share, Job, "main thread works on the host";
    DeviceSync = "device_sync", Share, Job, "main thread waits for the device";
    Checkpoint = "checkpoint", Share, Job, "main thread saves state";
    MainRunDelay = "main_run_delay", Share, Job, "main thread queues for a CPU, of its runnable time";
    Loading = "loading", Share, Stacks, "main thread loads batches itself";
    Receiving = "receiving", Share, Stacks, "main thread works at taking batches over";
    LoaderStart = "loader_start", Share, Stacks, "main thread starts workers";
    QueueWait = "queue_wait", Share, Stacks, "main thread waits for a queue of the program's own";
    Model = "model", Share, Stacks, "main thread in forward, backward, optimizer and copies";
    Report = "report", Share, Stacks, "main thread logs and reports";
    Collectives = "collectives", Share, Stacks, "main thread in collectives";
    SyncLines = "sync_lines", Share, Stacks, "main thread at lines that wait for the device";
    FutexWait = "futex_wait", Share, Job, "main thread waits in a futex";
    OtherThread = "other_thread", Share, Job, "the busiest other thread of the trainer runs or queues";
    MainRead = "main_read", BytesPerS, Job, "the trainer reads through read calls";
    WaitsForProcess = "waits_for_process", Share, Job, "the loop waits for another process";
    WaitsForThread = "waits_for_thread", Share, Job, "the loop waits for another thread of its own";
    WaitsForRemote = "waits_for_remote", Share, Job, "the loop waits for an answer over the network";
    WaitsForReader = "waits_for_reader", Share, Job, "the loop waits for the reader of its output";
    WaitsForLock = "waits_for_lock", Share, Job, "the loop waits for a file lock";
    WaitsForInterpreter = "waits_for_interpreter", Share, Job, "the loop waits for the interpreter lock";
    Sleeps = "sleeps", Share, Job, "the loop sleeps, and nobody else of its job works";
    GpuBusy = "gpu_busy", Share, Gpu, "device busy";
    GpuOthers = "gpu_others", Share, Gpu, "device busy for other processes";
    GpuPower = "gpu_power", Share, Gpu, "power draw, of the limit";
    GpuMemoryBusy = "gpu_memory_busy", Share, Gpu, "device memory busy";
    SmActive = "sm_active", Share, Gpu, "multiprocessors active";
    GpuThrottled = "gpu_throttled", Share, Gpu, "device throttled, of the samples";
    Pcie = "pcie", Share, Gpu, "PCIe link used";
    Workers = "workers", Count, Job, "data workers";
    WorkersBusy = "workers_busy", Share, Job, "workers on a CPU";
    WorkersIoWait = "workers_io_wait", Share, Job, "workers wait for their source";
    WorkersRunnable = "workers_runnable", Share, Job, "workers queue for a CPU";
    WorkersIdle = "workers_idle", Share, Job, "workers have nothing to do";
    WorkersLockWait = "workers_lock_wait", Share, Job, "of that, each worker at a lock that another one holds";
    WorkersLoad = "workers_load", Share, Stacks, "workers read";
    WorkersDecode = "workers_decode", Share, Stacks, "workers decode";
    WorkersTransform = "workers_transform", Share, Stacks, "workers transform";
    WorkersCollate = "workers_collate", Share, Stacks, "workers collate";
    WorkersHandOver = "workers_hand_over", Share, Stacks, "their threads send batches";
    StallEvery = "stall_every", Steps, Job, "a stall comes every";
    CpuFull = "cpu_full", Share, Host, "allowed CPUs in use";
    CpuJob = "cpu_job", Cores, Host, "CPUs used by the job";
    CpuOthers = "cpu_others", Cores, Host, "CPUs used by other processes";
    CgroupThrottled = "cgroup_throttled", Share, Host, "CFS periods throttled";
    DiskBusy = "disk_busy", Percent, Storage, "the disk is busy";
    DiskRead = "disk_read", BytesPerS, Storage, "read from the disk";
    DiskReadSize = "disk_read_size", Bytes, Storage, "mean size of a read";
    DiskAwait = "disk_await", Ms, Storage, "mean time of an I/O";
    IoLimit = "io_limit", BytesPerS, Storage, "read limit of the cgroup";
    PsiMemory = "psi_memory", Percent, Host, "some task waits for memory (PSI)";
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

/// A number that speaks for the verdict.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Signal name (`input_wait`, `workers_busy`, …).
    pub signal: Signal,
    /// Its value.
    pub value: Option<f64>,
    /// `share`, `percent`, `cores`, `bytes/s`, `ms`, `count`, …
    pub unit: Unit,
    /// The threshold it was held against, in the same unit.
    pub threshold: Option<f64>,
    /// For a person.
    pub text: String,
}

impl Evidence {
    /// Where value and threshold are known.
    pub fn side(&self) -> Option<Side> {
        let (value, threshold) = (self.value.filter(|v| v.is_finite())?, self.threshold.filter(|v| v.is_finite())?);
        Some(if value >= threshold { Side::Over } else { Side::Under })
    }
}
