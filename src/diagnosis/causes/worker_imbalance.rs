//! One worker works while the others wait for it.

use super::*;

thresholds! {
    IMBALANCE = 0.35, "share", "measured on labelled workloads: even sets differ by less than 0.15";
    FOR_GOOD = 0.95, "of the confidence", "one slow batch looks like a slow worker for a while";
}

pub(super) const CAUSE: Spec = Spec {
    headline: "one worker holds up the others",
    brief: "one worker holds up the others",
    meaning: "one worker works while the others wait for it (batches are taken in order)",
    rule: &[
        LOOP_LOSES,
        "there are at least two workers",
        "the busiest worker is active at least `busy` of its time, and at least `imbalance` more than the median \
         worker",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        let (busiest, median) = workers.busiest;
        let uneven = workers.count >= 2 && busiest - median >= IMBALANCE && busiest >= BUSY;
        (uneven && slow_samples::by_period(case).is_none()).then(|| case.of(Cause::WorkerImbalance, FOR_GOOD))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, WORKER_BATCHES],
    source: "torch.utils.data takes batches from the workers in turn (in_order=True), so a slow one holds up all",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "with an IterableDataset, a shard that has ended leaves its worker idle and looks the same, rightly; a \
             short watch may catch one slow batch instead",
    advice: advice![
        "Even out the shards or the sample cost between workers"
            => "the loop takes batches in turn, so the slowest worker sets the pace";
        "Set in_order=False if the order of batches does not matter"
            => "a slow worker then holds up only its own batches";
    ],
    place: Place::Workers,
    ..Spec::of(Class::DataLoader)
};
