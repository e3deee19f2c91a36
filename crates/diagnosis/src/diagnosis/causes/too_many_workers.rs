//! There are more workers than CPUs, and they queue for them.

use super::*;

thresholds! {
    TOO_MANY_WORKERS = 2.0, "workers per CPU", "twice as many workers as CPUs: each waits as long as it runs";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "more workers than CPUs",
    brief: "more workers than CPUs",
    meaning: "there are more workers than CPUs, and they queue for them",
    rule: &[
        LOOP_LOSES,
        "there are at least `too_many_workers`, and they are torch's: fewer processes of a program's own would \
         gain nothing",
        "the workers queue for a CPU at least `run_delay` of the time they could run, or at least `cores_full` of \
         the allowed CPUs is in use",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        let queueing = starvation::queueing(case).filter(|queueing| queueing.of_workers)?;
        let too_many = workers.count as f64 >= TOO_MANY_WORKERS.value * case.window.cpu.usable();
        (too_many && !workers.unnamed).then(|| {
            let words = "the allowed CPUs are full: beyond this number of workers, only cheaper transforms help";
            Judgment::new(Cause::TooManyWorkers, queueing.confidence).other(Cause::CoresSaturated, EVEN_CHANCE, words)
        })
    },
    signals: &[WORKER_TIME, CPUS, MAIN_WAIT],
    source: "torch warns when num_workers exceeds the CPUs that the process may use. Beyond that, a worker only \
        takes time from another: on 8 CPUs, 4 to 8 workers took 1.30 to 1.17 s a step",
    limits: "a lower number alone rarely makes the loop faster, because the CPUs are full (cpu/cores-saturated); \
        it frees memory and evens out the waits",
    advice: advice![
        Tuning "Lower num_workers to the number of allowed CPUs"
            => "workers beyond the CPUs only wait for each other";
        "Make transforms cheaper, or move them to the GPU"
            => "the CPUs are full, so only less work helps", if with_gpu;
        "Make transforms cheaper"
            => "the CPUs are full, so only less work helps", if without_gpu;
    ],
    wastes_cpu: true,
    ..CauseSpec::in_class(Class::DataLoader)
};
