//! A process that answers requests does not train: it is idle between them.

use super::features::{Features, LoopStacks};
use super::thresholds::{CLEARLY_LOST, LARGER_HALF, LIKELY, SURE, Threshold};
use trainmon_libraries::JobKind;
use trainmon_waits::taxonomy::Purpose;

/// Share of the time that a process waits for requests, and the confidence, if the share is large. It waits on connections that
/// clients opened or, where stacks show a model that predicts without training, for idle threads of its own.
pub(super) fn waits(window: &Features, has_trained: bool) -> Option<(f64, Threshold)> {
    let chain = window.chain.as_ref()?;
    if window.does.kind == Some(JobKind::Serving) {
        return waits_as_server(window).map(|share| (share, SURE));
    }
    let stacks = window.loop_stacks();
    let steps = window.steps.per_s.is_some_and(|rate| rate > 0.0);
    let trains = steps || has_trained || stacks.is_some_and(LoopStacks::trains) || window.workers.is_some();
    let predicts = stacks.is_some_and(LoopStacks::predicts);
    // Ranks wait for each other on connections that one of them opened. A busy GPU may belong to a learner that its actors
    // connect to.
    if trains || window.communicates || window.ranks > 1 || window.uses_gpu() && !predicts {
        return None;
    }
    let by_threads = if predicts { chain.own_threads().unknown } else { 0.0 };
    let share = chain.share(Purpose::Request).max(by_threads);
    (share >= CLEARLY_LOST).then_some((share, if predicts { SURE } else { LIKELY }))
}

/// The same for a server, which waits where its library takes requests. What its threads and its other processes compute meanwhile
/// are answers, and so is what its threads wait for on behalf of a request.
fn waits_as_server(window: &Features) -> Option<f64> {
    let (chain, main) = (window.chain.as_ref()?, window.main.as_ref()?);
    let waits = chain.share(Purpose::Request) + chain.share(Purpose::Unknown);
    let computes = window.cpu.job.unwrap_or(0.0).max(main.cores());
    let answering = window.loop_stacks().map_or(0.0, LoopStacks::answering);
    let share = waits.min(1.0 - computes.max(answering)).min(window.device_idle());
    (share >= LARGER_HALF).then_some(share)
}
