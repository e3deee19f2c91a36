//! A few batches take many times as long as the others.

use super::*;

thresholds! {
    LONG_WAIT = 4.0, "steps", "a queue of two batches for each worker (prefetch_factor) bridges shorter ones";
    SOME_WORK = 0.10, "share", "workers that are active less have next to nothing to do, slow samples or not";
    FEW_SEEN = 0.85, "of the confidence", "rare batches are seen a few times in a watch";
}

pub(super) const CAUSE: Spec = Spec {
    headline: "a few samples are very slow",
    brief: "a few batches take many times longer",
    meaning: "a few batches take many times as long as the others",
    rule: &[
        LOOP_LOSES,
        "the workers are idle at least `workers_idle` of their time in between",
        "the longest wait lasts `long_wait` and more",
    ],
    judge: |case| {
        let workers = case.slow_workers().filter(|workers| workers.idle >= WORKERS_IDLE && workers.count >= 2)?;
        let longest = quantile(&case.main.waits_s, 1.0).unwrap_or(0.0);
        let step = case.window.step_without_wait_s().unwrap_or(f64::INFINITY);
        // A long wait now and then, with idle workers in between: single batches are slow, not all of them.
        let slow = workers.active() > SOME_WORK && longest >= LONG_WAIT.value * step;
        (slow && !hand_over::is_seen(case, workers)).then(|| case.of(Cause::SlowSamples, FEW_SEEN))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, STEPS],
    source: "prefetch_factor (2 by default) batches wait for each worker: a batch that takes longer than the queue \
             lasts drains it, however fast the others are",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "rare slow batches need a watch that is long enough to see some; the start of an epoch looks alike, but \
             comes with new workers",
    advice: advice![
        "Find the slow samples and preprocess them once" => "the queue runs empty at each of them";
        "Raise prefetch_factor" => "a longer queue bridges a slow batch";
        "Set in_order=False if the order of batches does not matter"
            => "the batches of other workers then go ahead of the slow one";
    ],
    place: Place::Workers,
    ..Spec::of(Class::DataLoader)
};
