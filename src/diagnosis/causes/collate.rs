//! The workers spend most of their time putting samples together.

use super::*;

thresholds! {
    COLLATE = 0.50, "share of active time", "collating copies what the dataset made: half of the time in copies is unusual";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "collating takes the workers' time",
    brief: "workers mostly collate",
    meaning: "the workers spend most of their time putting samples together into batches",
    rule: &[LOOP_LOSES, "the collate function holds at least `collate` of the workers' active time"],
    judge: |case| {
        let workers = case.slow_workers()?;
        let (stage, part) = stages::largest(workers)?;
        let collates = stage == Some(Cause::Collate) && part >= COLLATE;
        collates.then(|| case.found(Cause::Collate, stages::sureness(workers)))
    },
    signals: &[WORKER_STACKS, WORKER_TIME, MAIN_WAIT],
    source: "frames directly below the fetch of torch/utils/data/_utils/fetch.py without a __getitem__: collate.py \
             or the user's collate_fn",
    limits: "needs stacks: without them it is called too-few-workers; a lazy data set that decodes at first use does \
             its reading there too",
    advice: advice![
        "Return few large tensors or arrays from the data set instead of nested lists and dicts"
            => "default_collate walks through every element in Python and copies it";
        "Fetch whole batches in the data set (__getitems__, or batch_size=None with a batch sampler)"
            => "samples that come as one array need no stacking";
        "Pad with torch.nn.utils.rnn.pad_sequence, and batch samples of similar length"
            => "loops in Python and long padding both cost time for each element";
    ],
    against: &[WORKERS_ARE_SLOW],
    place: CulpritPlace::Workers,
    bound: |_, window| stages::bound(window, |stages| stages.collate),
    ..CauseSpec::in_class(Class::DataLoader)
};
