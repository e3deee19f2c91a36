//! The whole set of workers is started again and again.

use super::*;

thresholds! {
    RESTART = 20.0, "s", "a spawned worker imports for 2 to 6 s: at this distance, a tenth of the loop or more";
    ONE_SET = 2.0, "s", "workers that start within this time belong to one set: they are started one after the other";
    A_POLL = 0.02, "share", "8 of the 400 samples of 8 s: torch waits in this poll for workers and for nothing else";
    A_START = 0.03, "s", "forking a worker and making its first batch takes at least this long; spawning one takes seconds";
    GOES_ON = 5.0, "times a second", "a loop that waited for spawned workers ran 2 to 3 times a second; a loop that gets batches runs once for each";
    FULL_TOO = 0.75, "share", "two spawned workers that import on two CPUs used 0.83 of them";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "workers restart every epoch",
    brief: "workers are restarted every epoch",
    meaning: "the whole set of workers is started again and again",
    rule: &[
        LOOP_LOSES,
        "whole sets of workers were started twice within `restart`, and waits of at least `a_start` make up at \
         least `larger_half` of the loss; receiving batches makes up less",
        "each started worker accounts for one such wait, or for any number if sets come faster than trainmon looks \
         for workers; before such a wait ends, the loop runs at most `goes_on`",
        "or no worker lives long enough to be seen, the loop is in torch's poll for workers at least `a_poll` of \
         the time, and less than `larger_half` of the loss is loading in this process or a wait of another kind",
    ],
    judge: |case| {
        // torch's loader waits for workers in its own poll: if no worker lives long enough to be seen, each set is short-lived. Only
        // batches that this process makes itself, or other waits, point to another loader.
        let polled = case.main.waits(Wait::LoaderPoll);
        let elsewhere = case.main.stacks.as_ref().map_or(case.lost - polled, LoopStacks::loading);
        let short_sets = polled >= A_POLL && elsewhere < LARGER_HALF.value * case.lost;
        if case.loads_in_process() && case.main.exact && short_sets {
            return Some(case.found(Cause::WorkerRestart, 1.0));
        }
        let judgment = waits_for_sets(case).then(|| case.found(Cause::WorkerRestart, 1.0))?;
        let full = case.window.cpu.full.is_some_and(|full| full >= FULL_TOO);
        let words = "starting the workers fills the CPUs: with more CPUs it would be shorter";
        Some(if full { judgment.other(Cause::CoresSaturated, EVEN_CHANCE, words) } else { judgment })
    },
    signals: &[MAIN_WAIT, "start times of the worker processes (/proc/PID/stat)"],
    source: "torch.utils.data documentation: with persistent_workers=False, the workers end with each epoch. A \
        spawned worker imports everything again, which took 2 to 6 s in measurements",
    limits: "epochs longer than the threshold do not get this verdict: the restart then costs less than a tenth",
    advice: advice![
        Tuning "Set persistent_workers=True"
            => "the workers then survive the end of an epoch";
        "Make epochs longer: repeat the dataset in the sampler"
            => "each new epoch also starts with an empty queue";
        "Keep imports light, or start workers by fork where safe"
            => "a spawned worker imports everything and sets up the dataset again";
    ],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// The loop waits for whole sets that start again and again, more than for their batches.
pub(super) fn waits_for_sets(case: &RuleInput<'_>) -> bool {
    let Some(workers) = case.slow_workers() else { return false };
    // A whole set that is new within one window.
    let renewed = workers.count > 0 && workers.new >= workers.count.max(2);
    (case.known.restarts || renewed) && waits_long(case, workers)
}

/// The loop's waits are those for a set that starts: long and few, not a short one at each batch, and not while it takes batches
/// over.
fn waits_long(case: &RuleInput<'_>, workers: &Workers) -> bool {
    let takes_over = case.main.share(Activity::Receiving) >= LARGER_HALF.value * case.lost;
    // If sets come faster than trainmon looks for workers, each wait may be for a new set; otherwise there is one per worker.
    let each = workers.sets.max(1).saturating_mul(workers.count.max(1));
    let starts = if workers.in_quick_sets { usize::MAX } else { each };
    let mut waits = case.main.waits_s.clone();
    waits.sort_by(|a, b| b.total_cmp(a));
    let all: f64 = waits.iter().sum();
    let long: f64 = waits.iter().take(starts).filter(|wait| **wait >= A_START.value).sum();
    if all <= 0.0 {
        // No wait was seen from start to end: a loop that waits for workers to start does not run meanwhile.
        let runs_per_s = case.window.chain.as_ref().and_then(|chain| chain.runs_per_s);
        return !takes_over && runs_per_s.is_none_or(|runs_per_s| runs_per_s <= GOES_ON);
    }
    // It must also be the larger part of the whole loss: not every wait can be separated from the next.
    let lost_s = case.lost * case.window.seconds;
    !takes_over && long >= LARGER_HALF.value * all.max(lost_s)
}
