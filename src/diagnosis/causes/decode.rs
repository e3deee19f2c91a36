//! The workers spend most of their time decoding, and more of them would not be enough.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "decoding takes the workers' time",
    brief: "workers mostly decode",
    meaning: "the workers spend most of their time decoding, and more of them would not be enough",
    rule: &[
        LOOP_LOSES,
        "decoding holds at least `stage` of the workers' active time",
        "as many workers as the allowed CPUs carry would bring less than `workers_help` of what can be gained and \
         make it less than `helpful` as fast; otherwise the cause is too-few-workers, and this a second finding",
    ],
    judge: |case| stages::judge(case, Cause::Decode),
    signals: &[WORKER_STACKS, WORKER_TIME, CPUS, MAIN_WAIT],
    source: "frames of PIL's ImageFile.load, cv2.imread, torchvision.io and the decode_example of datasets, wherever \
             they are called from: PIL opens lazily and decodes at first use",
    confirmed: Confirmed::DataFilesOnly,
    limits: "needs stacks: without them it is called too-few-workers or cores-saturated; PIL reads and decodes in \
             one call, so on slow storage part of it is reading",
    advice: advice![
        "Decode less: store images resized once to what training needs, or use Image.draft for large JPEGs"
            => "decoding costs by the pixel, and most pixels are thrown away by the crop";
        "Use a faster decoder: torchvision.io.decode_jpeg, TurboJPEG or Pillow-SIMD"
            => "the same pixels for a fraction of the CPU time";
        "Decode on the GPU: torchvision.io.decode_jpeg(device=\"cuda\") or DALI"
            => "the CPUs are then free; it pays while the device has idle time";
    ],
    against: &[WORKERS_ARE_SLOW],
    place: CulpritPlace::Workers,
    bound: |_, window| stages::bound(window, |stages| stages.decode),
    ..CauseSpec::in_class(Class::DataLoader)
};
