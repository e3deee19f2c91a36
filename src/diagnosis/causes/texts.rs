//! Texts that causes share: conditions in their rules, what speaks against them, and where their numbers come from.

use super::Against;
use crate::diagnosis::signals::{Side, Signal};

/// First condition of all rules about waits for batches.
pub(super) const LOOP_LOSES: &str =
    "the loop loses at least `lost_wait` of its time waiting for batches while the device is idle";
/// The workers, or the main thread if there are none, wait for their source.
pub(super) const SOURCE_IS_SLOW: &str = "waiting for their source is at least `workers_io` of the workers' active \
    time; without workers, the main thread waits for a disk more than it runs, or threads of its own process that it waits \
    for are at their source at least `workers_io` of the time";
/// The loop loses time, or the main thread itself queues.
pub(super) const SHORT_OF_CPU: &str = "the loop loses at least `lost_wait` of its time waiting for batches, or its \
    own thread, or one that it waits for, queues for a CPU at least `main_run_delay` of its runnable time and `lost_wait` of all the time";
/// First condition of all rules about waits that were followed.
pub(super) const WAIT_IS_FOLLOWED: &str = "of all that the loop loses time to while the device is idle, the largest part, and at least `lost_wait`, are waits at \
     whose end this stands:";
pub(super) const CHAIN: &str = "the wait chain: /proc/PID/task/TID/syscall or wchan of the loop's thread and of \
    everybody it leads to, and who holds the other ends of their pipes and sockets (/proc/PID/fd)";
/// The device is not kept busy, and batches are not why.
pub(super) const RUNS_DRY: &str =
    "the device is idle at least `dry` of the time, and the loop does not lose `lost_wait` to batches";
pub(super) const KEPT_BUSY: &str = "the device is busy with the job's work at least `device_busy` of the time";

/// Workers are slow at their own work.
pub(super) const WORKERS_ARE_SLOW: &[Against] = &[
    (Signal::WorkersBusy, Side::Under, "the workers are not on a CPU all the time"),
    (Signal::WorkersIdle, Side::Over, "the workers often have nothing to do"),
];
/// Their source is slow.
pub(super) const WAIT_FOR_SOURCE: &[Against] = &[
    (Signal::LostWait, Side::Under, "the device is busy during most of the waiting"),
    (Signal::WorkersIdle, Side::Over, "the workers often have nothing to do"),
];
/// The loop does not wait for batches.
pub(in crate::diagnosis) const WAITS_FOR_BATCHES: &[Against] = &[
    (Signal::InputWait, Side::Over, "the main thread waits for batches too"),
    (Signal::LostWait, Side::Over, "the device idles while batches are waited for"),
];
/// The device computes.
pub(super) const DEVICE_COMPUTES: &[Against] = &[(Signal::GpuBusy, Side::Under, "the device has idle time")];

pub(super) const MAIN_WAIT: &str = "/proc/PID/syscall and wchan of the main thread, some fifty times a second: \
    torch's loader waits in a poll of exactly 5000 ms";
pub(super) const MAIN_TIME: &str = "/proc/PID/task/TID/stat and schedstat of the main thread: on a CPU, queueing for \
    one, asleep";
pub(super) const MAIN_STACKS: &str = "Python stacks of the main thread (py-spy), where they may be read";
pub(super) const STEPS: &str = "/proc/PID/task/TID/io of the loader's feeder threads: one write for each batch taken";
pub(super) const WORKER_TIME: &str = "/proc/PID/task/TID/stat and schedstat of each worker: on a CPU, queueing for \
    one, asleep";
pub(super) const WORKER_WAIT: &str = "wchan and syscall of each worker: whether it waits for a disk, a socket, a \
    pipe or for work";
pub(super) const WORKER_BATCHES: &str = "/proc/PID/task/TID/io of each worker's feeder thread: one write for each \
    batch made";
pub(super) const WORKER_STACKS: &str = "Python stacks of the workers (py-spy): which stage each of their samples \
    lies in";
pub(super) const CPUS: &str =
    "/proc/stat and the job's Cpus_allowed: use of the allowed CPUs by the job and by others";
pub(super) const QUOTA: &str = "cpu.max and cpu.stat (nr_periods, nr_throttled) of the job's control group";
pub(super) const THREADS: &str = "/proc/PID/task/*/stat of the job: how many threads were active";
pub(super) const DISKS: &str = "/proc/diskstats of the disks below the files that the job has open";
pub(super) const MOUNTS: &str = "/proc/PID/fd and mountinfo: the file systems that the open data files lie on";
pub(super) const READS: &str = "/proc/PID/io (read_bytes, rchar) of the job";
pub(super) const REFAULTS: &str = "memory.stat of the control group, else /proc/vmstat: workingset_refault_file";
pub(super) const IO_LIMITS: &str = "io.max of the job's control group, or blkio.throttle.* of version 1";
pub(super) const MEMORY: &str = "/proc/pressure/memory, and pswpin in /proc/vmstat";
pub(super) const DEVICE: &str = "NVML utilisation of the device (nvmlDeviceGetSamples, \
    nvmlDeviceGetUtilizationRates), and the job's own part of it (nvmlDeviceGetProcessUtilization)";
pub(super) const DEVICE_PROCESSES: &str = "NVML compute processes on the device \
    (nvmlDeviceGetComputeRunningProcesses)";
pub(super) const POWER: &str = "NVML power draw, against the power limit in force";
pub(super) const DEVICE_MEMORY: &str = "NVML memory controller use (nvmlUtilization_t.memory), or DRAM activity from \
    GPM on Hopper and later";
pub(super) const SM: &str = "SM activity from GPM, on Hopper and later";
pub(super) const PCIE: &str = "NVML PCIe throughput (nvmlDeviceGetPcieThroughput), against link generation and width";
pub(super) const CLOCK_REASONS: &str = "NVML clock event reasons (nvmlDeviceGetCurrentClocksEventReasons)";
