//! The dataset does not fit in memory and is read again and again.

use super::*;

thresholds! {
    REFAULT = 0.30, "share of bytes read", "workingset_refault_file counts pages evicted and needed again (mm/workingset.c)";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "dataset larger than memory",
    brief: "the dataset does not fit in memory",
    meaning: "the dataset does not fit in memory, so it is read from disk again and again",
    rule: &[LOOP_LOSES, SOURCE_IS_SLOW, "at least `refault` had been in the page cache before"],
    judge: |case| {
        let again = case.window.io.refaulted.is_some_and(|part| part >= REFAULT);
        if again { source::judgment(case, Cause::PageCacheMiss, 1.0) } else { None }
    },
    signals: &[REFAULTS, READS, WORKER_WAIT, DISKS],
    source: "mm/workingset.c: workingset_refault_file counts pages that were evicted and are needed again. A cold \
        first epoch reads as much, but refaults nothing",
    limits: "outside a cgroup, both counters cover the whole machine. Reads that bypass the page cache (O_DIRECT) \
        never refault and get the verdict disk-bandwidth",
    advice: advice![
        "Raise the memory limit, or shrink the dataset on disk"
            => "pages are evicted and read again";
        "Read each shard to its end before the next, not at random"
            => "what was just read is then still in memory";
        Tuning "Lower num_workers or prefetch_factor, if workers are large"
            => "their memory and the page cache share one limit", if with_workers;
    ],
    against: &[WAIT_FOR_SOURCE],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
