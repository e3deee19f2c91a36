//! The workers spend most of their time in transforms, and more workers would not be enough.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "transforms take the time",
    brief: "workers mostly run transforms",
    meaning: "the workers spend most of their time in transforms, and more workers would not be enough",
    rule: &[
        LOOP_LOSES,
        "in the workers, the user's transforms take at least `stage`",
        "as many workers as the allowed CPUs can carry, whatever uses them now, would bring less than \
         `workers_help` that is possible, and less than `helpful` the speed; otherwise the cause is \
         too-few-workers, and this is another finding",
    ],
    judge: |case| stages::judge(case, Cause::Transform),
    signals: &[WORKER_STACKS, WORKER_TIME, CPUS, MAIN_WAIT],
    source: "time below the dataset's __getitem__ that is neither reading nor decoding; the hottest function names \
        the line. In a published example, replacing a 2-D convolution with a boolean dilation cut the step from \
        1.17 to 0.78 s",
    confirmed: Confirmed::DataFilesOnly,
    limits: "needs stacks: without them, the verdict is too-few-workers or cores-saturated. A dataset that reads \
        in its own C code looks like a transform",
    advice: advice![
        Ceiling "Raise num_workers"
            => "the workers are busy, and CPUs are free", if stages::more_workers_gain;
        "Make the hottest function cheaper: uint8, after the crop"
            => "it takes the workers' time; fewer pixels and smaller types cost less, and so does a cheaper \
                operation";
        "Move the transform to the GPU, over whole batches"
            => "the CPUs cannot carry it, and a batch costs the GPU little (torchvision.transforms.v2, Kornia)", if with_gpu;
        "Compute what is not random once, and store the result"
            => "every epoch repeats the same work";
    ],
    against: &[WORKERS_ARE_SLOW],
    place: CulpritPlace::Workers,
    sharpen,
    bound: |_, window| stages::bound(window, |stages| stages.transform),
    ..CauseSpec::in_class(Class::DataLoader)
};

/// Names the hottest function.
fn sharpen(first: &mut Advice, window: &Features) {
    if stages::more_workers_gain(window) {
        too_few_workers::sharpen(first, window);
        return;
    }
    if let Some((_, line)) = CAUSE.line(window) {
        first.title = format!("Make it cheaper: {line}");
    }
}
