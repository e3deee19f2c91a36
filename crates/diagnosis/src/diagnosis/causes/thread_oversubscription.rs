//! Many more threads want to run than there are CPUs.

use super::starvation::Crowd;
use super::*;

/// How many threads want how many CPUs.
fn counted(window: &Features) -> Option<String> {
    let (threads, cpus) = (window.cpu.active_threads?, round(window.cpu.cores?, 1));
    let cpus = if cpus == 1.0 { "one CPU".to_owned() } else { format!("{cpus} CPUs") };
    Some(format!("about {threads:.0} threads want to run on {cpus}"))
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "far more threads than CPUs",
    brief: "far more threads than CPUs",
    meaning: "many more threads want to run than there are CPUs",
    rule: &[
        SHORT_OF_CPU,
        "threads queue for a CPU at least `run_delay` of the time they could run, or at least `cores_full` of the \
         allowed CPUs is in use",
        "at least `oversubscribed` are active, and at least `own_threads` in the processes that have active \
         threads",
    ],
    judge: |case| {
        let crowded = starvation::queueing(case).filter(|queueing| queueing.crowded == Some(Crowd::Threads));
        crowded
            .map(|queueing| {
                let judgment = Judgment::new(Cause::ThreadOversubscription, queueing.confidence);
                match counted(case.window) {
                    Some(words) => judgment.meaning(words),
                    None => judgment,
                }
            })
            .or_else(|| starvation::queues_alone(case, Cause::ThreadOversubscription))
    },
    signals: &[THREADS, CPUS, WORKER_TIME, MAIN_TIME],
    source: "OpenMP, BLAS and OpenCV start a thread per CPU of the machine in every process. In a worker, torch \
        sets its own to one (torch/utils/data/_utils/worker.py) but does not know about the others",
    limits: "a loop that queues although CPUs are free (pinned to one CPU) gets this verdict too",
    advice: advice![
        Tuning "Use fewer threads"
            => "more threads than CPUs take turns and wait for each other", if without_workers, of FewerThreads;
        Tuning "Set OMP_NUM_THREADS=1 and cv2.setNumThreads(0) in workers"
            => "each worker starts a thread per CPU", if with_workers;
        Tuning "Limit BLAS threads in worker_init_fn"
            => "torch limits only its own threads in a worker; threadpoolctl.threadpool_limits(1) or \
                OPENBLAS_NUM_THREADS=1 limits these", if with_workers;
        Tuning "Set OMP_NUM_THREADS to the number of allowed CPUs, or less"
            => "more threads than CPUs take turns and wait for each other", if without_workers;
    ],
    wastes_cpu: true,
    ..CauseSpec::in_class(Class::Cpu)
};
