//! The most that tuning can bring with the code as it is: the best number of workers, sizes of pools, threads and CPUs.
//!
//! As a linear programme: a loop of rate r needs of each resource what it needs now, times r. The loop's own thread, the device
//! and the CPUs each allow one second of work a second, and each of the CPUs' stages may have as many CPUs as there are. With
//! one unknown the best rate is the one at which the first resource is full, so no solver is needed, and no step has to be
//! counted: the shares of time that each resource is in use now say it all.

use serde::{Deserialize, Serialize};

use super::causes::CauseSpec;
use super::features::{Features, LoopThread, PathPart};
use super::stats::{percent, round};
use super::thresholds::*;
use super::what_if::Capacity;
use crate::rates::Wait;
use crate::text::named_enum;

thresholds! {
    WORTH_TUNING = 0.05, "share", "what brings less is within the noise of a step's length";
    LEAST_OWN = 0.01, "share", "taking a batch and counting a step costs something";
}

named_enum! {
    /// What is full first.
    pub enum Limit {
        /// The loop's own thread.
        Loop = "loop",
        /// The device.
        Device = "device",
        /// The CPUs.
        Cpus = "cpus",
    }
}

impl Limit {
    fn words(self) -> &'static str {
        match self {
            Self::Loop => "the loop itself is the limit",
            Self::Device => "the GPU is the limit",
            Self::Cpus => "the CPUs are full",
        }
    }
}

/// How fast the same code can get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// Times faster than now, at most; 1 where nothing is left.
    pub speedup_at_most: f64,
    /// What is full then.
    pub limit: Limit,
}

impl Ceiling {
    /// For a person.
    pub fn words(&self) -> String {
        let limit = self.limit.words();
        if self.speedup_at_most.is_finite() && self.speedup_at_most > 1.0 + WORTH_TUNING.value {
            let times = self.speedup_at_most;
            format!(
                "With the same code on these CPUs, any number of workers and threads brings {times:.1}× at most: then {limit}."
            )
        } else {
            let part = percent(WORTH_TUNING.value);
            format!(
                "With the same code on these CPUs, no number of workers and threads brings more than {part}: {limit}."
            )
        }
    }

    /// Of a window with what was found in it, on these CPUs; `None` where the loop's thread is not seen.
    pub(super) fn from_window(window: &Features, found: Option<&CauseSpec>, on: &Capacity) -> Option<Self> {
        let main = window.main.as_ref()?;
        let own = own_part(window, main).max(LEAST_OWN.value);
        // A loop that does nothing but wait for the device is not the limit itself.
        let device = if main.shares.device_sync >= LARGER_HALF.value * own { Limit::Device } else { Limit::Loop };
        // A wait that spins takes a CPU, but does no work.
        let used = window.cpu.job.map(|used| (used - main.spins).max(0.0));
        let used = used.filter(|_| !found.is_some_and(|found| found.wastes_cpu));
        let limits = [
            Some((own, device)),
            window.gpu.as_ref().map(|gpu| (gpu.job_busy, Limit::Device)),
            used.map(|used| (on.floor(used), Limit::Cpus)),
        ];
        let (part, limit) = limits.into_iter().flatten().max_by(|a, b| a.0.total_cmp(&b.0))?;
        Some(Self { speedup_at_most: round((1.0 / part.max(LEAST_OWN.value)).max(1.0), 2), limit })
    }
}

/// Share of its time in which the loop does what no tuning takes from it. Waits for whoever makes batches or answers end with
/// enough of those, and so may waits that could not be followed; loading in the loop itself moves out; queueing for a CPU ends with
/// enough CPUs.
fn own_part(window: &Features, main: &LoopThread) -> f64 {
    let fixed = [
        PathPart::Own,
        PathPart::Loads,
        PathPart::Saves,
        PathPart::Device,
        PathPart::Sleep,
        PathPart::Output,
        PathPart::FileLock,
    ];
    let tunable = |part: &PathPart| !fixed.contains(part);
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
        assert!(some.contains("brings 1.9× at most") && some.ends_with("then the CPUs are full."), "{some}");
        let none = words(1.04, Limit::Loop);
        assert!(none.contains("no number") && none.ends_with("the loop itself is the limit."), "{none}");
        assert!(words(f64::NAN, Limit::Device).ends_with("the GPU is the limit."));
    }

    #[test]
    fn it_is_read_back() {
        let found = Ceiling { speedup_at_most: 2.5, limit: Limit::Device };
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(json, r#"{"speedup_at_most":2.5,"limit":"device"}"#);
        assert_eq!(serde_json::from_str::<Ceiling>(&json).unwrap(), found);
    }
}
