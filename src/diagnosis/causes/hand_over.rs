//! Batches are made, and moving them to the loop is slow.

use super::*;

thresholds! {
    AT_REST = 0.20, "share", "workers that are active less have plainly nothing to do";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "handing batches over is slow",
    brief: "batches are ready, moving them is slow",
    meaning: "batches are made but moving them to the main thread is slow",
    rule: &[
        LOOP_LOSES,
        "the workers are idle at least `workers_idle` of their time: they wait while the loop waits",
        "neither one worker (imbalance) nor single long batches (slow-samples) explain it, and no worker is at work in \
         `meanwhile` of the loop's waits",
        "with stacks, instead: taking batches over, as far as the main thread runs meanwhile, holds at least \
         `larger_half` of the wait, or the workers' sending threads are busy at least `busy` of the time and more than \
         the workers themselves",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        if is_seen(case, workers) {
            return Some(case.found(Cause::HandOver, 1.0));
        }
        if stages::works_meanwhile(case) {
            return None;
        }
        let resting = if workers.active() < AT_REST { INFERRED } else { GUESSED };
        (workers.idle >= WORKERS_IDLE).then(|| case.found(Cause::HandOver, resting))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, WORKER_STACKS, STEPS],
    source: "torch hands batches over by pickling them in a feeder thread; each tensor goes through shared memory \
             and is mapped by the receiver, anything else through a pipe byte by byte",
    limits: "receiving a large batch is work of the main thread and looks like cpu/main-thread from outside; a \
             source that wakes the workers in turn looks like it too",
    advice: advice![
        "Send smaller batches: collate to fewer, smaller tensors (uint8 instead of float32)"
            => "the hand-over copies and maps every tensor";
        "Look at the collate function and the pin-memory thread" => "they run between the workers and the loop";
        "Return tensors or numpy arrays, not Python lists or objects"
            => "tensors travel in shared memory, everything else is pickled";
    ],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// The stacks show it: the main thread spends its wait receiving batches, or the workers' sending threads are busy while the
/// workers themselves are not.
pub(super) fn is_seen(case: &RuleInput<'_>, workers: &Workers) -> bool {
    // If the workers rest, all of the receiving is the hand-over; if they are busy, part of it is waiting for them.
    let resting = workers.idle >= WORKERS_IDLE;
    let receiving = if resting { case.main.share(Activity::Receiving) } else { case.window.receiving() };
    receiving >= LARGER_HALF.value * case.main.shares.input_wait.max(LOST_WAIT.value)
        || workers.stages.is_some_and(|stages| stages.hand_over >= BUSY && stages.hand_over > stages.making())
}
