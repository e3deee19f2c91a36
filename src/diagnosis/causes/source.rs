//! Batches wait for their source (a disk, the network): what all causes of that share.

use super::rule_input::{Bottleneck, RuleInput};
use super::{Activity, Cause, Features, Judgement, OwnThreads, PathPart, slow_samples};
use crate::diagnosis::thresholds::*;

/// The threads of the loop's own process that make its batches: it has no workers, and most of what it loses is waits for these
/// threads.
pub(super) fn makers(window: &Features) -> Option<OwnThreads> {
    let threads = window.followed_chain().filter(|_| window.workers.is_none())?.own_threads();
    let lost = window.lost_wait();
    (lost >= LOST_WAIT && threads.total() >= LARGER_HALF.value * lost).then_some(threads)
}

/// Threads of the process are waited for, but the loop's stacks do not stand in taking batches meanwhile: they may hold a lock
/// that it wants. A queue that waits in native code shows no frame of its own either.
pub(super) fn less_sure_of_makers(case: &RuleInput<'_>, judgement: Judgement) -> Judgement {
    if makers(case.window).is_none() {
        return judgement;
    }
    let Some(stacks) = &case.main.stacks else {
        let words = "without its stacks, a lock that the thread holds, or its end, looks the same";
        let judgement = judgement.less_sure(GUESSED, words);
        let instead = judgement.confidence * GUESSED.value;
        return judgement.other(Cause::WaitsForThread, instead, "it may wait for a lock or a result of that thread");
    };
    let takes = stacks.shares.share_where(|activity| activity.is_input() || activity == Activity::OtherWait);
    let may_be_a_lock = takes < LARGER_HALF.value * case.lost;
    let words = "the loop's code is not seen taking batches while it waits for that thread: it may be a lock that the thread \
                 holds";
    judgement.less_sure_if(may_be_a_lock, GUESSED, words)
}

const BY_SOURCE_WAITS: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 1.0, from: WORKERS_IO, to: PHASE };

/// Share of the time that the loop, or a program whose output it reads, waits for an answer from elsewhere: where the loop
/// loads itself, that is what it loads.
pub(super) fn from_elsewhere(window: &Features) -> f64 {
    window.followed_chain().map_or(0.0, |chain| chain.share(PathPart::Remote))
}

/// How sure it is that the source is waited for, by the workers, by threads that make batches, or by a main thread that loads
/// itself.
fn waited_for(case: &RuleInput<'_>) -> Option<f64> {
    match case.bottleneck {
        Bottleneck::Workers(workers) => {
            let part = workers.io_wait / workers.active();
            // Single batches that are slow. What makes them slow is known only where it is a disk.
            if slow_samples::by_period(case).is_some() && workers.disk_wait < WORKERS_IO.value * workers.active() {
                return None;
            }
            (workers.active() > HARDLY && part >= WORKERS_IO).then(|| case.sure * BY_SOURCE_WAITS.at(part))
        }
        Bottleneck::InProcess => {
            if let Some(threads) = makers(case.window) {
                let part = threads.at_source();
                return (part >= WORKERS_IO).then(|| case.sure * BY_SOURCE_WAITS.at(part));
            }
            let main = case.main;
            let waits = main.disk() + from_elsewhere(case.window);
            // What the loading itself takes: with stacks their share of it, else all that the main thread runs.
            let loading = main.stacks.as_ref().map_or(main.running, |stacks| (stacks.loading() - waits).max(0.0));
            (waits > loading).then_some(case.sure * INFERRED.value)
        }
        _ => None,
    }
}

/// The process of this machine that data workers ask, where its work is what most of the waits for batches end at; in words.
pub(super) fn server(window: &Features) -> Option<String> {
    let chain = window.followed_chain()?;
    let (pid, lost) = chain.server()?;
    (lost >= LOST_WAIT && lost >= LARGER_HALF.value * chain.lost(PathPart::Loader)).then(|| chain.name(pid))
}

/// A judgement on such a process, where the workers wait for their source.
pub(super) fn by_server(case: &RuleInput<'_>) -> Option<Judgement> {
    let sure = case.slow_workers().and_then(|_| waited_for(case))?;
    let words = format!("its data workers wait for the work of {}, another process", server(case.window)?);
    Some(Judgement::new(Cause::WaitsForProcess, sure).meaning(words))
}

/// A judgement on the source, where it is waited for.
pub(super) fn judgement(case: &RuleInput<'_>, cause: Cause, factor: f64) -> Option<Judgement> {
    let judgement = Judgement::new(cause, waited_for(case)? * factor);
    let judgement = less_sure_of_makers(case, judgement);
    Some(match case.bottleneck {
        Bottleneck::InProcess => {
            let words = match makers(case.window) {
                Some(_) => "a thread of the process reads the batches: more of them would have more reads in flight",
                None => "the main thread reads the batches itself: workers would read ahead",
            };
            judgement.other(Cause::InProcessLoading, EVEN_CHANCE, words)
        }
        _ => judgement,
    })
}

/// Surer where the disk is busy.
pub(super) fn by_disk_use(case: &RuleInput<'_>) -> f64 {
    let busy = case.window.io.disk_busy_pct.unwrap_or(0.0) >= DISK_BUSY;
    if busy { 1.0 } else { INFERRED.value }
}
