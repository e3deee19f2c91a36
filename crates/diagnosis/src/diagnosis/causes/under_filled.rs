//! The GPU is busy, but its kernels do not fill it.

use super::*;

thresholds! {
    ALL_LAUNCHES = 0.90, "share", "a host that does nothing else is on a CPU all the time";
    VERY_LOW_POWER = 0.35, "share of the limit", "kernels of microseconds leave the GPU idle between them";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "busy, but barely filled",
    brief: "the GPU is busy with too little work",
    meaning: "the kernels do not fill the GPU",
    rule: &[
        KEPT_BUSY,
        "it draws less than `low_power`, or, where GPM is available, less than `sm_active` of its multiprocessors \
         work",
    ],
    judge: |case| {
        case.busy_gpu().filter(|gpu| gpu.barely_filled())?;
        if !only_launches(case) {
            return communication::at_low_power(case).or_else(|| Some(case.found(Cause::UnderFilled, INFERRED)));
        }
        let words = "the loop is on a CPU all the time and may be launching many tiny kernels";
        Some(case.found(Cause::UnderFilled, GUESSED).other(Cause::LaunchBound, EVEN_CHANCE, words))
    },
    signals: &[DEVICE, POWER, SM],
    source: "NVML utilization counts time with at least one kernel, however small; power or SM activity shows how \
        much of the GPU it used",
    confirmed: Confirmed::LabeledWorkloads,
    limits: "memory-bound work draws less power too. A host that does nothing but launch tiny kernels looks the \
        same (cpu/launch-bound); so does a GPU that waits in a collective",
    advice: advice![
        "Raise the batch size as far as memory and accuracy allow"
            => "larger kernels fill the GPU";
        "Use torch.compile or CUDA graphs"
            => "torch.compile makes fewer, larger kernels; CUDA graphs launch many at once";
        "Use mixed precision (torch.autocast)"
            => "tensor cores do more with each kernel, and batches can grow", if may_be_full_precision;
    ],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};

/// Tiny kernels back to back, from a host that does nothing but launch: then the host is the limit.
fn only_launches(case: &RuleInput<'_>) -> bool {
    let power = case.busy_gpu().and_then(|gpu| gpu.power);
    case.main.running >= ALL_LAUNCHES
        && case.main.shares.device_sync < HARDLY
        && power.is_some_and(|power| power < VERY_LOW_POWER)
}
