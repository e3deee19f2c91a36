//! Stacks of several windows, added up: by process, or all of a kind as one.

use std::collections::BTreeMap;

use super::{CodePlace, ProcessStacks, add_library};
use crate::taxonomy::Activity;
use trainmon_sample::{ProcessId, ProcessRole};

impl ProcessStacks {
    /// Adds other stacks of the process, or those of another one. Its places must be in the order of their keys, as in
    /// a sum.
    fn add(&mut self, more: &Self) {
        self.main.merge(&more.main);
        let counts = [
            (&mut self.validation, more.validation),
            (&mut self.under_no_grad, more.under_no_grad),
            (&mut self.by_name, more.by_name),
            (&mut self.fed, more.fed),
            (&mut self.validated, more.validated),
            (&mut self.in_fetch, more.in_fetch),
            (&mut self.validates_in_step.0, more.validates_in_step.0),
            (&mut self.validates_in_step.1, more.validates_in_step.1),
            (&mut self.reads, more.reads),
            (&mut self.read_in_turn, more.read_in_turn),
            (&mut self.queue_thread.0, more.queue_thread.0),
            (&mut self.queue_thread.1, more.queue_thread.1),
            (&mut self.aside.0, more.aside.0),
            (&mut self.aside.1, more.aside.1),
            (&mut self.fits_aside, more.fits_aside),
            (&mut self.answering, more.answering),
        ];
        counts.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        self.mixed |= more.mixed;
        self.calls.add(&more.calls);
        self.calls_aside.add(&more.calls_aside);
        more.libraries.iter().for_each(|(name, samples)| add_library(&mut self.libraries, name, *samples));
        for place in &more.places {
            match self.places.binary_search_by(|known| known.key().cmp(&place.key())) {
                Ok(at) => self.places.get_mut(at).into_iter().for_each(|known| known.add(place)),
                Err(at) => self.places.insert(at, place.clone()),
            }
        }
    }

    /// All of these as one; its places are in the order of files and lines.
    pub fn sum<'a>(stacks: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::default();
        stacks.into_iter().for_each(|more| sum.add(more));
        sum
    }
}

impl CodePlace {
    /// A place is identified by its file, line, function (a comprehension is on its function's line), and activity.
    pub(super) fn key(&self) -> (&str, u32, &str, Activity) {
        (&self.file, self.line, &self.function, self.activity)
    }

    fn add(&mut self, more: &Self) {
        self.samples = self.samples.saturating_add(more.samples);
        self.leaf = self.leaf.saturating_add(more.leaf);
        self.blocked = self.blocked.saturating_add(more.blocked);
    }
}

/// The sums of a stretch of time, by process.
#[derive(Debug, Clone, Default)]
pub struct StackSums {
    /// Training processes.
    pub ranks: BTreeMap<ProcessId, ProcessStacks>,
    /// Workers.
    pub workers: BTreeMap<ProcessId, ProcessStacks>,
}

impl StackSums {
    /// All of them added up.
    pub fn from_stacks<'a>(stacks: impl IntoIterator<Item = &'a ProcessStacks>) -> Self {
        let mut sums = Self::default();
        stacks.into_iter().for_each(|stacks| sums.add(stacks, true));
        sums
    }

    /// The stacks of moments that end after `from_ns`, plus the newest ones of each process without any. A moment is
    /// its end and its stacks; the newest comes first.
    pub fn newest<'a>(moments: impl IntoIterator<Item = (u64, &'a [ProcessStacks])>, from_ns: u64) -> Self {
        let mut sums = Self::default();
        for (end_ns, stacks) in moments {
            stacks.iter().for_each(|stacks| sums.add(stacks, end_ns >= from_ns));
        }
        sums
    }

    /// Adds a process's stacks; if it already has some, only if `more`.
    fn add(&mut self, stacks: &ProcessStacks, more: bool) {
        let sums = if stacks.role == ProcessRole::Worker { &mut self.workers } else { &mut self.ranks };
        if more || !sums.contains_key(&stacks.id) {
            sums.entry(stacks.id).or_default().add(stacks);
        }
    }

    /// The training processes' stacks as one; only one rank's if `only` is set.
    pub fn all_ranks(&self, only: Option<ProcessId>) -> ProcessStacks {
        let asked = self.ranks.iter().filter(|(id, _)| only.is_none_or(|only| **id == only));
        ProcessStacks::sum(asked.map(|(_, sum)| sum))
    }

    /// All workers' stacks as one.
    pub fn all_workers(&self) -> ProcessStacks {
        ProcessStacks::sum(self.workers.values())
    }
}
