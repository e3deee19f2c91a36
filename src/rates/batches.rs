//! Writes of workers' queue feeders → batches.
//!
//! A worker of torch's writes once for each batch, and once more for each tensor that collate did not put into shared memory:
//! batches of images and labels were seen to take two. The trainer's own feeders write exactly once for each index that they
//! hand out, so the two counts together tell how many writes a batch takes.

use std::collections::HashMap;

use super::frame::{TrainerRates, WorkerRates};

/// Fewer steps than this say nothing: what is in the queues blurs them.
const STEPS: f64 = 10.0;
/// What older ticks count against the newest.
const FADE: f64 = 0.9;
/// A ratio that is further from a whole number than this, as a part of it, is none.
const OFF: f64 = 0.15;

/// Writes and steps of each trainer's loader over the last ticks, by PID.
#[derive(Debug, Default)]
pub(super) struct WritesPerBatch(HashMap<u32, (f64, f64)>);

impl WritesPerBatch {
    /// Takes a tick of so many seconds, and turns its workers' writes a second into batches a second.
    pub(super) fn correct(&mut self, trainers: &[TrainerRates], workers: &mut [WorkerRates], seconds: Option<f64>) {
        self.0.retain(|pid, _| trainers.iter().any(|trainer| trainer.id.pid == *pid));
        for trainer in trainers {
            let pid = trainer.id.pid;
            let of_trainer = workers.iter_mut().filter(|worker| worker.trainer == pid);
            let mut rates: Vec<&mut f64> = of_trainer.filter_map(|worker| worker.batches_s.as_mut()).collect();
            let writes_s: f64 = rates.iter().map(|rate| **rate).sum();
            let sums = self.0.entry(pid).or_default();
            if let Some((seconds, steps)) = seconds.zip(trainer.steps).filter(|_| writes_s > 0.0) {
                *sums = (sums.0 * FADE + writes_s * seconds, sums.1 * FADE + steps as f64);
            }
            let each = per_batch(*sums);
            rates.iter_mut().for_each(|rate| **rate /= each);
        }
    }
}

/// Writes that a batch takes; one where that cannot be told.
fn per_batch((writes, steps): (f64, f64)) -> f64 {
    if steps < STEPS {
        return 1.0;
    }
    let ratio = writes / steps;
    let whole = ratio.round().max(1.0);
    if (ratio - whole).abs() <= OFF * whole { whole } else { 1.0 }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::rates::testing::{close, id};

    /// Batches a second of two workers after some ticks in which they write so often a second each, at so many steps.
    fn batches(writes_s: [Option<f64>; 2], steps: Option<u64>) -> Vec<Option<f64>> {
        let trainer = TrainerRates { id: id(10), steps, ..TrainerRates::default() };
        let workers = writes_s.map(|batches_s| WorkerRates { trainer: 10, batches_s, ..WorkerRates::default() });
        let (mut writes, mut seen) = (WritesPerBatch::default(), Vec::new());
        for _ in 0..5 {
            seen = workers.to_vec();
            writes.correct(std::slice::from_ref(&trainer), &mut seen, Some(1.0));
        }
        seen.iter().map(|worker| worker.batches_s).collect()
    }

    #[test]
    fn writes_are_held_against_steps() {
        for (writes_s, steps, right) in [
            ([18.0, 18.6], Some(18), [9.0, 9.3]),
            ([9.0, 9.2], Some(18), [9.0, 9.2]),
            ([27.0, 28.0], Some(18), [9.0, 28.0 / 3.0]),
            // No whole number of writes a batch, or hardly any steps, or no count of them.
            ([13.0, 14.0], Some(18), [13.0, 14.0]),
            ([2.0, 2.0], Some(1), [2.0, 2.0]),
            ([18.0, 18.6], None, [18.0, 18.6]),
        ] {
            let seen = batches(writes_s.map(Some), steps);
            assert!(close(seen[0], right[0]) && close(seen[1], right[1]), "{writes_s:?} {steps:?}: {seen:?}");
        }
        assert_eq!(batches([None, Some(36.0)], Some(18)), [None, Some(18.0)]);
    }
}
