//! The signals that verdicts rest on: name in the JSON, unit, and what each is in words. The one table of them.

use super::parts::Evidence;

macro_rules! signals {
    ($($Signal:ident = $name:literal, $unit:literal, $label:literal;)*) => {
        /// A signal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Signal { $($Signal),* }

        impl Signal {
            const ALL: &[Self] = &[$(Self::$Signal),*];

            /// Name, unit, and words that stand alone.
            pub(super) fn row(self) -> (&'static str, &'static str, &'static str) {
                match self { $(Self::$Signal => ($name, $unit, $label)),* }
            }
        }
    };
}

signals! {
    InputWait = "input_wait", "share", "main thread waits for batches";
    LostWait = "lost_wait", "share", "waits for batches with the GPU idle";
    HostBusy = "host_busy", "share", "main thread works on the host";
    DeviceSync = "device_sync", "share", "main thread waits for the device";
    Checkpoint = "checkpoint", "share", "main thread saves state";
    MainRunDelay = "main_run_delay", "share", "main thread queues for a CPU, of its runnable time";
    Loading = "loading", "share", "main thread loads batches itself";
    Receiving = "receiving", "share", "main thread works at taking batches over";
    LoaderStart = "loader_start", "share", "main thread starts workers";
    QueueWait = "queue_wait", "share", "main thread waits for a queue of the program's own";
    Model = "model", "share", "main thread in forward, backward, optimizer and copies";
    Report = "report", "share", "main thread logs and reports";
    Collectives = "collectives", "share", "main thread in collectives";
    SyncLines = "sync_lines", "share", "main thread at lines that wait for the device";
    FutexWait = "futex_wait", "share", "main thread waits in a futex";
    OtherThread = "other_thread", "share", "the busiest other thread of the trainer runs or queues";
    MainRead = "main_read", "bytes/s", "the trainer reads through read calls";
    WaitsForProcess = "waits_for_process", "share", "the loop waits for another process";
    WaitsForThread = "waits_for_thread", "share", "the loop waits for another thread of its own";
    WaitsForRemote = "waits_for_remote", "share", "the loop waits for an answer over the network";
    WaitsForReader = "waits_for_reader", "share", "the loop waits for the reader of its output";
    WaitsForLock = "waits_for_lock", "share", "the loop waits for a file lock";
    WaitsForInterpreter = "waits_for_interpreter", "share", "the loop waits for the interpreter lock";
    Sleeps = "sleeps", "share", "the loop sleeps, and nobody else of its job works";
    GpuBusy = "gpu_busy", "share", "device busy";
    GpuOthers = "gpu_others", "share", "device busy for other processes";
    GpuPower = "gpu_power", "share", "power draw, of the limit";
    GpuMemoryBusy = "gpu_memory_busy", "share", "device memory busy";
    SmActive = "sm_active", "share", "multiprocessors active";
    GpuThrottled = "gpu_throttled", "share", "device throttled, of the samples";
    Pcie = "pcie", "share", "PCIe link used";
    Workers = "workers", "count", "data workers";
    WorkersBusy = "workers_busy", "share", "workers on a CPU";
    WorkersIoWait = "workers_io_wait", "share", "workers wait for their source";
    WorkersRunnable = "workers_runnable", "share", "workers queue for a CPU";
    WorkersIdle = "workers_idle", "share", "workers have nothing to do";
    WorkersLockWait = "workers_lock_wait", "share", "of that, each worker at a lock that another one holds";
    WorkersLoad = "workers_load", "share", "workers read";
    WorkersDecode = "workers_decode", "share", "workers decode";
    WorkersTransform = "workers_transform", "share", "workers transform";
    WorkersCollate = "workers_collate", "share", "workers collate";
    WorkersHandOver = "workers_hand_over", "share", "their threads send batches";
    StallEvery = "stall_every", "steps", "a stall comes every";
    CpuFull = "cpu_full", "share", "allowed CPUs in use";
    CpuJob = "cpu_job", "cores", "CPUs used by the job";
    CpuOthers = "cpu_others", "cores", "CPUs used by other processes";
    CgroupThrottled = "cgroup_throttled", "share", "CFS periods throttled";
    DiskBusy = "disk_busy", "percent", "the disk is busy";
    DiskRead = "disk_read", "bytes/s", "read from the disk";
    DiskReadSize = "disk_read_size", "bytes", "mean size of a read";
    DiskAwait = "disk_await", "ms", "mean time of an I/O";
    IoLimit = "io_limit", "bytes/s", "read limit of the cgroup";
    PsiMemory = "psi_memory", "percent", "some task waits for memory (PSI)";
}

/// On which side of its threshold a value lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// It reaches it.
    Over,
    /// It does not.
    Under,
}

impl Side {
    /// For a person.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Over => "over",
            Self::Under => "under",
        }
    }
}

impl Evidence {
    /// What the signal is, in words that stand alone; its name with blanks where the signal is none of ours.
    #[must_use]
    pub fn label(&self) -> String {
        let known = Signal::ALL.iter().map(|signal| signal.row()).find(|(name, ..)| *name == self.signal);
        known.map_or_else(|| self.signal.replace('_', " "), |(.., label)| label.to_owned())
    }

    /// Where value and threshold are known.
    #[must_use]
    pub fn side(&self) -> Option<Side> {
        let (value, threshold) = (self.value.filter(|v| v.is_finite())?, self.threshold.filter(|v| v.is_finite())?);
        Some(if value >= threshold { Side::Over } else { Side::Under })
    }
}
