//! Which processes work ahead of the loop, like loaders, and which on request, like services.
//!
//! A service is idle while the loop works; a loader that is too slow still works then, and is never idle. What a
//! process does while the loop does not wait for it shows nothing: a loader with a full queue is as idle as a service.
//! So each tick counts by how long the loop waited for the process in it.

use std::collections::HashMap;

use trainmon_rates::levels::{BY_CHANCE, FADE, LESS_THAN_SEEN, MOSTLY, WORKING_SHARE};

/// Most processes remembered.
const MOST_WATCHED: usize = 512;
/// This much of a sample of the loop at work shows nothing yet: until then a process of the job counts as working
/// ahead.
const LEEWAY: f64 = 0.5;

/// Counts for one process, in samples. Older ticks fade, so a count stays below ten ticks' samples.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    /// The loop worked.
    working: f64,
    /// Of these: some thread of the process ran.
    ran: f64,
    /// It was idle until asked for something.
    asked: f64,
    /// The loop waited for it; counted in the newest tick only.
    waited: f64,
}

impl Counts {
    /// The sum of these and others, the others with a weight.
    fn plus(self, other: Self, weight: f64) -> Self {
        Self {
            working: other.working.mul_add(weight, self.working),
            ran: other.ran.mul_add(weight, self.ran),
            asked: other.asked.mul_add(weight, self.asked),
            waited: 0.0,
        }
    }
}

/// What processes do while the loop works or waits.
#[derive(Debug, Default)]
pub(super) struct WorkAhead {
    known: HashMap<u32, Counts>,
    newest: HashMap<u32, Counts>,
    /// Samples of the newest tick, and how many of them had the loop at work.
    samples: f64,
    working: f64,
}

impl WorkAhead {
    /// Starts a tick.
    pub(super) fn begin(&mut self) {
        self.known.values_mut().for_each(|known| *known = Counts::default().plus(*known, FADE));
        for pid in self.newest.keys().copied().collect::<Vec<_>>() {
            let counts = self.counts(pid);
            if self.known.len() < MOST_WATCHED || self.known.contains_key(&pid) {
                self.known.insert(pid, counts);
            }
        }
        // A tick adds whole samples, and a tenth fades per tick: a smaller count is about forty ticks old.
        self.known.retain(|_, known| known.working > LESS_THAN_SEEN || known.asked > LESS_THAN_SEEN);
        self.newest.clear();
        (self.samples, self.working) = (0.0, 0.0);
    }

    /// Adds a sample of the loop: the processes it waits for, with the part of the sample (0–1); the processes that are
    /// idle until asked; and, if the loop itself works, the processes that run meanwhile.
    pub(super) fn add(
        &mut self,
        waits: impl Iterator<Item = (u32, f64)>,
        resting: impl Iterator<Item = u32>,
        running: Option<impl IntoIterator<Item = u32>>,
    ) {
        self.samples += 1.0;
        waits.for_each(|(pid, share)| self.seen(pid, |seen| seen.waited += share));
        resting.for_each(|pid| self.seen(pid, |seen| seen.asked += 1.0));
        if let Some(running) = running {
            self.working += 1.0;
            running.into_iter().for_each(|pid| self.seen(pid, |seen| seen.ran += 1.0));
        }
    }

    fn seen(&mut self, pid: u32, count: impl FnOnce(&mut Counts)) {
        if self.newest.len() < MOST_WATCHED || self.newest.contains_key(&pid) {
            count(self.newest.entry(pid).or_default());
        }
    }

    /// The counts of a process, including the newest tick.
    fn counts(&self, pid: u32) -> Counts {
        let known = self.known.get(&pid).copied().unwrap_or_default();
        let Some(seen) = self.newest.get(&pid).filter(|seen| seen.waited > 0.0) else { return known };
        known.plus(Counts { working: self.working, ..*seen }, seen.waited / self.samples)
    }

    /// Whether a process works ahead of the loop: during most of the loop's own time, and not on request. Measured
    /// share of that time idle until asked: 0.00 for loaders, 0.1 and more for environments.
    pub(super) fn is_ahead(&self, pid: u32) -> bool {
        let counts = self.counts(pid);
        let works = counts.ran >= MOSTLY * (counts.working - LEEWAY);
        works && counts.asked < (WORKING_SHARE * counts.working).max(BY_CHANCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADER: u32 = 7;

    /// A tick of ten samples, in so many of which the loop waits for the process; while it works the process rests or not.
    fn tick(ahead: &mut WorkAhead, waits: u32, rests: bool) {
        ahead.begin();
        for sample in 0..10 {
            let waits = (sample < waits).then_some((LOADER, 1.0));
            let resting = (waits.is_none() && rests).then_some(LOADER);
            let running = waits.is_none().then_some((!rests).then_some(LOADER));
            ahead.add(waits.into_iter(), resting.into_iter(), running);
        }
    }

    #[test]
    fn a_service_rests_while_the_loop_works_and_a_loader_does_not() {
        let (mut loader, mut service) = (WorkAhead::default(), WorkAhead::default());
        assert!(loader.is_ahead(LOADER));
        (0..3).for_each(|_| tick(&mut loader, 6, false));
        (0..3).for_each(|_| tick(&mut service, 6, true));
        assert!(loader.is_ahead(LOADER));
        assert!(!service.is_ahead(LOADER));
    }

    #[test]
    fn what_a_loader_did_while_nobody_waited_for_it_says_nothing() {
        let mut ahead = WorkAhead::default();
        (0..20).for_each(|_| tick(&mut ahead, 0, true));
        tick(&mut ahead, 6, false);
        assert!(ahead.is_ahead(LOADER));
    }

    #[test]
    fn no_more_than_a_bound_is_known_and_all_of_it_is_forgotten() {
        let mut ahead = WorkAhead::default();
        for pid in 0..2000 {
            ahead.add(std::iter::once((pid, 1.0)), std::iter::empty(), Some([pid]));
        }
        ahead.begin();
        assert_eq!(ahead.known.len(), MOST_WATCHED);
        (0..60).for_each(|_| ahead.begin());
        assert_eq!(ahead.known.len(), 0);
    }
}
