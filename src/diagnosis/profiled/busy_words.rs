//! The words for a GPU that is busy.

use super::super::causes::Cause;
use super::super::stats::percent;
use super::losses::Busy;
use super::said::{Words, advice};
use crate::profiles::account::{DeviceAccount, ProfileAccount};
use crate::profiles::kernel_names::is_collective;

/// The words for a GPU that is busy.
pub(super) fn words_for(busy: &Busy, account: &ProfileAccount, gpu: &DeviceAccount) -> Words {
    // What communicates does not compute.
    let computing = || account.kernels.iter().filter(|row| !is_collective(&row.raw));
    let kernel = computing().next();
    let total: f64 = computing().map(|row| row.total_ms).sum();
    let most =
        kernel.map(|row| format!(", {} of it in {}", percent(row.total_ms / total.max(f64::MIN_POSITIVE)), row.name));
    let most = most.unwrap_or_default();
    let peak = account.efficiency.as_ref().and_then(|found| found.of_peak);
    let used = peak.map(|share| format!(" It reaches {} of the GPU's peak.", percent(share))).unwrap_or_default();
    let computes = percent(gpu.compute);
    let (summary, advice) = match busy.cause {
        Cause::UnderFilled => (
            format!("The GPU computes {computes} of the time, mostly in kernels too small to fill it{most}.{used}"),
            vec![
                advice(
                    "Raise the batch size",
                    "kernels with fewer blocks than the GPU has multiprocessors leave some of them idle",
                    None,
                ),
                advice("Fuse small kernels with torch.compile", "one kernel then does the work of several", None),
            ],
        ),
        Cause::MemoryBandwidth => (
            format!("The GPU computes {computes} of the time, most of it limited by its memory{most}.{used}"),
            vec![
                advice(
                    "Fuse elementwise operators with torch.compile",
                    "the data is then read and written once instead of once per operator",
                    None,
                ),
                advice("Use bf16", "half of the bytes have to be moved", None),
            ],
        ),
        _ => {
            let single = kernel.is_some_and(|row| row.name.contains("gemm f32") || row.name.contains("f32 (cudnn)"));
            let mut all = Vec::new();
            if single {
                all.push(advice(
                    "Use bf16 autocast, or torch.set_float32_matmul_precision(\"high\")",
                    "tensor cores do the matrix products",
                    None,
                ));
            }
            all.push(advice(
                "Fuse small kernels with torch.compile",
                "the GPU then moves less data between kernels",
                None,
            ));
            (format!("The GPU computes {computes} of the time{most}.{used}"), all)
        }
    };
    Words { summary, advice, culprits: Vec::new() }
}
