//! The allowed CPUs are full with the job's own work.

use super::*;

thresholds! {}

pub(super) const CAUSE: Spec = Spec {
    headline: "all allowed cores are full",
    brief: "the allowed CPUs are full",
    meaning: "the allowed CPUs are full with the job's own work",
    rule: &[
        SHORT_OF_CPU,
        "the allowed CPUs are in use `cores_full`, or the workers queue at least `run_delay` of their runnable time",
        "other processes use less than `neighbour`, and there are fewer than `too_many_workers`",
    ],
    judge: |case| {
        let queueing = starvation::queueing(case)?;
        let saturated = match case.loss {
            Loss::Workers(_) => true,
            // Full cores are what training on the CPU looks like.
            Loss::NoDevice => false,
            _ => queueing.full,
        };
        saturated.then(|| Judgement::of(Cause::CoresSaturated, queueing.confidence))
    },
    signals: &[CPUS, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
    source: "kernel Documentation/scheduler/sched-stats.rst: the second field of schedstat is time spent waiting on \
             a run queue, readable for every process",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "the set of allowed CPUs may be smaller than the machine (taskset, Slurm, a container's cpuset): the \
             number of CPUs in the evidence is what the job may use; hyperthreads count as CPUs",
    advice: advice![
        "Make the transforms cheaper or move them to the GPU" => "more workers cannot help: no CPU is free";
        "Use a machine with more CPUs per GPU" => "the work is more than these CPUs can do";
        "Widen the CPU affinity of the job if the machine has more CPUs (taskset -p, --cpus-per-task, cpuset)"
            => "only the allowed CPUs count";
    ],
    against: &[&[(Signal::CpuFull, Side::Under, "some CPU time is left over")]],
    place: Place::Workers,
    ..Spec::of(Class::Cpu)
};
