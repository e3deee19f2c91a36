//! Stacks of several windows of the sampler, added up: by process, or all of a kind as one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Activities, Activity, Place, ProcessStacks};
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
    places: BTreeMap<(Arc<str>, u32, Arc<str>, Activity), Place>,
}

impl StackSum {
    fn add<'a>(
        &mut self,
        main: &Activities,
        [validation, under_no_grad, by_name, fed, validated, in_fetch]: [u32; 6],
        [feeder, aside]: [(u32, u32); 2],
        places: impl IntoIterator<Item = &'a Place>,
    ) {
        self.main.merge(main);
        self.validation = self.validation.saturating_add(validation);
        self.under_no_grad = self.under_no_grad.saturating_add(under_no_grad);
        self.by_name = self.by_name.saturating_add(by_name);
        self.fed = self.fed.saturating_add(fed);
        self.validated = self.validated.saturating_add(validated);
        self.in_fetch = self.in_fetch.saturating_add(in_fetch);
        for (sum, more) in [(&mut self.feeder, feeder), (&mut self.aside, aside)] {
            *sum = (sum.0.saturating_add(more.0), sum.1.saturating_add(more.1));
        }
        for place in places {
            let known = self
                .places
                .entry((Arc::clone(&place.file), place.line, Arc::clone(&place.function), place.activity))
                .or_insert_with(|| Place { samples: 0, leaf: 0, blocked: 0, ..place.clone() });
            known.samples = known.samples.saturating_add(place.samples);
            known.leaf = known.leaf.saturating_add(place.leaf);
            known.blocked = known.blocked.saturating_add(place.blocked);
        }
    }

    fn add_one(&mut self, stacks: &ProcessStacks) {
        let ProcessStacks { validation, under_no_grad, by_name, fed, validated, in_fetch, .. } = *stacks;
        let counts = [validation, under_no_grad, by_name, fed, validated, in_fetch];
        self.add(&stacks.main, counts, [stacks.feeder, stacks.aside], &stacks.places);
    }

    fn of_all<'a>(sums: impl Iterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        sums.for_each(|sum| {
            let counts = [sum.validation, sum.under_no_grad, sum.by_name, sum.fed, sum.validated, sum.in_fetch];
            all.add(&sum.main, counts, [sum.feeder, sum.aside], sum.places.values())
        });
        all
    }

    /// Lines of code, in the order of files and lines.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        self.places.values()
    }
}

impl From<&ProcessStacks> for StackSum {
    fn from(stacks: &ProcessStacks) -> Self {
        let mut sum = Self::default();
        sum.add_one(stacks);
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
            sums.entry(stacks.id).or_default().add_one(stacks);
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
