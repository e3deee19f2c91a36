//! The account of the loop's lost time: what it could go without, in groups in which no second counts twice. The largest group is
//! what a verdict is about, the others that are worth telling stand beside it.
//!
//! Its entries are the ways of the chain, which add up to the loop's time and agree with its split; a group says what would have to
//! change for its ways to vanish.

use super::features::{Chain, Features, Part};
use super::thresholds::*;

thresholds! {
    FOLLOWED = 30.0, "samples", "two seconds of them: a share of 0.3 is known to within 9 points";
}

/// What the loop loses time to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// Batches: waiting for them, and making them itself.
    Batches,
    /// Its own work.
    Own,
    /// A wait that was followed to somebody who is no loader and no device.
    Wait(Part),
}

/// The groups with what is lost to each, 0–1, the largest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Account(Vec<(Group, f64)>);

impl Account {
    /// Of a window. Waits that lead to nobody known may be of any kind, so a smaller one is not told beside them.
    pub fn of(window: &Features) -> Self {
        let (mut batches, mut own) = (window.lost_wait(), window.lost_work());
        let mut groups = Vec::new();
        if let Some(chain) = window.followed_chain() {
            let unknown = chain.lost(Part::Unknown);
            let waits = window.waits_elsewhere().map(|part| (part, chain.lost(part)));
            // A loop that streams its data itself waits for batches.
            let loads =
                |lost: f64| window.loop_stacks().is_some_and(|stacks| stacks.loading() > LARGER_HALF.value * lost);
            let waits = waits.filter(|(part, lost)| *lost >= unknown && !(*part == Part::Remote && loads(*lost)));
            groups.extend(waits.map(|(part, lost)| (Group::Wait(part), lost)));
            // Whoever is waited for is the answer where that is for a batch.
            let all: f64 = chain.ways.iter().map(|way| way.lost).sum();
            let told: f64 = groups.iter().map(|(_, lost)| lost).sum();
            batches = batches.min(all - chain.lost(Part::Own) - told);
            // Two threads that take turns at the interpreter lock leave each half of it: the wait is the smaller part even where it
            // doubles the step.
            if chain.lost(Part::InterpreterLock) >= LOST_WAIT {
                own *= LARGER_HALF.value;
            }
        }
        groups.extend([(Group::Batches, batches), (Group::Own, own)]);
        groups.sort_by(|a, b| b.1.total_cmp(&a.1));
        Self(groups)
    }

    /// What is lost to a group.
    pub fn lost(&self, group: Group) -> f64 {
        self.0.iter().find(|(known, _)| *known == group).map_or(0.0, |(_, lost)| *lost)
    }

    /// The groups that a person would do something about, the largest first.
    pub fn worth_telling(&self) -> impl Iterator<Item = (Group, f64)> {
        self.0.iter().copied().filter(|(_, lost)| *lost >= LOST_WAIT)
    }

    /// The largest group with what is lost to it, and what is lost to the second largest. Where none is worth telling, the pace is
    /// that of the loop's own work.
    pub fn largest(&self) -> (Group, f64, f64) {
        let (group, lost) = self.worth_telling().next().unwrap_or((Group::Own, 0.0));
        (group, lost, self.0.get(1).map_or(0.0, |(_, lost)| *lost))
    }
}

impl Features {
    /// Whom the loop waits for, where that was followed long enough.
    pub fn followed_chain(&self) -> Option<&Chain> {
        self.chain.as_ref().filter(|chain| f64::from(chain.samples) >= FOLLOWED)
    }
}
