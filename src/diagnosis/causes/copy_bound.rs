//! Copies over PCIe hold the loop back.

use super::*;

thresholds! {
    PCIE_BUSY = 0.60, "share", "protocol overhead leaves 80-90 % of the raw rate; 60 % sustained is a saturated copy with gaps";
    LINK_FULL = 0.90, "share", "more than the protocol leaves";
    ON_COPIES = 0.40, "share", "the line of the copy is on top of the loop's stacks nearly half of the time";
    SOME_TRAFFIC = 0.10, "share", "copies from pageable memory go piece by piece and leave the link idle in between";
    MUCH_TRAFFIC = 0.25, "share", "6 GB/s on PCIe 4.0 x16: what pageable copies reach, and more than batches that a busy host prepares between steps need";
    BY_TRAFFIC = 0.60, "confidence", "without stacks, other work of the host beside many copies looks the same";
    HOST_INSTEAD = 0.40, "confidence", "the host's work may be something else than the copies";
    MOSTLY_COPIES = 0.80, "share", "nothing else is left to blame";
    BUSY_TOO = 0.85, "of the confidence", "small kernels draw little power too";
}

const SURE: Sureness = Sureness { least: 0.55, most: 0.85, from: PCIE_BUSY, to: LINK_FULL };

const BY_STACKS: Sureness = Sureness { least: 0.60, most: 0.85, from: ON_COPIES, to: MOSTLY_COPIES };

pub(super) const CAUSE: Spec = Spec {
    headline: "copies to the device",
    brief: "PCIe transfers dominate",
    meaning: "copies over PCIe keep the device busy",
    rule: &[
        "the PCIe link is in use at least `pcie_busy`",
        "the device is busy less than `device_busy` of the time, for copies are no kernels; or it is busy and draws \
         less than `low_power`",
        "or, with stacks: the loop's thread runs on lines that copy to the device at least `on_copies` of its time, and the link \
         is used at least `some_traffic`: the host copies from pageable memory itself",
        "without stacks: the loop's thread works at least `on_copies` of its time, and the link is used at least `much_traffic`",
    ],
    judge: |case| {
        let link = |gpu: &Device| gpu.pcie.filter(|used| *used >= PCIE_BUSY);
        match case.loss {
            Loss::Busy(gpu) if gpu.low_power() => link(gpu).map(|_| case.of(Cause::CopyBound, BUSY_TOO)),
            // Copies are no kernels: a device that is fed over a full link is idle by its utilisation.
            Loss::Dry(gpu) => match link(gpu) {
                Some(used) => Some(Judgement::of(Cause::CopyBound, SURE.at(used))),
                None => on_the_host(case, gpu),
            },
            _ => None,
        }
    },
    signals: &[PCIE, DEVICE, POWER],
    source: "nvmlDeviceGetPcieThroughput samples 20 ms for each query; the link carries generation x width, less 10 \
             to 20 percent for its protocol; cudaMemcpy from pageable memory is staged by the host (CUDA programming guide)",
    confirmed: Confirmed::FakeDeviceOnly,
    limits: "a short sample now and then: bursts are missed or overstated; copies from pageable memory are told \
             from other work of the host by stacks only",
    advice: advice![
        "Copy less: uint8 batches, augment on the device; pin_memory=True and non_blocking=True"
            => "the link is full";
        "Copy the next batch on a stream of its own while the step computes"
            => "copies from pinned memory overlap with kernels";
    ],
    ..Spec::of(Class::Gpu)
};

/// The host itself copies, from memory that is not pinned.
fn on_the_host(case: &Case<'_>, gpu: &Device) -> Option<Judgement> {
    let uses = |least: Threshold| gpu.pcie.is_some_and(|used| used >= least);
    if case.main.shares.host_busy < ON_COPIES {
        return None;
    }
    if case.main.stacks.is_none() {
        let words = "without stacks, other work of the host beside these copies looks the same";
        let judgement = Judgement::of(Cause::CopyBound, BY_TRAFFIC).doubt(words);
        return uses(MUCH_TRAFFIC).then(|| judgement.other(Cause::MainThread, HOST_INSTEAD, words));
    }
    let copies = case.main.share(Activity::Copy);
    (copies >= ON_COPIES && uses(SOME_TRAFFIC)).then(|| case.of(Cause::CopyBound, BY_STACKS.at(copies)))
}
