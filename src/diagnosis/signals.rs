//! The signals that verdicts rest on: name in the JSON, unit, and what each is in words. The one table of them.

use super::parts::Evidence;
use crate::text::format::Unit;
use crate::text::named_enum;

macro_rules! signals {
    ($($Signal:ident = $name:literal, $Unit:ident, $label:literal;)*) => {
        named_enum! {
            /// A signal.
            pub enum Signal { $(#[doc = $label] $Signal = $name,)* }
        }

        impl Signal {
            /// The unit of its values.
            pub(super) fn unit(self) -> Unit {
                match self { $(Self::$Signal => Unit::$Unit),* }
            }

            /// What it is, in words that stand alone.
            pub fn label(self) -> &'static str {
                match self { $(Self::$Signal => $label),* }
            }
        }
    };
}

signals! {
    InputWait = "input_wait", Share, "main thread waits for batches";
    LostWait = "lost_wait", Share, "waits for batches with the GPU idle";
    HostBusy = "host_busy", Share, "main thread works on the host";
    DeviceSync = "device_sync", Share, "main thread waits for the device";
    Checkpoint = "checkpoint", Share, "main thread saves state";
    MainRunDelay = "main_run_delay", Share, "main thread queues for a CPU, of its runnable time";
    Loading = "loading", Share, "main thread loads batches itself";
    Receiving = "receiving", Share, "main thread works at taking batches over";
    LoaderStart = "loader_start", Share, "main thread starts workers";
    QueueWait = "queue_wait", Share, "main thread waits for a queue of the program's own";
    Model = "model", Share, "main thread in forward, backward, optimizer and copies";
    Report = "report", Share, "main thread logs and reports";
    Collectives = "collectives", Share, "main thread in collectives";
    SyncLines = "sync_lines", Share, "main thread at lines that wait for the device";
    FutexWait = "futex_wait", Share, "main thread waits in a futex";
    OtherThread = "other_thread", Share, "the busiest other thread of the trainer runs or queues";
    MainRead = "main_read", BytesPerS, "the trainer reads through read calls";
    WaitsForProcess = "waits_for_process", Share, "the loop waits for another process";
    WaitsForThread = "waits_for_thread", Share, "the loop waits for another thread of its own";
    WaitsForRemote = "waits_for_remote", Share, "the loop waits for an answer over the network";
    WaitsForReader = "waits_for_reader", Share, "the loop waits for the reader of its output";
    WaitsForLock = "waits_for_lock", Share, "the loop waits for a file lock";
    WaitsForInterpreter = "waits_for_interpreter", Share, "the loop waits for the interpreter lock";
    Sleeps = "sleeps", Share, "the loop sleeps, and nobody else of its job works";
    GpuBusy = "gpu_busy", Share, "device busy";
    GpuOthers = "gpu_others", Share, "device busy for other processes";
    GpuPower = "gpu_power", Share, "power draw, of the limit";
    GpuMemoryBusy = "gpu_memory_busy", Share, "device memory busy";
    SmActive = "sm_active", Share, "multiprocessors active";
    GpuThrottled = "gpu_throttled", Share, "device throttled, of the samples";
    Pcie = "pcie", Share, "PCIe link used";
    Workers = "workers", Count, "data workers";
    WorkersBusy = "workers_busy", Share, "workers on a CPU";
    WorkersIoWait = "workers_io_wait", Share, "workers wait for their source";
    WorkersRunnable = "workers_runnable", Share, "workers queue for a CPU";
    WorkersIdle = "workers_idle", Share, "workers have nothing to do";
    WorkersLockWait = "workers_lock_wait", Share, "of that, each worker at a lock that another one holds";
    WorkersLoad = "workers_load", Share, "workers read";
    WorkersDecode = "workers_decode", Share, "workers decode";
    WorkersTransform = "workers_transform", Share, "workers transform";
    WorkersCollate = "workers_collate", Share, "workers collate";
    WorkersHandOver = "workers_hand_over", Share, "their threads send batches";
    StallEvery = "stall_every", Steps, "a stall comes every";
    CpuFull = "cpu_full", Share, "allowed CPUs in use";
    CpuJob = "cpu_job", Cores, "CPUs used by the job";
    CpuOthers = "cpu_others", Cores, "CPUs used by other processes";
    CgroupThrottled = "cgroup_throttled", Share, "CFS periods throttled";
    DiskBusy = "disk_busy", Percent, "the disk is busy";
    DiskRead = "disk_read", BytesPerS, "read from the disk";
    DiskReadSize = "disk_read_size", Bytes, "mean size of a read";
    DiskAwait = "disk_await", Ms, "mean time of an I/O";
    IoLimit = "io_limit", BytesPerS, "read limit of the cgroup";
    PsiMemory = "psi_memory", Percent, "some task waits for memory (PSI)";
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

impl Evidence {
    /// Where value and threshold are known.
    pub fn side(&self) -> Option<Side> {
        let (value, threshold) = (self.value.filter(|v| v.is_finite())?, self.threshold.filter(|v| v.is_finite())?);
        Some(if value >= threshold { Side::Over } else { Side::Under })
    }
}
