//! Many more threads want to run than there are CPUs.

use super::starvation::Crowd;
use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "far more threads than cores",
    brief: "far more threads than CPUs",
    meaning: "many more threads want to run than there are CPUs",
    rule: &[
        SHORT_OF_CPU,
        "threads queue for a CPU at least `run_delay` of their runnable time, or the allowed CPUs are in use \
         `cores_full`",
        "at least `oversubscribed` are active, and `own_threads` and more in each process that has any",
    ],
    judge: |case| {
        let crowded = starvation::queueing(case).filter(|queueing| queueing.crowded == Some(Crowd::Threads));
        crowded
            .map(|queueing| Judgement::new(Cause::ThreadOversubscription, queueing.confidence))
            .or_else(|| starvation::queues_alone(case, Cause::ThreadOversubscription))
    },
    signals: &[THREADS, CPUS, WORKER_TIME, MAIN_TIME],
    source: "OpenMP, BLAS and OpenCV start a thread for each CPU of the machine in every process; torch sets its own \
             to one in a worker (torch/utils/data/_utils/worker.py), the others it does not know",
    limits: "a main thread that queues although CPUs are free (an affinity to one CPU) is called so too",
    advice: advice![
        "Set OMP_NUM_THREADS=1 and cv2.setNumThreads(0) in the workers" => "each worker starts a thread per CPU";
        "Limit BLAS threads in worker_init_fn (threadpoolctl.threadpool_limits(1), or OPENBLAS_NUM_THREADS=1)"
            => "torch limits only its own threads in a worker";
    ],
    wastes_cpu: true,
    ..CauseSpec::in_class(Class::Cpu)
};
