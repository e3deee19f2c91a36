//! A few batches take many times as long as the others.

use super::*;
use crate::diagnosis::stalls;

thresholds! {
    LONG_WAIT = 4.0, "steps", "a queue of two batches per worker (prefetch_factor) bridges shorter ones";
    SOME_WORK = 0.10, "share", "workers that are active less have hardly anything to do, slow samples or not";
    OF_ALL_WAITS = 0.50, "share of input wait", "what takes more than half of the waiting is the cause";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "a few very slow samples",
    brief: "a few batches take many times longer",
    meaning: "a few batches take many times as long as the others",
    rule: &[
        LOOP_LOSES,
        "the longest wait lasts at least `long_wait`",
        "between such waits the workers are idle at least `workers_idle` of the time; or the waits come back after \
         the same number of batches, more than there are workers, and make up at least `of_all_waits`",
        "stacks do not show that moving batches to the loop takes long",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        // A thread that sends all the time sends in bursts.
        let sends = hand_over::is_seen(case, workers);
        if !sends && let Some(period) = by_period(case) {
            return Some(case.found(Cause::SlowSamples, 1.0).meaning(words(period.every, workers)));
        }
        if workers.idle < WORKERS_IDLE || workers.count < 2 {
            return None;
        }
        let longest = quantile(&case.main.waits_s, 1.0).unwrap_or(0.0);
        let step = case.window.step_without_wait_s().unwrap_or(f64::INFINITY);
        // A long wait now and then, with idle workers in between: only some batches are slow.
        let slow = workers.active() > SOME_WORK && longest >= LONG_WAIT.value * step;
        (slow && !sends).then(|| case.found(Cause::SlowSamples, INFERRED))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, STEPS],
    source: "prefetch_factor (2 by default) batches are queued per worker. A batch that takes longer than the \
        queue lasts drains it, however fast the others are",
    limits: "rare slow batches need an observation long enough to include some. The start of an epoch looks the \
        same, but comes with new workers",
    advice: advice![
        "Find the slow samples and preprocess them once"
            => "each of them empties the queue";
        Tuning "Raise prefetch_factor"
            => "a longer queue bridges a slow batch";
        Tuning "Set in_order=False if the order of batches does not matter"
            => "batches of other workers then overtake the slow one";
    ],
    place: CulpritPlace::Workers,
    culprits: &[culprits::busiest_worker],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// Long waits that return after the same number of batches. If the workers were too slow, the loop would wait at every batch, or
/// once per round of the workers; a longer period comes from the batches.
pub(super) fn by_period(case: &RuleInput<'_>) -> Option<stalls::Period> {
    let workers = case.slow_workers()?;
    let period =
        stalls::period(&case.window.stalls).filter(|period| f64::from(period.every) > workers.count as f64)?;
    let rate = case.window.steps.per_s?;
    let share = period.stall_s * rate / f64::from(period.every);
    let long = period.stall_s >= LONG_WAIT.value * case.window.step_without_wait_s()?;
    (long && share >= OF_ALL_WAITS.value * case.main.shares.input_wait).then_some(period)
}

fn words(every: u32, workers: &Workers) -> String {
    let how = match () {
        () if workers.io_wait > workers.busy + workers.runnable => "waits for its source",
        () => "computes",
    };
    format!("about one batch in {every} takes many times as long as the others, while a worker {how}")
}
