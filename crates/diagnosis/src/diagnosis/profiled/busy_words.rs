//! The words for a GPU that is busy.

use super::super::causes::Cause;
use super::losses::Busy;
use super::said::{self, Words};
use trainmon_base::stats::percent;
use trainmon_profiles::account::{GpuAccount, ProfileAccount};
use trainmon_profiles::kernel_names::is_collective;

/// Share of the kernels' time whose work must be known to tell the share of the peak that it reaches.
const KNOWN: f64 = 0.8;

/// The words for a GPU that is busy.
pub(super) fn words_for(busy: &Busy, account: &ProfileAccount, gpu: &GpuAccount) -> Words {
    // What communicates does not compute.
    let computing = || account.kernels.iter().filter(|row| !is_collective(&row.raw));
    let kernel = computing().next();
    let total: f64 = computing().map(|row| row.total_ms).sum();
    let most =
        kernel.map(|row| format!(", {} of it in {}", percent(row.total_ms / total.max(f64::MIN_POSITIVE)), row.name));
    // What is known of a part of the work is a lower bound.
    let peak = account.efficiency.as_ref().filter(|found| found.known >= KNOWN).and_then(|found| found.of_peak);
    let used = peak.map(|share| format!(" It reaches {} of the GPU's peak.", percent(share))).unwrap_or_default();
    let (how, advice) = match busy.cause {
        Cause::UnderFilled => {
            (", mostly in kernels too small to fill it", vec![said::RAISE_BATCH_TO_FILL, said::FUSE_TO_FILL])
        }
        Cause::MemoryBandwidth => {
            (", most of it limited by its memory", vec![said::FUSE_ELEMENTWISE, said::USE_BF16])
        }
        _ if kernel.is_some_and(|row| row.name.contains("gemm f32") || row.name.contains("f32 (cudnn)")) => {
            ("", vec![said::USE_TENSOR_CORES, said::FUSE_KERNELS])
        }
        _ => ("", vec![said::FUSE_KERNELS]),
    };
    // What torch.compile has fused is not fused once more.
    let compiled = account.kernels.iter().any(|row| row.name.contains("(triton)"));
    let advice = advice.into_iter().filter(|fix| !(compiled && fix.is_compilation()));
    let summary =
        format!("The GPU computes {} of the time{how}{}.{used}", percent(gpu.compute), most.unwrap_or_default());
    Words::new(summary, advice.map(said::Fix::plain).collect())
}
