//! A limit on the job holds its reads back.

use super::*;

thresholds! {
    NEAR_LIMIT = 0.60, "share of the limit", "reads come in bursts: their average stays below a limit that delays each burst";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "an I/O limit slows reads",
    brief: "an I/O limit on the job slows its reads",
    meaning: "an I/O limit on the job holds its reads back",
    rule: &[LOOP_LOSES, SOURCE_IS_SLOW, "the job's cgroup has a read limit, and reads use at least `near_limit`"],
    judge: |case| {
        let io = &case.window.io;
        let near = |used: f64, limit: Option<f64>| limit.is_some_and(|most| used >= NEAR_LIMIT.value * most);
        let limited = near(io.read_s(), io.limit_bytes_per_s) || near(io.reads_per_s.unwrap_or(0.0), io.limit_iops);
        if limited { source::judgment(case, Cause::IoThrottled, 1.0) } else { None }
    },
    signals: &[IO_LIMITS, READS, WORKER_WAIT, DISKS],
    source: "kernel Documentation/admin-guide/cgroup-v2.rst, io.max: reads beyond the limit are delayed",
    limits: "limits outside the machine, such as a cloud volume's IOPS or bandwidth, cannot be seen; the verdict \
        is then disk-bandwidth or small-files",
    advice: advice![
        "Raise the I/O limit of the job's cgroup or volume"
            => "the reads run at the limit";
        "Copy the dataset to a disk without such a limit"
            => "each disk has its own limit";
    ],
    culprits: &[culprits::data_disk],
    ..CauseSpec::in_class(Class::Io)
};
