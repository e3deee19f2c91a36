//! Every threshold of the diagnosis, with its unit and where it comes from. Nothing else in the diagnosis compares with
//! a literal number that a calibration could move.

/// One threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

impl Threshold {
    /// Value and unit for a person: `10 %`, `50 % of the limit`, `64 KiB`, `20 s`.
    #[must_use]
    pub fn words(&self) -> String {
        let (value, unit) = (self.value, self.unit);
        // Rounded, because 0.07 x 100 is not 7 in binary.
        let percent = |value: f64, rest: &str| format!("{} %{rest}", (value * 100.0).round() / 100.0);
        if let Some(rest) = unit.strip_prefix("share") {
            return percent(value * 100.0, rest);
        }
        if let Some(rest) = unit.strip_prefix("percent") {
            return percent(value, rest);
        }
        if let Some(rest) = unit.strip_prefix("bytes") {
            let (scale, prefix) = match value {
                value if value >= 1_048_576.0 => (1_048_576.0, "MiB"),
                value if value >= 1024.0 => (1024.0, "KiB"),
                _ => (1.0, "bytes"),
            };
            return format!("{} {prefix}{rest}", value / scale);
        }
        format!("{value} {unit}")
    }
}

macro_rules! thresholds {
    ($($(#[$doc:meta])* $constant:ident = $name:literal, $value:literal, $unit:literal, $source:literal;)*) => {
        $($(#[$doc])* pub const $constant: Threshold =
            Threshold { name: $name, value: $value, unit: $unit, source: $source };)*
        /// All thresholds, in the order of the file.
        pub const ALL: &[Threshold] = &[$($constant),*];
    };
}

thresholds! {
    /// Input wait that is lost, from which on the loader is looked into.
    LOST_WAIT = "lost_wait", 0.10, "share", "a tenth of the loop: the least that a person would fix; labelled workloads separate at 0.02 and 0.3";
    /// Main thread saving state.
    CHECKPOINT = "checkpoint", 0.10, "share", "as lost_wait";
    /// Device idle time below which nothing on the host can bring much.
    DEVICE_IDLE = "device_idle", 0.15, "share", "1 / (1 - 0.15) = 1.18x is the most that is left on the host's side";
    /// Device use above which it counts as busy.
    DEVICE_BUSY = "device_busy", 0.85, "share", "complement of device_idle";
    /// Device idle time from which the host is looked into; between this and device_idle the loop is balanced.
    DRY = "dry", 0.22, "share", "1 / (1 - 0.22) = 1.28x at most, shared by several causes; labelled host-bound workloads idle 0.4 and more";
    /// Device use below which nothing runs on it.
    DEVICE_UNUSED = "device_unused", 0.01, "share", "NVML counts whole percent";
    /// Share of device use that belongs to other processes.
    SHARED_GPU = "shared_gpu", 0.15, "share", "as device_idle: what freeing it could bring";
    /// Power against limit below which a busy device is under-filled.
    LOW_POWER = "low_power", 0.50, "share of the limit", "a busy device draws 70 % of its limit and more under dense kernels; memory-bound and tiny kernels draw less (nvtop's effective use = use x power / limit)";
    /// Memory controller use from which memory is the limit.
    MEMORY_BUSY = "memory_busy", 0.70, "share", "nvmlUtilization_t.memory counts time with any access; sustained values near 70 % and more go with bandwidth-bound kernels";
    /// SM activity (GPM) below which a busy device is under-filled.
    SM_ACTIVE = "sm_active", 0.50, "share", "half of the multiprocessors without a warp";
    /// PCIe use against what the link carries.
    PCIE_BUSY = "pcie_busy", 0.60, "share", "protocol overhead leaves 80-90 % of the raw rate; 60 % sustained is a saturated copy with gaps";
    /// Share of frames in which the device was throttled.
    GPU_THROTTLED = "gpu_throttled", 0.50, "share of samples", "more often than not";
    /// Main thread waiting for the device over and over while it also runs dry.
    SYNC = "sync", 0.20, "share", "a fifth of the loop spent in waits for a device that is idle otherwise";
    /// CPU share at which a thread is called busy.
    BUSY = "busy", 0.60, "share", "busier than not, with room for measuring error";
    /// Use of the allowed CPUs at which they are called full.
    CORES_FULL = "cores_full", 0.92, "share", "the rest is switching and the kernel's own work";
    /// Share of runnable time spent queueing.
    RUN_DELAY = "run_delay", 0.25, "share", "one third more time for the same work";
    /// Share of a main thread's runnable time spent queueing.
    MAIN_RUN_DELAY = "main_run_delay", 0.15, "share", "the loop itself is slowed by 1.18x";
    /// Share of CFS periods in which the cgroup was throttled.
    THROTTLED = "cgroup_throttled", 0.15, "share of periods", "kernel: Documentation/scheduler/sched-bwc.rst; occasional throttling of a burst stays below";
    /// CPU used by others, as a share of the allowed CPUs.
    NEIGHBOUR = "neighbour", 0.25, "share of allowed CPUs", "a quarter of the cores is more than system services take";
    /// Part of the waiting that must end with the neighbours' use of the CPUs for them to be surely the cause.
    NEIGHBOURS_HELP = "neighbours_help", 0.50, "share of input wait", "the larger half names the cause";
    /// Active threads per allowed CPU.
    OVERSUBSCRIBED = "oversubscribed", 2.0, "threads per CPU", "twice as many runnable threads as CPUs: each waits as long as it runs";
    /// Workers per allowed CPU.
    TOO_MANY_WORKERS = "too_many_workers", 2.0, "workers per CPU", "as oversubscribed";
    /// Part of the workers' active time spent waiting for their source.
    WORKERS_IO = "workers_io", 0.50, "share of active time", "the larger half names the resource";
    /// Part of the workers' active time in one stage (decode, transform) from which that stage is the cause.
    STAGE = "stage", 0.60, "share of active time", "clearly the larger part: without this stage a worker is 2.5 times as fast and more";
    /// Part of the workers' active time in collating from which that is the cause.
    COLLATE = "collate", 0.50, "share of active time", "collating copies what the dataset made: half of the time in copies is unusual";
    /// Part of the main threads' time in collectives, evenly over the ranks.
    COLLECTIVES = "collectives", 0.30, "share", "communication that overlaps the backward pass leaves less; without it the loop is 1.4x as fast";
    /// Part of the workers' time without work at which the set as a whole is not the limit.
    WORKERS_IDLE = "workers_idle", 0.40, "share", "workers that wait for room while the loop waits for a batch: order or hand-over, not speed";
    /// Time between two starts of a set of workers below which restarting them is what the loop waits for.
    RESTART = "restart", 20.0, "s", "starting a spawned worker takes 2 to 6 s of imports: a tenth of the loop and more at this distance";
    /// Difference between the busiest and the median worker.
    IMBALANCE = "imbalance", 0.35, "share", "measured on labelled workloads: even sets differ by less than 0.15";
    /// Difference in waiting for one another between ranks.
    STRAGGLER = "straggler", 0.25, "share", "ranks that are alike wait alike; a quarter of the time is a rank a third slower than the rest";
    /// Part of the possible gain that more workers must bring for their number to be the cause.
    WORKERS_HELP = "workers_help", 0.60, "share of the gain", "else the work itself must get cheaper";
    /// Speed-up by more workers that is worth it whatever else could be gained.
    HELPFUL = "helpful", 1.5, "times", "half as fast again for one changed number comes before any rewriting";
    /// Part of the input wait spent taking batches over.
    RECEIVING = "receiving", 0.50, "share of input wait", "the larger half names the cause";
    /// Share of the main thread's samples in a phase that is no training.
    PHASE = "phase", 0.60, "share", "most of the time, with room for what lies between";
    /// Memory pressure.
    MEMORY_PRESSURE = "memory_pressure", 10.0, "percent", "PSI: some task stalled on memory a tenth of the time (Documentation/accounting/psi.rst)";
    /// Pages swapped in.
    SWAP_IN = "swap_in", 100.0, "pages/s", "400 KiB/s of random page-ins keeps a disk busy";
    /// Utilisation of a disk.
    DISK_BUSY = "disk_busy", 70.0, "percent", "iostat's rule of thumb for a device with little parallelism; below it latency, not the device, is the limit";
    /// Mean read below which reads are small.
    SMALL_READ = "small_read", 65536.0, "bytes", "half of the default read-ahead window (128 KiB)";
    /// Part of what is read that had been in the page cache before.
    REFAULT = "refault", 0.30, "share of bytes read", "workingset_refault_file counts pages evicted and needed again (mm/workingset.c)";
    /// Data read by a main thread without workers.
    INLINE_READ = "inline_read", 65536.0, "bytes/s", "more than logs and metrics read; one small picture a second";
    /// CPU use of a trainer from which several of its threads compute together, as torch's do.
    COMPUTE_THREADS = "compute_threads", 1.3, "cores", "one thread cannot use more than one; the rest is runtime and feeder threads";
    /// CPU of the whole job below which nothing is being computed.
    INACTIVE = "inactive", 5.0, "percent of a core", "below what any training loop uses";
    /// Growth of resident memory at which a young process is setting itself up.
    GROWING = "growing", 5242880.0, "bytes/s", "importing torch adds 200 to 500 MiB in some seconds; a training loop's memory stands still";
    /// Age below which a process may still be starting.
    STARTING = "starting", 20.0, "s", "import of torch, data set and model take up to this long";
    /// Shortest stretch that gives a verdict.
    FIRST_SECONDS = "first_seconds", 2.4, "s", "120 looks: a share of 0.3 is known to within 4 points";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_words() {
        for (threshold, words) in [
            (LOST_WAIT, "10 %"),
            (DRY, "22 %"),
            (LOW_POWER, "50 % of the limit"),
            (MEMORY_PRESSURE, "10 %"),
            (INACTIVE, "5 % of a core"),
            (SMALL_READ, "64 KiB"),
            (GROWING, "5 MiB/s"),
            (RESTART, "20 s"),
            (OVERSUBSCRIBED, "2 threads per CPU"),
        ] {
            assert_eq!(threshold.words(), words);
        }
    }

    #[test]
    fn every_threshold_has_a_source_and_a_name_of_its_own() {
        for (at, threshold) in ALL.iter().enumerate() {
            assert!(threshold.source.len() > 8 && !threshold.unit.is_empty(), "{threshold:?}");
            assert!(ALL.iter().skip(at + 1).all(|other| other.name != threshold.name), "{threshold:?}");
        }
    }
}
