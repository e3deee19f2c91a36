//! Another process uses the same device.

use super::*;

thresholds! {
    NEARLY_BUSY = 0.75, "share", "a tenth below device_busy: between the turns of two processes lies a gap";
}

const BY_THEIR_USE: ConfidenceRamp = ConfidenceRamp { least: 0.60, most: 0.95, from: SHARED_GPU, to: LARGER_HALF };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "another process uses the device",
    brief: "another process uses the GPU",
    meaning: "another process uses the same device",
    rule: &[
        "another process computes on the device",
        "its use that is not the job's is at least `shared_gpu`, and the device is busy at least `nearly_busy` of \
         the time in all",
    ],
    judge: |case| {
        let (Bottleneck::Busy(gpu) | Bottleneck::Dry(gpu)) = case.bottleneck else { return None };
        let theirs = gpu.busy - gpu.job_busy;
        let shared = gpu.others && theirs >= SHARED_GPU && gpu.busy >= NEARLY_BUSY;
        shared.then(|| Judgement::new(Cause::SharedGpu, BY_THEIR_USE.at(theirs)))
    },
    signals: &[DEVICE, DEVICE_PROCESSES],
    source: "processes without MPS take turns on a device: none runs while another does",
    limits: "inside a container the other process may be invisible, and NVML's PIDs are the host's; a display or a \
             service that only holds memory costs nothing",
    advice: advice![
        "Move one of the jobs to another GPU" => "they take turns on the device";
        "Where both must stay, use MIG instances or the MPS server"
            => "they then run side by side instead of in turns";
    ],
    bound: |_, window| window.gpu.as_ref().map(|gpu| window.without(gpu.busy - gpu.job_busy)),
    culprits: &[culprits::gpu_users],
    ..CauseSpec::in_class(Class::Gpu)
};
