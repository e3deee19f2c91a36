//! The GPU computes all the time: healthy.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "kept busy by the job",
    brief: "the GPU computes all the time: healthy",
    meaning: "nothing is holding this run back",
    rule: &[KEPT_BUSY, "no other cause of this class fits"],
    judge: |case| {
        let gpu = case.busy_gpu()?;
        let words = if gpu.by_mps {
            "the driver does not tell which of the MPS server's clients use the GPU"
        } else {
            "another process is on the GPU, and the driver does not tell their parts of its use"
        };
        let judgment = case.found(Cause::ComputeBound, 1.0).less_sure_if(gpu.parts_unknown, INFERRED, words);
        let words = "a vGPU tells neither power nor clocks: small kernels and clocks held down look the same";
        let judgment = judgment.less_sure_if(gpu.vgpu && gpu.power.is_none(), INFERRED, words);
        if gpu.throttled >= throttled::GPU_THROTTLED {
            return Some(judgment.other(Cause::Throttled, PERHAPS, "the power limit holds the clocks down"));
        }
        Some(judgment)
    },
    signals: &[DEVICE, POWER, MAIN_WAIT],
    source: "NVML: utilization is the share of the last sample period in which a kernel ran; high power with it \
        means that the kernels fill the GPU",
    confirmed: Confirmed::LabeledWorkloads,
    limits: "without power readings, a GPU that is busy with small kernels looks the same (under-filled). A host \
        that spins while it waits for the GPU looks busy, but is not the limit",
    advice: advice![
        "Use mixed precision (torch.autocast) and torch.compile"
            => "the GPU is busy, so only cheaper or fused work makes a step shorter", if may_be_full_precision;
        "Use torch.compile, and bf16 (torch.autocast) if not in use yet"
            => "the tensor cores work, so the run may use mixed precision already", if may_be_tf32;
        "Use torch.compile and fused attention"
            => "the run uses mixed precision, so only fewer or fused kernels make a step shorter", if mixed_precision;
        "Use a faster GPU, or a second one"
            => "nothing on the host holds this one back";
    ],
    against: &[DEVICE_COMPUTES],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};
