//! The ranks of a distributed run, a row each: which is late, where its time goes, its steps, and its hottest line of code.

use trainmon_base::text::format::{UNMEASURED, precise, whole_percent};
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::loop_parts::{LEAST_LISTED, LoopWait, WaitFor};
use trainmon_diagnosis::diagnosis::verdict::{Rank, Verdict};
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// Most ranks that are listed.
pub(crate) const LISTED: usize = 16;

/// The late rank first, then by their numbers; at most [`LISTED`]. A row has the rank, its PID, its shares of time, its steps a
/// second and its hottest line, whose names come from outside.
pub fn rows(ranks: &[Rank]) -> Vec<Vec<String>> {
    let mut numbered: Vec<(u32, &Rank)> =
        ranks.iter().enumerate().map(|(at, rank)| (rank.number(at), rank)).collect();
    numbered.sort_by_key(|(number, rank)| (!rank.straggler, *number));
    numbered.truncate(LISTED);
    numbered.into_iter().map(|(number, rank)| row(number, rank)).collect()
}

fn row(number: u32, rank: &Rank) -> Vec<String> {
    let late = if rank.straggler { ", late" } else { "" };
    let steps = rank.steps_per_s.filter(|rate| rate.is_finite());
    let mut row = vec![format!("{number}{late}"), rank.pid.to_string()];
    row.extend(rank.shares.iter().map(|(_, share)| format!("{}%", whole_percent(share))));
    row.push(steps.map_or(UNMEASURED.to_owned(), precise));
    row.push(rank.at.as_ref().map_or(String::new(), ToString::to_string));
    row
}

/// Where the time of a rank's loop goes. What the others wait for the GPU longer than the late rank does, they wait for that rank: all
/// of them compute the same, and a collective ends when the last one has come to it.
pub fn loop_parts(rank: &Rank, verdict: &Verdict) -> (TimeSplit, Vec<LoopWait>) {
    let mut shares = rank.shares;
    let late = verdict.ranks.iter().find(|rank| rank.straggler);
    let excess = late.map_or(0.0, |late| (shares.device_sync - late.shares.device_sync).max(0.0));
    let excess = if rank.straggler { 0.0 } else { excess };
    let collectives = collectives(verdict).min(shares.host_busy.max(0.0));
    let share = excess + collectives;
    if share < LEAST_LISTED {
        return (shares, Vec::new());
    }
    shares.device_sync -= excess;
    shares.host_busy -= collectives;
    shares.other += share;
    (shares, vec![LoopWait { on: WaitFor::Ranks, pid: None, share }])
}

/// The time in collectives, if the verdict blames it: about the same on every rank, and by the samples of a rank its own work.
fn collectives(verdict: &Verdict) -> f64 {
    let of_ranks = verdict.waits.iter().filter(|wait| wait.on == WaitFor::Ranks).map(|wait| wait.share).sum();
    let is_blamed = verdict.cause == Some(Cause::Communication) && verdict.gpu_idle.is_none();
    if is_blamed { of_ranks } else { 0.0 }
}

/// The mean over all ranks.
pub fn mean_parts(verdict: &Verdict) -> (TimeSplit, Vec<LoopWait>) {
    let count = verdict.ranks.len().max(1) as f64;
    let (mut sum, mut waited) = (TimeSplit::default(), 0.0);
    for rank in &verdict.ranks {
        let (shares, waits) = loop_parts(rank, verdict);
        sum += shares;
        waited += waits.iter().map(|wait| wait.share).sum::<f64>();
    }
    let wait = LoopWait { on: WaitFor::Ranks, pid: None, share: waited / count };
    let waits = if wait.share >= LEAST_LISTED { vec![wait] } else { Vec::new() };
    (sum.map(|sum| sum / count), waits)
}

/// Of the time in which the ranks wait for the GPU by their samples, and of their own work, the part in which they wait for each other,
/// 0–1.
pub fn waits_for_ranks(verdict: &Verdict) -> [f64; 2] {
    let (shares, _) = mean_parts(verdict);
    let count = verdict.ranks.len().max(1) as f64;
    let mut sampled = TimeSplit::default();
    verdict.ranks.iter().for_each(|rank| sampled += rank.shares);
    let part = |activity| {
        let sampled: f64 = sampled[activity] / count;
        if sampled > 0.0 { (1.0 - shares[activity] / sampled).clamp(0.0, 1.0) } else { 0.0 }
    };
    [LoopActivity::DeviceSync, LoopActivity::HostBusy].map(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_wait_for_the_gpu_longer_than_the_late_one_wait_for_it() {
        let rank = |device_sync, straggler| {
            let shares = TimeSplit { device_sync, host_busy: 1.0 - device_sync, ..TimeSplit::default() };
            Rank { shares, straggler, ..Rank::default() }
        };
        let verdict = Verdict { ranks: vec![rank(0.2, true), rank(0.8, false)], ..Verdict::default() };
        let (shares, waits) = loop_parts(&verdict.ranks[1], &verdict);
        assert!((shares.device_sync - 0.2).abs() < 1e-9 && (waits[0].share - 0.6).abs() < 1e-9);
        assert_eq!(loop_parts(&verdict.ranks[0], &verdict).1, []);
        let (mean, waits) = mean_parts(&verdict);
        assert!((mean.total() - 1.0).abs() < 1e-9 && (waits[0].share - 0.3).abs() < 1e-9);
        assert!((waits_for_ranks(&verdict)[0] - 0.6).abs() < 1e-9 && waits_for_ranks(&verdict)[1].abs() < 1e-9);
        assert_eq!(mean_parts(&Verdict::default()).1, []);
    }
    use trainmon_diagnosis::diagnosis::verdict::Hottest;

    #[test]
    fn the_late_one_comes_first_and_the_list_ends() {
        let at = Hottest { function: "burn".into(), file: "a.py".into(), line: 3, share: 0.7 };
        let ranks: Vec<Rank> = (0..40)
            .map(|rank| Rank {
                pid: 100 + rank,
                rank: Some(39 - rank),
                shares: TimeSplit { host_busy: 0.7, device_sync: 0.28, other: 0.02, ..TimeSplit::default() },
                steps_per_s: (rank == 4).then_some(9.87),
                straggler: rank == 4,
                at: (rank == 4).then(|| at.clone()),
                ..Rank::default()
            })
            .collect();
        let rows = rows(&ranks);
        assert_eq!(rows.len(), LISTED);
        assert_eq!(rows[0], ["35, late", "104", "0%", "28%", "70%", "0%", "2%", "9.87", "burn (a.py:3)"]);
        assert_eq!(rows[1], ["0", "139", "0%", "28%", "70%", "0%", "2%", "–", ""]);
    }
}
