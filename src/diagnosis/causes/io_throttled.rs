//! A limit on the job holds its reads back.

use super::*;

thresholds! {
    NEAR_LIMIT = 0.60, "share of the limit", "reads come in bursts: their mean stays below a limit that holds back each of them";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "a limit holds reads back",
    brief: "a limit holds reads back",
    meaning: "a limit on the job holds its reads back while the disk has room",
    rule: &[
        LOOP_LOSES,
        SOURCE_IS_SLOW,
        "the job's control group has a read limit, and at least `near_limit` is used",
    ],
    judge: |case| {
        let io = &case.window.io;
        let near = |used: f64, limit: Option<f64>| limit.is_some_and(|most| used >= NEAR_LIMIT.value * most);
        let limited = near(io.read_s(), io.limit_bytes_per_s) || near(io.reads_per_s.unwrap_or(0.0), io.limit_iops);
        source::judgement(case, Cause::IoThrottled, 1.0).filter(|_| limited)
    },
    signals: &[IO_LIMITS, READS, WORKER_WAIT, DISKS],
    source: "kernel Documentation/admin-guide/cgroup-v2.rst, io.max: reads beyond it are delayed",
    limits: "limits outside the machine (a cloud volume's IOPS or bandwidth) cannot be seen and are called \
             disk-bandwidth or small-files",
    advice: advice![
        "Raise the I/O limit of the job's cgroup or volume" => "the reads run at the limit";
        "Copy the data set to a disk without such a limit" => "the limit counts per device";
    ],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
