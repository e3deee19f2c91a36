//! Many small reads keep the workers waiting.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "many small reads",
    brief: "many small reads: latency, not bandwidth",
    meaning: "many small reads keep the batches waiting",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "the wait is for a local disk, and the mean read is smaller than `small_read`",
    ],
    judge: |case| {
        let small = case.window.io.read_size.is_some_and(|size| size < SMALL_READ);
        source::judgement(case, Cause::SmallFiles, source::by_disk_use(case)).filter(|_| small)
    },
    signals: &[WORKER_WAIT, DISKS, READS, MAIN_WAIT],
    source: "/proc/diskstats gives reads and sectors; below half of the kernel's read-ahead window (128 KiB) the \
             latency of each read, not the bandwidth, sets the pace",
    limits: "random access to one large file (mmap, Arrow, LMDB) reads small pieces too; opening and stat calls do \
             not count as reads",
    advice: advice![
        "Pack the samples into large files (tar shards, LMDB, Parquet)" => "one large read replaces many small ones";
        "Raise num_workers" => "more reads are then in flight at once";
        "Read shards in sequence with a shuffle buffer instead of single samples at random"
            => "read-ahead works only on sequential reads";
    ],
    against: &[WAIT_FOR_SOURCE, &[(Signal::DiskReadSize, Side::Over, "reads are not small on average")]],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
