//! Texts that causes share: conditions in their rules, counter-evidence, and where their numbers come from.

use super::Against;
use crate::diagnosis::signals::{Side, Signal};

/// First condition of all rules about waits for batches.
pub(super) const LOOP_LOSES: &str = "the loop waits for data at least `lost_wait` of the time while the GPU is idle (without a GPU, every wait \
     counts)";
/// The workers wait for their source; without workers the loop does.
pub(super) const SOURCE_IS_SLOW: &str = "the workers spend at least `workers_io` waiting for their source (a disk, the network, a service). Without \
     workers: the loop waits for a disk longer than it runs, or threads of its process that it waits for spend at \
     least `workers_io` at their source";
/// The loop waits for data, or queues for a CPU itself.
pub(super) const SHORT_OF_CPU: &str = "the loop waits for data at least `lost_wait` of the time, or its thread, or one that it waits for, queues \
     for a CPU at least `main_run_delay` of the time it could run and `lost_wait` of all time";
/// First condition of all rules about waits that were followed.
pub(super) const WAIT_IS_FOLLOWED: &str = "of all that costs the loop time while the GPU is idle, this wait is the largest part, and at least \
     `lost_wait` of the time";
pub(super) const CHAIN: &str = "the wait chain: /proc/PID/task/TID/syscall or wchan of the loop's thread and of every thread it leads to, and \
     the processes at the other ends of their pipes and sockets (/proc/PID/fd)";
/// The GPU is not kept busy, and not for lack of data.
pub(super) const RUNS_DRY: &str =
    "the GPU is idle at least `dry` of the time, and the loop loses less than `lost_wait` to waits for data";
pub(super) const KEPT_BUSY: &str = "the job keeps the GPU busy at least `device_busy` of the time";

/// Workers are slow at their own work.
pub(super) const WORKERS_ARE_SLOW: &[Against] = &[
    (Signal::WorkersBusy, Side::Under, "the workers are not always on a CPU"),
    (Signal::WorkersIdle, Side::Over, "the workers often have nothing to do"),
];
/// Their source is slow.
pub(super) const WAIT_FOR_SOURCE: &[Against] = &[
    (Signal::LostWait, Side::Under, "the GPU is busy during most of the wait"),
    (Signal::WorkersIdle, Side::Over, "the workers often have nothing to do"),
];
/// The loop does not wait for data.
pub(in crate::diagnosis) const WAITS_FOR_BATCHES: &[Against] = &[
    (Signal::InputWait, Side::Over, "the loop waits for data too"),
    (Signal::LostWait, Side::Over, "the GPU idles while the loop waits for data"),
];
/// The GPU computes.
pub(super) const DEVICE_COMPUTES: &[Against] = &[(Signal::GpuBusy, Side::Under, "the GPU has idle time")];

pub(super) const MAIN_WAIT: &str = "/proc/PID/syscall and wchan of the loop's thread, about fifty times a second: torch's loader waits in a poll \
     of exactly 5000 ms";
pub(super) const MAIN_TIME: &str =
    "/proc/PID/task/TID/stat and schedstat of the loop's thread: on a CPU, queueing for one, or asleep";
pub(super) const MAIN_STACKS: &str = "Python stacks of the loop's thread (py-spy), where they can be read";
pub(super) const STEPS: &str = "/proc/PID/task/TID/io of the loader's queue threads: one write for each batch taken";
pub(super) const WORKER_TIME: &str =
    "/proc/PID/task/TID/stat and schedstat of each worker: on a CPU, queueing for one, or asleep";
pub(super) const WORKER_WAIT: &str =
    "wchan and syscall of each worker: whether it waits for a disk, a socket, a pipe, or for work";
pub(super) const WORKER_BATCHES: &str =
    "/proc/PID/task/TID/io of each worker's queue thread: one write for each batch made";
pub(super) const WORKER_STACKS: &str = "Python stacks of the workers (py-spy): the stage that each sample falls into";
pub(super) const CPUS: &str =
    "/proc/stat and the job's Cpus_allowed: how much of the allowed CPUs the job and other processes use";
pub(super) const QUOTA: &str = "cpu.max and cpu.stat (nr_periods, nr_throttled) of the job's cgroup";
pub(super) const THREADS: &str = "/proc/PID/task/*/stat of the job: how many threads were active";
pub(super) const DISKS: &str = "/proc/diskstats of the disks that hold the job's open files";
pub(super) const MOUNTS: &str = "/proc/PID/fd and mountinfo: the file systems that hold the open data files";
pub(super) const READS: &str = "/proc/PID/io (read_bytes, rchar) of the job";
pub(super) const REFAULTS: &str = "memory.stat of the cgroup, otherwise /proc/vmstat: workingset_refault_file";
pub(super) const IO_LIMITS: &str = "io.max of the job's cgroup, or blkio.throttle.* of cgroup v1";
pub(super) const MEMORY: &str = "/proc/pressure/memory, and pswpin in /proc/vmstat";
pub(super) const DEVICE: &str = "NVML GPU utilization (nvmlDeviceGetSamples, nvmlDeviceGetUtilizationRates), and the job's own part of it \
     (nvmlDeviceGetProcessUtilization); AMD's gpu_metrics or gpu_busy_percent; drm-engine-* in /proc/PID/fdinfo for others";
pub(super) const DEVICE_PROCESSES: &str =
    "NVML compute processes on the GPU (nvmlDeviceGetComputeRunningProcesses), or /sys/class/kfd/kfd/proc and fdinfo";
pub(super) const POWER: &str = "NVML or hwmon power draw, compared with the power limit in force";
pub(super) const DEVICE_MEMORY: &str = "NVML memory controller use (nvmlUtilization_t.memory), DRAM activity from \
    GPM on Hopper and later, or AMD's umc activity";
pub(super) const SM: &str = "SM activity from GPM, on Hopper and later";
pub(super) const PCIE: &str = "NVML PCIe throughput (nvmlDeviceGetPcieThroughput), compared with link generation and width; no other driver tells it";
pub(super) const CLOCK_REASONS: &str =
    "NVML clock event reasons (nvmlDeviceGetCurrentClocksEventReasons), or the throttle status in AMD's gpu_metrics";
