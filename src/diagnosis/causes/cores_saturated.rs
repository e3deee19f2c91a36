//! The allowed CPUs are full with the job's own work.

use super::starvation::Crowd;
use super::*;

thresholds! {
    CPUS_FREE = 0.60, "share", "threads that want a CPU and leave two in five unused are held back by something else";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "all allowed cores are full",
    brief: "the allowed CPUs are full",
    meaning: "the allowed CPUs are full with the job's own work",
    rule: &[
        SHORT_OF_CPU,
        "the allowed CPUs are in use `cores_full`, or the workers queue at least `run_delay` of their runnable time",
        "other processes use less than `neighbour`, else less surely; and there are fewer than `too_many_workers`",
        "it is not the start of whole sets of workers that the loop waits for",
        "or processes of the job fill them in bursts: `oversubscribed` threads are active, and what the loop loses is mostly \
         queueing",
        "less sure where less than `cpus_free` of the CPUs is in use: then something holds the threads back that is not seen",
        "without a device in use and workers: `oversubscribed` threads are active, fewer than `own_threads` in each process",
    ],
    judge: |case| {
        let queueing = starvation::queueing(case)?;
        // It is the start of the workers that fills the CPUs: if they survived the epoch, nothing would.
        if worker_restart::waits_for_sets(case) {
            return None;
        }
        let crowd = queueing.crowded.filter(|crowd| *crowd != Crowd::Threads);
        let saturated = match case.bottleneck {
            Bottleneck::Workers(_) => true,
            // Processes that all want a CPU at the same moment fill them in bursts.
            _ if crowd == Some(Crowd::Processes) && queueing.mostly => true,
            // Full cores are what training on the CPU looks like, but not with many processes.
            _ => queueing.full && (case.window.gpu.is_some() || crowd.is_some()),
        };
        let mut judgement = saturated.then(|| Judgement::new(Cause::CoresSaturated, queueing.confidence))?;
        if crowd == Some(Crowd::Processes) && !queueing.of_workers {
            judgement = judgement.meaning("the job has more processes at work than CPUs, and they queue for them");
        }
        if case.window.cpu.full.is_some_and(|full| full < CPUS_FREE) {
            let words = "threads queue while CPUs are free: a limit that is not seen from here, as of a container, may hold \
                         them back";
            let quota = "a quota of its control group that may not be read from here";
            judgement = judgement.less_sure(GUESSED, words).other(Cause::CgroupThrottled, EVEN_CHANCE, quota);
        }
        // Others use the smaller part, or they would be the cause.
        let shared = starvation::others_hold(case);
        Some(judgement.less_sure_if(shared, GUESSED, "other processes use a part of them"))
    },
    signals: &[CPUS, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
    source: "kernel Documentation/scheduler/sched-stats.rst: the second field of schedstat is time spent waiting on \
             a run queue, readable for every process",
    limits: "the set of allowed CPUs may be smaller than the machine (taskset, Slurm, a container's cpuset): the \
             number of CPUs in the evidence is what the job may use; hyperthreads count as CPUs",
    advice: advice![
        "Make the transforms cheaper or move them to the GPU" => "more workers cannot help: no CPU is free";
        "Use a machine with more CPUs per GPU" => "the work is more than these CPUs can do";
        "Widen the CPU affinity of the job if the machine has more CPUs (taskset -p, --cpus-per-task, cpuset)"
            => "only the allowed CPUs count";
    ],
    against: &[&[(Signal::CpuFull, Side::Under, "some CPU time is left over")]],
    place: CulpritPlace::Workers,
    special_case: |window| source::makers(window).map(|_| &BY_THREADS),
    ..CauseSpec::in_class(Class::Cpu)
};

/// Threads of the loop's own process make the batches.
const BY_THREADS: CauseSpec = CauseSpec {
    place: CulpritPlace::Nowhere,
    meaning: "the allowed CPUs are full with the threads of the program's own that make the batches",
    ..CAUSE
};
