//! Batches wait for their source (a disk, the network): what all such causes share.

use super::rule_input::RuleInput;
use super::{Activity, Cause, Features, Judgment, OwnThreads, slow_samples};
use crate::diagnosis::thresholds::*;
use trainmon_waits::taxonomy::Purpose;

/// The threads of the loop's process that make its batches: it has no workers, and most of its loss is waits for these threads.
pub(super) fn makers(window: &Features) -> Option<OwnThreads> {
    let chain = if window.workers.is_none() { window.followed_chain()? } else { return None };
    let threads = chain.own_threads();
    let lost = window.lost_wait();
    (lost >= LOST_WAIT && threads.total() >= LARGER_HALF.value * lost).then_some(threads)
}

/// Less sure if the loop waits for threads of its process, but its stacks are not taking batches meanwhile: the threads may hold a
/// lock that it wants. A queue that waits in native code shows no frame of its own either.
pub(super) fn less_sure_of_makers(case: &RuleInput<'_>, judgment: Judgment) -> Judgment {
    if makers(case.window).is_none() {
        return judgment;
    }
    let Some(stacks) = &case.main.stacks else {
        let words = "without stacks, a wait for a lock that the thread holds, or for its end, looks the same";
        let judgment = judgment.less_sure(GUESSED, words);
        let instead = judgment.confidence * GUESSED.value;
        return judgment.other(
            Cause::WaitsForThread,
            instead,
            "the loop may wait for a lock or a result of that thread",
        );
    };
    let takes = stacks.shares.share_where(|activity| activity.is_input() || activity == Activity::OtherWait);
    let may_be_a_lock = takes < LARGER_HALF.value * case.lost;
    let words = "the loop's stacks do not show it taking batches while it waits for that thread, which may hold a lock instead";
    judgment.less_sure_if(may_be_a_lock, GUESSED, words)
}

const BY_SOURCE_WAITS: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 1.0, from: WORKERS_IO, to: PHASE };

/// Share of the time that the loop, or a program whose output it reads, waits for an answer over the network: if the loop loads
/// its batches itself, that is what it loads.
pub(super) fn from_elsewhere(window: &Features) -> f64 {
    window.followed_chain().map_or(0.0, |chain| chain.share(Purpose::Remote))
}

/// Certainty that the source is slow for the workers, for threads that make batches, or for a loop that loads its batches itself.
fn waited_for(case: &RuleInput<'_>) -> Option<f64> {
    if let Some(workers) = case.slow_workers() {
        let part = workers.io_wait / workers.active();
        // Single batches that are slow. What makes them slow is known only where it is a disk.
        if slow_samples::by_period(case).is_some() && workers.disk_wait < WORKERS_IO.value * workers.active() {
            return None;
        }
        return (workers.active() > HARDLY && part >= WORKERS_IO).then(|| case.sure * BY_SOURCE_WAITS.at(part));
    }
    if !case.loads_in_process() {
        return None;
    }
    if let Some(threads) = makers(case.window) {
        let part = threads.at_source();
        return (part >= WORKERS_IO).then(|| case.sure * BY_SOURCE_WAITS.at(part));
    }
    let main = case.main;
    let waits = main.disk() + from_elsewhere(case.window);
    if main.stacks.as_ref().is_some_and(|stacks| stacks.waits_beside_loading(waits)) {
        return None;
    }
    // What the loading itself takes: with stacks, their share of it; otherwise all that the loop's thread runs.
    let loading = main.stacks.as_ref().map_or(main.running, |stacks| (stacks.loading() - waits).max(0.0));
    (waits > loading).then_some(case.sure * INFERRED.value)
}

/// Most of the waits for batches end at the work of another process of this machine, which the workers ask.
pub(super) fn is_server(window: &Features) -> bool {
    window.followed_chain().is_some_and(|chain| {
        let loader = chain.lost(Purpose::Batch);
        chain.server().is_some_and(|(_, lost)| lost >= LOST_WAIT && lost >= LARGER_HALF.value * loader)
    })
}

/// A judgment on such a process, if the workers wait for their source.
pub(super) fn by_server(case: &RuleInput<'_>) -> Option<Judgment> {
    let sure = case.slow_workers().and_then(|_| waited_for(case))?;
    is_server(case.window).then(|| Judgment::new(Cause::WaitsForProcess, sure))
}

/// A judgment on the source, if the loop waits for it.
pub(super) fn judgment(case: &RuleInput<'_>, cause: Cause, factor: f64) -> Option<Judgment> {
    let judgment = Judgment::new(cause, waited_for(case)? * factor);
    let judgment = less_sure_of_makers(case, judgment);
    if !case.loads_in_process() {
        return Some(judgment);
    }
    let words = match makers(case.window) {
        Some(_) => "a thread of the loop's process reads the batches: more threads would keep more reads in flight",
        None => "the loop reads its batches itself: workers would read ahead",
    };
    Some(judgment.other(Cause::InProcessLoading, EVEN_CHANCE, words))
}

/// More certain if the disk is busy.
pub(super) fn by_disk_use(case: &RuleInput<'_>) -> f64 {
    let busy = case.window.io.disk_busy_pct.unwrap_or(0.0) >= DISK_BUSY;
    if busy { 1.0 } else { INFERRED.value }
}
