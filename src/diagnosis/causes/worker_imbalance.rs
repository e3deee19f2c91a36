//! One worker works while the others wait for it.

use super::*;

thresholds! {
    IMBALANCE = 0.35, "share", "measured on labelled workloads: even sets differ by less than 0.15";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "one worker holds up the others",
    brief: "one worker holds up the others",
    meaning: "one worker works while the others wait for it (batches are taken in order)",
    rule: &[
        LOOP_LOSES,
        "there are at least two workers",
        "the busiest worker is active at least `busy` of its time, and at least `imbalance` more than the median \
         worker",
        "or some workers have ended while the others go on: their feeder threads are still there",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        let (busiest, median) = workers.busiest;
        if workers.ended > 0 {
            return Some(case.found(Cause::WorkerImbalance, 1.0).meaning(without_shard(workers)));
        }
        let uneven = workers.count >= 2 && busiest - median >= IMBALANCE && busiest >= BUSY;
        (uneven && slow_samples::by_period(case).is_none()).then(|| case.found(Cause::WorkerImbalance, 1.0))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, WORKER_BATCHES],
    source: "torch.utils.data takes batches from the workers in turn (in_order=True), so a slow one holds up all",
    limits: "with an IterableDataset, a worker whose shard has ended ends as well, which near the end of an epoch is no \
             lasting loss; a short watch may catch one slow batch instead",
    advice: advice![
        "Even out the shards or the sample cost between workers"
            => "the loop takes batches in turn, so the slowest worker sets the pace";
        "Set in_order=False if the order of batches does not matter"
            => "a slow worker then holds up only its own batches";
    ],
    place: CulpritPlace::Workers,
    special_case: |window| window.workers.as_ref().filter(|workers| workers.ended > 0).map(|_| &WITHOUT_SHARD),
    culprits: &[culprits::busiest_worker],
    ..CauseSpec::in_class(Class::DataLoader)
};

/// Some workers have ended.
const WITHOUT_SHARD: CauseSpec = CauseSpec {
    meaning: "some workers have no shard of the stream",
    advice: advice![
        "Split the stream into at least as many shards as there are workers, of the same size"
            => "a worker without a shard ends, and the others have to do its part: more workers change nothing";
        "Where it cannot be split, make the samples cheaper" => "what reads a shard is a single worker";
    ],
    ..CAUSE
};

fn without_shard(workers: &Workers) -> String {
    let (ended, all) = (workers.ended, workers.ended + workers.count);
    let has = if ended == 1 { "has" } else { "have" };
    format!("{ended} of {all} workers {has} no shard of the stream left and {has} ended")
}
