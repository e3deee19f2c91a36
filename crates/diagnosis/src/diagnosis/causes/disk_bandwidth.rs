//! The batches wait for the disk, and no other cause explains it.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "waiting for the disk",
    brief: "the batches wait for the disk",
    meaning: "the batches wait for the disk",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "most of that wait is for a local disk, with reads of at least `small_read`",
        "more certain if the disk is busy at least `disk_busy` of the time",
        "no I/O limit, no re-reading of evicted pages and no network file system explains it",
    ],
    judge: |case| source::judgment(case, Cause::DiskBandwidth, source::by_disk_use(case)),
    signals: &[WORKER_WAIT, DISKS, READS, MOUNTS, MAIN_WAIT],
    source: "kernel Documentation/admin-guide/iostats.rst. A thread that reads what is not in memory sleeps in \
        folio_wait_bit_common, state D (measured on Linux 6.18)",
    limits: "an SSD's busy percentage says little about what it has left. The disk may also be busy for another \
        job, and a first epoch always reads cold",
    advice: advice![
        "Copy the dataset to a faster local disk before training"
            => "the batches wait for this disk; an NVMe instance store is faster";
        "Store the data smaller: compressed, cropped or resized"
            => "each sample then needs fewer bytes";
        Tuning "Raise num_workers or prefetch_factor, or read in threads"
            => "while the disk is not fully used, more reads in flight give an SSD more to do at once", if with_workers;
        Tuning "Read ahead in DataLoader workers or threads"
            => "while the disk is not fully used, more reads in flight give an SSD more to do at once", if without_workers;
    ],
    against: &[WAIT_FOR_SOURCE, &[(Signal::DiskBusy, Side::Under, "the disk has idle time")]],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
