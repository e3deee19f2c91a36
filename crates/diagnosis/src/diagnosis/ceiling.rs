//! The most that tuning can gain without changing code: the best number of workers, threads and CPUs, the best pool sizes.
//!
//! It is a linear program: a loop that runs r times as fast needs r times as much of each resource. The loop's thread, the GPU
//! and the CPUs each provide one second of work per second, and each stage on the CPUs may use all of them. With one unknown,
//! the best rate is the one at which the first resource is full. So it takes no solver and no counted steps: the share of time
//! that each resource is in use now says it all.

use serde::{Deserialize, Serialize};

use super::causes::CauseSpec;
use super::features::{Features, LoopThread};
use super::parts::MOST_TIMES;
use super::thresholds::*;
use super::what_if::Capacity;
use trainmon_base::stats::{percent, round};
use trainmon_base::text::named_enum;
use trainmon_waits::Wait;
use trainmon_waits::taxonomy::Purpose;

thresholds! {
    WORTH_TUNING = 0.05, "share", "a smaller gain is within the noise of a step's length";
    LEAST_OWN = 0.01, "share", "taking a batch and counting a step costs something";
}

named_enum! {
    /// The resource that is full first.
    pub enum Limit {
        /// The loop's thread.
        Loop = "loop",
        /// The GPU.
        Gpu = "device",
        /// The CPUs.
        Cpus = "cpus",
    }
}

impl Limit {
    fn words(self) -> &'static str {
        match self {
            Self::Loop => "the loop itself is the limit",
            Self::Gpu => "the GPU is the limit",
            Self::Cpus => "the CPUs are full",
        }
    }
}

/// How fast the same code can get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Upper bound of the speed-up; 1 where nothing is left to gain.
    pub speedup_at_most: f64,
    /// The resource that is full then.
    pub limit: Limit,
}

impl Ceiling {
    /// For a person.
    pub fn words(&self) -> String {
        let limit = self.limit.words();
        if self.speedup_at_most.is_finite() && self.speedup_at_most > 1.0 + WORTH_TUNING.value {
            let times = self.speedup_at_most;
            let most = if times > MOST_TIMES {
                format!("save at most {} of a step", percent(1.0 - 1.0 / times))
            } else {
                format!("gain at most {times:.1}×")
            };
            format!("Tuning workers and threads alone can {most}. Beyond that {limit}.")
        } else {
            let part = percent(WORTH_TUNING.value);
            format!("Tuning workers and threads alone gains less than {part}: {limit}.")
        }
    }

    /// For a window, its cause and these CPUs; `None` if the loop's thread was not sampled.
    pub(super) fn from_window(window: &Features, found: Option<&CauseSpec>, on: &Capacity) -> Option<Self> {
        let main = window.main.as_ref()?;
        let own = own_part(window, main).max(LEAST_OWN.value);
        // A loop that only waits for the GPU is not the limit itself.
        let device = if main.shares.device_sync >= LARGER_HALF.value * own { Limit::Gpu } else { Limit::Loop };
        // A spinning wait takes a CPU and does no work.
        let used = window.cpu.job.map(|used| (used - main.spins).max(0.0));
        let used = if !found.is_some_and(|found| found.wastes_cpu) { used } else { None };
        let limits = [
            Some((own, device)),
            window.gpu.as_ref().map(|gpu| (gpu.job_busy, Limit::Gpu)),
            used.map(|used| (on.floor(used), Limit::Cpus)),
        ];
        let (part, limit) = limits.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { speedup_at_most: round((1.0 / part.max(LEAST_OWN.value)).max(1.0), 2), limit })
    }
}

/// Share of the loop's time that no tuning removes. Enough workers or services end the waits for them, and perhaps the waits
/// that could not be traced. Loading moves out of the loop. Enough CPUs end the queueing.
fn own_part(window: &Features, main: &LoopThread) -> f64 {
    let fixed = [
        Purpose::Own,
        Purpose::Loads,
        Purpose::Saves,
        Purpose::Gpu,
        Purpose::Sleep,
        Purpose::Output,
        Purpose::FileLock,
    ];
    let tunable = |part: &Purpose| !fixed.contains(part);
    let followed: f64 =
        window.chain.iter().flat_map(|chain| &chain.ways).filter(|way| tunable(&way.part)).map(|way| way.share).sum();
    let waits = (main.shares.input_wait - window.receiving()).max(followed);
    let queues = main.run_delay.unwrap_or(0.0) * main.waits(Wait::Running);
    let loads = main.stacks.as_ref().map_or(0.0, |stacks| stacks.loading());
    1.0 - waits - loads - queues
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_the_gain_and_what_ends_it() {
        let words = |speedup_at_most, limit| Ceiling { speedup_at_most, limit }.words();
        let some = words(1.88, Limit::Cpus);
        assert!(some.contains("at most 1.9×.") && some.ends_with("Beyond that the CPUs are full."), "{some}");
        let most = words(15.79, Limit::Gpu);
        assert!(most.contains("can save at most 94% of a step. Beyond that the GPU is the limit."), "{most}");
        let none = words(1.04, Limit::Loop);
        assert!(none.contains("less than 5%") && none.ends_with(": the loop itself is the limit."), "{none}");
        assert!(words(f64::NAN, Limit::Gpu).ends_with("the GPU is the limit."));
    }

    #[test]
    fn it_is_read_back() {
        let found = Ceiling { speedup_at_most: 2.5, limit: Limit::Gpu };
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(json, r#"{"speedup_at_most":2.5,"limit":"device"}"#);
        assert_eq!(serde_json::from_str::<Ceiling>(&json).unwrap(), found);
    }
}
