//! Copies over PCIe hold the loop back.

use super::*;

thresholds! {
    PCIE_BUSY = 0.60, "share", "protocol overhead leaves 80-90 % of the raw rate; 60 % sustained is a saturated copy with gaps";
    LINK_FULL = 0.90, "share", "more than the protocol leaves";
    BUSY_TOO = 0.85, "of the confidence", "small kernels draw little power too";
}

const SURE: Sureness = Sureness { least: 0.55, most: 0.85, from: PCIE_BUSY, to: LINK_FULL };

pub(super) const CAUSE: Spec = Spec {
    headline: "copies to the device",
    brief: "PCIe transfers dominate",
    meaning: "copies over PCIe keep the device busy",
    rule: &[
        "the PCIe link is in use at least `pcie_busy`",
        "the device is busy less than `device_busy` of the time, for copies are no kernels; or it is busy and draws \
         less than `low_power`",
    ],
    judge: |case| {
        let link = |gpu: &Device| gpu.pcie.filter(|used| *used >= PCIE_BUSY);
        match case.loss {
            Loss::Busy(gpu) if gpu.low_power() => link(gpu).map(|_| case.of(Cause::CopyBound, BUSY_TOO)),
            // Copies are no kernels: a device that is fed over a full link is idle by its utilisation.
            Loss::Dry(gpu) => link(gpu).map(|used| Judgement::of(Cause::CopyBound, SURE.at(used))),
            _ => None,
        }
    },
    signals: &[PCIE, DEVICE, POWER],
    source: "nvmlDeviceGetPcieThroughput samples 20 ms for each query; the link carries generation x width, less 10 \
             to 20 percent for its protocol",
    confirmed: Confirmed::FakeDeviceOnly,
    limits: "a short sample now and then: bursts are missed or overstated; copies that wait for pageable memory \
             leave the link idle and are not found",
    advice: advice![
        "Copy less: uint8 batches, augment on the device; pin_memory=True and non_blocking=True"
            => "the link is full";
        "Copy the next batch on a stream of its own while the step computes"
            => "copies from pinned memory overlap with kernels";
    ],
    ..Spec::of(Class::Gpu)
};
