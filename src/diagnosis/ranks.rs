//! Several trainers under one PID: which rank do the others wait for?
//!
//! Ranks of a distributed run meet at every collective, so all of them step at the pace of the slowest. The slow one is the
//! one that does not wait there: its own bottleneck is the run's.

use std::collections::BTreeSet;

use crate::rates::Frame;
use crate::rates::stacks::Activity;
use crate::rates::stacks::correction::ENOUGH_SAMPLES;
use crate::rates::stacks::sums::StackSums;
use crate::sample::ProcessId;

use super::features::LoopThread;
use super::thresholds::STRAGGLER;
use super::verdict::Rank;

/// The ranks with their time, in the order of their PIDs; empty for a single trainer.
pub(super) fn ranks(frames: &[&Frame], stacks: &StackSums) -> Vec<(ProcessId, Rank)> {
    let seen = frames.iter().flat_map(|frame| &frame.trainers).filter(|trainer| trainer.seconds_seen > 0.0);
    let ids: BTreeSet<ProcessId> = seen.map(|trainer| trainer.id).collect();
    if ids.len() < 2 {
        return Vec::new();
    }
    let of_rank = |id| Some((id, LoopThread::of_rank(frames, stacks, id)?, collectives(stacks, id)));
    let ranks: Vec<(ProcessId, LoopThread, Option<f64>)> = ids.into_iter().filter_map(of_rank).collect();
    // Shares of one kind are compared: those of the stacks only where every rank has them.
    let by_stacks = ranks.iter().all(|(.., collectives)| collectives.is_some());
    let waits = |main: &LoopThread, collectives: Option<f64>| {
        // In collectives by its stacks, or blocked in what is neither data nor work. Reductions in the hooks of a backward
        // pass have no frame of their own, so the larger of the two counts.
        let blocked = main.measured.other + main.measured.device_sync;
        collectives.filter(|_| by_stacks).map_or(blocked, |share| share.max(blocked))
    };
    let waits: Vec<f64> = ranks.iter().map(|(_, main, collectives)| waits(main, *collectives)).collect();
    let most = waits.iter().copied().fold(0.0, f64::max);
    let least = waits.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    let straggler = least.filter(|(_, least)| most - **least >= STRAGGLER).map(|(at, _)| at);
    let rank = |(at, (id, main, collectives)): (usize, (ProcessId, LoopThread, Option<f64>))| {
        (id, Rank { pid: id.pid, shares: main.shares, collectives, straggler: straggler == Some(at) })
    };
    ranks.into_iter().enumerate().map(rank).collect()
}

/// The rank that the others wait for, where one stands out.
pub(super) fn straggler(ranks: &[(ProcessId, Rank)]) -> Option<ProcessId> {
    ranks.iter().find(|(_, rank)| rank.straggler).map(|(id, _)| *id)
}

/// Share of a rank's time in collectives, where enough of its stacks tell.
fn collectives(stacks: &StackSums, rank: ProcessId) -> Option<f64> {
    let main = &stacks.trainers.get(&rank)?.main;
    let total = main.total();
    (total >= ENOUGH_SAMPLES).then(|| f64::from(main.get(Activity::Collective)) / total as f64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::rates::frame::TrainerRates;
    use crate::rates::time_split::TimeSplit;

    fn frame(others: &[f64]) -> Frame {
        let trainers = others.iter().zip(10..).map(|(other, pid)| TrainerRates {
            id: ProcessId { pid, start_ticks: 1 },
            seconds_seen: 1.0,
            split_s: TimeSplit { other: *other, host_busy: 1.0 - other, ..TimeSplit::default() },
            ..TrainerRates::default()
        });
        Frame { seconds: 1.0, trainers: trainers.collect(), ..Frame::default() }
    }

    #[test]
    fn the_one_that_does_not_wait() {
        let frame = frame(&[0.7, 0.05, 0.6]);
        let ranks = ranks(&[&frame], &StackSums::default());
        assert_eq!(straggler(&ranks).unwrap().pid, 11);
        assert_eq!(ranks.iter().filter(|(_, rank)| rank.straggler).count(), 1);
    }

    #[test]
    fn even_ranks_and_a_single_one_have_none() {
        assert_eq!(straggler(&ranks(&[&frame(&[0.4, 0.45])], &StackSums::default())), None);
        assert!(ranks(&[&frame(&[0.4])], &StackSums::default()).is_empty());
    }
}
