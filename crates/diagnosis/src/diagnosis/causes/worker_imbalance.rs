//! One worker works while the others wait for it.

use super::*;

thresholds! {
    IMBALANCE = 0.35, "share", "measured: workers with equal work differ by less than 15%";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "one worker delays the others",
    brief: "one worker delays the others",
    meaning: "the other workers wait for one, because batches are taken in order",
    rule: &[
        LOOP_LOSES,
        "there are at least two workers",
        "the busiest worker is active at least `busy` of the time, which is at least `imbalance` of the time more \
         than the median worker",
        "or some workers have ended while others continue: their queue threads still exist",
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
    source: "torch.utils.data takes batches from the workers in turn (in_order=True), so a slow worker holds up \
        all of them",
    limits: "with an IterableDataset, a worker ends with its shard; near the end of an epoch that is no lasting \
        loss. A short observation may catch a single slow batch instead",
    advice: advice![
        "Even out the shards or the sample cost between workers"
            => "the loop takes batches in turn, so the slowest worker sets the pace";
        Tuning "Set in_order=False if the order of batches does not matter"
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
        "Split the stream into at least one equal shard per worker"
            => "a worker without a shard ends and the others do its part, so more workers change nothing";
        Nothing "If it cannot be split, make the samples cheaper"
            => "each shard is read by a single worker";
    ],
    ..CAUSE
};

fn without_shard(workers: &Workers) -> String {
    let (ended, all) = (workers.ended, workers.ended + workers.count);
    let has = if ended == 1 { "has" } else { "have" };
    format!("{ended} of {all} workers {has} no shard of the stream left and {has} ended")
}
