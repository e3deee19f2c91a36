//! The sampler's observations in the form that rates use: what each sample of a training process's threads means, in
//! time order, and each worker's samples counted.

use std::collections::{BTreeMap, HashSet};

use super::time_split::LoopActivity;
use super::wait::{Wait, is_for_pinned};
use trainmon_sample::{
    Access, JobSample, ProcessId, ProcessRole, ProcessSample, SampledProcess, SampledThread, SamplerSample,
    ThreadRole,
};

/// A sample represents at most this much time; if the sampler itself was starved for longer, the rest was not sampled.
const SAMPLE_NS: u64 = 250_000_000;

/// How much time each sample of a thread represents: the time since the previous one, even across ticks.
#[derive(Debug, Default)]
pub(super) struct SampleClock {
    last_ns: Option<u64>,
}

impl SampleClock {
    /// Continues from this sample and counts nothing.
    pub(super) fn rebase(&mut self, at_ns: Option<u64>) {
        self.last_ns = at_ns;
    }

    /// Seconds that a sample represents; 0 for the first and for those out of order.
    pub(super) fn seconds(&mut self, at_ns: u64) -> f64 {
        let last_ns = *self.last_ns.get_or_insert(at_ns);
        let Some(ns) = at_ns.checked_sub(last_ns) else { return 0.0 };
        self.last_ns = Some(at_ns);
        ns.min(SAMPLE_NS) as f64 / 1e9
    }
}

/// One sample of the thread that runs the loop, with what the process's other threads did in the same round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SampledPoint {
    /// Number of the sampler's round in its tick.
    pub round: u32,
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// What the loop's thread was doing.
    pub main: Wait,
    /// What its wait was for, judged by where it leads; `None` if that adds nothing to the wait itself.
    pub by_chain: Option<LoopActivity>,
    /// Whether the wait leads straight out of the process, to a known end.
    pub leaves: bool,
    /// What the pin-memory thread was doing, if there is one.
    pub pin: Option<Wait>,
    /// Whether another thread of the process ran that neither feeds a queue nor pins memory: autograd or compute
    /// threads.
    pub helper_running: bool,
    /// `wchar` of the loop's thread. Not read at every point.
    pub written_chars: Option<u64>,
    /// Batch indices handed out since the workers started. Not read at every point.
    pub batches_requested: Option<u64>,
}

/// The samples of one training process.
#[derive(Debug, Clone, Default)]
pub(super) struct SampledRank {
    pub id: ProcessId,
    /// The thread that runs the loop.
    pub tid: u32,
    /// System calls could be read.
    pub exact: bool,
    /// Queue-feeding threads; with torch's loader, one for each worker of the current set.
    pub queue_threads: u32,
    /// In time order.
    pub points: Vec<SampledPoint>,
}

/// A worker's samples.
#[derive(Debug, Clone, Default)]
pub(super) struct SampledWorker {
    pub id: ProcessId,
    /// PID of the training process that it works for.
    pub rank: u32,
    /// A torch worker: it waits for an index in torch's data poll.
    pub torch: bool,
    /// System calls could be read.
    pub exact: bool,
    /// Samples by kind of wait.
    pub counts: BTreeMap<Wait, u32>,
    /// Of its samples as running: one of its other threads ran, while the first thread waited for it.
    pub by_own_threads: u32,
    /// Of its samples in a futex: it waited for a lock that another worker held.
    pub at_lock: u32,
    /// Batches produced since its start.
    pub batches: Option<u64>,
}

/// The meaning of each of the sampler's observations, in their order.
pub(super) fn waits(sampler: &SamplerSample) -> Vec<Wait> {
    sampler.seen.iter().map(|seen| Wait::from_observation(seen, sampler.machine)).collect()
}

/// The training processes of a tick, each once, the target first; `loop_of` says which thread of a process runs the
/// loop.
pub(super) fn ranks(
    job: &JobSample,
    waits: &[Wait],
    mut loop_of: impl FnMut(&SampledProcess) -> u32,
) -> Vec<SampledRank> {
    let sampler = &job.sampler;
    let times: Vec<u64> = sampler.times().collect();
    let mut seen = HashSet::new();
    let ranks = sampler.processes.iter().filter(|process| process.role == ProcessRole::Rank);
    let once = ranks.filter(|process| seen.insert(process.id));
    let mut ranks: Vec<SampledRank> =
        once.map(|process| SampledRank::new(process, loop_of(process), sampler, waits, &times)).collect();
    ranks.sort_by_key(|rank| rank.id != job.target);
    ranks
}

/// The workers of a tick.
pub(super) fn workers(job: &JobSample, waits: &[Wait]) -> Vec<SampledWorker> {
    let workers = job.sampler.processes.iter().filter(|process| process.role == ProcessRole::Worker);
    workers.map(|process| SampledWorker::new(process, job, waits)).collect()
}

fn is_exact(sampler: &SamplerSample) -> bool {
    sampler.syscall == Access::Ok
}

impl SampledRank {
    fn new(process: &SampledProcess, tid: u32, sampler: &SamplerSample, waits: &[Wait], times: &[u64]) -> Self {
        let aside = process.threads.iter().find(|thread| thread.tid == tid && thread.role != ThreadRole::Main);
        let loop_tid = aside.map(|thread| thread.tid);
        let mut points: Vec<Option<SampledPoint>> = vec![None; times.len()];
        let pinned = process.threads.iter().any(|thread| thread.role == ThreadRole::Pin);
        let runs_loop = |thread: &SampledThread| match loop_tid {
            Some(tid) => thread.tid == tid,
            None => thread.role == ThreadRole::Main,
        };
        // The loop's thread first: what the others do is recorded with what it does.
        let (of_loop, others): (Vec<_>, Vec<_>) = process.threads.iter().partition(|thread| runs_loop(thread));
        for thread in of_loop.into_iter().chain(others) {
            for (round, place) in thread.samples() {
                let (at, place) = (round as usize, place as usize);
                let Some(((wait, at_ns), point)) = waits.get(place).zip(times.get(at)).zip(points.get_mut(at)) else {
                    continue;
                };
                let (wait, at_ns) = (*wait, *at_ns);
                match (thread.role, point) {
                    (_, point) if runs_loop(thread) => {
                        let for_pinned = pinned && sampler.seen.get(place).is_some_and(is_for_pinned);
                        let main = if for_pinned { Wait::LoaderPoll } else { wait };
                        *point = Some(SampledPoint { round, at_ns, main, ..SampledPoint::default() });
                    }
                    (ThreadRole::Pin, Some(point)) => point.pin = Some(wait),
                    (ThreadRole::Main, _) | (_, None) => {}
                    (_, Some(point)) => point.helper_running |= wait == Wait::Running && !thread.aside,
                }
            }
        }
        for &(round, written) in &process.written {
            if let Some(Some(point)) = points.get_mut(round as usize) {
                point.written_chars = Some(written);
            }
        }
        for &(round, count) in &process.fed {
            if let Some(Some(point)) = points.get_mut(round as usize) {
                point.batches_requested = Some(count);
            }
        }
        let points = points.into_iter().flatten().collect();
        let tid = loop_tid.unwrap_or(process.id.pid);
        Self { id: process.id, tid, exact: is_exact(sampler), queue_threads: process.queue_threads, points }
    }
}

impl SampledWorker {
    fn new(process: &SampledProcess, job: &JobSample, waits: &[Wait]) -> Self {
        let known = job.processes.iter().find(|known| known.id == process.id);
        let mut counts = BTreeMap::new();
        for (_, place) in process.threads.iter().filter(|thread| !thread.aside).flat_map(|thread| thread.samples()) {
            *counts.entry(waits.get(place as usize).copied().unwrap_or_default()).or_default() += 1;
        }
        Self {
            id: process.id,
            rank: process.rank.unwrap_or_default(),
            // Nothing is known about an ended worker; most are torch's.
            torch: known.is_none_or(ProcessSample::is_torch_worker),
            exact: is_exact(&job.sampler),
            counts,
            by_own_threads: 0,
            at_lock: 0,
            batches: process.fed.last().map(|(_, count)| *count),
        }
    }
}
