//! Copies over PCIe hold the loop back.

use super::*;

thresholds! {
    MUCH_TRAFFIC = 0.25, "share", "6 GB/s on PCIe 4.0 x16: what pageable copies reach, and more than batches that a busy host prepares between steps need";
}

const BY_LINK_USE: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.85, from: PCIE_BUSY, to: ALL_ALONG };

const BY_STACKS: ConfidenceRamp = ConfidenceRamp { least: 0.60, most: 0.85, from: LARGER_HALF, to: ALL_ALONG };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "copies to the device",
    brief: "PCIe transfers dominate",
    meaning: "copies over PCIe keep the device busy",
    rule: &[
        "the PCIe link is in use at least `pcie_busy`",
        "the device is busy less than `device_busy` of the time, for copies are no kernels; or it is busy and draws \
         less than `low_power`",
        "or the device runs dry, the loop's thread works at least `host_work` of its time, and, with stacks, `larger_half` of that \
         at lines that copy to the device: the host copies from pageable memory itself",
        "without stacks, instead: the link is used at least `much_traffic`",
    ],
    judge: |case| {
        match case.bottleneck {
            Bottleneck::Busy(gpu) if gpu.low_power() => gpu.link().map(|_| case.found(Cause::CopyBound, INFERRED)),
            // Copies are not kernels: a device that is fed over a full link shows as idle.
            Bottleneck::Dry(gpu) => match gpu.link() {
                Some(used) => Some(Judgement::new(Cause::CopyBound, BY_LINK_USE.at(used))),
                None => on_the_host(case, gpu),
            },
            _ => None,
        }
    },
    signals: &[PCIE, DEVICE, POWER],
    source: "nvmlDeviceGetPcieThroughput samples 20 ms for each query; the link carries generation x width, less 10 \
             to 20 percent for its protocol; cudaMemcpy from pageable memory is staged by the host (CUDA programming guide)",
    limits: "a short sample now and then: bursts are missed or overstated; copies from pageable memory are told \
             from other work of the host by stacks only",
    advice: advice![
        "Copy less: uint8 batches, augment on the device; pin_memory=True and non_blocking=True"
            => "the link is full";
        "Copy the next batch on a stream of its own while the step computes"
            => "copies from pinned memory overlap with kernels";
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
        "Pin the memory that is copied: pin_memory=True in the DataLoader, then .to(device, non_blocking=True)"
            => "the host copies pageable memory piece by piece and can do nothing else; pinned memory the GPU fetches itself";
        "Copy less: uint8 batches, augmented on the GPU" => "a quarter of the bytes of float32";
    ],
    ..CAUSE
};

/// How long the host itself copies, as a share of the loop's time and of the host's work, where it is most of that work.
fn by_the_host(window: &Features) -> Option<(f64, f64)> {
    let main = window.main.as_ref()?;
    // Spinning while it waits for the device is not work.
    let host = main.shares.host_busy;
    let copies = main.share(Activity::Copy).min(host);
    let leads = window.gpu.is_some() && host >= HOST_WORK && copies >= LARGER_HALF.value * host;
    leads.then(|| (copies, copies / host))
}

/// The host itself copies, from memory that is not pinned.
fn on_the_host(case: &RuleInput<'_>, gpu: &Device) -> Option<Judgement> {
    if case.main.stacks.is_some() {
        return by_the_host(case.window).map(|(_, part)| case.found(Cause::CopyBound, BY_STACKS.at(part)));
    }
    let copies = case.main.shares.host_busy >= HOST_WORK && gpu.pcie.is_some_and(|used| used >= MUCH_TRAFFIC);
    let words = "without stacks, other work of the host beside these copies looks the same";
    let judgement = Judgement::new(Cause::CopyBound, EVEN_CHANCE).doubt(words);
    copies.then(|| judgement.other(Cause::MainThread, PERHAPS, words))
}
