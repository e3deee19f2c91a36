//! Reads samples of recordings of schema 1, which hold what the sampler concluded, under `lane`: a word for each sample of the
//! loop's thread, and counts for each worker. They become observations that mean the same, so today's rules judge them.
//!
//! What they never held stays unknown: which other threads ran beside the loop, what held a lock, what a descriptor led to.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;

use trainmon_base::text::named_enum;
use trainmon_sample::syscall::Machine;
use trainmon_sample::{
    Access, Observation, ProcessId, ProcessRole, Sample, SampledProcess, SampledThread, SamplerSample, ThreadRole,
};

/// A sample from its line.
pub(super) fn sample(line: &[u8]) -> serde_json::Result<Sample> {
    let mut sample: Sample = serde_json::from_slice(line)?;
    let concluded: ConcludedSample = serde_json::from_slice(line)?;
    // The last builds that wrote this schema have today's observations in it.
    let lane = concluded.job.and_then(|job| job.lane);
    if let (Some(job), Some(lane)) = (&mut sample.job, lane) {
        Arc::make_mut(job).sampler = lane.observations(line.len());
    }
    Ok(sample)
}

/// The part of a sample that has another form today.
#[derive(Deserialize)]
struct ConcludedSample {
    job: Option<ConcludedJob>,
}

#[derive(Deserialize)]
struct ConcludedJob {
    lane: Option<ConcludedLane>,
}

#[derive(Deserialize)]
struct ConcludedLane {
    #[serde(rename = "trainers")]
    ranks: Vec<ConcludedRank>,
    workers: Vec<ConcludedWorker>,
}

#[derive(Deserialize)]
struct ConcludedRank {
    id: ProcessId,
    syscall: Access,
    #[serde(rename = "feeders")]
    queue_threads: u32,
    points: Vec<ConcludedPoint>,
}

/// A sample of the loop's thread, with what was concluded of its process's other threads.
#[derive(Deserialize)]
struct ConcludedPoint {
    at_ns: u64,
    main: ConcludedWait,
    pin: Option<ConcludedWait>,
    helper_running: Option<bool>,
    written_chars: Option<u64>,
    batches_requested: Option<u64>,
}

#[derive(Deserialize)]
struct ConcludedWorker {
    id: ProcessId,
    #[serde(rename = "trainer")]
    rank: u32,
    /// Samples by wait.
    looks: [u32; ConcludedWait::COUNT],
    /// Of these: the worker had nothing to do.
    idle_looks: u32,
    batches: Option<u64>,
}

named_enum! {
    /// What a thread was doing, in the words of schema 1 and in their order.
    enum ConcludedWait {
        Running = "running",
        LoaderPoll = "loader-poll",
        Poll = "poll",
        Futex = "futex",
        Pipe = "pipe",
        Socket = "socket",
        Sleep = "sleep",
        DiskRead = "disk-read",
        DiskWrite = "disk-write",
        Memory = "memory",
        Child = "child",
        Device = "device",
        Stopped = "stopped",
        Other = "other",
        Unknown = "unknown",
    }
}

impl ConcludedWait {
    /// An observation that means this wait today, on [`Machine::X86_64`].
    fn observation(self) -> Observation {
        let symbol = |symbol: &str| Observation { wchan: Some(symbol.into()), ..Observation::default() };
        match self {
            Self::Running => Observation { state: Some('R'), ..Observation::default() },
            // `poll` of one descriptor for 5 s.
            Self::LoaderPoll => {
                Observation { call: Some(7), nfds: Some(1), timeout_ms: Some(5000), ..Observation::default() }
            }
            Self::Poll => symbol("do_select"),
            Self::Futex => symbol("futex_do_wait"),
            Self::Pipe => symbol("pipe_read"),
            Self::Socket => symbol("unix_stream_read_generic"),
            Self::Sleep => symbol("hrtimer_nanosleep"),
            Self::DiskRead => symbol("folio_wait_bit_common"),
            Self::DiskWrite => symbol("jbd2_log_wait_commit"),
            Self::Memory => symbol("shrink_lruvec"),
            Self::Child => symbol("do_wait"),
            Self::Device => symbol("nvidia_wait"),
            Self::Stopped => symbol("do_signal_stop"),
            Self::Other => symbol("schedule"),
            Self::Unknown => Observation::default(),
        }
    }
}

impl ConcludedLane {
    /// `room`: how many samples of workers are made at most, whatever the counts say. Real ones are far fewer than the bytes
    /// of their line.
    fn observations(&self, room: usize) -> SamplerSample {
        let points = self.ranks.iter().flat_map(|rank| &rank.points);
        let mut times_us: Vec<u64> = points.map(|point| point.at_ns / 1000).collect();
        times_us.sort_unstable();
        times_us.dedup();
        let first_us = times_us.first().copied().unwrap_or(0);
        let before_us = std::iter::once(first_us).chain(times_us.iter().copied());
        let gaps_us = times_us.iter().zip(before_us);
        let gaps_us =
            gaps_us.map(|(at_us, before_us)| u32::try_from(at_us - before_us).unwrap_or(u32::MAX)).collect();
        let (mut table, mut room) = (Table::default(), room);
        let ranks = self.ranks.iter().map(|rank| rank.process(&times_us, &mut table));
        let mut processes: Vec<_> = ranks.collect();
        processes.extend(self.workers.iter().map(|worker| worker.process(times_us.len(), &mut table, &mut room)));
        SamplerSample {
            machine: Machine::X86_64,
            syscall: self.ranks.first().map_or(Access::Untried, |rank| rank.syscall),
            began_ns: first_us * 1000,
            gaps_us,
            followed: None,
            seen: table.seen,
            processes,
        }
    }
}

/// Observations, each once.
#[derive(Default)]
struct Table {
    places: BTreeMap<ConcludedWait, u32>,
    seen: Vec<Observation>,
}

impl Table {
    fn place(&mut self, wait: ConcludedWait) -> u32 {
        let seen = &mut self.seen;
        *self.places.entry(wait).or_insert_with(|| {
            seen.push(wait.observation());
            u32::try_from(seen.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

impl ConcludedRank {
    fn process(&self, times_us: &[u64], table: &mut Table) -> SampledProcess {
        let mut process = SampledProcess {
            id: self.id,
            role: ProcessRole::Rank,
            queue_threads: self.queue_threads,
            ..Default::default()
        };
        let mut threads = [(self.id.pid, ThreadRole::Main), (0, ThreadRole::Pin), (0, ThreadRole::Other)]
            .map(|(tid, role)| SampledThread { tid, role, ..SampledThread::default() });
        for point in &self.points {
            let round = times_us.binary_search(&(point.at_ns / 1000)).unwrap_or(0);
            let round = u32::try_from(round).unwrap_or(u32::MAX);
            let helper = point
                .helper_running
                .map(|running| if running { ConcludedWait::Running } else { ConcludedWait::Unknown });
            for (thread, wait) in threads.iter_mut().zip([Some(point.main), point.pin, helper]) {
                let Some(wait) = wait else { continue };
                thread.rounds.push(round);
                thread.seen.push(table.place(wait));
            }
            process.written.extend(point.written_chars.map(|written| (round, written)));
            process.fed.extend(point.batches_requested.map(|count| (round, count)));
        }
        let was_sampled = |thread: &SampledThread| thread.role == ThreadRole::Main || !thread.seen.is_empty();
        process.threads = threads.into_iter().filter(was_sampled).collect();
        process
    }
}

impl ConcludedWorker {
    fn process(&self, rounds: usize, table: &mut Table, room: &mut usize) -> SampledProcess {
        let mut thread = SampledThread { tid: self.id.pid, role: ThreadRole::Main, ..SampledThread::default() };
        // More samples were idle than are data polls: the rest of them were polls, pipes and sockets, in this order. They
        // become data polls, which today means that a worker has nothing to do.
        let counts = || ConcludedWait::ALL.into_iter().zip(self.looks);
        let polls = counts().find(|(wait, _)| *wait == ConcludedWait::LoaderPoll).map_or(0, |(_, count)| count);
        let mut idle = self.idle_looks.saturating_sub(polls);
        for (wait, count) in counts() {
            let may_be_idle = matches!(wait, ConcludedWait::Poll | ConcludedWait::Pipe | ConcludedWait::Socket);
            let taken = if may_be_idle { count.min(idle) } else { 0 };
            idle -= taken;
            for (wait, count) in [(ConcludedWait::LoaderPoll, taken), (wait, count - taken)] {
                let count = (*room).min(count as usize);
                *room -= count;
                if count > 0 {
                    let place = table.place(wait);
                    thread.seen.extend(std::iter::repeat_n(place, count));
                }
            }
        }
        let end = u32::try_from(rounds).unwrap_or(u32::MAX);
        SampledProcess {
            id: self.id,
            role: ProcessRole::Worker,
            rank: Some(self.rank),
            threads: vec![thread],
            queue_threads: u32::from(self.batches.is_some()),
            fed: self.batches.map(|batches| (end, batches)).into_iter().collect(),
            ..SampledProcess::default()
        }
    }
}
