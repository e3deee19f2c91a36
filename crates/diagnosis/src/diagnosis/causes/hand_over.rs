//! Batches are ready, but moving them to the loop is slow.

use super::*;

thresholds! {
    AT_REST = 0.20, "share", "workers that are active less clearly have nothing to do";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "moving batches takes the time",
    brief: "batches are ready, moving them is slow",
    meaning: "batches are ready, but moving them to the loop is slow",
    rule: &[
        LOOP_LOSES,
        "the workers are idle at least `workers_idle` of the time: they wait while the loop waits",
        "neither one worker (worker-imbalance) nor single long batches (slow-samples) explain it, and the workers \
         work during less than `meanwhile`",
        "with stacks, instead: receiving batches, as far as the loop runs meanwhile, is at least `larger_half` of \
         the wait; or the workers' sending threads are busy at least `busy` of the time, and more than the \
         workers themselves",
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
    source: "torch pickles batches in a queue thread. Each tensor goes through shared memory and is mapped by the \
        receiver; anything else goes through a pipe, byte by byte",
    limits: "receiving a large batch is work of the loop and looks like cpu/main-thread from outside. A source \
        that wakes the workers in turn looks the same",
    advice: advice![
        "Send smaller batches: fewer, smaller tensors (uint8)"
            => "every tensor is copied and mapped on its way to the loop; uint8 needs a quarter of the bytes of float32";
        Nothing "Check the collate function and the pin-memory thread"
            => "they run between the workers and the loop";
        "Return tensors or NumPy arrays, not Python lists or objects"
            => "tensors travel in shared memory; everything else is pickled";
    ],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// The stacks show it: the loop spends its wait receiving batches, or the workers' sending threads are busy while the workers
/// themselves are not.
pub(super) fn is_seen(case: &RuleInput<'_>, workers: &Workers) -> bool {
    // If the workers rest, all of the receiving is moving them; if they are busy, part of it is waiting for them.
    let resting = workers.idle >= WORKERS_IDLE;
    let receiving = if resting { case.main.share(Activity::Receiving) } else { case.window.receiving() };
    receiving >= LARGER_HALF.value * case.main.shares.input_wait.max(LOST_WAIT.value)
        || workers.stages.is_some_and(|stages| stages.hand_over >= BUSY && stages.hand_over > stages.making())
}
