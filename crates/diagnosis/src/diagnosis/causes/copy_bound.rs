//! Copies over PCIe hold the loop back.

use super::*;

thresholds! {
    MUCH_TRAFFIC = 0.25, "share", "6 GB/s on PCIe 4.0 x16: what copies from pageable memory reach, and more than a busy host needs for the batches it prepares between steps";
}

const BY_LINK_USE: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.85, from: PCIE_BUSY, to: ALL_ALONG };

const BY_STACKS: ConfidenceRamp = ConfidenceRamp { least: 0.60, most: 0.85, from: LARGER_HALF, to: ALL_ALONG };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "copies over PCIe",
    brief: "PCIe transfers take the time",
    meaning: "copies over PCIe take the time",
    rule: &[
        "at least `pcie_busy` of the PCIe link's rate is in use",
        "the GPU is busy less than `device_busy` of the time (copies are not kernels), or it is busy and draws \
         less than `low_power`",
        "or the GPU runs dry, the loop works at least `host_work` of the time, and, with stacks, at least \
         `larger_half` of that is at lines that copy to the GPU: the host copies from pageable memory itself",
        "without stacks, instead: at least `much_traffic` of the link's rate is in use",
    ],
    judge: |case| {
        if let Some(gpu) = case.busy_gpu() {
            return if gpu.low_power() { gpu.link().map(|_| case.found(Cause::CopyBound, INFERRED)) } else { None };
        }
        // Copies are not kernels: a GPU behind a full link shows as idle.
        let gpu = case.dry_device()?;
        match gpu.link() {
            Some(used) => Some(Judgment::new(Cause::CopyBound, BY_LINK_USE.at(used))),
            None => on_the_host(case, gpu),
        }
    },
    signals: &[PCIE, DEVICE, POWER],
    source: "nvmlDeviceGetPcieThroughput samples 20 ms per query; the link carries generation x width, minus 10 to \
        20 percent for its protocol. The host stages a cudaMemcpy from pageable memory (CUDA programming guide)",
    confirmed: Confirmed::LabeledWorkloads,
    limits: "each sample is short, so bursts are missed or overstated. Only stacks tell copies from pageable \
        memory from other work on the host",
    advice: advice![
        "Copy less: uint8 batches, augmented on the GPU"
            => "the link is full; pin_memory=True and non_blocking=True speed up each copy", if copies_in_the_clear;
        "Copy fewer bytes: uint8 batches, augmented on the GPU"
            => "confidential computing encrypts each copy on a CPU, whether its memory is pinned or not", if encrypts;
        "Copy the next batch on a separate CUDA stream"
            => "copies from pinned memory overlap with the kernels of the step", if copies_in_the_clear;
    ],
    bound: |_, window| by_the_host(window).map(|(copies, _)| window.without(copies)),
    special_case: |window| by_the_host(window).map(|_| &BY_THE_HOST),
    ..CauseSpec::in_class(Class::Gpu)
};

/// The host copies from memory that is not pinned.
const BY_THE_HOST: CauseSpec = CauseSpec {
    place: CulpritPlace::Loop,
    meaning: "the host copies the batches itself, from memory that is not pinned",
    advice: advice![
        "Pin the memory: pin_memory=True, then non_blocking=True"
            => "the host copies pageable memory piece by piece and does nothing else; the GPU fetches pinned \
                memory itself", if copies_in_the_clear;
        "Copy less: uint8 batches, augmented on the GPU"
            => "uint8 needs a quarter of the bytes of float32";
    ],
    ..CAUSE
};

/// Confidential computing is on: the GPU cannot read the host's memory, so a CPU encrypts all that goes there.
fn encrypts(window: &Features) -> bool {
    window.gpu.as_ref().is_some_and(|gpu| gpu.confidential)
}

fn copies_in_the_clear(window: &Features) -> bool {
    !encrypts(window)
}

/// How long the host itself copies, as a share of the loop's time and of the host's work, if it is most of that work.
fn by_the_host(window: &Features) -> Option<(f64, f64)> {
    let main = window.main.as_ref()?;
    // Spinning while it waits for the GPU is not work.
    let host = main.shares.host_busy;
    let copies = main.share(Activity::Copy).min(host);
    let leads = window.gpu.is_some() && host >= HOST_WORK && copies >= LARGER_HALF.value * host;
    leads.then(|| (copies, copies / host))
}

/// The host itself copies, from memory that is not pinned.
fn on_the_host(case: &RuleInput<'_>, gpu: &Device) -> Option<Judgment> {
    if case.main.stacks.is_some() {
        return by_the_host(case.window).map(|(_, part)| case.found(Cause::CopyBound, BY_STACKS.at(part)));
    }
    let copies = case.main.shares.host_busy >= HOST_WORK && gpu.pcie.is_some_and(|used| used >= MUCH_TRAFFIC);
    let words = "without stacks, other work on the host looks the same as these copies";
    let judgment = Judgment::new(Cause::CopyBound, EVEN_CHANCE).doubt(words);
    copies.then(|| judgment.other(Cause::MainThread, PERHAPS, words))
}
