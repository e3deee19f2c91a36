//! Another process uses the same GPU.

use super::*;

thresholds! {
    NEARLY_BUSY = 0.75, "share", "a tenth less than a busy GPU: there are gaps between the turns of two processes";
}

const BY_THEIR_USE: ConfidenceRamp = ConfidenceRamp { least: 0.60, most: 0.95, from: SHARED_GPU, to: LARGER_HALF };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "another process uses the GPU",
    brief: "another process uses the GPU",
    meaning: "another process computes on the same GPU",
    rule: &[
        "another process computes on the GPU",
        "processes outside the job use at least `shared_gpu` of the GPU's time, and the GPU is busy at least \
         `nearly_busy` of the time in total",
    ],
    judge: |case| {
        let gpu = case.device()?;
        let theirs = gpu.busy - gpu.job_busy;
        let shared = gpu.others && theirs >= SHARED_GPU && gpu.busy >= NEARLY_BUSY;
        let words = "under MPS they run side by side: how much one slows the other down is unknown";
        shared.then(|| {
            Judgment::new(Cause::SharedGpu, BY_THEIR_USE.at(theirs)).less_sure_if(gpu.by_mps, GUESSED, words)
        })
    },
    signals: &[DEVICE, DEVICE_PROCESSES],
    source: "without MPS, processes take turns on a GPU: while one runs, the others wait",
    confirmed: Confirmed::LabeledWorkloads,
    limits: "inside a container the other process may be invisible, and NVML reports the host's PIDs. A display or \
        a service that only holds memory costs nothing",
    advice: advice![
        "Move one of the jobs to another GPU"
            => "they share this one";
        Nothing "If both must stay, use MIG instances or the MPS server"
            => "they then run side by side instead of taking turns", if takes_turns;
    ],
    bound: |_, window| window.gpu.as_ref().map(|gpu| window.without(gpu.busy - gpu.job_busy)),
    culprits: &[culprits::gpu_users],
    ..CauseSpec::in_class(Class::Gpu)
};

/// The processes do not share the GPU through MPS yet.
fn takes_turns(window: &Features) -> bool {
    window.gpu.as_ref().is_none_or(|gpu| !gpu.by_mps)
}
