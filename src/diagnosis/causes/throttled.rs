//! Heat or power makes the device lower its clocks.

use super::*;

thresholds! {
    GPU_THROTTLED = 0.50, "share of samples", "more often than not";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the device's clocks are held down",
    brief: "power or heat lowers the clocks",
    meaning: "heat or power makes the device lower its clocks",
    rule: &[
        KEPT_BUSY,
        "a clock event reason for heat, slowdown or power brake is active in at least `gpu_throttled`",
        "the software power cap alone is only a finding beside another: a well-used device ends up there",
    ],
    judge: |case| {
        let gpu = case.busy_device()?;
        is_held_down(gpu).then(|| case.found(Cause::Throttled, 1.0))
    },
    signals: &[CLOCK_REASONS, DEVICE],
    source: "nvml.h, nvmlClocksEventReason*: HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40, power brake 0x80; SW \
             power cap 0x4, idle 0x1 and applied clocks 0x2 do not count",
    limits: "says that the clocks are held down, not by how much: compare the SM clock with the device's maximum",
    advice: advice![
        "Check cooling and power supply (`nvidia-smi -q -d PERFORMANCE`)"
            => "the clocks are held down while it works";
        "Check the power limit (`nvidia-smi -q -d POWER`) and raise it with `nvidia-smi -pl` where it was lowered"
            => "a limit below the default holds the clocks down as well";
    ],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};

/// Throttled more often than not, and not only by the software power cap.
pub(in crate::diagnosis) fn is_held_down(gpu: &Device) -> bool {
    gpu.throttled >= GPU_THROTTLED && gpu.held_down
}
