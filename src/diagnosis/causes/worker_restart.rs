//! The set of workers is started anew again and again.

use super::*;

thresholds! {
    RESTART = 20.0, "s", "starting a spawned worker takes 2 to 6 s of imports: a tenth of the loop and more at this distance";
    ONE_SET = 2.0, "s", "workers that are new within this time belong to one set: they are started one after the other";
    A_POLL = 0.02, "share", "8 of the 400 samples of 8 s: torch waits in this poll for workers and for nothing else";
    A_START = 0.03, "s", "forking a worker and making its first batch takes this long at least, spawning one seconds";
    GOES_ON = 5.0, "times a second", "a loop that waited for spawned workers ran 2 to 3 times a second; one that is given batches runs for each";
    FULL_TOO = 0.75, "share", "two spawned workers that import on two CPUs used 0.83 of them";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "workers are restarted at each epoch",
    brief: "workers are rebuilt at each epoch",
    meaning: "the set of workers is started anew again and again",
    rule: &[
        LOOP_LOSES,
        "whole sets of workers were started twice within `restart`, and waits of `a_start` and more, one for each worker that \
         was started, or any where sets come faster than workers are looked for, make at least `larger_half` of what is lost, taking batches over \
         less than that; before such a wait has ended, the loop runs `goes_on` or less",
        "or no worker lives long enough to be seen, and the loop is in torch's poll for workers at least `a_poll`, while less \
         than `larger_half` of what is lost is loading in this process or a wait of another kind",
    ],
    judge: |case| {
        // torch's loader waits for workers in a poll of its own: if no worker lives long enough to be seen, each set is short-lived.
        // Only batches that are seen being made in this process, or other waits, point to another loader.
        let polled = case.main.waits(Wait::LoaderPoll);
        let elsewhere = case.main.stacks.as_ref().map_or(case.lost - polled, LoopStacks::loading);
        let short_sets = polled >= A_POLL && elsewhere < LARGER_HALF.value * case.lost;
        if matches!(case.bottleneck, Bottleneck::InProcess) && case.main.exact && short_sets {
            return Some(case.found(Cause::WorkerRestart, 1.0));
        }
        let judgement = waits_for_sets(case).then(|| case.found(Cause::WorkerRestart, 1.0))?;
        let full = case.window.cpu.full.is_some_and(|full| full >= FULL_TOO);
        let words = "the workers' start fills the CPUs: with more of them it would be shorter";
        Some(if full { judgement.other(Cause::CoresSaturated, EVEN_CHANCE, words) } else { judgement })
    },
    signals: &[MAIN_WAIT, "start times of the worker processes (/proc/PID/stat)"],
    source: "torch.utils.data documentation: with persistent_workers=False the workers end with each epoch; a \
             spawned one imports everything again, 2 to 6 s measured",
    limits: "epochs longer than the threshold are not called so: the restart then costs less than a tenth",
    advice: advice![
        "Set persistent_workers=True" => "the workers then survive the end of an epoch";
        "Make epochs longer: repeat the data set in the sampler" => "each new epoch also starts with an empty queue";
        "Keep imports and data set set-up light, or start workers by fork where that is safe"
            => "a spawned worker runs them all again";
    ],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// The loop waits for whole sets that are started again and again, more than for their batches.
pub(super) fn waits_for_sets(case: &RuleInput<'_>) -> bool {
    let Some(workers) = case.slow_workers() else { return false };
    // A whole set that is new within one window.
    let renewed = workers.count > 0 && workers.new >= workers.count.max(2);
    (case.known.restarts || renewed) && waits_long(case, workers)
}

/// The loop waits as it would for a set that starts: for long and only a few times, not for a while at each batch, and not while
/// taking batches over.
fn waits_long(case: &RuleInput<'_>, workers: &Workers) -> bool {
    let takes_over = case.main.share(Activity::Receiving) >= LARGER_HALF.value * case.lost;
    // If sets come faster than workers are looked for, each wait may be for a new one; else each worker of a set is waited for once.
    let each = workers.sets.max(1).saturating_mul(workers.count.max(1));
    let starts = if workers.in_quick_sets { usize::MAX } else { each };
    let mut waits = case.main.waits_s.clone();
    waits.sort_by(|a, b| b.total_cmp(a));
    let all: f64 = waits.iter().sum();
    let long: f64 = waits.iter().take(starts).filter(|wait| **wait >= A_START.value).sum();
    if all <= 0.0 {
        // No wait has been seen from start to end: a loop that waits for workers to start does not go on meanwhile.
        let runs_per_s = case.window.chain.as_ref().and_then(|chain| chain.runs_per_s);
        return !takes_over && runs_per_s.is_none_or(|runs_per_s| runs_per_s <= GOES_ON);
    }
    // It must also be the larger part of all that was lost: not every wait can be told apart from the next.
    let lost_s = case.lost * case.window.seconds;
    !takes_over && long >= LARGER_HALF.value * all.max(lost_s)
}
