//! How closely a job is watched: a new or doubtful verdict needs many stacks and samples, a long-stable one few.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// Mean time between two rounds of the sampler: 50 a second resolve waits of 20 ms, and ten seconds of them give the
/// share of a wait to within 2 points. `python measure evaluate --cost` measures the cost.
const ROUND: Duration = Duration::from_millis(20);
/// The same for a long-stable verdict: a minute of them gives a share to within 2 points. A change shows within the
/// first second, and then the rounds come as often as before.
const SLOW_ROUND: Duration = Duration::from_millis(50);
/// The same for a GPU that has long been busy: a minute of them gives a share to within 3 points. If the GPU goes idle,
/// its own readings show it, and then the rounds come as often as before.
const SLOWEST_ROUND: Duration = Duration::from_millis(125);

/// Stacks per second of a training process: its time is split more finely than a worker's …
const TRAINER_HZ: u32 = 40;
/// … and less finely in sparing mode.
const SPARING_TRAINER_HZ: u32 = 20;

/// How closely to watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Demand {
    /// Stacks are taken one after another: 2 to 3% of a CPU.
    Often,
    /// A pause of two seconds in between.
    NowAndThen,
    /// A pause of four seconds in between: a run of py-spy costs 25 to 60 ms of CPU time, so one in five seconds is
    /// about 1% of a CPU.
    Seldom,
    /// A pause of nine seconds in between, and fewer rounds of the sampler: a GPU that is always busy leaves little to
    /// explain, but its verdict is new.
    Sparsely,
    /// A pause of 29 seconds in between, which still makes four windows of stacks in two minutes; and fewer rounds of
    /// the sampler.
    Rarely,
    /// A pause of 59 seconds in between, and the fewest rounds of the sampler: there is nothing to explain.
    HardlyEver,
}

impl Demand {
    const ALL: [Self; 6] =
        [Self::Often, Self::NowAndThen, Self::Seldom, Self::Sparsely, Self::Rarely, Self::HardlyEver];

    /// Pause between two windows of stacks.
    pub(super) fn stacks_rest(self) -> Duration {
        Duration::from_secs(match self {
            Self::Often => 0,
            Self::NowAndThen => 2,
            Self::Seldom => 4,
            Self::Sparsely => 9,
            Self::Rarely => 29,
            Self::HardlyEver => 59,
        })
    }

    /// Sparing mode: what is looked up now and then is looked up less often.
    pub(super) fn is_sparing(self) -> bool {
        matches!(self, Self::Sparsely | Self::Rarely | Self::HardlyEver)
    }

    /// py-spy's samples per second of a training process: each costs 1 ms of CPU time with ten threads, a start 15 ms.
    pub(super) fn rank_hz(self) -> u32 {
        if self.is_sparing() { SPARING_TRAINER_HZ } else { TRAINER_HZ }
    }

    /// Mean time between two rounds of the sampler.
    pub(super) fn round(self) -> Duration {
        match self {
            Self::Often | Self::NowAndThen | Self::Seldom => ROUND,
            Self::Sparsely | Self::Rarely => SLOW_ROUND,
            Self::HardlyEver => SLOWEST_ROUND,
        }
    }
}

/// The demand, as the source threads read it.
#[derive(Debug)]
pub(super) struct Effort {
    demand: AtomicU8,
    /// Stacks of a training process are wanted at once.
    at_once: AtomicBool,
}

impl Default for Effort {
    fn default() -> Self {
        Self { demand: AtomicU8::new(Demand::Often as u8), at_once: AtomicBool::new(false) }
    }
}

impl Effort {
    /// The current demand.
    pub(super) fn get(&self) -> Demand {
        let now = self.demand.load(Ordering::Relaxed);
        Demand::ALL.into_iter().find(|demand| *demand as u8 == now).unwrap_or(Demand::Often)
    }

    /// Sets the demand; returns whether it changed.
    pub(super) fn set(&self, demand: Demand) -> bool {
        self.demand.swap(demand as u8, Ordering::Relaxed) != demand as u8
    }

    /// Asks for stacks of a training process at once: something has changed.
    pub(super) fn ask_at_once(&self) {
        self.at_once.store(true, Ordering::Relaxed);
    }

    /// Whether they were asked for.
    pub(super) fn is_asked_at_once(&self) -> bool {
        self.at_once.load(Ordering::Relaxed)
    }

    /// Clears the request because they are about to be taken; returns whether there was one.
    pub(super) fn answer(&self) -> bool {
        self.at_once.swap(false, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_demand_holds() {
        let effort = Effort::default();
        assert_eq!(effort.get(), Demand::Often);
        for demand in Demand::ALL {
            effort.set(demand);
            assert!(effort.get() == demand && !effort.set(demand));
        }
        assert!(effort.set(Demand::Often));
    }

    #[test]
    fn what_is_wanted_at_once_is_answered_once() {
        let effort = Effort::default();
        assert!(!effort.is_asked_at_once());
        effort.ask_at_once();
        assert!(effort.is_asked_at_once() && effort.answer() && !effort.answer());
    }

    #[test]
    fn less_is_done_for_less_demand() {
        assert!(Demand::ALL.is_sorted_by_key(|demand| (demand.stacks_rest(), demand.round())));
        assert!(Demand::ALL.iter().rev().is_sorted_by_key(|demand| demand.rank_hz()));
    }
}
