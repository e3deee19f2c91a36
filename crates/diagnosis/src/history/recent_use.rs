//! How busy each of the job's processes was in the last minutes: what the sparklines of its row draw.

use std::collections::{BTreeMap, VecDeque};

use trainmon_waits::Frame;

/// Most samples kept of a process: ten minutes at one a second.
const SAMPLES_KEPT: usize = 600;
/// Most processes that are remembered.
const REMEMBERED: usize = 256;

/// Percentages of one process, oldest first, with the end of each interval in CLOCK_MONOTONIC nanoseconds.
type Percents = VecDeque<(u64, u8)>;

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
        if percents.back().is_some_and(|(at, _)| *at > now_ns) {
            percents.clear();
        }
        percents.push_back((now_ns, percent.clamp(0.0, 100.0).round() as u8));
        if percents.len() > SAMPLES_KEPT {
            percents.pop_front();
        }
    }

    fn forget(&mut self, now_ns: u64) {
        let is_old = |all: &Percents| all.back().is_none_or(|(at, _)| now_ns.saturating_sub(*at) > FORGOTTEN_NS);
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

    /// The last `count` percentages of a process up to a moment, oldest first.
    pub fn last(&self, what: Recent, pid: u32, until_ns: u64, count: usize) -> Vec<u64> {
        let series = match what {
            Recent::Cpu => &self.cpu,
            Recent::Lost => &self.lost,
        };
        let Some(percents) = series.of.get(&pid) else { return Vec::new() };
        let until = percents.iter().rev().filter(|(at, _)| *at <= until_ns);
        let mut last: Vec<u64> = until.take(count).map(|(_, percent)| u64::from(*percent)).collect();
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
        (1..=900).for_each(|second| recent.take(&frame(second, &[7])));
        assert_eq!(recent.last(Recent::Cpu, 7, 900_000_000_000, 3), [100, 100, 100]);
        assert_eq!(recent.cpu.of[&7].len(), SAMPLES_KEPT);
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
