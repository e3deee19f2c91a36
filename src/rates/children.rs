//! What processes spent in children that live for a moment: a command that is started for each sample or step is gone before
//! the processes are listed again.
//!
//! A process's children count for it once it has waited for their end (proc(5), `cutime` and `cstime` of `/proc/PID/stat`).
//! Those that were seen at the earlier reading and have ended since are left out: they are known themselves.

use std::collections::{HashMap, HashSet};

use super::delta::{delta, span};
use super::wait::Wait;
use crate::sample::{JobSample, ProcessSample};

/// Waits that may be for a child: for its end, or for what it writes.
pub(super) const WAITS: [Wait; 3] = [Wait::Pipe, Wait::Child, Wait::Poll];

/// Children that compute for this part of a wait and more are what all of it is for: the rest is their start, and their
/// queueing for a CPU. Decoders that are started for each sample computed for 0.98 of their waits; the number leaves room for a
/// busy machine.
const EXPLAINS: f64 = 0.7;
/// Less than this is not worth a word, cores: a process that now and then asks for the name of its host.
const HARDLY: f64 = 0.02;

/// CPU use of the short-lived children of each process that has any, in cores.
pub(super) fn short_lived(before: Option<&JobSample>, now: &JobSample) -> HashMap<u32, f64> {
    let Some(before) = before else { return HashMap::new() };
    let Some(seconds) = span(Some(before.monotonic_ns), now.monotonic_ns) else { return HashMap::new() };
    if now.ticks_per_second == 0 || now.processes.iter().all(|process| process.children_ticks.is_none()) {
        return HashMap::new();
    }
    let alive: HashSet<_> = now.processes.iter().map(|process| process.id).collect();
    let mut known: HashMap<u32, u64> = HashMap::new();
    for ended in before.processes.iter().filter(|process| !alive.contains(&process.id)) {
        let sum = known.entry(ended.parent).or_default();
        *sum = [ended.user_ticks, ended.system_ticks, ended.children_ticks.unwrap_or(0)]
            .into_iter()
            .fold(*sum, u64::saturating_add);
    }
    let earlier: HashMap<_, &ProcessSample> = before.processes.iter().map(|process| (process.id, process)).collect();
    let of = |process: &ProcessSample| {
        let ticks = delta(process.children_ticks, earlier.get(&process.id)?.children_ticks)?;
        let ticks = ticks.saturating_sub(known.get(&process.id.pid).copied().unwrap_or(0));
        let cores = ticks as f64 / f64::from(now.ticks_per_second) / seconds;
        (cores >= HARDLY).then_some((process.id.pid, cores))
    };
    now.processes.iter().filter_map(of).collect()
}

/// The part of a thread's waits that is for its process's children, 0–1: their CPU use in cores over the share of the time
/// that the thread waits.
pub(super) fn explained(cores: f64, waits: f64) -> f64 {
    if waits <= 0.0 {
        return 0.0;
    }
    let part = cores / waits;
    if part >= EXPLAINS { 1.0 } else { part.max(0.0) }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "tests")]
mod tests {
    use super::*;
    use crate::rates::testing::*;

    #[test]
    fn children_that_were_never_seen_count_for_their_parent() {
        let with = |pid, ticks| ProcessSample { children_ticks: Some(ticks), ..process(pid) };
        let child = ProcessSample { parent: 10, user_ticks: 500, ..with(12, 20) };
        let before = job(0, vec![with(10, 100), with(11, 7), child.clone()]);
        // 560 ticks in a second, of which the child that was seen had spent 520 before.
        let now = job(1000, vec![with(10, 660), with(11, 7)]);
        assert_eq!(short_lived(Some(&before), &now), HashMap::from([(10, 0.4)]));
        let now = job(1000, vec![with(10, 140), with(11, 7), child]);
        assert_eq!(short_lived(Some(&before), &now), HashMap::from([(10, 0.4)]));
        // Older recordings have no such counters, and another process no earlier ones.
        let bare = job(1000, vec![process(10)]);
        let mut other = job(1000, vec![with(10, 900)]);
        other.processes[0].id.start_ticks += 1;
        for none in [short_lived(None, &now), short_lived(Some(&before), &bare), short_lived(Some(&before), &other)] {
            assert_eq!(none, HashMap::new());
        }
    }

    #[test]
    fn waits_are_explained_in_part_or_as_a_whole() {
        for (cores, waits, part) in [(0.5, 0.6, 1.0), (2.0, 1.0, 1.0), (0.3, 0.6, 0.5), (0.3, 0.0, 0.0)] {
            assert!(close(Some(explained(cores, waits)), part), "{cores} {waits}");
        }
    }
}
