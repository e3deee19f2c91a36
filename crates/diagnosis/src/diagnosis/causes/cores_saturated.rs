//! The job's own work fills the allowed CPUs.

use super::starvation::Crowd;
use super::*;

thresholds! {
    CPUS_FREE = 0.60, "share", "threads that want a CPU and leave two in five unused are held back by something else";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "all allowed CPUs are full",
    brief: "the job fills all allowed CPUs",
    meaning: "the job's own work fills all CPUs that it may use",
    rule: &[
        SHORT_OF_CPU,
        "at least `cores_full` of the allowed CPUs is in use, or the workers queue for a CPU at least `run_delay` \
         of the time they could run",
        "other processes use less than `neighbour` (more makes it less certain), and there are fewer than \
         `too_many_workers`",
        "the loop is not waiting for whole sets of workers to start",
        "the loop's thread does not make the batches, or it queues for a CPU",
        "or the job's processes fill the CPUs in bursts: at least `oversubscribed` are active, and most of the \
         loss is queueing",
        "less certain if less than `cpus_free` of the CPUs is in use: then something that trainmon cannot see \
         holds the threads back",
        "without workers and without a GPU in use: at least `oversubscribed` are active, and fewer than \
         `own_threads`",
    ],
    judge: |case| {
        let queueing = starvation::queueing(case)?;
        // Starting the workers fills the CPUs: if they survived the epoch, nothing would.
        if worker_restart::waits_for_sets(case) {
            return None;
        }
        let crowd = queueing.crowded.filter(|crowd| *crowd != Crowd::Threads);
        // Processes that all want a CPU at the same moment fill them in bursts.
        let in_bursts = crowd == Some(Crowd::Processes) && queueing.mostly;
        let saturated = if case.slow_workers().is_some() || in_bursts {
            true
        } else if case.loads_in_process() && crowd.is_none() && makes_alone(case) {
            // The operators of one batch fill the CPUs with threads that mostly wait for each other. Workers get one thread each.
            false
        } else {
            // Training on the CPU also fills the CPUs, but not with many processes.
            queueing.full && (case.window.gpu.is_some() || crowd.is_some())
        };
        let mut judgment = saturated.then(|| Judgment::new(Cause::CoresSaturated, queueing.confidence))?;
        if crowd == Some(Crowd::Processes) && !queueing.of_workers {
            judgment = judgment.meaning("the job has more processes at work than CPUs, and they queue");
        }
        if case.window.cpu.full.is_some_and(|full| full < CPUS_FREE) {
            let words = "threads queue although CPUs are free: a limit that trainmon cannot see, such as a container's, may \
                         hold them back";
            let quota = "a CPU quota that trainmon cannot read may hold the job back";
            judgment = judgment.less_sure(GUESSED, words).other(Cause::CgroupThrottled, EVEN_CHANCE, quota);
        }
        // Other processes use the smaller part, or they would be the cause.
        let shared = starvation::others_hold(&case.window.cpu);
        Some(judgment.less_sure_if(shared, GUESSED, "other processes use part of the CPUs"))
    },
    signals: &[CPUS, WORKER_TIME, MAIN_TIME, MAIN_WAIT],
    source: "kernel Documentation/scheduler/sched-stats.rst: the second field of schedstat is the time spent \
        waiting on a run queue, and it can be read for every process",
    limits: "the job may use fewer CPUs than the machine has (taskset, Slurm, a container's cpuset): the number of \
        CPUs in the evidence is what it may use. Hyperthreads count as CPUs",
    advice: advice![
        "Decode less: store images at the size training needs, or draft() JPEGs to it"
            => "decoding takes most of the workers' time, and it costs by the pixel", if workers_decode_most;
        "Make transforms cheaper, or move them to the GPU"
            => "more workers cannot help, because no CPU is free", if with_gpu;
        "Make the work on the CPUs cheaper"
            => "more workers cannot help, because no CPU is free", if without_gpu;
        "Use a machine with more CPUs per GPU"
            => "the work is more than these CPUs can do", if with_gpu;
        "Use a machine with more CPUs"
            => "the work is more than these CPUs can do", if without_gpu;
        "Allow the job more CPUs, if the machine has them"
            => "only the allowed CPUs count (taskset -p, --cpus-per-task, cpuset)";
    ],
    against: &[&[(Signal::CpuFull, Side::Under, "some CPU time is free")]],
    // Whatever becomes cheaper, the loop's thread needs its CPU time.
    bound: |spec, window| {
        let main = window.main.as_ref()?;
        let own = main.running * (1.0 - main.run_delay?);
        Some(without_what_is_lost(spec, window)?.min(window.without(1.0 - own)))
    },
    place: CulpritPlace::Workers,
    sharpen,
    special_case: |window| source::makers(window).map(|_| &BY_THREADS),
    ..CauseSpec::in_class(Class::Cpu)
};

/// Names the line of the workers, or of the loop, that takes most of its time.
fn sharpen(first: &mut Advice, window: &Features) {
    if workers_decode_most(window) {
        return;
    }
    if let Some((_, line)) = CAUSE.line(window).filter(|(_, line)| line.share >= LARGER_HALF) {
        first.title = format!("Make it cheaper: {line}");
    }
}

/// Whether the loop's thread was seen making the batches, and does not queue for a CPU meanwhile.
fn makes_alone(case: &RuleInput<'_>) -> bool {
    let makes = case.main.stacks.as_ref().is_some_and(|stacks| stacks.loading() >= LARGER_HALF);
    makes && source::makers(case.window).is_none() && starvation::main_queues(case).is_none()
}

/// Threads of the loop's process make the batches.
const BY_THREADS: CauseSpec = CauseSpec {
    place: CulpritPlace::Nowhere,
    sharpen: |_, _| {},
    meaning: "the threads that make the batches fill all CPUs that the job may use",
    ..CAUSE
};
