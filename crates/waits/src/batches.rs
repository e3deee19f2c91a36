//! Writes of the workers' queue-feeding threads → batches, and indices handed out by the training process → steps.
//!
//! A torch worker writes once per batch, and once more for each tensor that collate did not put into shared memory:
//! batches of images and labels took two writes. The training process's own feeding threads write exactly once for each
//! index that they hand out. The ratio of the two counts is the number of writes per batch.

use super::frame::{RankRates, TimedSteps, WorkerRates};
use trainmon_rates::levels::FADE;

/// Fewer steps than this show nothing: what is in the queues blurs them.
const LEAST_STEPS: f64 = 10.0;
/// Steps that use more loaders than this are not expected.
const MOST_LOADERS: f64 = 7.0;
/// A ratio further from a whole number than this, relative to it, does not count as whole.
const WHOLE_WITHIN: f64 = 0.15;

/// The loaders of one training process.
///
/// A loop that takes from several loaders at each step, like adversarial and semi-supervised training, uses one index
/// from each, so the training process hands out a multiple of the steps. The loader that the loop waits for gives one
/// batch per step; the others' workers give a whole multiple of that.
#[derive(Debug, Default)]
pub(super) struct Loaders {
    /// Writes of all workers, and indices handed out, over the last ticks.
    writes: (f64, f64),
    /// The workers of the loader last waited for. Sums from before it was known would count toward the others.
    waited: Vec<u32>,
    /// Batches from that loader, and from the others, over the last ticks.
    batches: (f64, f64),
    /// Indices and lengths of the unfinished step.
    rest: (u64, Vec<f32>),
    /// Indices of it with their time.
    timed_rest: Option<TimedSteps>,
}

/// How many times the second count goes into the first; `None` if not a whole number of times, or unclear.
fn times(count: f64, steps: f64) -> Option<f64> {
    let ratio = count / steps;
    let whole = ratio.round().max(1.0);
    (steps >= LEAST_STEPS && (ratio - whole).abs() <= WHOLE_WITHIN * whole).then_some(whole)
}

impl Loaders {
    /// Takes a tick of this many seconds. Converts the workers' writes per second into batches per second, and counts
    /// of indices into counts of steps.
    pub(super) fn correct(&mut self, rank: &mut RankRates, workers: &mut [WorkerRates], seconds: Option<f64>) {
        let own = workers.iter_mut().filter(|worker| worker.rank == rank.id.pid);
        let rates = own.filter_map(|worker| Some((worker.id.pid, worker.batches_per_s.as_mut()?)));
        let mut rates: Vec<(u32, &mut f64)> = rates.collect();
        self.take_writes(&mut rates, rank.steps, seconds);
        self.take_batches(&rates, rank, seconds);
        self.regroup(rank);
    }

    fn take_writes(&mut self, rates: &mut [(u32, &mut f64)], steps: Option<u64>, seconds: Option<f64>) {
        let writes_per_s: f64 = rates.iter().map(|(_, rate)| **rate).sum();
        let (writes, indices) = self.writes;
        if writes_per_s > 0.0
            && let Some((seconds, steps)) = seconds.zip(steps)
        {
            self.writes = (writes * FADE + writes_per_s * seconds, indices * FADE + steps as f64);
        }
        let each = times(self.writes.0, self.writes.1).unwrap_or(1.0);
        rates.iter_mut().for_each(|(_, rate)| **rate /= each);
    }

    fn take_batches(&mut self, rates: &[(u32, &mut f64)], rank: &RankRates, seconds: Option<f64>) {
        let sets = rank.chain.iter().flat_map(|chain| &chain.sets);
        if let Some(set) = sets.max_by(|a, b| a.seconds.total_cmp(&b.seconds))
            && self.waited != set.workers
        {
            *self = Self { waited: set.workers.clone(), writes: self.writes, ..Self::default() };
        }
        let (Some(seconds), false) = (seconds, self.waited.is_empty()) else { return };
        let (waited, others) = &mut self.batches;
        (*waited, *others) = (*waited * FADE, *others * FADE);
        for (pid, rate) in rates {
            *(if self.waited.contains(pid) { &mut *waited } else { &mut *others }) += **rate * seconds;
        }
    }

    /// Number of loaders that a step takes from; one if unknown.
    fn each_step(&self) -> u64 {
        let (waited, others) = self.batches;
        times(others, waited).filter(|more| *more <= MOST_LOADERS).map_or(1, |more| 1 + more as u64)
    }

    fn regroup(&mut self, rank: &mut RankRates) {
        let each = self.each_step();
        if each == 1 {
            (self.rest, self.timed_rest) = ((0, Vec::new()), None);
            return;
        }
        if let Some(indices) = rank.steps {
            let indices = indices.saturating_add(self.rest.0);
            rank.steps = Some(indices / each);
            self.rest.0 = indices % each;
        }
        let group = usize::try_from(each).unwrap_or(1);
        self.rest.1.append(&mut rank.step_lengths_s);
        let whole = self.rest.1.len() / group * group;
        let left = self.rest.1.split_off(whole);
        rank.step_lengths_s = self.rest.1.chunks(group).map(|parts| parts.iter().sum()).collect();
        self.rest.1 = left;
        rank.timed_steps = self.regroup_timed(&rank.timed_steps, each);
        rank.stalls.iter_mut().for_each(|stall| stall.count /= each);
    }

    /// Puts `each` indices together to a step. Those before a pause in the counting are left out.
    fn regroup_timed(&mut self, indices: &[TimedSteps], each: u64) -> Vec<TimedSteps> {
        let mut steps = Vec::new();
        for more in indices {
            let rest = self.timed_rest.take().filter(|rest| rest.to_ns == more.from_ns);
            let from_ns = rest.map_or(more.from_ns, |rest| rest.from_ns);
            let count = rest.map_or(0, |rest| rest.steps).saturating_add(more.steps);
            let whole = count / each;
            let left =
                TimedSteps { from_ns: if whole > 0 { more.to_ns } else { from_ns }, steps: count % each, ..*more };
            steps.extend((whole > 0).then_some(TimedSteps { from_ns, steps: whole, ..*more }));
            self.timed_rest = Some(left);
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::paths::{ChainRates, WaitedSet};
    use crate::testing::{close, id};

    /// Batches a second of two workers after some ticks in which they write so often a second each, at so many steps.
    fn batches(writes_per_s: [Option<f64>; 2], steps: Option<u64>) -> Vec<Option<f64>> {
        let mut rank = RankRates { id: id(10), steps, ..RankRates::default() };
        let workers =
            writes_per_s.map(|batches_per_s| WorkerRates { rank: 10, batches_per_s, ..WorkerRates::default() });
        let (mut loaders, mut seen) = (Loaders::default(), Vec::new());
        for _ in 0..5 {
            seen = workers.to_vec();
            loaders.correct(&mut rank, &mut seen, Some(1.0));
        }
        seen.iter().map(|worker| worker.batches_per_s).collect()
    }

    #[test]
    fn writes_are_held_against_steps() {
        for (writes_per_s, steps, right) in [
            ([18.0, 18.6], Some(18), [9.0, 9.3]),
            ([9.0, 9.2], Some(18), [9.0, 9.2]),
            ([27.0, 28.0], Some(18), [9.0, 28.0 / 3.0]),
            // No whole number of writes a batch, or hardly any steps, or no count of them.
            ([13.0, 14.0], Some(18), [13.0, 14.0]),
            ([2.0, 2.0], Some(1), [2.0, 2.0]),
            ([18.0, 18.6], None, [18.0, 18.6]),
        ] {
            let seen = batches(writes_per_s.map(Some), steps);
            assert!(close(seen[0], right[0]) && close(seen[1], right[1]), "{writes_per_s:?} {steps:?}: {seen:?}");
        }
        assert_eq!(batches([None, Some(36.0)], Some(18)), [None, Some(18.0)]);
    }

    #[test]
    fn times_of_several_loaders_are_put_together() {
        let timed = |(from_ns, to_ns, steps)| TimedSteps { from_ns, to_ns, steps, within_ns: 1 };
        let mut loaders = Loaders::default();
        let found = loaders.regroup_timed(&[(0, 10, 1), (10, 20, 1), (20, 30, 3), (30, 40, 1)].map(timed), 2);
        assert_eq!(found, [(0, 20, 1), (20, 30, 1), (30, 40, 1)].map(timed));
        assert_eq!(loaders.regroup_timed(&[(40, 50, 1), (50, 60, 1)].map(timed), 2), [timed((40, 60, 1))]);
        // Half a step before a new epoch is no step.
        loaders.regroup_timed(&[timed((60, 70, 1))], 2);
        assert_eq!(loaders.regroup_timed(&[(90, 95, 1), (95, 99, 1)].map(timed), 2), [timed((90, 99, 1))]);
    }

    #[test]
    fn several_loaders_are_one_step() {
        let set = WaitedSet { workers: vec![20], seconds: 0.8, ..WaitedSet::default() };
        let chain = Some(ChainRates { sets: vec![set], ..ChainRates::default() });
        // The waited loader's batches a second, the others', indices in a tick, and steps after ten ticks of that.
        for (waited, others, indices, steps) in [
            (8.0, [8.1, 0.0], 16, 8),
            (8.0, [0.0, 0.0], 8, 8),
            (8.0, [8.0, 8.3], 24, 8),
            // Before it is known which loader is waited for, nothing counts.
            (0.0, [8.0, 0.0], 8, 8),
            // Validation now and then, and a loader that is asked every third step.
            (24.0, [8.0, 0.0], 32, 32),
        ] {
            let mut rank = RankRates { id: id(10), chain: chain.clone(), ..RankRates::default() };
            let worker = |pid, batches_per_s| WorkerRates {
                id: id(pid),
                rank: 10,
                batches_per_s: Some(batches_per_s),
                ..WorkerRates::default()
            };
            let workers = [worker(20, waited), worker(21, others[0]), worker(22, others[1])];
            let mut loaders = Loaders::default();
            for _ in 0..10 {
                let lengths = vec![1.0 / indices as f32; indices];
                (rank.steps, rank.step_lengths_s) = (Some(indices as u64), lengths);
                loaders.correct(&mut rank, &mut workers.clone(), Some(1.0));
            }
            assert_eq!(rank.steps, Some(steps), "{waited} {others:?}");
            let length: f32 = rank.step_lengths_s.iter().sum();
            assert!(rank.step_lengths_s.len() as u64 == steps && (length - 1.0).abs() < 1e-3);
        }
    }
}
