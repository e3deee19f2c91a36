//! The device computes all the time: healthy.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "busy computing, which is healthy",
    brief: "busy and healthy",
    meaning: "the device computes all the time: healthy",
    rule: &[KEPT_BUSY, "no other cause of this class fits"],
    judge: |case| {
        let gpu = case.busy_device()?;
        let judgement = case.found(Cause::ComputeBound, 1.0);
        if gpu.throttled >= throttled::GPU_THROTTLED {
            return Some(judgement.other(Cause::Throttled, PERHAPS, "the power limit holds the clocks down"));
        }
        Some(judgement)
    },
    signals: &[DEVICE, POWER, MAIN_WAIT],
    source: "NVML: utilisation is the share of the last sample period in which a kernel ran; high power with it says \
             that the kernels fill the device",
    limits: "without power readings a device that is busy with small kernels looks the same (under-filled); a host \
             that waits spinning for the device looks busy, and is not the limit",
    advice: advice![
        "Use mixed precision (torch.autocast) and torch.compile"
            => "the device is busy: only cheaper or fused work helps";
        "Use a faster or a second GPU" => "nothing on the host holds it back";
    ],
    against: &[DEVICE_COMPUTES],
    culprits: &[culprits::gpus],
    ..CauseSpec::in_class(Class::Gpu)
};
