//! Causes on the host: its CPUs, or what the loop does between launches.

use super::signals::{CPUS, DEVICE, MAIN_STACKS, MAIN_TIME, MAIN_WAIT, POWER, QUOTA, STEPS, THREADS, WORKER_TIME};
use super::{Cause, Confirmed};
use crate::diagnosis::thresholds as limit;
use crate::diagnosis::verdict::Class;

/// The loop loses time, or the main thread itself queues.
const STARVED: &str = "the loop loses at least `lost_wait` of its time waiting for batches, or its main thread queues \
    for a CPU at least `main_run_delay` of its runnable time";
/// The device is not kept busy, and batches are not why.
const DRY: &str = "the device is idle at least `dry` of the time, and the loop does not lose `lost_wait` to batches";

pub(super) const CAUSES: &[Cause] = &[
    Cause {
        class: Class::Cpu,
        name: "cores-saturated",
        headline: "all allowed cores are full",
        meaning: "the allowed CPUs are full with the job's own work",
        rule: &[
            STARVED,
            "the allowed CPUs are in use `cores_full`, or the workers queue at least `run_delay` of their runnable time",
            "other processes use less than `neighbour`, and there are fewer than `too_many_workers`",
        ],
        thresholds: &[
            &limit::LOST_WAIT,
            &limit::MAIN_RUN_DELAY,
            &limit::CORES_FULL,
            &limit::RUN_DELAY,
            &limit::NEIGHBOUR,
            &limit::TOO_MANY_WORKERS,
        ],
        signals: &[CPUS, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
        source: "kernel Documentation/scheduler/sched-stats.rst: the second field of schedstat is time spent waiting \
                 on a run queue, readable for every process",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "the set of allowed CPUs may be smaller than the machine (taskset, Slurm, a container's cpuset): the \
                 number of CPUs in the evidence is what the job may use; hyperthreads count as CPUs",
        advice: &[
            ("Make the transforms cheaper or move them to the GPU", "more workers cannot help: no CPU is free"),
            ("Use a machine with more CPUs per GPU", "the work is more than these CPUs can do"),
            (
                "Widen the CPU affinity of the job if the machine has more CPUs (taskset -p, --cpus-per-task, cpuset)",
                "only the allowed CPUs count",
            ),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "main-thread",
        headline: "the main thread's own work",
        meaning: "Python work in the training loop keeps the device waiting",
        rule: &[
            DRY,
            "the main thread works on the host for a large part of its time and waits for the device less than `sync`",
            "with stacks: the time spreads over many lines, and no single line is a wait for the device",
        ],
        thresholds: &[&limit::DRY, &limit::LOST_WAIT, &limit::SYNC],
        signals: &[MAIN_WAIT, MAIN_TIME, MAIN_STACKS, DEVICE],
        source: "the device runs dry when the host does not launch; what the main thread does meanwhile is what to \
                 change. A thread that waits spinning stays on one line, Python work moves over many",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "without stacks, and without workers, loading in the main thread looks the same \
                 (data-loader/in-process-loading), and so does a wait for the device that spins",
        advice: &[
            (
                "Do metrics and logging every N steps only, and on the device",
                "the device idles while the main thread runs Python",
            ),
            ("Profile the loop with `py-spy top --pid`", "it names the lines"),
            (
                "Accumulate metrics as tensors and read them once in a while",
                "each .item() or .cpu() waits for the device and then computes on the host",
            ),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "launch-bound",
        headline: "the host cannot launch fast enough",
        meaning: "the host cannot launch the many small kernels fast enough",
        rule: &[
            DRY,
            "the main thread is on a CPU nearly all the time and hardly waits for the device",
            "the device is busy a third of the time and more, at less than `low_power`",
        ],
        thresholds: &[&limit::DRY, &limit::LOST_WAIT, &limit::LOW_POWER],
        signals: &[MAIN_TIME, MAIN_WAIT, DEVICE, POWER, MAIN_STACKS],
        source: "a launch costs the host several microseconds, whatever the kernel does; kernels shorter than that \
                 leave gaps that utilisation counts as busy, but power does not",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "Python work between launches looks the same where the device still draws little \
                 (cpu/main-thread); one tiny kernel after the other can also be called gpu/under-filled",
        advice: &[
            ("Use torch.compile or CUDA graphs", "they launch many kernels at once"),
            ("Raise the batch size", "fewer, larger kernels"),
            (
                "Use the fused optimizers (torch.optim.AdamW(…, fused=True))",
                "one kernel instead of several for each parameter",
            ),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "host-device-sync",
        headline: "the host waits for the device again and again",
        meaning: "the host waits for the device over and over, and the device runs dry in between",
        rule: &[
            DRY,
            "the main thread waits for the device at least `sync` of its time",
            "the host works no longer than the device does: without the waits the two would overlap",
            "with stacks: one line of the user's code is the innermost again and again",
        ],
        thresholds: &[&limit::DRY, &limit::LOST_WAIT, &limit::SYNC],
        signals: &[MAIN_WAIT, MAIN_STACKS, DEVICE, STEPS],
        source: "CUDA programming guide, asynchronous execution: reading a value on the host waits for all work before \
                 it; such an implicit wait has no Python frame of its own, the user's line repeats",
        confirmed: Confirmed::FakeDeviceOnly,
        limits: "a wait measures the queue in front of it, not the cost of the line: removing one shows the next; \
                 CUDA's default wait may spin and then looks like work on one line",
        advice: &[
            (
                "Remove .item(), .cpu(), nonzero() and printing of tensors from the step",
                "each of them waits for the device",
            ),
            ("Read the loss every N steps only", "the host can then run ahead"),
            (
                "Find the lines with torch.cuda.set_sync_debug_mode(\"warn\")",
                "torch then warns at each operation that waits",
            ),
            (
                "Replace boolean masks and nonzero by torch.where or ignore_index",
                "results whose size depends on the values make the host wait",
            ),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "thread-oversubscription",
        headline: "far more threads than cores",
        meaning: "many more threads want to run than there are CPUs",
        rule: &[
            STARVED,
            "threads queue for a CPU at least `run_delay` of their runnable time, or the allowed CPUs are in use \
             `cores_full`",
            "at least `oversubscribed` are active, and two and more in each worker",
        ],
        thresholds: &[
            &limit::LOST_WAIT,
            &limit::MAIN_RUN_DELAY,
            &limit::RUN_DELAY,
            &limit::CORES_FULL,
            &limit::OVERSUBSCRIBED,
        ],
        signals: &[THREADS, CPUS, WORKER_TIME, MAIN_TIME],
        source: "OpenMP, BLAS and OpenCV start a thread for each CPU of the machine in every process; torch sets its \
                 own to one in a worker (torch/utils/data/_utils/worker.py), the others it does not know",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "a main thread that queues although CPUs are free (an affinity to one CPU) is called so too",
        advice: &[
            ("Set OMP_NUM_THREADS=1 and cv2.setNumThreads(0) in the workers", "each worker starts a thread per CPU"),
            (
                "Limit BLAS threads in worker_init_fn (threadpoolctl.threadpool_limits(1), or OPENBLAS_NUM_THREADS=1)",
                "torch limits only its own threads in a worker",
            ),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "cgroup-throttled",
        headline: "the CPU quota throttles the job",
        meaning: "the container's CPU quota is used up and the kernel pauses the job",
        rule: &[
            "the loop loses at least `lost_wait` of its time waiting for batches, or the device is idle and the main \
             thread short of CPU time",
            "the job's control group was throttled in at least `cgroup_throttled`",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::THROTTLED],
        signals: &[QUOTA, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
        source: "kernel Documentation/scheduler/sched-bwc.rst: once the quota of a period is used up, all threads of \
                 the group wait for the next one (100 ms by default)",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "a container shows the machine's CPUs, so many threads can use up the quota at the start of each \
                 period although the mean use looks low",
        advice: &[
            (
                "Raise the CPU limit of the container (cpu.max, --cpus, resources.limits.cpu)",
                "the job wants more CPU time than its quota",
            ),
            ("Lower num_workers and thread counts to the quota", "the same work is then paused less often"),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "noisy-neighbour",
        headline: "other processes hold the cores",
        meaning: "other processes use the CPUs that the job needs",
        rule: &[
            STARVED,
            "the job's threads queue for a CPU at least `run_delay` of their runnable time",
            "other processes use at least `neighbour`, and half as much as the job and more",
            "less sure where the workers' own time for a batch, without queueing, would leave more than \
             `neighbours_help` of the waiting",
        ],
        thresholds: &[
            &limit::LOST_WAIT,
            &limit::MAIN_RUN_DELAY,
            &limit::RUN_DELAY,
            &limit::NEIGHBOUR,
            &limit::NEIGHBOURS_HELP,
        ],
        signals: &[CPUS, WORKER_TIME, MAIN_TIME],
        source: "time on a run queue while the CPUs work for others; neighbours that only take what the job leaves \
                 free make nobody queue",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "processes that the job started and disowned count as others; so do other containers on the machine, \
                 which may not be visible by name; a hypervisor that takes CPU time away (steal) is a finding \
                 beside another",
        advice: &[
            (
                "Stop or move the other processes, or pin them to other CPUs",
                "they hold the cores that the job waits for",
            ),
            (
                "Reserve CPUs for the job (cpuset, Slurm --exclusive, a Kubernetes pod of class Guaranteed)",
                "the next neighbour is then kept out as well",
            ),
        ],
    },
    Cause {
        class: Class::Cpu,
        name: "cpu-training",
        headline: "the model is trained on the CPU",
        meaning: "the model itself runs on the CPU: no device is in use",
        rule: &[
            "no device is in use by the job",
            "the main thread works on the host at least `busy` of its time",
            "it steps, has workers, or computes on `compute_threads` and more",
        ],
        thresholds: &[&limit::BUSY, &limit::COMPUTE_THREADS],
        signals: &[MAIN_TIME, STEPS, CPUS, DEVICE],
        source: "torch's CPU kernels share their work among threads; one thread alone cannot use more than one CPU",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "a device that cannot be seen (no NVML, another vendor's) makes a GPU job look like this; \
                 preprocessing with a machine-learning library can look like it too",
        advice: &[
            (
                "Move model and batches to the GPU (.to(\"cuda\")), or check torch.cuda.is_available()",
                "the steps are computed on the CPU",
            ),
            (
                "Check that a torch build with CUDA is installed (torch.version.cuda is not None)",
                "a CPU-only build runs without any warning",
            ),
        ],
    },
];
