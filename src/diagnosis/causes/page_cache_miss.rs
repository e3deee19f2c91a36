//! The data does not fit in memory and is read again and again.

use super::*;

thresholds! {
    REFAULT = 0.30, "share of bytes read", "workingset_refault_file counts pages evicted and needed again (mm/workingset.c)";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the data does not fit into memory",
    brief: "data set does not fit in memory",
    meaning: "the data does not fit in memory and is read from disk again and again",
    rule: &[LOOP_LOSES, SOURCE_IS_SLOW, "of the bytes read, at least `refault` had been in the page cache before"],
    judge: |case| {
        let again = case.window.io.refaulted.is_some_and(|part| part >= REFAULT);
        source::judgement(case, Cause::PageCacheMiss, 1.0).filter(|_| again)
    },
    signals: &[REFAULTS, READS, WORKER_WAIT, DISKS],
    source: "mm/workingset.c: workingset_refault_file counts pages that were evicted and are needed again; a cold \
             first epoch reads as much, but without refaults",
    limits: "outside a control group both counters are the whole machine's; reads past the page cache (O_DIRECT) never \
             refault and are called disk-bandwidth",
    advice: advice![
        "Raise the memory limit, or shrink the data set on disk" => "pages are evicted and read again";
        "Read each shard through before the next instead of at random"
            => "what was just read is then still in memory";
        "Lower num_workers or prefetch_factor if the workers are large"
            => "their memory and the page cache share one limit";
    ],
    against: &[WAIT_FOR_SOURCE],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
