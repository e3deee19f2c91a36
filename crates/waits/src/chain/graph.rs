//! The wait-for graph of one tick, and how to follow a wait through it.

mod at_work;
mod descriptors;
mod follow;
mod shared_lock;
mod short_lived;
mod short_waits;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::paths::{Peer, WaitHop};
use super::round_paths::RoundPath;
use super::work_ahead::WorkAhead;
use crate::wait::Wait;
use short_lived::Explained;
use short_waits::short_waits;
use trainmon_rates::delta::{rate, span};
use trainmon_rates::levels::NEXT_TO_NOTHING;
use trainmon_rates::short_lived::ShortLived;
use trainmon_sample::{
    Access, Channel, Descriptor, JobSample, LockWait, Observation, ProcessId, ProcessRole, ProcessSample,
    SampledThread, SamplerSample, ThreadRole, ThreadSample,
};

/// A thread's sample is valid for this many rounds: other processes are sampled in every third, many of them in turns.
const ROUNDS_HELD: u32 = 24;
/// Longest chain followed.
const DEPTH: usize = 6;
/// Most processes that one wait is followed to.
const CANDIDATES: usize = 16;
/// A thread that hardly runs, and wakes less often per second than this, wakes no other thread.
const MOVES_S: f64 = 0.5;
/// Library threads that wait for events of their own: nothing waits for them (libcuda, NCCL, OpenMP, tqdm).
const BACKGROUND: &[&str] = &["cuda-Evt", "pt_nccl", "NCCL", "OMP", "iou-", "tokio", "jemalloc"];

/// A thread that was sampled.
#[derive(Debug)]
pub(super) struct GraphThread<'a> {
    pid: u32,
    pub(super) tid: u32,
    pub(super) role: ThreadRole,
    /// Wakes or runs often enough to be waited for.
    pub(super) active: bool,
    /// Share of the time on a CPU.
    pub(super) cpu: f64,
    /// Wake-ups per second.
    pub(super) wakes_per_s: f64,
    /// Its counters are in the previous tick too, so its pace is known.
    pub(super) paced: bool,
    /// Of its samples as running, the part that were waits for a disk.
    at_disk: f64,
    samples: Vec<(u32, u32)>,
    cursor: usize,
    now: Option<&'a Observation>,
    wait: Wait,
    /// The part of its waits explained by short-lived children or threads, if nothing else is known.
    explained: Explained,
}

impl GraphThread<'_> {
    /// `pace` comes from counters present in both ticks: share of the time on a CPU, wake-ups per second.
    fn new(
        pid: u32,
        thread: &SampledThread,
        name: &str,
        pace: Option<(f64, f64)>,
        waits: &[Wait],
        lived: &ShortLived,
    ) -> Self {
        let (cpu, wakes_per_s) = pace.unwrap_or_default();
        let moves = pace.is_none() || wakes_per_s > 0.0;
        let background = BACKGROUND.iter().any(|part| name.contains(part));
        let all_waits = thread.samples().filter_map(|(_, place)| waits.get(place as usize).copied());
        Self {
            pid,
            tid: thread.tid,
            role: thread.role,
            active: !background && (thread.aside && moves || cpu > NEXT_TO_NOTHING || wakes_per_s > MOVES_S),
            cpu,
            wakes_per_s,
            paced: pace.is_some(),
            at_disk: pace.map_or(0.0, |pace| short_waits(pace, thread.samples(), waits)),
            samples: thread.samples().collect(),
            cursor: 0,
            now: None,
            wait: Wait::Unknown,
            explained: Explained::new(pid, lived, all_waits),
        }
    }
}

/// The threads that a wait was followed through, including the current one.
type Trail<'g, 'a> = Vec<&'g GraphThread<'a>>;

/// Those of these threads that run in this round.
fn running<'g, 'a>(of: &[&'g GraphThread<'a>]) -> Vec<&'g GraphThread<'a>> {
    of.iter().copied().filter(|thread| thread.wait == Wait::Running).collect()
}

/// The threads of one tick and what connects their processes.
#[derive(Debug)]
pub(crate) struct Graph<'a> {
    pub(super) exact: bool,
    pub(super) sampler: &'a SamplerSample,
    /// The meanings of the sampler's observations, in their order.
    pub(super) waits: &'a [Wait],
    threads: Vec<GraphThread<'a>>,
    by_process: HashMap<u32, Vec<usize>>,
    processes: HashMap<u32, &'a ProcessSample>,
    channels: HashMap<&'a str, &'a Channel>,
    locks: HashMap<u32, &'a LockWait>,
    target: ProcessId,
    inside_pids: HashSet<u32>,
    /// Processes with an active thread.
    moving: HashSet<u32>,
    /// Threads that run no Python, by process and thread.
    native: HashSet<(u32, u32)>,
    /// How many more threads the current wait may be followed through.
    steps: std::cell::Cell<u32>,
}

/// The job's processes, and those outside that it is connected to, by PID.
fn by_pid(job: &JobSample) -> HashMap<u32, &ProcessSample> {
    let outside = job.connections.iter().flat_map(|connections| &connections.outside);
    job.processes.iter().chain(outside).map(|process| (process.id.pid, process)).collect()
}

fn thread_of<'a>(processes: &HashMap<u32, &'a ProcessSample>, pid: u32, tid: u32) -> Option<&'a ThreadSample> {
    processes.get(&pid)?.threads.iter().find(|thread| thread.tid == tid)
}

/// How a thread's counters moved: share of the time on a CPU, and how many times per second it got one.
fn pace(before: &ThreadSample, now: &ThreadSample, seconds: Option<f64>) -> Option<(f64, f64)> {
    let cpu = rate(now.on_cpu_ns, before.on_cpu_ns, seconds)? / 1e9;
    Some((cpu, rate(now.timeslices, before.timeslices, seconds)?))
}

impl<'a> Graph<'a> {
    /// The graph of a tick; `None` if the tick has no connections. `waits` are the meanings of the sampler's
    /// observations, in their order; `lived` is the CPU use of short-lived children and threads.
    pub(crate) fn new(
        job: &'a JobSample,
        before: Option<&'a JobSample>,
        waits: &'a [Wait],
        lived: &ShortLived,
    ) -> Option<Self> {
        let sampler = &job.sampler;
        let connections = job.connections.as_deref()?;
        let seconds = span(before.map(|before| before.monotonic_ns), job.monotonic_ns);
        let now = by_pid(job);
        let before_by_pid = before.map(by_pid).unwrap_or_default();
        // torch workers that were sampled in this tick until they ended are still recognized. Other workers are found
        // by their CPU use, as short-lived children.
        let is_sampled = |process: &&ProcessSample| sampler.processes.iter().any(|one| one.id == process.id);
        let earlier = before.into_iter().flat_map(|before| &before.processes);
        let ended = earlier.filter(|process| process.is_torch_worker()).filter(is_sampled);
        let mut processes: HashMap<u32, &ProcessSample> = ended.map(|process| (process.id.pid, process)).collect();
        let inside_pids = processes.keys().copied().chain(job.processes.iter().map(|process| process.id.pid));
        let inside_pids = inside_pids.collect();
        processes.extend(&now);
        let mut threads = Vec::new();
        let mut by_process: HashMap<u32, Vec<usize>> = HashMap::new();
        for process in &sampler.processes {
            let pid = process.id.pid;
            for thread in &process.threads {
                let name = thread_of(&processes, pid, thread.tid).map_or("", |known| &*known.name);
                let was = thread_of(&before_by_pid, pid, thread.tid);
                let pace = was.zip(thread_of(&now, pid, thread.tid)).and_then(|(was, now)| pace(was, now, seconds));
                by_process.entry(pid).or_default().push(threads.len());
                threads.push(GraphThread::new(pid, thread, name, pace, waits, lived));
            }
        }
        Some(Self {
            exact: sampler.syscall == Access::Ok,
            moving: threads.iter().filter(|thread| thread.active).map(|thread| thread.pid).collect(),
            sampler,
            waits,
            threads,
            by_process,
            inside_pids,
            processes,
            channels: connections.channels.iter().map(|channel| (&*channel.link, channel)).collect(),
            locks: connections.locks.iter().map(|lock| (lock.waiter, lock)).collect(),
            target: job.target,
            native: HashSet::new(),
            steps: std::cell::Cell::new(0),
        })
    }

    /// The sampled threads of a process.
    pub(super) fn threads_of(&self, pid: u32) -> impl Iterator<Item = &GraphThread<'a>> + '_ {
        let places = self.by_process.get(&pid).into_iter().flatten();
        places.filter_map(|at| self.threads.get(*at))
    }

    /// Marks the threads of a process that run no Python.
    pub(super) fn set_native(&mut self, pid: u32, tids: impl Iterator<Item = u32>) {
        self.native.extend(tids.map(|tid| (pid, tid)));
    }

    fn is_native(&self, thread: &GraphThread<'_>) -> bool {
        self.native.contains(&(thread.pid, thread.tid))
    }

    pub(super) fn thread(&self, pid: u32, tid: u32) -> Option<&GraphThread<'a>> {
        self.threads_of(pid).find(|thread| thread.tid == tid)
    }

    /// Moves on to a round: what each thread is doing then. Rounds come in order.
    pub(in crate::chain) fn go_to(&mut self, round: u32) {
        let (sampler, waits) = (self.sampler, self.waits);
        for thread in &mut self.threads {
            while let Some((at, place)) = thread.samples.get(thread.cursor).filter(|(at, _)| *at <= round) {
                thread.now = sampler.seen.get(*place as usize);
                thread.wait = waits.get(*place as usize).copied().unwrap_or_default();
                thread.cursor += 1;
                if *at == round {
                    break;
                }
            }
            let last = thread.cursor.checked_sub(1).and_then(|at| thread.samples.get(at));
            if last.is_none_or(|(at, _)| round.saturating_sub(*at) > ROUNDS_HELD) {
                (thread.now, thread.wait) = (None, Wait::Unknown);
            }
        }
    }

    /// Starts again at the first round.
    pub(in crate::chain) fn rewind(&mut self) {
        for thread in &mut self.threads {
            (thread.cursor, thread.now, thread.wait) = (0, None, Wait::Unknown);
        }
    }

    /// The descriptors that a thread waits on in this round, if it is known where they lead.
    fn waits_on(&self, thread: &GraphThread<'a>) -> impl Iterator<Item = (&'a Descriptor, &'a Channel)> + '_ {
        let descriptors = thread.now.into_iter().flat_map(|seen| &seen.descriptors);
        descriptors.filter_map(|descriptor| Some((descriptor, *self.channels.get(&*descriptor.link)?)))
    }

    /// Whether a thread waits only on sockets in this round.
    pub(super) fn waits_on_sockets(&self, pid: u32, tid: u32) -> bool {
        let links = self.thread(pid, tid).and_then(|thread| thread.now).map_or(&[][..], |seen| &seen.descriptors);
        !links.is_empty() && links.iter().all(|descriptor| descriptor.link.starts_with("socket:"))
    }

    fn is_torch_worker(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|process| process.is_torch_worker())
    }

    fn others<'c>(&self, channel: &'c Channel, pid: u32) -> impl Iterator<Item = u32> + 'c {
        channel.readers.iter().chain(&channel.writers).copied().filter(move |other| *other != pid)
    }

    /// Active threads of the same process that are not on the path here.
    fn active_siblings(&self, thread: &GraphThread<'a>, trail: &[&GraphThread<'a>]) -> Vec<&GraphThread<'a>> {
        self.active_of(thread.pid, trail).into_iter().filter(|other| !std::ptr::eq(*other, thread)).collect()
    }

    fn active_of(&self, pid: u32, trail: &[&GraphThread<'a>]) -> Vec<&GraphThread<'a>> {
        let is_on_trail = |one: &GraphThread<'a>| trail.iter().any(|on| std::ptr::eq(*on, one));
        self.threads_of(pid).filter(|one| one.active && !is_on_trail(one)).collect()
    }

    /// The job's processes except the target, by PID.
    fn others_of_job(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.by_process.keys().copied().collect();
        pids.retain(|pid| self.inside_pids.contains(pid) && *pid != self.target.pid);
        pids.sort_unstable();
        pids
    }

    /// Whether a process was started by the other, directly or not.
    fn is_child_of(&self, pid: u32, of: u32) -> bool {
        let parent = |pid: &u32| self.processes.get(pid).map(|process| process.parent);
        std::iter::successors(Some(pid), parent).skip(1).take(DEPTH).any(|parent| parent == of)
    }

    /// Whether batches come from this process: it is a torch worker, or a process of the job that works ahead of the
    /// loop.
    pub(super) fn is_loader(&self, pid: u32, work_ahead: &WorkAhead) -> bool {
        let inside = self.inside_pids.contains(&pid);
        self.is_torch_worker(pid)
            || inside
                && self.processes.get(&pid).is_some_and(|process| process.role == ProcessRole::Worker)
                && work_ahead.is_ahead(pid)
    }

    /// Processes of the job, except torch workers, that are idle in this round until the training process asks them for
    /// something: they wait to read what it writes.
    pub(super) fn asked(&self, rank: u32) -> impl Iterator<Item = u32> + '_ {
        let mains = self.threads.iter().filter(move |thread| thread.tid == thread.pid && thread.pid != rank);
        let others = mains.filter(|thread| !self.is_torch_worker(thread.pid));
        others.filter(move |thread| self.rests(thread, rank)).map(|thread| thread.pid)
    }

    /// Whether a thread waits in this round for what a process writes, as far as visible.
    fn rests(&self, thread: &GraphThread<'a>, writer: u32) -> bool {
        matches!(thread.wait, Wait::Pipe | Wait::Socket | Wait::Poll)
            && (!self.exact || self.reads_from(thread, writer))
    }

    /// If a worker's first thread is idle in this round until its training process asks it for something: the wait that
    /// its call looks like, and the wait for work that it is.
    pub(super) fn rest(&self, pid: u32, rank: u32) -> Option<(Wait, Wait)> {
        let main = self.thread(pid, pid)?;
        let hidden = matches!(main.wait, Wait::Socket | Wait::Poll) && !self.is_torch_worker(pid);
        (hidden && self.exact && self.reads_from(main, rank)).then_some((main.wait, Wait::Pipe))
    }

    /// Whether a thread waits in this round to read what a process writes.
    fn reads_from(&self, thread: &GraphThread<'a>, writer: u32) -> bool {
        let mut reads = self.waits_on(thread).filter(|(descriptor, _)| !descriptor.writes);
        reads.any(|(_, channel)| channel.writers.contains(&writer))
    }

    /// The torch worker pipe that the loop waits at, itself or through a thread of its process, and the PIDs that write
    /// to it. Each torch loader has one (`_worker_result_queue`); other loaders may have one per worker.
    pub(super) fn waited_set(&self, (pid, tid): (u32, u32), paths: &[RoundPath]) -> Option<(Arc<str>, Vec<u32>)> {
        let within = paths.iter().flat_map(|path| path.hops.iter().take_while(|hop| hop.pid == pid));
        let own = std::iter::once(tid).chain(within.map(|hop| hop.tid));
        let threads = own.filter_map(|tid| self.thread(pid, tid));
        let reading = threads.filter(|thread| matches!(thread.wait, Wait::LoaderPoll | Wait::Poll | Wait::Pipe));
        let reads = reading.flat_map(|thread| self.waits_on(thread)).filter(|(descriptor, _)| !descriptor.writes);
        let mut pipes = reads.filter(|(_, channel)| channel.link.starts_with("pipe:"));
        pipes.find_map(|(_, channel)| {
            let workers: Vec<u32> =
                channel.writers.iter().copied().filter(|pid| self.is_torch_worker(*pid)).collect();
            (!workers.is_empty()).then(|| (Arc::clone(&channel.link), workers))
        })
    }

    /// Whether a thread of a process that is not a torch worker has just started, or has ended since: its counters are
    /// in only one of two ticks.
    fn is_new(&self, thread: &GraphThread<'_>) -> bool {
        let others = !thread.paced && thread.tid != thread.pid && thread.role == ThreadRole::Other;
        others && self.thread(thread.pid, thread.pid).is_some_and(|main| main.paced)
    }

    /// The same for a thread by its TID.
    pub(super) fn is_new_thread(&self, pid: u32, tid: u32) -> bool {
        self.thread(pid, tid).is_some_and(|thread| self.is_new(thread))
    }

    /// Whether a process has a thread in this round that has just started, or has ended since.
    pub(super) fn has_new_threads(&self, pid: u32) -> bool {
        self.threads_of(pid).any(|thread| thread.wait != Wait::Unknown && self.is_new(thread))
    }

    /// Whether a process has torch workers.
    fn has_torch_workers(&self, pid: u32) -> bool {
        self.processes.values().any(|process| process.is_torch_worker() && process.parent == pid)
    }

    /// Whether this is a thread of the program itself, in a training process without workers. A thread that runs no
    /// Python computes for its caller; only the loop's stacks show that the call is for a batch.
    pub(super) fn makes_batches(&self, hop: &WaitHop) -> bool {
        let other = self.thread(hop.pid, hop.tid).filter(|thread| !self.is_native(thread));
        let own = hop.is_short_lived() || other.is_some_and(|thread| thread.role == ThreadRole::Other);
        own && !self.has_torch_workers(hop.pid)
    }

    pub(super) fn peer(&self, pid: u32, work_ahead: &WorkAhead) -> Peer {
        let known = self.processes.get(&pid);
        let reached = self.channels.values().filter(|channel| channel.writers.contains(&pid));
        let mut addresses: Vec<Arc<str>> = reached.filter_map(|channel| channel.remote.clone()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        Peer {
            pid,
            inside: self.inside_pids.contains(&pid),
            command: known.map(|process| Arc::clone(&process.command)).unwrap_or_default(),
            comm: known.map(|process| Arc::clone(&process.comm)).unwrap_or_default(),
            loader: self.is_loader(pid, work_ahead),
            addresses,
        }
    }
}
