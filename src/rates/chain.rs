//! Whom the loop waits for: from its thread over pipes, sockets, locks and other threads to the resource that ends the wait.
//!
//! A wait-for graph, followed once for each sample of the loop's thread that has what it waits on: where a thread is blocked,
//! [`follow`](Graph::ways) finds who would let it go on and asks the same of that thread, until somebody runs, or waits for a
//! disk, the device, an address elsewhere or a timer. Time is passed on and never counted twice: the shares of all ends add up
//! to the time of the samples. Where several may end a wait, each gets an equal part of it.
//!
//! The idea is that of wait-for graphs and critical paths (wPerf, OSDI 2018: while A waits for B, A's wait is what B does
//! meanwhile).

mod graph;
mod loop_thread;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::device::DeviceUse;
use super::sampled::{SampledTrainer, SampledWorker};
use super::time_split::LoopActivity;
use super::wait::Wait;
use crate::sample::{JobSample, ProcessId};
use crate::text::named_enum;
pub(super) use graph::Graph;
pub(super) use loop_thread::LoopThread;

/// Most different paths kept of one interval; the rest is put together under an unknown end.
const PATHS: usize = 24;
/// Most processes and threads of which is kept whether they work beside the loop.
const BESIDE: usize = 512;
/// What older ticks count against the newest, where it is judged whether somebody works beside the loop.
const FADE: f64 = 0.8;
/// Before anything is seen a process of the job counts as one that works ahead: so many samples of the loop at work, and in
/// so many of them it ran.
const PRIOR: (f64, f64) = (1.5, 1.2);
/// Whoever works in this part of the loop's own time and more, 0–1, does so ahead of it and not on request: a service
/// rests while the loop works, a loader does not.
const AHEAD: f64 = 0.6;

named_enum! {
    /// How a thread came to wait for another.
    pub enum Edge {
        /// It reads what the other writes: a pipe or a unix socket.
        Reads = "reads",
        /// It writes what the other reads.
        Writes = "writes",
        /// A connection over an internet protocol on this machine.
        Network = "network",
        /// A lock or a queue within its process.
        Thread = "thread",
        /// The interpreter lock of its process.
        InterpreterLock = "interpreter-lock",
        /// A lock in memory that processes share.
        SharedMemory = "shared-memory",
        /// The end of a child.
        Child = "child",
        /// A lock on a file.
        FileLock = "file-lock",
    }
}

/// What is at the end of a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// Running, or ready to run.
    Cpu,
    /// Waiting to read from a disk.
    Disk,
    /// Waiting for written data to reach a disk.
    Flush,
    /// Waiting for memory.
    Memory,
    /// The device.
    Device,
    /// An address, with its port.
    Net(Arc<str>),
    /// A timer: it sleeps, or polls.
    Timer,
    /// A lock on this file, whose holder is not known.
    Lock(Arc<str>),
    /// Stopped by a signal.
    Stopped,
    /// Somebody types at a terminal.
    Terminal,
    /// A data worker that was not seen.
    Loader,
    /// It waits for the one that waits for it: nothing to do.
    Asked,
    /// Not known.
    Unknown,
}

/// One thread on the way.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hop {
    /// How it is waited for.
    pub by: Edge,
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
}

/// A way from the loop to an end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// Threads that are waited for, the nearest first; none where it is the loop itself.
    pub hops: Vec<Hop>,
    /// What the last of them does.
    pub end: End,
    /// Of a lock, or a connection: which.
    pub name: Option<Arc<str>>,
    /// Seconds of the loop's time.
    pub seconds: f32,
    /// Of them with the device idle; all of them where no device is known.
    pub idle_s: f32,
}

/// A process that something of the job waits for, or was seen beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// PID.
    pub pid: u32,
    /// Part of the job.
    pub inside: bool,
    /// Command line, raw.
    pub command: Arc<str>,
    /// Name, raw.
    pub comm: Arc<str>,
    /// Batches come from it: it is one of torch's workers, or a process of the job that works ahead of the loop.
    #[serde(default)]
    pub loader: bool,
}

/// Where the chains of one trainer's loop ended in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainRates {
    /// Process of the loop.
    pub process: ProcessId,
    /// Thread of the loop.
    pub tid: u32,
    /// Samples that were followed.
    pub samples: u32,
    /// Seconds that they stand for.
    pub seconds: f64,
    /// Calls and descriptors were seen; else chains rest on kernel functions and open descriptors alone.
    pub exact: bool,
    /// The ways, the longest time first.
    pub paths: Vec<Path>,
    /// Who is on them.
    pub peers: Vec<Peer>,
}

/// Who works beside the loop: what spans ticks.
#[derive(Debug, Default)]
pub(super) struct Beside {
    working: f64,
    ran: HashMap<(u32, u32), f64>,
}

impl Beside {
    fn fade(&mut self) {
        self.working *= FADE;
        self.ran.retain(|_, ran| {
            *ran *= FADE;
            *ran > 0.01
        });
    }

    fn add(&mut self, running: impl Iterator<Item = (u32, u32)>) {
        self.working += 1.0;
        for thread in running {
            if self.ran.len() < BESIDE || self.ran.contains_key(&thread) {
                *self.ran.entry(thread).or_default() += 1.0;
            }
        }
    }

    /// The part of the loop's working time in which some thread of a process ran.
    fn process(&self, pid: u32) -> f64 {
        let of_process = self.ran.iter().filter(|((of, _), _)| *of == pid).map(|(_, ran)| *ran);
        let ran = of_process.fold(0.0, f64::max);
        ((ran + PRIOR.1) / (self.working + PRIOR.0)).min(1.0)
    }
}

/// What one sample's chain says about the loop's activity, where the wait itself does not.
pub(super) fn activity(ways: &[Way], graph: &Graph<'_>, beside: &Beside, main: Wait) -> Option<LoopActivity> {
    if matches!(main, Wait::Running | Wait::LoaderPoll | Wait::DiskRead | Wait::DiskWrite | Wait::Memory) {
        return None;
    }
    let mut shares: BTreeMap<LoopActivity, f64> = BTreeMap::new();
    for way in ways {
        let of = match (way.hops.first(), &way.end) {
            (None, End::Device) => LoopActivity::DeviceSync,
            (None, End::Net(_)) => LoopActivity::Other,
            (None, _) => return None,
            (Some(hop), _) => match hop.by {
                _ if graph.is_loader(hop.pid, beside) => LoopActivity::InputWait,
                // A thread of the program's own, where there is no other loader: it makes the batches. Whether it works ahead
                // cannot be told: it needs the interpreter lock now and then, which the loop holds while it works.
                Edge::Thread if way.hops.len() == 1 && graph.makes_batches(hop) => LoopActivity::InputWait,
                // Through a thread of its own that waits for a loader: the pool's, or the pin thread.
                Edge::Thread if way.hops.get(1).is_some_and(|next| graph.is_loader(next.pid, beside)) => {
                    LoopActivity::InputWait
                }
                Edge::Thread if way.hops.len() == 1 && way.end == End::Cpu => LoopActivity::HostBusy,
                _ => LoopActivity::Other,
            },
        };
        *shares.entry(of).or_default() += way.share;
    }
    shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(activity, _)| activity)
}

/// One way of one sample.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub hops: Vec<Hop>,
    pub end: End,
    pub name: Option<Arc<str>>,
    pub share: f64,
}

/// Threads on a way, its end, and its name.
type Key = (Vec<Hop>, End, Option<Arc<str>>);

/// The ways of many samples, added up.
#[derive(Debug, Default)]
pub(super) struct Ways {
    sums: HashMap<Key, (f64, f64)>,
    samples: u32,
    seconds: f64,
}

impl Ways {
    /// Adds a sample that stands for so many seconds, `idle` being the device's idle share around it.
    pub(super) fn add(&mut self, ways: Vec<Way>, seconds: f64, idle: f64) {
        self.samples = self.samples.saturating_add(1);
        self.seconds += seconds;
        for way in ways {
            let idle = if way.end == End::Device && way.hops.is_empty() { 0.0 } else { idle };
            let mut key = (way.hops, way.end, way.name);
            if self.sums.len() >= PATHS * 8 && !self.sums.contains_key(&key) {
                key = (Vec::new(), End::Unknown, None);
            }
            let sum = self.sums.entry(key).or_default();
            sum.0 += way.share * seconds;
            sum.1 += way.share * seconds * idle;
        }
    }

    /// The interval's chain.
    pub(super) fn finish(self, graph: &Graph<'_>, beside: &Beside, (process, tid): (ProcessId, u32)) -> ChainRates {
        let paths = self.sums.into_iter().map(|((hops, end, name), (seconds, idle_s))| Path {
            hops,
            end,
            name,
            seconds: seconds as f32,
            idle_s: idle_s as f32,
        });
        let mut paths: Vec<Path> = paths.collect();
        paths.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| (&a.hops, &a.end).cmp(&(&b.hops, &b.end))));
        if let Some(rest) = paths.get(PATHS..).filter(|rest| !rest.is_empty()) {
            let sum = |of: fn(&Path) -> f32| rest.iter().map(of).sum();
            let (seconds, idle_s) = (sum(|path| path.seconds), sum(|path| path.idle_s));
            paths.truncate(PATHS);
            paths.push(Path { hops: Vec::new(), end: End::Unknown, name: None, seconds, idle_s });
        }
        let mut pids: Vec<u32> = paths.iter().flat_map(|path| path.hops.iter().map(|hop| hop.pid)).collect();
        pids.sort_unstable();
        pids.dedup();
        let peers = pids.into_iter().map(|pid| graph.peer(pid, beside)).collect();
        let (samples, seconds) = (self.samples, self.seconds);
        ChainRates { process, tid, samples, seconds, exact: graph.exact, paths, peers }
    }
}

/// A worker's main thread that waits for threads of its own waits for what they wait for: the sampled waits of such workers
/// are put down to that.
pub(super) fn look_into_workers(graph: &mut Graph<'_>, job: &JobSample, workers: &mut [SampledWorker]) {
    let Some((first, every)) = job.sampler.followed.filter(|_| job.connections.is_some()) else { return };
    let blocked = |worker: &SampledWorker| worker.counts.get(Wait::Futex.index()).is_some_and(|count| *count > 0);
    if !workers.iter().any(blocked) {
        return;
    }
    let count = u32::try_from(job.sampler.gaps_us.len()).unwrap_or(u32::MAX);
    for round in (first..count).step_by(every.max(1) as usize) {
        graph.go_to(round);
        for worker in workers.iter_mut().filter(|worker| blocked(worker)) {
            let Some(wait) = graph.own_wait(worker.id.pid) else { continue };
            for (place, by) in [(Wait::Futex, -1), (wait, 1)] {
                if let Some(count) = worker.counts.get_mut(place.index()) {
                    *count = count.saturating_add_signed(by);
                }
            }
            worker.by_own_threads += u32::from(wait == Wait::Running);
        }
    }
    graph.rewind();
}

/// Longest stretch that one followed sample stands for, nanoseconds.
const SAMPLE_NS: u64 = 250_000_000;

/// What spans ticks, for one trainer.
#[derive(Debug, Default)]
pub(super) struct Carry {
    beside: Beside,
    last_ns: Option<u64>,
    /// What the latest followed wait of each kind was for.
    said: [Option<LoopActivity>; Wait::COUNT],
}

/// Follows the waits of the trainers' loops; notes at each sample what it was for where the chain tells. `devices` are those
/// of each trainer. Nothing comes back where the sample does not hold what chains are followed by.
pub(super) fn fold(
    graph: &mut Graph<'_>,
    job: &JobSample,
    trainers: &mut [(&mut SampledTrainer, &mut Carry, Vec<&DeviceUse>)],
) -> Vec<ChainRates> {
    let (Some((first, every)), true) = (job.sampler.followed, job.connections.is_some()) else { return Vec::new() };
    let count = u32::try_from(job.sampler.gaps_us.len()).unwrap_or(u32::MAX);
    let mut ways: Vec<Ways> = trainers.iter().map(|_| Ways::default()).collect();
    let mut next: Vec<usize> = vec![0; trainers.len()];
    trainers.iter_mut().for_each(|(_, carry, _)| carry.beside.fade());
    for round in (first..count).step_by(every.max(1) as usize) {
        graph.go_to(round);
        for (((trainer, carry, devices), ways), next) in trainers.iter_mut().zip(&mut ways).zip(&mut next) {
            while trainer.points.get(*next).is_some_and(|point| point.round < round) {
                *next += 1;
            }
            let Some(point) = trainer.points.get(*next).copied().filter(|point| point.round == round) else {
                continue;
            };
            let device = devices.iter().map(|device| device.busy(point.at_ns)).reduce(f64::max);
            let (pid, tid) = (trainer.id.pid, trainer.tid);
            let found = graph.ways_of(pid, tid, device);
            if found.iter().all(|way| way.hops.is_empty() && matches!(way.end, End::Cpu | End::Device | End::Timer)) {
                carry.beside.add(graph.running((pid, tid)).into_iter());
            }
            let said = activity(&found, graph, &carry.beside, point.main);
            if let Some(known) = carry.said.get_mut(point.main.index()) {
                *known = said;
            }
            // The samples up to the next followed one are of waits like those that were followed last.
            for later in trainer.points.iter_mut().skip(*next).take(every as usize) {
                later.by_chain = carry.said.get(later.main.index()).copied().flatten();
            }
            let ns = carry.last_ns.map_or(0, |last| point.at_ns.saturating_sub(last).min(SAMPLE_NS));
            carry.last_ns = Some(point.at_ns);
            ways.add(found, ns as f64 / 1e9, 1.0 - device.unwrap_or(0.0));
        }
    }
    let finished = trainers.iter().zip(ways);
    finished.map(|((trainer, carry, _), ways)| ways.finish(graph, &carry.beside, (trainer.id, trainer.tid))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
