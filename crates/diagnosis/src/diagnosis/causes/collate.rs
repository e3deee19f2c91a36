//! The workers spend most of their time collating.

use super::*;

thresholds! {
    COLLATE = 0.50, "share of active time", "collating only copies what the dataset made: half of the time in copies is unusual";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "collating takes the time",
    brief: "workers mostly collate",
    meaning: "the workers spend most of their time collating samples into batches",
    rule: &[LOOP_LOSES, "in the workers, the collate function takes at least `collate`"],
    judge: |case| {
        let workers = case.slow_workers()?;
        let (stage, part) = stages::largest(workers)?;
        let collates = stage == Some(Cause::Collate) && part >= COLLATE;
        collates.then(|| case.found(Cause::Collate, stages::sureness(workers)))
    },
    signals: &[WORKER_STACKS, WORKER_TIME, MAIN_WAIT],
    source: "frames directly below the fetch of torch/utils/data/_utils/fetch.py without a __getitem__: collate.py \
             or the user's collate_fn",
    limits: "needs stacks: without them, the verdict is too-few-workers. A lazy dataset that decodes on first use \
        does its reading there too",
    advice: advice![
        "Return few large tensors instead of nested lists and dicts"
            => "PyTorch's default_collate walks through every element in Python and copies it";
        "Fetch whole batches in the dataset (__getitems__)"
            => "samples that arrive as one array need no stacking; batch_size=None with a batch sampler does the \
                same";
        "Batch samples of similar length, and pad with pad_sequence"
            => "Python loops and long padding both cost time for each element (torch.nn.utils.rnn.pad_sequence)";
    ],
    against: &[WORKERS_ARE_SLOW],
    place: CulpritPlace::Workers,
    bound: |_, window| stages::bound(window, |stages| stages.collate),
    ..CauseSpec::in_class(Class::DataLoader)
};
