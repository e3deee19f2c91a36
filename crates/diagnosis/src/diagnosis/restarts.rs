//! Whether the set of workers is restarted again and again.

use std::collections::BTreeMap;

use trainmon_sample::ProcessId;
use trainmon_waits::Frame;

use super::causes::worker_restart::{ONE_SET, RESTART};

/// Ticks a second of a process's start (USER_HZ): what the kernel shows to programs, on x86-64 and aarch64 alike.
const USER_HZ: f64 = 100.0;

/// Follows the sets of workers: those started within a second or two of each other are one set.
#[derive(Debug, Clone, Default)]
pub(super) struct Restarts {
    /// When the last set was started, CLOCK_MONOTONIC nanoseconds.
    started_ns: Option<u64>,
    /// The workers of the last frame that had any, with the PID of their training process.
    workers: BTreeMap<ProcessId, u32>,
    restarts: bool,
}

impl Restarts {
    /// Takes a frame. Returns whether a set followed another one soon and is not old yet. Workers in the `first` frame are not
    /// new.
    pub fn count(&mut self, frame: &Frame, first: bool) -> bool {
        let within =
            |earlier_ns: u64, seconds: f64| frame.monotonic_ns.saturating_sub(earlier_ns) as f64 / 1e9 < seconds;
        let new = frame.workers.iter().any(|worker| worker.new) && !first;
        match self.started_ns {
            Some(before) if new && !within(before, ONE_SET.value) => {
                self.restarts = within(before, RESTART.value);
                self.started_ns = Some(frame.monotonic_ns);
            }
            None if new => self.started_ns = Some(frame.monotonic_ns),
            Some(before) if !within(before, RESTART.value) => self.restarts = false,
            _ => {}
        }
        if self.has_followed(frame) {
            self.restarts = true;
            self.started_ns.get_or_insert(frame.monotonic_ns);
        }
        self.restarts
    }

    /// Whether workers have ended whose successors started soon after them. Both may have existed in the first frame: the kernel
    /// knows when they started.
    fn has_followed(&mut self, frame: &Frame) -> bool {
        let alive: BTreeMap<ProcessId, u32> = frame.workers.iter().map(|worker| (worker.id, worker.rank)).collect();
        if alive.is_empty() {
            return false; // between two sets
        }
        let before = std::mem::replace(&mut self.workers, alive);
        // A process that still exists and is no longer a worker was mistaken for one.
        let is_there = |worker: &ProcessId| frame.processes.iter().any(|process| process.id == *worker);
        let mut ended = before.iter().filter(|(worker, _)| !self.workers.contains_key(worker) && !is_there(worker));
        ended.any(|(worker, rank)| {
            let successors = self.workers.iter().filter(|(_, of)| *of == rank);
            let later = successors.map(|(other, _)| other.start_ticks.saturating_sub(worker.start_ticks));
            later.map(|ticks| ticks as f64 / USER_HZ).any(|s| (ONE_SET.value..RESTART.value).contains(&s))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_rates::frame::ProcessRates;
    use trainmon_waits::frame::WorkerRates;

    /// A frame at this second with the workers that were started at these seconds; those of the last second are new.
    fn frame(at: u64, starts: &[u64]) -> Frame {
        let worker = |start: &u64| WorkerRates {
            id: ProcessId { pid: *start as u32 + 1, start_ticks: 100 * start },
            rank: 1,
            new: *start + 1 == at,
            ..WorkerRates::default()
        };
        Frame { monotonic_ns: at * 1_000_000_000, workers: starts.iter().map(worker).collect(), ..Frame::default() }
    }

    fn counted(frames: &[(u64, &[u64])]) -> Vec<bool> {
        let mut restarts = Restarts::default();
        let mut first = true;
        let count = |(at, starts): &(u64, &[u64])| restarts.count(&frame(*at, starts), std::mem::take(&mut first));
        frames.iter().map(count).collect()
    }

    #[test]
    fn a_set_that_follows_another_one_soon_is_a_restart_until_it_is_old() {
        let seen = counted(&[(50, &[10]), (51, &[50]), (55, &[50]), (58, &[57]), (70, &[57]), (79, &[57])]);
        assert_eq!(seen, [false, false, false, true, true, false]);
    }

    #[test]
    fn a_set_that_ends_beside_its_young_successor_is_a_restart_though_neither_is_new() {
        assert_eq!(counted(&[(50, &[42, 49]), (51, &[42, 49]), (53, &[49])]), [false, false, true]);
        // Between them there may be nobody.
        assert_eq!(counted(&[(50, &[42]), (51, &[]), (53, &[51])]), [false, false, true]);
    }

    #[test]
    fn workers_of_one_set_and_those_that_follow_late_are_none() {
        assert_eq!(counted(&[(50, &[42, 43]), (51, &[43])]), [false, false], "one of a set has ended");
        assert_eq!(counted(&[(50, &[10, 49]), (53, &[49])]), [false, false], "the next epoch is long after");
        assert_eq!(counted(&[(50, &[10, 17]), (53, &[10])]), [false, false], "the younger one has ended");
    }

    #[test]
    fn who_is_no_longer_taken_for_a_worker_has_not_ended() {
        let mut restarts = Restarts::default();
        restarts.count(&frame(50, &[42, 49]), true);
        let mut later = frame(51, &[49]);
        let id = ProcessId { pid: 43, start_ticks: 4200 };
        later.processes.push(ProcessRates { id, ..ProcessRates::default() });
        assert!(!restarts.count(&later, false));
    }
}
