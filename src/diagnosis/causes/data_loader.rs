//! Causes in the input pipeline: batches are not made fast enough.

use super::signals::{
    CPUS, DEVICE, MAIN_STACKS, MAIN_WAIT, READS, STEPS, WORKER_BATCHES, WORKER_STACKS, WORKER_TIME,
};
use super::{Cause, Confirmed};
use crate::diagnosis::thresholds as limit;
use crate::diagnosis::verdict::Class;

/// What every rule of this class begins with.
const LOST: &str = "the loop loses at least `lost_wait` of its time waiting for batches while the device is idle";

pub(super) const CAUSES: &[Cause] = &[
    Cause {
        class: Class::DataLoader,
        name: "in-process-loading",
        headline: "batches are loaded in the main thread",
        meaning: "the main thread makes the batches itself (num_workers=0)",
        rule: &[
            "the job has no data workers",
            "with stacks: at least `lost_wait` of the main thread's time lies below torch's \
             _SingleProcessDataLoaderIter",
            "without stacks: the main thread waits for a disk, a pipe or a socket, or reads at least `inline_read` \
             most of the time, while the device idles at least `dry`",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::INLINE_READ, &limit::DRY],
        signals: &[MAIN_STACKS, MAIN_WAIT, READS, DEVICE],
        source: "torch.utils.data documentation: with num_workers=0 loading is done in the calling process, so it \
                 never overlaps the step",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "without stacks, batches that are made from memory look like the loop's own Python work (cpu/main-thread)",
        advice: &[
            ("Set num_workers to at least 1 in the DataLoader", "loading then overlaps the training step"),
            ("Use persistent_workers=True", "workers then live on over the epochs"),
            (
                "Keep a data set that fits in memory as tensors on the device",
                "tiny samples cost more to send between processes than to make",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "too-few-workers",
        headline: "too few workers",
        meaning: "the workers are busy all the time and too few to keep up",
        rule: &[
            LOST,
            "the workers have work most of the time: less than `workers_idle` of their time is idle",
            "less than `workers_io` of their active time is waiting for a source",
            "CPUs are free: use stays below `cores_full`, queueing below `run_delay`",
            "no stage holds `stage` of the workers' time that more workers could not carry; where only other processes' \
             use of the CPUs leaves no room for more workers it stays this cause, less surely",
        ],
        thresholds: &[
            &limit::LOST_WAIT,
            &limit::WORKERS_IDLE,
            &limit::WORKERS_IO,
            &limit::CORES_FULL,
            &limit::RUN_DELAY,
            &limit::STAGE,
        ],
        signals: &[MAIN_WAIT, WORKER_TIME, WORKER_BATCHES, CPUS, STEPS],
        source: "with T seconds of one worker for a batch and C seconds of a step without waits, N workers leave a \
                 mean wait of T/N - C; measured on torch 2.15 with 0, 4 and 8 workers",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "once the workers outnumber the allowed CPUs each gets slower, so the number advised stops there; \
                 more workers also take more memory",
        advice: &[
            ("Raise num_workers", "each worker is busy and there are free CPUs"),
            (
                "Make the transforms cheaper: crop before decoding, reorder, drop what is not needed",
                "less work per batch needs fewer workers",
            ),
            ("Move augmentation to the GPU, over whole batches", "the workers then only read and decode"),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "decode",
        headline: "decoding takes the workers' time",
        meaning: "the workers spend most of their time decoding, and more of them would not be enough",
        rule: &[
            LOST,
            "decoding holds at least `stage` of the workers' active time",
            "as many workers as the allowed CPUs carry would bring less than `workers_help` of what can be gained \
             and make it less than `helpful` as fast; otherwise the cause is too-few-workers, and this a second finding",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::STAGE, &limit::WORKERS_HELP, &limit::HELPFUL],
        signals: &[WORKER_STACKS, WORKER_TIME, CPUS, MAIN_WAIT],
        source: "frames of PIL's ImageFile.load, cv2.imread, torchvision.io and the decode_example of datasets, \
                 wherever they are called from: PIL opens lazily and decodes at first use",
        confirmed: Confirmed::DataFilesOnly,
        limits: "needs stacks: without them it is called too-few-workers or cores-saturated; PIL reads and decodes in \
                 one call, so on slow storage part of it is reading",
        advice: &[
            (
                "Decode less: store images resized once to what training needs, or use Image.draft for large JPEGs",
                "decoding costs by the pixel, and most pixels are thrown away by the crop",
            ),
            (
                "Use a faster decoder: torchvision.io.decode_jpeg, TurboJPEG or Pillow-SIMD",
                "the same pixels for a fraction of the CPU time",
            ),
            (
                "Decode on the GPU: torchvision.io.decode_jpeg(device=\"cuda\") or DALI",
                "the CPUs are then free; it pays while the device has idle time",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "transform",
        headline: "transforms take the workers' time",
        meaning: "the workers spend most of their time in the user's transforms, and more of them would not be enough",
        rule: &[
            LOST,
            "the user's transforms hold at least `stage` of the workers' active time",
            "as many workers as the allowed CPUs carry, whoever uses them now, would bring less than `workers_help` of \
             what can be gained and make it less than `helpful` as fast; otherwise the cause is too-few-workers, and \
             this a second finding",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::STAGE, &limit::WORKERS_HELP, &limit::HELPFUL],
        signals: &[WORKER_STACKS, WORKER_TIME, CPUS, MAIN_WAIT],
        source: "time below the data set's __getitem__ that is neither reading nor decoding; the hottest function \
                 names the line. Replacing a 2-D convolution by a boolean dilation took a published example from \
                 1.17 to 0.78 s a step",
        confirmed: Confirmed::DataFilesOnly,
        limits: "needs stacks: without them it is called too-few-workers or cores-saturated; a data set that reads in \
                 its own C code looks like a transform",
        advice: &[
            (
                "Make the hottest function cheaper: an operation that does the same for less, on uint8, after the crop",
                "it holds the workers' time; fewer pixels and smaller types cost less",
            ),
            (
                "Move the transform to the GPU, over whole batches (torchvision.transforms.v2, Kornia)",
                "the CPUs cannot carry it, and a batch costs the device little",
            ),
            ("Compute what is not random once and store the result", "the same work is done again in every epoch"),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "collate",
        headline: "collating takes the workers' time",
        meaning: "the workers spend most of their time putting samples together into batches",
        rule: &[LOST, "the collate function holds at least `collate` of the workers' active time"],
        thresholds: &[&limit::LOST_WAIT, &limit::COLLATE],
        signals: &[WORKER_STACKS, WORKER_TIME, MAIN_WAIT],
        source: "frames directly below the fetch of torch/utils/data/_utils/fetch.py without a __getitem__: \
                 collate.py or the user's collate_fn",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "needs stacks: without them it is called too-few-workers; a lazy data set that decodes at first use \
                 does its reading there too",
        advice: &[
            (
                "Return few large tensors or arrays from the data set instead of nested lists and dicts",
                "default_collate walks through every element in Python and copies it",
            ),
            (
                "Fetch whole batches in the data set (__getitems__, or batch_size=None with a batch sampler)",
                "samples that come as one array need no stacking",
            ),
            (
                "Pad with torch.nn.utils.rnn.pad_sequence, and batch samples of similar length",
                "loops in Python and long padding both cost time for each element",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "hand-over",
        headline: "handing batches over is slow",
        meaning: "batches are made but moving them to the main thread is slow",
        rule: &[
            LOST,
            "the workers are idle at least `workers_idle` of their time: they wait while the loop waits",
            "neither one worker (imbalance) nor single long batches (slow-samples) explain it",
            "with stacks, instead: taking batches over, as far as the main thread runs meanwhile, holds at least \
             `receiving` of the wait, or the workers' sending \
             threads are busy at least `busy` of the time and more than the workers themselves",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IDLE, &limit::RECEIVING, &limit::BUSY],
        signals: &[MAIN_WAIT, WORKER_TIME, WORKER_STACKS, STEPS],
        source: "torch hands batches over by pickling them in a feeder thread; each tensor goes through shared memory \
                 and is mapped by the receiver, anything else through a pipe byte by byte",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "receiving a large batch is work of the main thread and looks like cpu/main-thread from outside; a \
                 source that wakes the workers in turn looks like it too",
        advice: &[
            (
                "Send smaller batches: collate to fewer, smaller tensors (uint8 instead of float32)",
                "the hand-over copies and maps every tensor",
            ),
            ("Look at the collate function and the pin-memory thread", "they run between the workers and the loop"),
            (
                "Return tensors or numpy arrays, not Python lists or objects",
                "tensors travel in shared memory, everything else is pickled",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "worker-imbalance",
        headline: "one worker holds up the others",
        meaning: "one worker works while the others wait for it (batches are taken in order)",
        rule: &[
            LOST,
            "there are at least two workers",
            "the busiest worker is active at least `busy` of its time, and at least `imbalance` more than the median \
             worker",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::BUSY, &limit::IMBALANCE],
        signals: &[MAIN_WAIT, WORKER_TIME, WORKER_BATCHES],
        source: "torch.utils.data takes batches from the workers in turn (in_order=True), so a slow one holds up all",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "with an IterableDataset, a shard that has ended leaves its worker idle and looks the same, rightly; \
                 a short watch may catch one slow batch instead",
        advice: &[
            (
                "Even out the shards or the sample cost between workers",
                "the loop takes batches in turn, so the slowest worker sets the pace",
            ),
            (
                "Set in_order=False if the order of batches does not matter",
                "a slow worker then holds up only its own batches",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "slow-samples",
        headline: "a few samples are very slow",
        meaning: "a few batches take many times as long as the others",
        rule: &[
            LOST,
            "the workers are idle at least `workers_idle` of their time in between",
            "the longest wait is many times a step",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::WORKERS_IDLE],
        signals: &[MAIN_WAIT, WORKER_TIME, STEPS],
        source: "prefetch_factor (2 by default) batches wait for each worker: a batch that takes longer than the \
                 queue lasts drains it, however fast the others are",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "rare slow batches need a watch that is long enough to see some; the start of an epoch looks alike, \
                 but comes with new workers",
        advice: &[
            ("Find the slow samples and preprocess them once", "the queue runs empty at each of them"),
            ("Raise prefetch_factor", "a longer queue bridges a slow batch"),
            (
                "Set in_order=False if the order of batches does not matter",
                "the batches of other workers then go ahead of the slow one",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "worker-restart",
        headline: "workers are restarted at each epoch",
        meaning: "the set of workers is started anew again and again",
        rule: &[LOST, "whole sets of workers were started twice within `restart`"],
        thresholds: &[&limit::LOST_WAIT, &limit::RESTART],
        signals: &[MAIN_WAIT, "start times of the worker processes (/proc/PID/stat)"],
        source: "torch.utils.data documentation: with persistent_workers=False the workers end with each epoch; a \
                 spawned one imports everything again, 2 to 6 s measured",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "epochs longer than the threshold are not called so: the restart then costs less than a tenth",
        advice: &[
            ("Set persistent_workers=True", "the workers then survive the end of an epoch"),
            (
                "Make epochs longer: repeat the data set in the sampler",
                "each new epoch also starts with an empty queue",
            ),
            (
                "Keep imports and data set set-up light, or start workers by fork where that is safe",
                "a spawned worker runs them all again",
            ),
        ],
    },
    Cause {
        class: Class::DataLoader,
        name: "too-many-workers",
        headline: "more workers than CPUs",
        meaning: "there are more workers than CPUs and they queue for them",
        rule: &[
            LOST,
            "at least `too_many_workers` of them",
            "the workers queue for at least `run_delay` of their runnable time, or the allowed CPUs are in use \
             `cores_full`",
        ],
        thresholds: &[&limit::LOST_WAIT, &limit::TOO_MANY_WORKERS, &limit::RUN_DELAY, &limit::CORES_FULL],
        signals: &[WORKER_TIME, CPUS, MAIN_WAIT],
        source: "torch warns when num_workers exceeds the CPUs that the process may use; past that number a worker \
                 only takes time from another (4 to 8 workers on 8 CPUs gave 1.30 to 1.17 s a step, no more)",
        confirmed: Confirmed::LabelledWorkloads,
        limits: "lowering the number alone rarely makes the loop faster: the CPUs are full (cpu/cores-saturated), it \
                 frees memory and evens out the waits",
        advice: &[
            ("Lower num_workers to the number of allowed CPUs", "more workers than CPUs only wait for one another"),
            ("Make the transforms cheaper or move them to the GPU", "the CPUs are full: only less work helps"),
        ],
    },
];
