//! Numbers that decide, each with its unit and its source, and those that several causes share. The numbers of one cause are in
//! its own file; no rule compares with a bare literal.

use std::cmp::Ordering;

use trainmon_base::stats::ramp;

/// One threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Threshold {
    /// Name, in capitals.
    constant: &'static str,
    /// Value.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// Numbers compare with thresholds: `share >= LOST_WAIT`.
impl PartialEq<Threshold> for f64 {
    fn eq(&self, threshold: &Threshold) -> bool {
        *self == threshold.value
    }
}

impl PartialOrd<Threshold> for f64 {
    fn partial_cmp(&self, threshold: &Threshold) -> Option<Ordering> {
        self.partial_cmp(&threshold.value)
    }
}

impl From<Threshold> for f64 {
    fn from(threshold: Threshold) -> Self {
        threshold.value
    }
}

impl Threshold {
    pub(super) const fn new(constant: &'static str, value: f64, unit: &'static str, source: &'static str) -> Self {
        Self { constant, value, unit, source }
    }

    /// Its name in rules, pages and the JSON: `lost_wait`.
    pub fn name(&self) -> String {
        self.constant.to_ascii_lowercase()
    }

    /// Value and unit for a person: `10%`, `50% of the limit`, `64 KiB`, `1.3 CPUs`, `20 s`.
    pub fn words(&self) -> String {
        let (value, unit) = (self.value, self.unit);
        // Rounded, because 0.07 x 100 is not 7 in binary.
        let percent = |value: f64, rest: &str| format!("{}%{rest}", (value * 100.0).round() / 100.0);
        if let Some(rest) = unit.strip_prefix("share") {
            return percent(value * 100.0, rest);
        }
        if let Some(rest) = unit.strip_prefix("percent") {
            return percent(value, &rest.replace("core", "CPU"));
        }
        if let Some(rest) = unit.strip_prefix("bytes") {
            let (scale, prefix) = match value {
                value if value >= 1_048_576.0 => (1_048_576.0, "MiB"),
                value if value >= 1024.0 => (1024.0, "KiB"),
                _ => (1.0, "bytes"),
            };
            return format!("{} {prefix}{rest}", value / scale);
        }
        if matches!(unit, "s" | "seconds") && value < 1.0 {
            return format!("{} ms", value * 1000.0);
        }
        if unit.starts_with("of ") && value <= 1.0 {
            return percent(value * 100.0, &format!(" {unit}"));
        }
        format!("{value} {}", unit.replace("cores", "CPUs"))
    }
}

/// Certainty, from `least` where a number is at one threshold to `most` where it reaches another: a confidence of 0–1, or a
/// factor for one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfidenceRamp {
    pub least: f64,
    pub most: f64,
    pub from: Threshold,
    pub to: Threshold,
}

impl ConfidenceRamp {
    pub(super) fn at(&self, number: f64) -> f64 {
        self.between(self.part(number))
    }

    /// How far a number has come from the one threshold to the other, 0–1.
    pub(super) fn part(&self, number: f64) -> f64 {
        ramp(number, self.from.value, self.to.value)
    }

    /// The certainty at a part of the way.
    pub(super) fn between(&self, part: f64) -> f64 {
        self.least + (self.most - self.least) * part
    }
}

/// Declares thresholds, and `NUMBERS` with all of them: name, value, unit, source.
macro_rules! thresholds {
    ($($(#[$doc:meta])* $NAME:ident = $value:literal, $unit:literal, $source:literal;)*) => {
        $($(#[$doc])* pub(in crate::diagnosis) const $NAME: $crate::diagnosis::thresholds::Threshold =
            $crate::diagnosis::thresholds::Threshold::new(stringify!($NAME), $value, $unit, $source);)*
        #[allow(dead_code, reason = "where no rule's text names them, they are listed for the tests")]
        pub(in crate::diagnosis) const NUMBERS: &[$crate::diagnosis::thresholds::Threshold] = &[$($NAME),*];
    };
}
pub(super) use thresholds;

thresholds! {
    INFERRED = 0.80, "of the confidence", "one link of the reasoning is missing, and nothing speaks against it";
    GUESSED = 0.60, "of the confidence", "something about as likely looks the same";
    SURE = 0.90, "confidence", "seen throughout, and hardly anything else looks like it";
    LIKELY = 0.70, "confidence", "seen, and something rarer looks the same";
    EVEN_CHANCE = 0.50, "confidence", "two causes are equally likely";
    PERHAPS = 0.30, "confidence", "worth mentioning, but not the first thing to act on";
    /// Lost input wait from which on the loader is examined.
    LOST_WAIT = 0.10, "share", "a tenth of the loop is the least worth fixing; test programs lose less than 2% or more than 30% to waits for data";
    CLEARLY_LOST = 0.30, "share", "test programs in which this costs time lose at least as much";
    CERTAIN = 0.99, "confidence", "there may always be more than what could be seen";
    LARGER_HALF = 0.50, "share", "what takes more than half of the loss is the cause";
    HARDLY = 0.05, "share", "within the sampling error of a window";
    /// GPU idle time below which nothing on the host can gain much.
    DEVICE_IDLE = 0.15, "share", "a GPU that is idle for less leaves at most 1.18× to gain on the host";
    DEVICE_BUSY = 0.85, "share", "a GPU that is busy for more leaves at most 1.18× to gain";
    ALWAYS_BUSY = 0.95, "share", "the rest is the gap between two steps";
    /// GPU idle time from which on the host is examined; between this and device_idle the loop is balanced.
    DRY = 0.22, "share", "a gain of 1.28× at most, shared by several causes; the GPU of host-bound test programs is idle for 40% or more";
    SHARED_GPU = 0.15, "share", "freeing the GPU of less gains at most 1.18×";
    DEVICE_UNUSED = 0.01, "share", "NVML counts in whole percent";
    /// Use of the link to a GPU at which it is full except for gaps.
    PCIE_BUSY = 0.60, "share", "the protocol leaves 80 to 90% of the raw rate; 60% sustained is a saturated link with gaps";
    /// Share of the power limit below which a busy GPU is under-filled.
    LOW_POWER = 0.50, "share of the limit", "under dense kernels, a busy GPU draws at least 70% of its limit; memory-bound and tiny kernels draw less (nvtop: effective use = use x power / limit)";
    /// SM activity (GPM) below which a busy GPU is under-filled.
    SM_ACTIVE = 0.50, "share", "half of the multiprocessors have no warp";
    /// The loop waits for the GPU again and again, and the GPU also runs dry.
    SYNC = 0.20, "share", "a fifth of the loop in waits for a GPU that is otherwise idle";
    HOST_WORK = 0.40, "share", "the loop of host-bound test programs works at least 50%, of those that wait for the GPU less than 30%";
    /// CPU share at which a thread is called busy.
    BUSY = 0.60, "share", "more busy than not, with room for measurement error";
    CORES_FULL = 0.92, "share", "from here on the CPUs are full: the rest is context switches and the kernel's own work";
    /// Share of runnable time spent queueing.
    RUN_DELAY = 0.25, "share", "a thread that queues for this long takes a third longer for its work";
    /// Share of the loop's runnable time spent queueing.
    MAIN_RUN_DELAY = 0.15, "share", "queueing makes the loop itself 1.18× slower";
    CGROUP_THROTTLED = 0.15, "share of periods", "kernel Documentation/scheduler/sched-bwc.rst; occasional throttling of a burst stays below this";
    NEIGHBOUR = 0.25, "share of allowed CPUs", "a quarter of the CPUs is more than system services use";
    OVERSUBSCRIBED = 2.0, "threads per CPU", "twice as many runnable threads as CPUs: each waits as long as it runs";
    WORKERS_IO = 0.50, "share of active time", "what takes more than half of their work is the limit";
    /// Part of the workers' active time in one stage (decode, transform) from which that stage is the cause.
    STAGE = 0.60, "share of active time", "clearly the larger part: without this stage, a worker is at least 2.5 times as fast";
    /// Part of the workers' time without work at which the set as a whole is not the limit.
    WORKERS_IDLE = 0.40, "share", "workers that are idle while the loop waits: their order, or moving batches to the loop, is slow, not their work";
    STRAGGLER = 0.25, "share", "equal ranks wait equally; a quarter of the time is a rank that is a third slower than the rest";
    /// Part of the possible gain that more workers must give for their number to be the cause.
    WORKERS_HELP = 0.60, "share of the gain", "otherwise the work itself must get cheaper";
    /// Speedup by more workers that is worth it, whatever else could be gained.
    HELPFUL = 1.5, "times", "1.5 times the speed for one changed number comes before any rewriting";
    ALL_ALONG = 0.90, "share", "nothing else in between";
    PHASE = 0.60, "share", "most of the time, with room for what lies between";
    MEMORY_PRESSURE = 10.0, "percent", "PSI: some task was stalled on memory a tenth of the time (kernel Documentation/accounting/psi.rst)";
    DISK_BUSY = 70.0, "percent", "iostat's rule of thumb for a disk with little parallelism; below it, latency is the limit and not the disk";
    /// Average read below which reads are small.
    SMALL_READ = 65536.0, "bytes", "half of the default read-ahead window (128 KiB)";
    /// Data read by a loop without workers.
    INLINE_READ = 65536.0, "bytes/s", "more than logs and metrics read; one small picture a second";
    /// CPU use of the loop's process from which on several of its threads compute together, torch's for example.
    COMPUTE_THREADS = 1.3, "cores", "one thread cannot use more than one; the rest is runtime and queue threads";
    /// CPU of the whole job below which nothing is being computed.
    INACTIVE = 5.0, "percent of a core", "less than any training loop uses";
    GOES_ROUND = 3.5, "s", "longer than the first window: preparations of a second or two are over by then";
    /// Growth of resident memory at which a young process is setting itself up.
    GROWING = 5242880.0, "bytes/s", "importing torch adds 200 to 500 MiB in a few seconds; the memory of a training loop does not grow";
    STARTING = 20.0, "s", "importing torch and setting up dataset and model take up to this long";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_in_words() {
        for (threshold, words) in [
            (LOST_WAIT, "10%"),
            (DRY, "22%"),
            (LOW_POWER, "50% of the limit"),
            (MEMORY_PRESSURE, "10%"),
            (INACTIVE, "5% of a CPU"),
            (SMALL_READ, "64 KiB"),
            (GROWING, "5 MiB/s"),
            (STARTING, "20 s"),
            (Threshold::new("SHORT", 0.03, "s", ""), "30 ms"),
            (OVERSUBSCRIBED, "2 threads per CPU"),
            (COMPUTE_THREADS, "1.3 CPUs"),
            (INFERRED, "80% of the confidence"),
        ] {
            assert_eq!(threshold.words(), words);
        }
    }

    #[test]
    fn sureness_grows_between_its_thresholds() {
        let sure = ConfidenceRamp { least: 0.5, most: 0.9, from: LOST_WAIT, to: CLEARLY_LOST };
        for (number, confidence) in [(0.0, 0.5), (0.1, 0.5), (0.2, 0.7), (0.3, 0.9), (1.0, 0.9)] {
            assert!((sure.at(number) - confidence).abs() < 1e-9, "{number}");
        }
    }
}
