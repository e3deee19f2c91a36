//! The main activity of each process of the job, in one word: the busiest stage of a worker, the largest part of a
//! rank's training loop.

use std::collections::BTreeMap;

use trainmon_diagnosis::diagnosis::verdict::{Verdict, WorkerVerdict};
use trainmon_waits::Frame;
use trainmon_waits::time_split::LoopActivity;

/// Stages of a worker, and its states.
const STAGES: [&str; 6] = ["load", "decode", "transform", "collate", "send", "idle"];
const STATES: [&str; 4] = ["busy", "io", "queueing", "idle"];

/// Its place in the sort order: idle workers come after busy ones.
pub fn place(activity: &str) -> Option<u64> {
    let parts = LoopActivity::ALL.map(|part| part.short());
    let words = STAGES.into_iter().take(STAGES.len() - 1).chain(STATES).chain(parts);
    words.zip(0..).find(|(word, _)| *word == activity).map(|(_, place)| place)
}

/// The main activity of each rank and worker, by PID. Stacks show the stages of a worker; without stacks, its states
/// are used.
pub fn all(frame: &Frame, verdict: Option<&Verdict>) -> BTreeMap<u32, &'static str> {
    let told = verdict.into_iter().flat_map(|verdict| &verdict.workers).map(|worker| (worker.pid, worker));
    let told: BTreeMap<u32, &WorkerVerdict> = told.collect();
    let workers = frame.workers.iter().filter_map(|worker| {
        let stages = told.get(&worker.id.pid).and_then(|told| Some((told.stages?, told.idle.unwrap_or(0.0))));
        let stage = stages
            .and_then(|(s, idle)| largest(STAGES, [s.load, s.decode, s.transform, s.collate, s.hand_over, idle]));
        let states = [worker.busy, worker.io_wait, worker.runnable, worker.idle].map(|share| share.unwrap_or(0.0));
        Some((worker.id.pid, stage.or_else(|| largest(STATES, states))?))
    });
    let parts = LoopActivity::ALL.map(|part| part.short());
    let ranks = frame.ranks.iter();
    let ranks = ranks.filter_map(|rank| Some((rank.id.pid, largest(parts, rank.split_s.values())?)));
    ranks.chain(workers).collect()
}

/// The word with the largest share, the first of equal ones; `None` if nothing took any time.
fn largest<const N: usize>(words: [&'static str; N], shares: [f64; N]) -> Option<&'static str> {
    let some = words.into_iter().zip(shares).filter(|(_, share)| *share > 0.0);
    some.reduce(|most, next| if next.1 > most.1 { next } else { most }).map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::verdict::Stages;
    use trainmon_sample::ProcessId;
    use trainmon_waits::frame::{RankRates, WorkerRates};
    use trainmon_waits::time_split::TimeSplit;

    fn frame() -> Frame {
        let worker = |pid, busy| WorkerRates {
            id: ProcessId { pid, start_ticks: 1 },
            busy: Some(busy),
            idle: Some(1.0 - busy),
            ..WorkerRates::default()
        };
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        let rank = RankRates {
            id: id(10),
            split_s: TimeSplit { input_wait: 0.2, host_busy: 0.8, ..TimeSplit::default() },
            ..RankRates::default()
        };
        let unseen = RankRates { id: id(9), ..RankRates::default() };
        Frame { ranks: vec![rank, unseen], workers: vec![worker(12, 0.1), worker(11, 0.9)], ..Frame::default() }
    }

    fn words(verdict: Option<&Verdict>) -> Vec<(u32, &'static str)> {
        all(&frame(), verdict).into_iter().collect()
    }

    #[test]
    fn states_speak_where_no_stack_was_seen() {
        assert_eq!(words(None), [(10, "work"), (11, "busy"), (12, "idle")]);
    }

    #[test]
    fn stages_speak_first_and_idleness_is_no_stage() {
        let stages = Some(Stages { load: 0.1, transform: 0.4, ..Stages::default() });
        let told = |pid, idle| WorkerVerdict { pid, idle: Some(idle), stages, ..WorkerVerdict::default() };
        let verdict = Verdict { workers: vec![told(12, 0.1), told(11, 0.5)], ..Verdict::default() };
        assert_eq!(words(Some(&verdict)), [(10, "work"), (11, "idle"), (12, "transform")]);
    }
}
