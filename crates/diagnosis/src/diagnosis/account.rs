//! The account of the loop's lost time: what it could do without, in groups. No second counts twice. The largest group is the
//! verdict, and the others worth telling are listed with it.
//!
//! Its entries are the paths of the chain, which add up to the loop's time and agree with its split. A group says what has to
//! change for its paths to vanish.

use super::features::{Chain, Features, LoopStacks};
use super::thresholds::*;
use trainmon_base::stats::round;
use trainmon_waits::taxonomy::Purpose;

thresholds! {
    OF_TWO = 0.15, "share", "a second limit that costs less is within what two windows of the same run differ by";
    FOLLOWED = 30.0, "samples", "two seconds of samples give a share of 0.3 to within 9 points";
}

/// The groups with the share lost to each, 0–1, the largest first. [`Purpose::Batch`] has all that data costs: waiting for batches,
/// and making them in the loop.
#[derive(Debug, Clone, Default)]
pub(super) struct Account(Vec<(Purpose, f64)>);

impl Account {
    /// For a window. Untraced waits may be of any kind, so a smaller group is not listed with them.
    pub fn from_window(window: &Features) -> Self {
        let (mut batches, mut own) = (window.lost_wait(), window.lost_work());
        let mut groups = Vec::new();
        if let Some(chain) = window.followed_chain() {
            let unknown = chain.lost(Purpose::Unknown);
            let waits = window.waits_elsewhere().map(|purpose| (purpose, chain.lost(purpose)));
            // A loop that streams its own data waits for data.
            let loads = |lost: f64| {
                let seen = |stacks: &&LoopStacks| stacks.loading() > LARGER_HALF.value * lost;
                window.loop_stacks().filter(seen).is_some_and(|stacks| !stacks.waits_beside_loading(lost))
            };
            groups.extend(
                waits.filter(|(purpose, lost)| *lost >= unknown && !(*purpose == Purpose::Remote && loads(*lost))),
            );
            // What the loop waits for is the answer, also if the wait is for data.
            let all: f64 = chain.ways.iter().map(|way| way.lost).sum();
            let told: f64 = groups.iter().map(|(_, lost)| lost).sum();
            batches = batches.min(all - chain.lost(Purpose::Own) - told);
            // Two threads that share the interpreter lock have half of it each: the wait is the smaller part even if it doubles the
            // step.
            if chain.lost(Purpose::InterpreterLock) >= LOST_WAIT {
                own *= LARGER_HALF.value;
            }
        }
        groups.extend([(Purpose::Batch, batches), (Purpose::Own, own)]);
        // Equal groups keep their order: no window knows a share more exactly.
        groups.sort_by(|a, b| round(b.1, 3).total_cmp(&round(a.1, 3)));
        Self(groups)
    }

    /// The share lost to a group.
    pub fn lost(&self, group: Purpose) -> f64 {
        self.0.iter().find(|(known, _)| *known == group).map_or(0.0, |(_, lost)| *lost)
    }

    /// The groups worth fixing, the largest first.
    pub fn worth_telling(&self) -> impl Iterator<Item = (Purpose, f64)> {
        self.0.iter().copied().filter(|(_, lost)| *lost >= LOST_WAIT)
    }

    /// The largest group, the share lost to it, and the share lost to the second largest. If none is worth telling, the loop's own
    /// work sets the pace.
    pub fn largest(&self) -> (Purpose, f64, f64) {
        let (group, lost) = self.worth_telling().next().unwrap_or((Purpose::Own, 0.0));
        (group, lost, self.0.get(1).map_or(0.0, |(_, lost)| *lost))
    }
}

impl Features {
    /// The chain, if it was traced for long enough.
    pub fn followed_chain(&self) -> Option<&Chain> {
        self.chain.as_ref().filter(|chain| f64::from(chain.samples) >= FOLLOWED)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::diagnosis::features::{ChainPath, LoopThread};
    use trainmon_waits::taxonomy::End;
    use trainmon_waits::time_split::TimeSplit;

    /// Without a gpu, so that all of a wait is lost; without stacks.
    fn window(shares: TimeSplit, waits: &[(Purpose, f64)]) -> Features {
        let mut main = LoopThread::default();
        main.shares = shares;
        let way = |&(part, share): &(Purpose, f64)| ChainPath {
            hops: Vec::new(),
            end: End::Unknown,
            name: None,
            lock: None,
            share,
            lost: share,
            part,
        };
        let chain = Chain { samples: 100, exact: true, ways: waits.iter().map(way).collect(), ..Chain::default() };
        Features { main: Some(main), chain: Some(chain), ..Features::default() }
    }

    #[test]
    fn a_batch_under_a_lock_is_lost_to_the_lock() {
        let shares = TimeSplit { input_wait: 0.7, host_busy: 0.3, ..TimeSplit::default() };
        let account = Account::from_window(&window(
            shares,
            &[(Purpose::FileLock, 0.6), (Purpose::Batch, 0.1), (Purpose::Own, 0.3)],
        ));
        let (group, lost, _) = account.largest();
        assert_eq!((group, lost), (Purpose::FileLock, 0.6));
        assert!((account.lost(Purpose::Batch) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_followed_long_enough_is_told_by_the_split_alone() {
        let shares = TimeSplit { input_wait: 0.4, other: 0.6, ..TimeSplit::default() };
        let mut window = window(shares, &[(Purpose::Remote, 0.6), (Purpose::Batch, 0.4)]);
        assert_eq!(Account::from_window(&window).largest().0, Purpose::Remote);
        window.chain.iter_mut().for_each(|chain| chain.samples = 29);
        assert_eq!(Account::from_window(&window).largest(), (Purpose::Batch, 0.4, 0.0));
    }

    #[test]
    fn where_hardly_anything_is_lost_the_loop_itself_sets_the_pace() {
        let shares = TimeSplit { input_wait: 0.05, host_busy: 0.95, ..TimeSplit::default() };
        let account = Account::from_window(&window(shares, &[(Purpose::Batch, 0.05), (Purpose::Own, 0.95)]));
        assert_eq!(account.largest().0, Purpose::Own);
        assert_eq!(account.worth_telling().count(), 0);
    }

    proptest! {
        #[test]
        fn no_second_counts_twice(input in 0.0..1.0_f64, lost in proptest::collection::vec(0.0..1.0_f64, 5)) {
            let parts = [Purpose::Batch, Purpose::Process, Purpose::Remote, Purpose::Output, Purpose::Own];
            let whole: f64 = lost.iter().sum::<f64>().max(1.0);
            let waits: Vec<_> = parts.into_iter().zip(lost.iter().map(|lost| lost / whole)).collect();
            let all: f64 = waits.iter().map(|(_, lost)| lost).sum();
            let account = Account::from_window(&window(TimeSplit { input_wait: input, ..TimeSplit::default() }, &waits));
            let told: f64 = account.0.iter().map(|(_, lost)| lost).sum();
            prop_assert!(told <= all + 1e-9, "{told} of {all}: {account:?}");
            prop_assert!(account.0.is_sorted_by(|a, b| a.1 >= b.1 - 1e-3));
        }
    }
}
