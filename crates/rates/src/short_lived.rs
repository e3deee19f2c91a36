//! CPU time that processes spent in short-lived children and threads: a command started for each sample, or a thread
//! pool made for each batch, is gone before processes are listed again.
//!
//! A child's time counts for its parent once the parent has waited for its end (proc(5), `cutime` and `cstime` in
//! `/proc/PID/stat`). Children that were listed at the earlier reading and have ended since are left out: they are
//! known themselves. The time of ended threads counts in the process's own time (`utime` and `stime`,
//! kernel/sched/cputime.c, `thread_group_cputime`), and in no living thread's.

use std::collections::{HashMap, HashSet};

use super::delta::{by_key, delta, span};
use super::levels::{HALF_A_TICK, NEXT_TO_NOTHING};
use trainmon_sample::{JobSample, ProcessSample};

/// If more threads than this exist that were not listed, their time would be mistaken for that of ended threads.
const UNLISTED: u32 = 64;

/// CPU use, in CPUs, of short-lived children and threads, by the PID of their process.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShortLived {
    /// Children, by their parent.
    pub children: HashMap<u32, f64>,
    /// Threads.
    pub threads: HashMap<u32, f64>,
}

impl ShortLived {
    pub(crate) fn between(before: Option<&JobSample>, now: &JobSample) -> Self {
        let seconds = span(before.map(|before| before.monotonic_ns), now.monotonic_ns);
        let (Some(before), Some(seconds), true) = (before, seconds, now.ticks_per_second > 0) else {
            return Self::default();
        };
        Self { children: children(before, now, seconds), threads: threads(before, now, seconds) }
    }
}

fn threads(before: &JobSample, now: &JobSample, seconds: f64) -> HashMap<u32, f64> {
    let earlier = by_key(&before.processes, |process| process.id);
    let of = |process: &ProcessSample| {
        let was = earlier.get(&process.id)?;
        let ticks = delta(Some(process.user_ticks), Some(was.user_ticks))?
            .checked_add(delta(Some(process.system_ticks), Some(was.system_ticks))?)?;
        let listed = u32::try_from(process.threads.len()).ok()?;
        if process.thread_count.saturating_sub(listed) > UNLISTED {
            return None;
        }
        let threads = by_key(&was.threads, |thread| thread.tid);
        let (mut living_ns, mut running) = (0_u64, 0_u32);
        for thread in &process.threads {
            // A new thread has spent all its time since the earlier reading.
            let on_cpu = thread.on_cpu_ns?;
            let spent = match threads.get(&thread.tid) {
                Some(was) => delta(Some(on_cpu), was.on_cpu_ns)?,
                None => on_cpu,
            };
            living_ns = living_ns.saturating_add(spent);
            running += u32::from(spent > 0);
        }
        let cores = ticks as f64 / f64::from(now.ticks_per_second) / seconds - living_ns as f64 / 1e9 / seconds;
        // The process's clock ticks are rounded down twice, and each living thread's own counter lags while it runs.
        (cores >= 2.0 * NEXT_TO_NOTHING / seconds.min(1.0) + HALF_A_TICK * f64::from(running))
            .then_some((process.id.pid, cores))
    };
    now.processes.iter().filter_map(of).collect()
}

fn children(before: &JobSample, now: &JobSample, seconds: f64) -> HashMap<u32, f64> {
    let alive: HashSet<_> = now.processes.iter().map(|process| process.id).collect();
    let mut known: HashMap<u32, u64> = HashMap::new();
    for ended in before.processes.iter().filter(|process| !alive.contains(&process.id)) {
        let sum = known.entry(ended.parent).or_default();
        *sum = [ended.user_ticks, ended.system_ticks, ended.children_ticks.unwrap_or(0)]
            .into_iter()
            .fold(*sum, u64::saturating_add);
    }
    let earlier = by_key(&before.processes, |process| process.id);
    let of = |process: &ProcessSample| {
        let ticks = delta(process.children_ticks, earlier.get(&process.id)?.children_ticks)?;
        let ticks = ticks.saturating_sub(known.get(&process.id.pid).copied().unwrap_or(0));
        let cores = ticks as f64 / f64::from(now.ticks_per_second) / seconds;
        (cores >= NEXT_TO_NOTHING).then_some((process.id.pid, cores))
    };
    now.processes.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::*;
    use trainmon_sample::ThreadSample;

    #[test]
    fn children_that_were_never_seen_count_for_their_parent() {
        let with = |pid, ticks| ProcessSample { children_ticks: Some(ticks), ..process(pid) };
        let child = ProcessSample { parent: 10, user_ticks: 500, ..with(12, 20) };
        let before = job(0, vec![with(10, 100), with(11, 7), child.clone()]);
        // 560 ticks in a second, of which the child that was seen had spent 520 before.
        let now = job(1000, vec![with(10, 660), with(11, 7)]);
        assert_eq!(ShortLived::between(Some(&before), &now).children, HashMap::from([(10, 0.4)]));
        let now = job(1000, vec![with(10, 140), with(11, 7), child]);
        assert_eq!(ShortLived::between(Some(&before), &now).children, HashMap::from([(10, 0.4)]));
        // Older recordings have no such counters, and another process no earlier ones.
        let bare = job(1000, vec![process(10)]);
        let mut other = job(1000, vec![with(10, 900)]);
        other.processes[0].id.start_ticks += 1;
        for (before, now) in [(None, &now), (Some(&before), &bare), (Some(&before), &other)] {
            assert_eq!(ShortLived::between(before, now).children, HashMap::new());
        }
    }

    #[test]
    fn threads_that_have_ended_count_in_their_process_alone() {
        const MS: u64 = 1_000_000;
        let thread = |tid, ms: u64| ThreadSample { tid, on_cpu_ns: Some(ms * MS), ..ThreadSample::default() };
        let with = |ticks, threads| ProcessSample {
            user_ticks: ticks,
            system_ticks: 7,
            thread_count: 3,
            threads,
            ..process(10)
        };
        let before = job(0, vec![with(100, vec![thread(10, 500), thread(11, 40)])]);
        let of =
            |now: ProcessSample| ShortLived::between(Some(&before), &job(1000, vec![now])).threads.get(&10).copied();
        // 80 ticks in a second; the main thread spent 300 ms of them, one that has just begun 20, and 11 has ended.
        let now = with(180, vec![thread(10, 800), thread(12, 20)]);
        assert!(close(of(now.clone()), 0.48));
        assert_eq!(of(with(134, vec![thread(10, 800), thread(12, 20)])), None, "within what readings differ by");
        assert_eq!(of(ProcessSample { thread_count: 100, ..now.clone() }), None, "most threads are not listed");
        let mut unread = now;
        unread.threads[0].on_cpu_ns = None;
        assert_eq!(of(unread), None, "what the living ones spent is not known");
    }
}
