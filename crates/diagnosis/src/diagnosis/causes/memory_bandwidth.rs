//! The GPU's memory is the limit.

use super::*;

thresholds! {
    MEMORY_BUSY = 0.70, "share", "nvmlUtilization_t.memory counts time with any access; bandwidth-bound kernels sustain about 70% and more";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "GPU memory is the limit",
    brief: "GPU memory is the limit",
    meaning: "the GPU's memory is the limit",
    rule: &[
        KEPT_BUSY,
        "the memory controller (or DRAM, where GPM is available) is in use at least `memory_busy` of the time",
    ],
    judge: |case| {
        let memory = case.busy_gpu()?.memory_busy.unwrap_or(0.0);
        (memory >= MEMORY_BUSY).then(|| case.found(Cause::MemoryBandwidth, INFERRED))
    },
    signals: &[DEVICE, DEVICE_MEMORY],
    source: "nvmlUtilization_t.memory: share of time in which GPU memory was read or written; GPM's DRAM activity \
        measures the bandwidth itself",
    confirmed: Confirmed::LabeledWorkloads,
    limits: "without GPM, the number counts time with any access rather than bandwidth, so it overstates",
    advice: advice![
        "Fuse elementwise operations; use bf16 and channels_last"
            => "each step then moves fewer bytes; torch.compile fuses them", if may_be_full_precision;
        "Fuse elementwise operations; use channels_last, and bf16 if not in use"
            => "each step then moves fewer bytes; torch.compile fuses them", if may_be_tf32;
        "Fuse elementwise operations; use channels_last"
            => "each step then moves fewer bytes; torch.compile fuses them", if mixed_precision;
        "Use scaled_dot_product_attention and fused optimizers"
            => "they read and write intermediate results once instead of several times";
    ],
    against: &[DEVICE_COMPUTES],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};
