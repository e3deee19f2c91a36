//! Several trainers under one PID: which rank do the others wait for?
//!
//! Ranks of a distributed run meet at every collective, so all of them step at the pace of the slowest. The slow one is the
//! one that does not wait there: its own bottleneck is the run's.

use std::collections::BTreeMap;

use crate::rates::Frame;
use crate::rates::stacks::Activity;
use crate::rates::time_split::TimeSplit;
use crate::sample::ProcessId;

use super::stacks::{ProcessSum, StacksWindow};
use super::thresholds as limit;
use super::verdict::Rank;

/// Samples of a rank's main thread from which its share of collectives is believed.
const ENOUGH: u64 = 15;

/// The ranks with their time, in the order of their PIDs; empty for a single trainer.
#[must_use]
pub fn ranks(frames: &[&Frame], stacks: &StacksWindow) -> Vec<(ProcessId, Rank)> {
    let mut sums: BTreeMap<ProcessId, (TimeSplit, f64)> = BTreeMap::new();
    for trainer in frames.iter().flat_map(|frame| &frame.trainers) {
        let (sum, seen) = sums.entry(trainer.id).or_default();
        *sum += trainer.split_s;
        *seen += trainer.seconds_seen;
    }
    sums.retain(|_, (_, seen)| *seen > 0.0);
    if sums.len() < 2 {
        return Vec::new();
    }
    let mut ranks: Vec<(ProcessId, Rank)> = sums
        .into_iter()
        .map(|(id, (sum, seen))| {
            let shares = sum.map(|seconds| seconds / seen);
            let collectives = stacks.trainers.get(&id).and_then(collectives);
            (id, Rank { pid: id.pid, shares, collectives, straggler: false })
        })
        .collect();
    mark_straggler(&mut ranks);
    ranks
}

/// The rank that the others wait for, where one stands out.
#[must_use]
pub fn straggler(ranks: &[(ProcessId, Rank)]) -> Option<ProcessId> {
    ranks.iter().find(|(_, rank)| rank.straggler).map(|(id, _)| *id)
}

fn collectives(sum: &ProcessSum) -> Option<f64> {
    let total = sum.main.total();
    (total >= ENOUGH).then(|| f64::from(sum.main.get(Activity::Collective)) / total as f64)
}

/// Time in which the rank may be waiting for others: in collectives by its stacks, or blocked in what is neither data nor
/// work. Reductions in the hooks of a backward pass have no frame of their own, so the larger of the two counts.
fn waits_for_others(rank: &Rank, by_stacks: bool) -> f64 {
    let blocked = rank.shares.other + rank.shares.device_sync;
    rank.collectives.filter(|_| by_stacks).map_or(blocked, |share| share.max(blocked))
}

fn mark_straggler(ranks: &mut [(ProcessId, Rank)]) {
    // TimeSplit of one kind are compared: those of the stacks only where every rank has them.
    let by_stacks = ranks.iter().all(|(_, rank)| rank.collectives.is_some());
    let waits: Vec<f64> = ranks.iter().map(|(_, rank)| waits_for_others(rank, by_stacks)).collect();
    let most = waits.iter().copied().fold(0.0, f64::max);
    let Some((at, least)) = waits.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    if most - least >= limit::STRAGGLER.value
        && let Some((_, rank)) = ranks.get_mut(at)
    {
        rank.straggler = true;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::rates::frame::TrainerRates;

    fn frame(others: &[f64]) -> Frame {
        let trainers = others.iter().zip(10..).map(|(other, pid)| TrainerRates {
            id: ProcessId { pid, start_ticks: 1 },
            seconds_seen: 1.0,
            split_s: TimeSplit { other: *other, host_busy: 1.0 - other, ..TimeSplit::default() },
            ..TrainerRates::default()
        });
        Frame { trainers: trainers.collect(), ..Frame::default() }
    }

    #[test]
    fn the_one_that_does_not_wait() {
        let frame = frame(&[0.7, 0.05, 0.6]);
        let ranks = ranks(&[&frame], &StacksWindow::default());
        assert_eq!(straggler(&ranks).unwrap().pid, 11);
        assert_eq!(ranks.iter().filter(|(_, rank)| rank.straggler).count(), 1);
    }

    #[test]
    fn even_ranks_and_a_single_one_have_none() {
        assert_eq!(straggler(&ranks(&[&frame(&[0.4, 0.45])], &StacksWindow::default())), None);
        assert!(ranks(&[&frame(&[0.4])], &StacksWindow::default()).is_empty());
    }
}
