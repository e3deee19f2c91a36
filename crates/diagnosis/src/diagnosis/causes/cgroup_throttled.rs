//! The CPU quota of the container is used up.

use super::*;

const BY_THROTTLING: ConfidenceRamp =
    ConfidenceRamp { least: 0.70, most: 1.0, from: CGROUP_THROTTLED, to: LARGER_HALF };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "CPU quota used up",
    brief: "the container's CPU quota is used up",
    meaning: "the container's CPU quota is used up, and the kernel pauses the job",
    rule: &[
        "the loop waits for data at least `lost_wait` of the time while the GPU is idle, or the GPU is idle and \
         the loop is short of CPU time",
        "the job's cgroup was throttled in at least `cgroup_throttled`",
        "what the loop waits for queues for a CPU, which includes these pauses, at least as long as it waits for \
         anything else",
    ],
    judge: |case| {
        let throttled = case.window.cpu.throttled.filter(|share| *share >= CGROUP_THROTTLED)?;
        let pauses = starvation::may_starve(case) && starvation::queues_rather_than_waits(case);
        pauses.then(|| case.found(Cause::CgroupThrottled, BY_THROTTLING.at(throttled)))
    },
    signals: &[QUOTA, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
    source: "kernel Documentation/scheduler/sched-bwc.rst: once a period's quota is used up, all threads of the \
        group wait for the next period (100 ms by default)",
    limits: "a container sees all of the machine's CPUs, so many threads can use up the quota at the start of each \
        period although the average use looks low",
    advice: advice![
        "Raise the CPU limit of the container"
            => "the job needs more CPU time than its quota (cpu.max, --cpus, resources.limits.cpu)";
        Tuning "Lower num_workers and thread counts to the quota"
            => "the same work is then paused less often", if with_workers;
        Tuning "Lower thread counts to the quota (OMP_NUM_THREADS)"
            => "the same work is then paused less often", if without_workers;
    ],
    bound: |_, window| starvation::without_queueing(window),
    ..CauseSpec::in_class(Class::Cpu)
};
