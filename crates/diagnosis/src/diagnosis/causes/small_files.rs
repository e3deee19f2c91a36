//! The batches wait for many small reads.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "many small reads",
    brief: "many small reads: latency, not bandwidth",
    meaning: "the batches wait for many small reads",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "the wait is for a local disk, and the average read is smaller than `small_read`",
    ],
    judge: |case| {
        let small = case.window.io.read_size.is_some_and(|size| size < SMALL_READ);
        if small { source::judgment(case, Cause::SmallFiles, source::by_disk_use(case)) } else { None }
    },
    signals: &[WORKER_WAIT, DISKS, READS, MAIN_WAIT],
    source: "/proc/diskstats counts reads and sectors. Below half of the kernel's read-ahead window (128 KiB), the \
        latency of each read sets the pace, not the bandwidth",
    limits: "random access to one large file (mmap, Arrow, LMDB) also reads small pieces. Calls to open and stat \
        do not count as reads",
    advice: advice![
        "Pack the samples into large files (tar, LMDB, Parquet)"
            => "one large read replaces many small ones";
        Tuning "Raise num_workers"
            => "more reads are then in flight at once";
        "Read shards in sequence, with a shuffle buffer"
            => "read-ahead works only on sequential reads, not on single samples at random";
    ],
    against: &[WAIT_FOR_SOURCE, &[(Signal::DiskReadSize, Side::Over, "the average read is not small")]],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
