//! There are more workers than CPUs, and they queue for them.

use super::*;

thresholds! {
    TOO_MANY_WORKERS = 2.0, "workers per CPU", "as oversubscribed";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "more workers than CPUs",
    brief: "more workers than CPUs",
    meaning: "there are more workers than CPUs and they queue for them",
    rule: &[
        LOOP_LOSES,
        "at least `too_many_workers` of them, and torch's: fewer processes of a program's own would gain nothing",
        "the workers queue for at least `run_delay` of their runnable time, or the allowed CPUs are in use \
         `cores_full`",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        let queueing = starvation::queueing(case).filter(|queueing| queueing.of_workers)?;
        let too_many = workers.count as f64 >= TOO_MANY_WORKERS.value * case.window.cpu.usable();
        (too_many && !workers.unnamed).then(|| {
            let words = "the allowed CPUs are full: past this number of workers only cheaper transforms help";
            Judgement::new(Cause::TooManyWorkers, queueing.confidence).other(
                Cause::CoresSaturated,
                EVEN_CHANCE,
                words,
            )
        })
    },
    signals: &[WORKER_TIME, CPUS, MAIN_WAIT],
    source: "torch warns when num_workers exceeds the CPUs that the process may use; past that number a worker only \
             takes time from another (4 to 8 workers on 8 CPUs gave 1.30 to 1.17 s a step, no more)",
    limits: "lowering the number alone rarely makes the loop faster: the CPUs are full (cpu/cores-saturated), it \
             frees memory and evens out the waits",
    advice: advice![
        "Lower num_workers to the number of allowed CPUs" => "more workers than CPUs only wait for one another";
        "Make the transforms cheaper or move them to the GPU" => "the CPUs are full: only less work helps";
    ],
    wastes_cpu: true,
    ..CauseSpec::in_class(Class::DataLoader)
};
