//! The workers spend most of their time decoding, and more workers would not be enough.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "decoding takes the time",
    brief: "workers mostly decode",
    meaning: "the workers spend most of their time decoding, and more workers would not be enough",
    rule: &[
        LOOP_LOSES,
        "in the workers, decoding takes at least `stage`",
        "as many workers as the allowed CPUs can carry would bring less than `workers_help` that is possible, and \
         less than `helpful` the speed; otherwise the cause is too-few-workers, and this is another finding",
    ],
    judge: |case| stages::judge(case, Cause::Decode),
    signals: &[WORKER_STACKS, WORKER_TIME, CPUS, MAIN_WAIT],
    source: "frames of PIL's ImageFile.load, cv2.imread, torchvision.io and the decode_example of datasets, \
        wherever they are called: PIL opens lazily and decodes on first use",
    confirmed: Confirmed::DataFilesOnly,
    limits: "needs stacks: without them, the verdict is too-few-workers or cores-saturated. PIL reads and decodes \
        in one call, so on slow storage part of it is reading",
    advice: advice![
        Ceiling "Raise num_workers"
            => "the workers are busy, and CPUs are free", if stages::more_workers_gain;
        "Decode less: store images at the size training needs"
            => "decoding costs by the pixel, and the crop throws most pixels away";
        "Decode JPEGs at a fraction of their size: image.draft(\"RGB\", size) first"
            => "Pillow then has libjpeg decode a half, a quarter or an eighth of the width and height";
        "Use a faster decoder: decode_jpeg, TurboJPEG, Pillow-SIMD"
            => "they decode the same pixels in a fraction of the CPU time (torchvision.io.decode_jpeg)";
        "Decode on the GPU: decode_jpeg(device=\"cuda\") or DALI"
            => "that frees the CPUs, and pays off while the GPU has idle time", if with_gpu;
    ],
    against: &[WORKERS_ARE_SLOW],
    place: CulpritPlace::Workers,
    sharpen: |first, window| {
        if stages::more_workers_gain(window) {
            too_few_workers::sharpen(first, window);
        }
    },
    bound: |_, window| stages::bound(window, |stages| stages.decode),
    ..CauseSpec::in_class(Class::DataLoader)
};
