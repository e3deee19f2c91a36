//! The CPU quota of the container is used up.

use super::*;

const BY_THROTTLING: ConfidenceRamp =
    ConfidenceRamp { least: 0.70, most: 1.0, from: CGROUP_THROTTLED, to: LARGER_HALF };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the CPU quota throttles the job",
    brief: "the container's CPU quota is used up",
    meaning: "the container's CPU quota is used up and the kernel pauses the job",
    rule: &[
        "the loop loses at least `lost_wait` of its time waiting for batches, or the device is idle and the main \
         thread short of CPU time",
        "the job's control group was throttled in at least `cgroup_throttled`",
        "whoever is waited for queues for a CPU, which such pauses count as, no less than it waits for anything else",
    ],
    judge: |case| {
        let throttled = case.window.cpu.throttled.filter(|share| *share >= CGROUP_THROTTLED)?;
        let pauses = starvation::may_starve(case) && starvation::queues_rather_than_waits(case);
        pauses.then(|| case.found(Cause::CgroupThrottled, BY_THROTTLING.at(throttled)))
    },
    signals: &[QUOTA, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
    source: "kernel Documentation/scheduler/sched-bwc.rst: once the quota of a period is used up, all threads of the \
             group wait for the next one (100 ms by default)",
    limits: "a container shows the machine's CPUs, so many threads can use up the quota at the start of each period \
             although the mean use looks low",
    advice: advice![
        "Raise the CPU limit of the container (cpu.max, --cpus, resources.limits.cpu)"
            => "the job wants more CPU time than its quota";
        "Lower num_workers and thread counts to the quota" => "the same work is then paused less often";
    ],
    bound: |_, window| starvation::without_queueing(window),
    ..CauseSpec::in_class(Class::Cpu)
};
