//! The sampler's observations as rates use them: what each sample of a trainer's threads means, in time order, and a
//! worker's samples counted.

use super::wait::{Wait, is_for_pinned};
use crate::sample::{
    Access, JobSample, ProcessId, ProcessRole, ProcessSample, SampledProcess, SamplerSample, ThreadRole,
};

/// One sample of a trainer's main thread, with what was seen of its other threads in the same round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Point {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// What the main thread was doing.
    pub main: Wait,
    /// What the pin-memory thread was doing, where there is one.
    pub pin: Option<Wait>,
    /// Another thread of the process, neither a feeder nor the pin thread, was running: autograd or compute threads.
    pub helper_running: bool,
    /// `wchar` of the main thread. Not read at every point.
    pub written_chars: Option<u64>,
    /// Batch indices handed out since the workers started. Not read at every point.
    pub batches_requested: Option<u64>,
}

/// A trainer's samples.
#[derive(Debug, Clone, Default)]
pub(super) struct SampledTrainer {
    pub id: ProcessId,
    /// System calls could be read.
    pub exact: bool,
    /// Queue feeders, one for each worker of the current set with torch's loader.
    pub feeders: u32,
    /// In time order.
    pub points: Vec<Point>,
}

/// A worker's samples.
#[derive(Debug, Clone, Default)]
pub(super) struct SampledWorker {
    pub id: ProcessId,
    /// PID of the trainer that it works for.
    pub trainer: u32,
    /// One of torch's: it waits for an index in torch's data poll.
    pub torch: bool,
    /// System calls could be read.
    pub exact: bool,
    /// Samples by kind of wait.
    pub counts: [u32; Wait::COUNT],
    /// Batches that it has produced since its start.
    pub batches: Option<u64>,
}

/// The trainers and the workers of a tick.
pub(super) fn sampled(job: &JobSample) -> (Vec<SampledTrainer>, Vec<SampledWorker>) {
    let sampler = &job.sampler;
    let waits: Vec<Wait> = sampler.seen.iter().map(|seen| Wait::of(seen, sampler.machine)).collect();
    let times: Vec<u64> = sampler.times().collect();
    let of = |role| sampler.processes.iter().filter(move |process| process.role == role);
    let trainers = of(ProcessRole::Trainer).map(|process| SampledTrainer::of(process, sampler, &waits, &times));
    let workers = of(ProcessRole::Worker).map(|process| SampledWorker::of(process, job, &waits));
    (trainers.collect(), workers.collect())
}

fn is_exact(sampler: &SamplerSample) -> bool {
    sampler.syscall == Access::Ok
}

impl SampledTrainer {
    fn of(process: &SampledProcess, sampler: &SamplerSample, waits: &[Wait], times: &[u64]) -> Self {
        let mut points: Vec<Option<Point>> = vec![None; times.len()];
        let pinned = process.threads.iter().any(|thread| thread.role == ThreadRole::Pin);
        for thread in &process.threads {
            for (round, place) in thread.samples() {
                let (round, place) = (round as usize, place as usize);
                let (Some(wait), Some(at_ns)) = (waits.get(place).copied(), times.get(round).copied()) else {
                    continue;
                };
                let Some(point) = points.get_mut(round) else { continue };
                match (thread.role, point) {
                    (ThreadRole::Main, point) => {
                        let for_pinned = pinned && sampler.seen.get(place).is_some_and(is_for_pinned);
                        let main = if for_pinned { Wait::LoaderPoll } else { wait };
                        *point = Some(Point { at_ns, main, ..Point::default() });
                    }
                    (ThreadRole::Pin, Some(point)) => point.pin = Some(wait),
                    (_, Some(point)) => point.helper_running |= wait == Wait::Running,
                    (_, None) => {}
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
        Self { id: process.id, exact: is_exact(sampler), feeders: process.feeders, points }
    }
}

impl SampledWorker {
    fn of(process: &SampledProcess, job: &JobSample, waits: &[Wait]) -> Self {
        let known = job.processes.iter().find(|known| known.id == process.id);
        let mut counts = [0; Wait::COUNT];
        for (_, place) in process.threads.iter().flat_map(|thread| thread.samples()) {
            let wait = waits.get(place as usize).copied().unwrap_or_default();
            if let Some(count) = counts.get_mut(wait.index()) {
                *count += 1;
            }
        }
        Self {
            id: process.id,
            trainer: process.trainer.unwrap_or_default(),
            // Of one that has ended since nothing is known; most are torch's.
            torch: known.is_none_or(ProcessSample::is_torch_worker),
            exact: is_exact(&job.sampler),
            counts,
            batches: process.fed.last().map(|(_, count)| *count),
        }
    }
}
