//! The workers wait for the disk, and nothing else explains it.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the disk is at its limit",
    brief: "the disk is saturated",
    meaning: "the batches wait for the disk",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "most of that wait is for a local disk, with reads of `small_read` and more",
        "surer where the disk is in use `disk_busy`",
        "no limit, no re-reading of evicted pages and no network file system explains it",
    ],
    judge: |case| source::judgement(case, Cause::DiskBandwidth, source::by_disk_use(case)),
    signals: &[WORKER_WAIT, DISKS, READS, MOUNTS, MAIN_WAIT],
    source: "kernel Documentation/admin-guide/iostats.rst; a thread that reads what is not in memory sleeps in \
             folio_wait_bit_common, state D (measured on Linux 6.18)",
    limits: "use of an SSD in percent says little about what it has left; the disk may also be busy for another job; \
             the first epoch reads cold by nature",
    advice: advice![
        "Copy the data set to a faster local disk (NVMe instance store) before training"
            => "the disk is what the workers wait for";
        "Store the data smaller: compressed, cropped or resized once" => "fewer bytes per sample";
        "Raise num_workers or prefetch_factor, or let more threads read, while the disk is not fully used"
            => "more reads in flight give an SSD more to do at once";
    ],
    against: &[WAIT_FOR_SOURCE, &[(Signal::DiskBusy, Side::Under, "the disk has idle time")]],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
