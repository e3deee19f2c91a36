//! Which stage (load, decode, transform, collate) takes the workers' time, and whether more workers would help. The causes that
//! blame a stage share this with the cause that blames the number of workers.

use super::{Cause, Judgment, RuleInput};
use crate::diagnosis::features::{ChainPath, Features, Workers};
use crate::diagnosis::parts::Stages;
use crate::diagnosis::thresholds::*;
use crate::diagnosis::what_if::Loop;
use trainmon_base::stats::round;
use trainmon_waits::taxonomy::{End, Purpose};

thresholds! {
    GAINS = 1.15, "times", "a smaller gain is within what two runs of the same program differ by";
    HALF_ACTIVE = 0.40, "share", "workers that are active less mostly keep up";
    MEANWHILE = 0.70, "share of input wait", "measured: 90% and more for batches that are slow to make, 50% for those that are slow to move";
}

const BY_ACTIVE_WORKERS: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 1.0, from: HALF_ACTIVE, to: BUSY };

impl Stages {
    /// All the time in which a worker makes batches.
    pub(super) fn making(&self) -> f64 {
        self.load + self.decode + self.transform + self.collate
    }
}

/// Certainty that the workers are slow because of their own work.
pub(super) fn sureness(workers: &Workers) -> f64 {
    BY_ACTIVE_WORKERS.at(workers.active())
}

/// The stage with the largest part of the workers' active time, and that part. Reading from memory has no cause of its own: only
/// more workers help.
pub(super) fn largest(workers: &Workers) -> Option<(Option<Cause>, f64)> {
    let stages = workers.stages?;
    let parts = [
        (None, stages.load),
        (Some(Cause::Decode), stages.decode),
        (Some(Cause::Transform), stages.transform),
        (Some(Cause::Collate), stages.collate),
    ];
    let active = stages.making();
    let (stage, share) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (active > HARDLY).then_some((stage, share / active))
}

/// The stage that holds clearly the larger part.
pub(super) fn clearly_largest(workers: &Workers) -> Option<(Cause, f64)> {
    largest(workers).and_then(|(stage, part)| Some((stage?, part))).filter(|(_, part)| *part >= STAGE)
}

/// Whether as many workers as the CPUs can carry would gain most of what is possible. Unknown counts as yes.
pub(super) fn more_workers_help(fed: Option<Loop>) -> bool {
    fed.is_none_or(|fed| {
        let found = fed.enough_workers();
        let most = found.speedup - 1.0 >= WORKERS_HELP.value * (fed.without_waits() - 1.0);
        found.workers > fed.workers && (most || found.speedup >= HELPFUL)
    })
}

/// Whether more workers on the CPUs that are free now gain more than two runs differ by, even if another change gains most.
pub(super) fn more_workers_gain(window: &Features) -> bool {
    let found = Loop::from_window(window).map(|fed| (fed.workers, fed.enough_workers()));
    found.is_some_and(|(now, found)| found.workers > now && found.speedup >= GAINS)
}

/// The same on CPUs without other processes: the CPUs that these use now may be free in a minute. That makes it less certain that
/// more workers help, but is no reason to blame the workers' code.
pub(super) fn more_workers_help_undisturbed(case: &RuleInput<'_>) -> bool {
    more_workers_help(Loop::from_window(case.window).map(|fed| fed.undisturbed(case.window)))
}

/// A stage for a sentence: `67% of the workers' active time goes into decoding`.
pub(super) fn doing(stage: Cause) -> &'static str {
    match stage {
        Cause::Decode => "decoding",
        Cause::Transform => "transforms",
        _ => "collating",
    }
}

/// The rule of a stage: it is clearly the largest, and more workers would not carry it.
pub(super) fn judge(case: &RuleInput<'_>, cause: Cause) -> Option<Judgment> {
    let workers = case.slow_workers()?;
    let (stage, _) = clearly_largest(workers)?;
    (stage == cause && !more_workers_help_undisturbed(case)).then(|| {
        let words = "more workers would help a little";
        case.found(cause, sureness(workers)).other(Cause::TooFewWorkers, PERHAPS, words)
    })
}

/// The workers work during most of the loop's waits for batches, as far as these were followed. The rest may be taking batches
/// over.
pub(super) fn works_meanwhile(case: &RuleInput<'_>) -> bool {
    let ways = || case.window.chain.iter().flat_map(|chain| &chain.ways).filter(|way| way.part == Purpose::Batch);
    // A sending thread that works moves a batch to the loop.
    let works = |way: &&ChainPath| {
        let own = way.hops.last().is_some_and(|last| last.pid == last.tid);
        own && !matches!(way.end, End::Asked | End::Unknown | End::Loader | End::Stopped)
    };
    let at_work: f64 = ways().filter(works).map(|way| way.share).sum();
    at_work >= LOST_WAIT && at_work >= MEANWHILE.value * case.main.shares.input_wait
}

/// The most that a stage without any cost would gain.
pub(super) fn bound(window: &Features, stage: fn(&Stages) -> f64) -> Option<f64> {
    let of_waits = window.without(window.lost_wait());
    let stages = window.workers.as_ref().and_then(|workers| workers.stages).filter(|stages| stages.making() > 0.0);
    let found = Loop::from_window(window)
        .zip(stages)
        .map(|(fed, stages)| fed.without_stage(stage(&stages) / stages.making()));
    Some(round(found.map_or(of_waits, |found| found.min(of_waits)), 2))
}
