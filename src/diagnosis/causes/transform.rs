//! The workers spend most of their time in transforms, and more of them would not be enough.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "transforms take the workers' time",
    brief: "workers mostly run transforms",
    meaning: "the workers spend most of their time in the user's transforms, and more of them would not be enough",
    rule: &[
        LOOP_LOSES,
        "the user's transforms hold at least `stage` of the workers' active time",
        "as many workers as the allowed CPUs carry, whoever uses them now, would bring less than `workers_help` of \
         what can be gained and make it less than `helpful` as fast; otherwise the cause is too-few-workers, and \
         this a second finding",
    ],
    judge: |case| stages::judge(case, Cause::Transform),
    signals: &[WORKER_STACKS, WORKER_TIME, CPUS, MAIN_WAIT],
    source: "time below the data set's __getitem__ that is neither reading nor decoding; the hottest function names \
             the line. Replacing a 2-D convolution by a boolean dilation took a published example from 1.17 to 0.78 \
             s a step",
    confirmed: Confirmed::DataFilesOnly,
    limits: "needs stacks: without them it is called too-few-workers or cores-saturated; a data set that reads in \
             its own C code looks like a transform",
    advice: advice![
        "Make the hottest function cheaper: an operation that does the same for less, on uint8, after the crop"
            => "it holds the workers' time; fewer pixels and smaller types cost less";
        "Move the transform to the GPU, over whole batches (torchvision.transforms.v2, Kornia)"
            => "the CPUs cannot carry it, and a batch costs the device little";
        "Compute what is not random once and store the result" => "the same work is done again in every epoch";
    ],
    against: &[WORKERS_ARE_SLOW],
    place: CulpritPlace::Workers,
    bound: |_, window| stages::bound(window, |stages| stages.transform),
    ..CauseSpec::in_class(Class::DataLoader)
};
