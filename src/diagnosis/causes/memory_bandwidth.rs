//! The device's memory is the limit.

use super::*;

thresholds! {
    MEMORY_BUSY = 0.70, "share", "nvmlUtilization_t.memory counts time with any access; sustained values near 70% and more go with bandwidth-bound kernels";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "device memory is at its limit",
    brief: "device memory is the limit",
    meaning: "the device's memory is the limit",
    rule: &[
        KEPT_BUSY,
        "its memory controller (or DRAM, where GPM tells) is in use at least `memory_busy` of the time",
    ],
    judge: |case| {
        let memory = case.busy_device()?.memory_busy.unwrap_or(0.0);
        (memory >= MEMORY_BUSY).then(|| case.found(Cause::MemoryBandwidth, INFERRED))
    },
    signals: &[DEVICE, DEVICE_MEMORY],
    source: "nvmlUtilization_t.memory: share of time in which device memory was read or written; GPM's DRAM activity \
             measures the bandwidth itself",
    limits: "without GPM the number counts time with any access, not bandwidth: it overstates",
    advice: advice![
        "Fuse elementwise operations (torch.compile), use bf16 and channels_last" => "fewer bytes per step";
        "Use scaled_dot_product_attention and fused optimizers"
            => "they read and write intermediate results once instead of several times";
    ],
    against: &[DEVICE_COMPUTES],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};
