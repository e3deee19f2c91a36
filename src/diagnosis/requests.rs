//! A process that answers requests trains nothing: between them it has nothing to do.

use super::causes::{Judgement, Known};
use super::class::{Class, Phase};
use super::features::{Features, LoopStacks, Part};
use super::phases::{BY_SILENCE, BY_STACKS};
use super::stats::percent;
use super::thresholds::CLEARLY_LOST;

/// The judgement on a process that waits for requests in a good part of its time: on connections that others opened to it or,
/// where stacks show a model that predicts and is not trained, for threads of its own that have nothing to do either.
pub(super) fn judgement(window: &Features, known: Known) -> Option<Judgement> {
    let chain = window.chain.as_ref()?;
    let stacks = window.loop_stacks();
    let steps = window.steps.per_s.is_some_and(|rate| rate > 0.0);
    if steps || known.has_trained || stacks.is_some_and(LoopStacks::trains) || window.workers.is_some() {
        return None;
    }
    let asked = chain.share(Part::Request);
    let (waits, sure) = match stacks.is_some_and(LoopStacks::predicts) {
        true => (asked.max(chain.own_threads().unknown), BY_STACKS),
        false => (asked, BY_SILENCE),
    };
    let words = || format!("waits for requests {} of the time", percent(waits));
    (waits >= CLEARLY_LOST).then(|| Judgement::state(Phase::Idle, Class::Idle, sure).meaning(words()))
}
