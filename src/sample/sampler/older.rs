//! The sampler's data as recordings hold it that were made while the sampler still judged: each look as one word, and of
//! workers only the counts. It is read into today's shape; nothing writes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use super::{Observation, SampledProcess, SampledThread, SamplerSample};
use crate::sample::syscall::Machine;
use crate::sample::{Access, ProcessId, ProcessRole, ThreadRole};

/// Words of the waits, in the order of [`Worker::looks`].
const WAITS: [&str; 15] = [
    "running",
    LOADER_POLL,
    POLL,
    "futex",
    PIPE,
    SOCKET,
    "sleep",
    "disk-read",
    "disk-write",
    "memory",
    "child",
    "device",
    "stopped",
    "other",
    "unknown",
];
const LOADER_POLL: &str = "loader-poll";
const POLL: &str = "poll";
const PIPE: &str = "pipe";
const SOCKET: &str = "socket";

/// Most looks of one kind that are believed of a worker: two ticks' worth at the most, whatever the file says.
const MOST_LOOKS: u32 = 4000;

/// The fields of both shapes, so that one reader takes either.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Either {
    machine: Machine,
    syscall: Access,
    began_ns: u64,
    gaps_us: Vec<u32>,
    followed: Option<(u32, u32)>,
    seen: Vec<Observation>,
    processes: Vec<SampledProcess>,
    /// From here on the older shape.
    trainers: Vec<Trainer>,
    workers: Vec<Worker>,
}

#[derive(Default, Deserialize)]
struct Trainer {
    id: ProcessId,
    syscall: Access,
    feeders: u32,
    points: Vec<Point>,
}

/// A look at a trainer's main thread, with what was seen of its other threads.
#[derive(Deserialize)]
struct Point {
    at_ns: u64,
    main: Arc<str>,
    pin: Option<Arc<str>>,
    helper_running: Option<bool>,
    written_chars: Option<u64>,
    batches_requested: Option<u64>,
}

#[derive(Default, Deserialize)]
struct Worker {
    id: ProcessId,
    trainer: u32,
    looks: [u32; WAITS.len()],
    /// Of these: the worker had nothing to do.
    idle_looks: u32,
    batches: Option<u64>,
}

impl From<Either> for SamplerSample {
    fn from(read: Either) -> Self {
        let Either { machine, syscall, began_ns, gaps_us, followed, seen, processes, trainers, workers } = read;
        let mut sample = Self { machine, syscall, began_ns, gaps_us, followed, seen, processes };
        if trainers.is_empty() && workers.is_empty() {
            return sample;
        }
        sample.syscall = trainers.first().map_or(Access::Untried, |trainer| trainer.syscall);
        let mut times: Vec<u64> =
            trainers.iter().flat_map(|trainer| &trainer.points).map(|at| at.at_ns / 1000).collect();
        times.sort_unstable();
        times.dedup();
        let first_us = times.first().copied().unwrap_or(0);
        sample.began_ns = first_us * 1000;
        let mut before_us = first_us;
        for &at_us in &times {
            sample.gaps_us.push(u32::try_from(at_us - before_us).unwrap_or(u32::MAX));
            before_us = at_us;
        }
        let mut table = Table::default();
        let mut processes: Vec<_> = trainers.iter().map(|trainer| trainer.convert(&times, &mut table)).collect();
        processes.extend(workers.iter().map(|worker| worker.convert(times.len(), &mut table)));
        sample.processes.append(&mut processes);
        sample.seen = table.seen;
        sample
    }
}

/// Observations by their word.
#[derive(Default)]
struct Table {
    places: BTreeMap<Arc<str>, u32>,
    seen: Vec<Observation>,
}

impl Table {
    fn place(&mut self, word: &str) -> u32 {
        if let Some(place) = self.places.get(word) {
            return *place;
        }
        let (word, place) = (Arc::<str>::from(word), u32::try_from(self.seen.len()).unwrap_or(u32::MAX));
        self.seen.push(Observation { judged: Some(Arc::clone(&word)), ..Observation::default() });
        self.places.insert(word, place);
        place
    }
}

impl Trainer {
    fn convert(&self, times_us: &[u64], table: &mut Table) -> SampledProcess {
        let mut process =
            SampledProcess { id: self.id, role: ProcessRole::Trainer, feeders: self.feeders, ..Default::default() };
        let mut threads = [(self.id.pid, ThreadRole::Main), (0, ThreadRole::Pin), (0, ThreadRole::Other)]
            .map(|(tid, role)| SampledThread { tid, role, ..SampledThread::default() });
        for point in &self.points {
            let at = times_us.binary_search(&(point.at_ns / 1000)).unwrap_or(0);
            let round = u32::try_from(at).unwrap_or(u32::MAX);
            let helper = point.helper_running.map(|running| if running { "running" } else { "unknown" });
            for (thread, word) in threads.iter_mut().zip([Some(&*point.main), point.pin.as_deref(), helper]) {
                let Some(word) = word else { continue };
                thread.rounds.push(round);
                thread.seen.push(table.place(word));
            }
            process.written.extend(point.written_chars.map(|written| (round, written)));
            process.fed.extend(point.batches_requested.map(|count| (round, count)));
        }
        let is_seen = |thread: &SampledThread| thread.role == ThreadRole::Main || !thread.seen.is_empty();
        process.threads = threads.into_iter().filter(is_seen).collect();
        process
    }
}

impl Worker {
    fn convert(&self, rounds: usize, table: &mut Table) -> SampledProcess {
        let mut thread = SampledThread { tid: self.id.pid, role: ThreadRole::Main, ..SampledThread::default() };
        // What was marked idle beyond the data poll is taken off the polls, pipes and sockets, in this order: those looks
        // become data polls, which is what "nothing to do" looks like.
        let counts = || WAITS.into_iter().zip(self.looks);
        let polls = counts().find(|(word, _)| *word == LOADER_POLL).map_or(0, |(_, count)| count);
        let mut idle = self.idle_looks.saturating_sub(polls);
        for (word, count) in counts() {
            let taken = if [POLL, PIPE, SOCKET].contains(&word) { count.min(idle) } else { 0 };
            idle -= taken;
            for (word, count) in [(LOADER_POLL, taken), (word, count - taken)] {
                if count > 0 {
                    let place = table.place(word);
                    thread.seen.extend(std::iter::repeat_n(place, count.min(MOST_LOOKS) as usize));
                }
            }
        }
        let end = u32::try_from(rounds).unwrap_or(u32::MAX);
        SampledProcess {
            id: self.id,
            role: ProcessRole::Worker,
            trainer: Some(self.trainer),
            threads: vec![thread],
            feeders: u32::from(self.batches.is_some()),
            fed: self.batches.map(|batches| (end, batches)).into_iter().collect(),
            ..SampledProcess::default()
        }
    }
}
