//! Heat or power makes the GPU lower its clocks.

use super::*;

thresholds! {
    GPU_THROTTLED = 0.50, "share of samples", "more often than not";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "GPU clocks held down",
    brief: "heat or power lowers the GPU clocks",
    meaning: "heat or power holds the GPU's clocks down",
    rule: &[
        KEPT_BUSY,
        "a clock event reason for heat, slowdown or power brake is active in at least `gpu_throttled`",
        "the software power cap alone is only another finding: a well-used GPU ends up there",
    ],
    judge: |case| {
        let gpu = case.busy_gpu()?;
        is_held_down(gpu).then(|| case.found(Cause::Throttled, 1.0))
    },
    signals: &[CLOCK_REASONS, DEVICE],
    source: "nvml.h, nvmlClocksEventReason*: HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40 and power brake \
        0x80 count; SW power cap 0x4, idle 0x1 and applied clocks 0x2 do not",
    limits: "it says that the clocks are held down, not by how much: compare the SM clock with the GPU's maximum",
    advice: advice![
        Nothing "Check cooling and power: `nvidia-smi -q -d PERFORMANCE`, or `amd-smi metric`"
            => "the clocks are held down while the GPU works";
        Nothing "Check the power limit: `nvidia-smi -q -d POWER`, or `amd-smi metric --power`"
            => "a limit below the default also holds the clocks down; `nvidia-smi -pl` or `amd-smi set --power-cap` raises it";
    ],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};

/// Throttled more often than not, and not only by the software power cap.
pub(in crate::diagnosis) fn is_held_down(gpu: &Device) -> bool {
    gpu.throttled >= GPU_THROTTLED && gpu.held_down
}
