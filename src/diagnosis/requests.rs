//! A process that answers requests trains nothing: between them it has nothing to do.

use super::features::{Features, LoopStacks, PathPart};
use super::thresholds::{CLEARLY_LOST, LIKELY, SURE, Threshold};

/// Share of its time that a process waits for requests, and how surely, where that is a good part: on connections that others
/// opened to it or, where stacks show a model that predicts and is not trained, for threads of its own that have nothing to do either.
pub(super) fn waits(window: &Features, has_trained: bool) -> Option<(f64, Threshold)> {
    let chain = window.chain.as_ref()?;
    let stacks = window.loop_stacks();
    let steps = window.steps.per_s.is_some_and(|rate| rate > 0.0);
    let trains = steps || has_trained || stacks.is_some_and(LoopStacks::trains) || window.workers.is_some();
    let predicts = stacks.is_some_and(LoopStacks::predicts);
    // Ranks wait for each other on connections that one of them opened. Where a device works it may be for a learner whose actors
    // have connected to it.
    if trains || window.communicates || window.trainers > 1 || window.uses_device() && !predicts {
        return None;
    }
    let by_threads = if predicts { chain.own_threads().unknown } else { 0.0 };
    let share = chain.share(PathPart::Request).max(by_threads);
    (share >= CLEARLY_LOST).then_some((share, if predicts { SURE } else { LIKELY }))
}
