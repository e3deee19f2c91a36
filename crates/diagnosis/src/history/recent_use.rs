//! How busy each of the job's processes was in the last minutes: what the sparklines of its row draw.

use std::collections::{BTreeMap, VecDeque};

use trainmon_waits::Frame;

/// Seconds of a mean: a line that moves on with every sample costs bytes, and cannot be read.
const MEAN_NS: u64 = 5_000_000_000;
/// Most means kept of a process: ten minutes.
const MEANS_KEPT: usize = 120;
/// Most processes that are remembered.
const REMEMBERED: usize = 256;

/// The mean of a few seconds.
#[derive(Debug, Clone, Copy, Default)]
struct MeanPercent {
    /// Which of them, from the beginning of CLOCK_MONOTONIC.
    at: u64,
    sum: f32,
    samples: u16,
}

/// Means of one process, oldest first.
type Percents = VecDeque<MeanPercent>;

/// A percentage of each process over the last minutes.
#[derive(Debug, Clone, Default)]
struct ProcessPast {
    of: BTreeMap<u32, Percents>,
}

/// The recent past of each process of the job.
#[derive(Debug, Clone, Default)]
pub struct RecentUse {
    cpu: ProcessPast,
    lost: ProcessPast,
}

/// What is remembered of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recent {
    /// Its use of CPUs, percent of one, at most 100.
    Cpu,
    /// Of a rank: the part of its loop's time that is neither its own work nor a wait for the GPU, percent.
    Lost,
}

impl ProcessPast {
    fn add(&mut self, pid: u32, now_ns: u64, percent: Option<f64>) {
        let Some(percent) = percent.filter(|percent| percent.is_finite()) else { return };
        if self.of.len() >= REMEMBERED && !self.of.contains_key(&pid) {
            return;
        }
        let percents = self.of.entry(pid).or_default();
        let at = now_ns / MEAN_NS;
        if percents.back().is_some_and(|last| last.at > at) {
            percents.clear();
        }
        if percents.back().is_none_or(|last| last.at < at) {
            percents.push_back(MeanPercent { at, ..MeanPercent::default() });
        }
        if let Some(last) = percents.back_mut() {
            last.sum += percent.clamp(0.0, 100.0) as f32;
            last.samples = last.samples.saturating_add(1);
        }
        if percents.len() > MEANS_KEPT {
            percents.pop_front();
        }
    }

    fn forget(&mut self, now_ns: u64) {
        let is_old = |all: &Percents| {
            all.back().is_none_or(|last| now_ns.saturating_sub(last.at.saturating_mul(MEAN_NS)) > FORGOTTEN_NS)
        };
        self.of.retain(|_, percents| !is_old(percents));
    }
}

impl RecentUse {
    /// Takes in a frame; processes that it does not have are forgotten once their samples are too old to be drawn.
    pub fn take(&mut self, frame: &Frame) {
        let now_ns = frame.monotonic_ns;
        for process in frame.processes.iter().take(REMEMBERED) {
            self.cpu.add(process.id.pid, now_ns, process.cpu_pct);
        }
        for rank in frame.ranks.iter().take(REMEMBERED) {
            let shares = rank.split_s.shares_of(rank.seconds_seen);
            let lost = shares.map(|shares| (1.0 - shares.device_sync - shares.host_busy) * 100.0);
            self.lost.add(rank.id.pid, now_ns, lost);
        }
        self.cpu.forget(now_ns);
        self.lost.forget(now_ns);
    }

    /// The last `count` means of a process up to a moment, percent, oldest first. One that is not complete yet is left out, unless it
    /// is the first.
    pub fn last(&self, what: Recent, pid: u32, until_ns: u64, count: usize) -> Vec<u64> {
        let series = match what {
            Recent::Cpu => &self.cpu,
            Recent::Lost => &self.lost,
        };
        let Some(percents) = series.of.get(&pid) else { return Vec::new() };
        let (now, first) = (until_ns / MEAN_NS, percents.front().map(|first| first.at));
        let is_known = |mean: &&MeanPercent| mean.at < now || mean.at == now && first == Some(now);
        let known = percents.iter().rev().filter(is_known).take(count);
        let mut last: Vec<u64> =
            known.map(|mean| (mean.sum / f32::from(mean.samples.max(1))).round() as u64).collect();
        last.reverse();
        last
    }
}

/// A process without a sample for this long is forgotten.
const FORGOTTEN_NS: u64 = 120_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_rates::frame::ProcessRates;
    use trainmon_sample::ProcessId;

    fn frame(second: u64, pids: &[u32]) -> Frame {
        let process = |pid: &u32| ProcessRates {
            id: ProcessId { pid: *pid, start_ticks: 1 },
            cpu_pct: Some(second as f64),
            ..ProcessRates::default()
        };
        Frame {
            monotonic_ns: second * 1_000_000_000,
            processes: pids.iter().map(process).collect(),
            ..Frame::default()
        }
    }

    #[test]
    fn the_last_samples_up_to_a_moment_are_kept() {
        let mut recent = RecentUse::default();
        recent.take(&frame(1, &[7]));
        assert_eq!(recent.last(Recent::Cpu, 7, 1_000_000_000, 3), [1], "the first is there at once");
        (2..=12).for_each(|second| recent.take(&frame(second, &[7])));
        assert_eq!(recent.last(Recent::Cpu, 7, 12_000_000_000, 3), [3, 7], "1 to 4, 5 to 9");
        (13..=900).for_each(|second| recent.take(&frame(second, &[7])));
        assert_eq!(recent.last(Recent::Cpu, 7, 900_000_000_000, 3), [100, 100, 100]);
        assert_eq!(recent.cpu.of[&7].len(), MEANS_KEPT);
        assert_eq!(recent.last(Recent::Cpu, 7, 10, 3), Vec::<u64>::new());
        assert_eq!(recent.last(Recent::Cpu, 8, u64::MAX, 3), Vec::<u64>::new());
        recent.take(&frame(1100, &[8]));
        assert_eq!(recent.last(Recent::Cpu, 7, u64::MAX, 3), Vec::<u64>::new(), "ended long ago");
    }

    #[test]
    fn many_processes_and_a_clock_that_goes_back_keep_it_small() {
        let mut recent = RecentUse::default();
        let many: Vec<u32> = (0..5000).collect();
        recent.take(&frame(50, &many));
        recent.take(&frame(60, &(5000..9000).collect::<Vec<_>>()));
        assert!(recent.cpu.of.len() <= REMEMBERED);
        recent.take(&frame(3, &[1]));
        assert_eq!(recent.last(Recent::Cpu, 1, u64::MAX, 9), [3]);
    }
}
