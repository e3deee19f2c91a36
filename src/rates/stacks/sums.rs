//! Stacks of several windows of the sampler, added up: by process, or all of a kind as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Activities, Activity, CodePlace, ProcessStacks};
use crate::rates::delta::copied;
use crate::sample::{ProcessId, ProcessRole};

/// Stacks of one process, or of several as one.
#[derive(Debug, Clone, Default)]
pub struct StackSum {
    /// Main thread's samples by activity.
    pub main: Activities,
    /// Of them, in a validation loop.
    pub validation: u32,
    /// Of these, those that nothing but `torch.no_grad()` says it of.
    pub under_no_grad: u32,
    /// Of these, those that nothing but a name says it of.
    pub by_name: u32,
    /// Samples that get a batch, outside of a validation loop.
    pub fed: u32,
    /// Of those in a validation loop, in the model.
    pub validated: u32,
    /// Of them, in torch's `fetch`.
    pub in_fetch: u32,
    /// Samples of the sending threads, and those in which they sent.
    pub feeder: (u32, u32),
    /// Samples of a trainer's other threads at work, and those in which they made batches.
    pub aside: (u32, u32),
    /// By file, line, function (a comprehension stands on its function's line), and activity.
    places: BTreeMap<(Arc<str>, u32, Arc<str>, Activity), CodePlace>,
}

impl StackSum {
    fn add(&mut self, more: &Self) {
        self.main.merge(&more.main);
        let counts = [
            (&mut self.validation, more.validation),
            (&mut self.under_no_grad, more.under_no_grad),
            (&mut self.by_name, more.by_name),
            (&mut self.fed, more.fed),
            (&mut self.validated, more.validated),
            (&mut self.in_fetch, more.in_fetch),
            (&mut self.feeder.0, more.feeder.0),
            (&mut self.feeder.1, more.feeder.1),
            (&mut self.aside.0, more.aside.0),
            (&mut self.aside.1, more.aside.1),
        ];
        counts.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
        more.places().for_each(|place| self.add_place(place));
    }

    fn add_place(&mut self, place: &CodePlace) {
        let key = (Arc::clone(&place.file), place.line, Arc::clone(&place.function), place.activity);
        let nothing = || CodePlace { samples: 0, leaf: 0, blocked: 0, ..place.clone() };
        let known = self.places.entry(key).or_insert_with(nothing);
        known.samples = known.samples.saturating_add(place.samples);
        known.leaf = known.leaf.saturating_add(place.leaf);
        known.blocked = known.blocked.saturating_add(place.blocked);
    }

    fn of_all<'a>(sums: impl Iterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        sums.for_each(|sum| all.add(sum));
        all
    }

    /// Lines of code, in the order of files and lines.
    pub fn places(&self) -> impl Iterator<Item = &CodePlace> {
        self.places.values()
    }
}

impl From<&ProcessStacks> for StackSum {
    fn from(stacks: &ProcessStacks) -> Self {
        let mut sum = copied!(stacks => StackSum:
            main validation under_no_grad by_name fed validated in_fetch feeder aside);
        stacks.places.iter().for_each(|place| sum.add_place(place));
        sum
    }
}

/// The sums of a stretch of time, by process.
#[derive(Debug, Clone, Default)]
pub struct StackSums {
    /// Trainers.
    pub trainers: BTreeMap<ProcessId, StackSum>,
    /// Workers.
    pub workers: BTreeMap<ProcessId, StackSum>,
}

impl StackSums {
    /// All of them added up.
    pub fn of<'a>(stacks: impl IntoIterator<Item = &'a ProcessStacks>) -> Self {
        let mut sums = Self::default();
        stacks.into_iter().for_each(|stacks| sums.add(stacks, true));
        sums
    }

    /// Those of moments that end after `from_ns`, and the newest ones of each process that has none there. Each moment is its
    /// end and its stacks, the newest first.
    pub fn newest<'a>(moments: impl IntoIterator<Item = (u64, &'a [ProcessStacks])>, from_ns: u64) -> Self {
        let mut sums = Self::default();
        for (end_ns, stacks) in moments {
            stacks.iter().for_each(|stacks| sums.add(stacks, end_ns >= from_ns));
        }
        sums
    }

    /// Adds a process' stacks; to those that it has already only where `more` says so.
    fn add(&mut self, stacks: &ProcessStacks, more: bool) {
        let sums = if stacks.role == ProcessRole::Worker { &mut self.workers } else { &mut self.trainers };
        if more || !sums.contains_key(&stacks.id) {
            sums.entry(stacks.id).or_default().add(&StackSum::from(stacks));
        }
    }

    /// The trainers' stacks as one; those of one rank where `only` names it.
    #[must_use]
    pub fn all_trainers(&self, only: Option<ProcessId>) -> StackSum {
        let asked = self.trainers.iter().filter(|(id, _)| only.is_none_or(|only| **id == only));
        StackSum::of_all(asked.map(|(_, sum)| sum))
    }

    /// All workers' stacks as one.
    #[must_use]
    pub fn all_workers(&self) -> StackSum {
        StackSum::of_all(self.workers.values())
    }
}
