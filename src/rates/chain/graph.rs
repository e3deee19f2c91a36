//! The wait-for graph of one tick, and how a wait is followed through it.

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
use crate::rates::delta::{rate, span};
use crate::rates::levels::NEXT_TO_NOTHING;
use crate::rates::short_lived::ShortLived;
use crate::rates::wait::Wait;
use crate::sample::{
    Access, Channel, Descriptor, JobSample, LockWait, Observation, ProcessId, ProcessRole, ProcessSample,
    SampledThread, SamplerSample, ThreadRole, ThreadSample,
};
use short_lived::Explained;
use short_waits::short_waits;

/// A sample of a thread speaks for so many rounds after it: others are sampled in every third, many of them in turns.
const ROUNDS_HELD: u32 = 24;
/// Longest chain that is followed.
const DEPTH: usize = 6;
/// Most processes that one wait is followed to.
const CANDIDATES: usize = 16;
/// A thread that hardly runs, and wakes less often a second than this, lets no other thread go on.
const MOVES_S: f64 = 0.5;
/// Threads of libraries that wait for events of their own: nothing waits for them (libcuda, NCCL, OpenMP, tqdm).
const BACKGROUND: &[&str] = &["cuda-Evt", "pt_nccl", "NCCL", "OMP", "iou-", "tokio", "jemalloc"];

/// A thread that was sampled.
#[derive(Debug)]
pub(super) struct GraphThread<'a> {
    pid: u32,
    pub(super) tid: u32,
    pub(super) role: ThreadRole,
    /// It wakes or runs often enough to be waited for.
    pub(super) active: bool,
    /// Share of the time on a CPU.
    pub(super) cpu: f64,
    /// Wake-ups a second.
    pub(super) wakes_per_s: f64,
    /// Its counters stand in the tick before, too: its pace is known.
    pub(super) paced: bool,
    /// Of the samples in which it was seen running, the part that were waits for a disk.
    at_disk: f64,
    samples: Vec<(u32, u32)>,
    cursor: usize,
    now: Option<&'a Observation>,
    wait: Wait,
    /// The part of its waits that is for short-lived children or threads, where nothing else is known.
    explained: Explained,
}

impl GraphThread<'_> {
    /// `pace` is that of its counters, where they stand in both ticks: share of the time on a CPU, wake-ups a second.
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

/// The threads that a wait was followed through, the one at hand included.
type Trail<'g, 'a> = Vec<&'g GraphThread<'a>>;

/// Threads of these that run at this round.
fn running<'g, 'a>(of: &[&'g GraphThread<'a>]) -> Vec<&'g GraphThread<'a>> {
    of.iter().copied().filter(|thread| thread.wait == Wait::Running).collect()
}

/// The threads of one tick and what joins their processes.
#[derive(Debug)]
pub(in crate::rates) struct Graph<'a> {
    pub(super) exact: bool,
    pub(super) sampler: &'a SamplerSample,
    /// What the sampler's observations mean, in their order.
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
    /// Threads that the wait at hand may still be followed through.
    steps: std::cell::Cell<u32>,
}

/// The processes of a job, and those outside of it that it is connected with, by PID.
fn by_pid(job: &JobSample) -> HashMap<u32, &ProcessSample> {
    let outside = job.connections.iter().flat_map(|connections| &connections.outside);
    job.processes.iter().chain(outside).map(|process| (process.id.pid, process)).collect()
}

fn thread_of<'a>(processes: &HashMap<u32, &'a ProcessSample>, pid: u32, tid: u32) -> Option<&'a ThreadSample> {
    processes.get(&pid)?.threads.iter().find(|thread| thread.tid == tid)
}

/// How a thread's counters moved: share of the time on a CPU, and times a second that it was given one.
fn pace(before: &ThreadSample, now: &ThreadSample, seconds: Option<f64>) -> Option<(f64, f64)> {
    let cpu = rate(now.on_cpu_ns, before.on_cpu_ns, seconds)? / 1e9;
    Some((cpu, rate(now.timeslices, before.timeslices, seconds)?))
}

impl<'a> Graph<'a> {
    /// The graph of a tick; none where it was not read what joins the processes. `waits` are the meanings of the sampler's
    /// observations, in their order; `lived` is what used the CPUs for a moment.
    pub(in crate::rates) fn new(
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
        // torch's workers that were sampled in this tick until they ended are still known for what they were. Others are found by what
        // they used, as children that live shortly.
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

    /// Notes the threads of a process that run no Python.
    pub(super) fn set_native(&mut self, pid: u32, tids: impl Iterator<Item = u32>) {
        self.native.extend(tids.map(|tid| (pid, tid)));
    }

    fn is_native(&self, thread: &GraphThread<'_>) -> bool {
        self.native.contains(&(thread.pid, thread.tid))
    }

    pub(super) fn thread(&self, pid: u32, tid: u32) -> Option<&GraphThread<'a>> {
        self.threads_of(pid).find(|thread| thread.tid == tid)
    }

    /// Moves on to a round: what each thread was doing as of then. Rounds come in order.
    pub(in crate::rates::chain) fn go_to(&mut self, round: u32) {
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

    /// Begins again at the first round.
    pub(in crate::rates::chain) fn rewind(&mut self) {
        for thread in &mut self.threads {
            (thread.cursor, thread.now, thread.wait) = (0, None, Wait::Unknown);
        }
    }

    /// The descriptors that a thread waits on at this round, as far as it is known where they lead.
    fn waits_on(&self, thread: &GraphThread<'a>) -> impl Iterator<Item = (&'a Descriptor, &'a Channel)> + '_ {
        let descriptors = thread.now.into_iter().flat_map(|seen| &seen.descriptors);
        descriptors.filter_map(|descriptor| Some((descriptor, *self.channels.get(&*descriptor.link)?)))
    }

    /// A thread waits on sockets, and on nothing else, at this round.
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
    fn companions(&self, thread: &GraphThread<'a>, trail: &[&GraphThread<'a>]) -> Vec<&GraphThread<'a>> {
        self.active_of(thread.pid, trail).into_iter().filter(|other| !std::ptr::eq(*other, thread)).collect()
    }

    fn active_of(&self, pid: u32, trail: &[&GraphThread<'a>]) -> Vec<&GraphThread<'a>> {
        let is_on_trail = |one: &GraphThread<'a>| trail.iter().any(|on| std::ptr::eq(*on, one));
        self.threads_of(pid).filter(|one| one.active && !is_on_trail(one)).collect()
    }

    /// Processes of the job but the target, by PID.
    fn others_of_job(&self) -> Vec<u32> {
        let mut pids: Vec<u32> = self.by_process.keys().copied().collect();
        pids.retain(|pid| self.inside_pids.contains(pid) && *pid != self.target.pid);
        pids.sort_unstable();
        pids
    }

    /// The one process was started by the other, or by one that it has started.
    fn is_child_of(&self, pid: u32, of: u32) -> bool {
        let parent = |pid: &u32| self.processes.get(pid).map(|process| process.parent);
        std::iter::successors(Some(pid), parent).skip(1).take(DEPTH).any(|parent| parent == of)
    }

    /// Batches come from this process: it is one of torch's workers, or a process of the job that works ahead of the loop.
    pub(super) fn is_loader(&self, pid: u32, work_ahead: &WorkAhead) -> bool {
        let inside = self.inside_pids.contains(&pid);
        self.is_torch_worker(pid)
            || inside
                && self.processes.get(&pid).is_some_and(|process| process.role == ProcessRole::Worker)
                && work_ahead.is_ahead(pid)
    }

    /// Processes of the job, but torch's workers, that rest at this round until a trainer asks them for something: they wait to
    /// read what it writes.
    pub(super) fn asked(&self, trainer: u32) -> impl Iterator<Item = u32> + '_ {
        let mains = self.threads.iter().filter(move |thread| thread.tid == thread.pid && thread.pid != trainer);
        let others = mains.filter(|thread| !self.is_torch_worker(thread.pid));
        others.filter(move |thread| self.rests(thread, trainer)).map(|thread| thread.pid)
    }

    /// A thread waits at this round for what a process writes, as far as can be seen.
    fn rests(&self, thread: &GraphThread<'a>, writer: u32) -> bool {
        matches!(thread.wait, Wait::Pipe | Wait::Socket | Wait::Poll)
            && (!self.exact || self.reads_from(thread, writer))
    }

    /// A worker's main thread that is seen to rest at this round until its trainer asks it for something: the wait that its
    /// call looks like, and the one in which it has nothing to do.
    pub(super) fn rest(&self, pid: u32, trainer: u32) -> Option<(Wait, Wait)> {
        let main = self.thread(pid, pid)?;
        let hidden = matches!(main.wait, Wait::Socket | Wait::Poll) && !self.is_torch_worker(pid);
        (hidden && self.exact && self.reads_from(main, trainer)).then_some((main.wait, Wait::Pipe))
    }

    /// A thread waits at this round to read what a process writes.
    fn reads_from(&self, thread: &GraphThread<'a>, writer: u32) -> bool {
        let mut reads = self.waits_on(thread).filter(|(descriptor, _)| !descriptor.writes);
        reads.any(|(_, channel)| channel.writers.contains(&writer))
    }

    /// The pipe of torch's data workers that a trainer's loop waits at, itself or by a thread of its process, and the PIDs that write to
    /// it: each of torch's loaders has one (`_worker_result_queue`). Others may have one for each worker.
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

    /// A thread of a process that is none of torch's and has just begun, or has ended since: its counters stand in one of two
    /// ticks alone.
    fn is_new(&self, thread: &GraphThread<'_>) -> bool {
        let others = !thread.paced && thread.tid != thread.pid && thread.role == ThreadRole::Other;
        others && self.thread(thread.pid, thread.pid).is_some_and(|main| main.paced)
    }

    /// The same of a thread by its number.
    pub(super) fn is_new_thread(&self, pid: u32, tid: u32) -> bool {
        self.thread(pid, tid).is_some_and(|thread| self.is_new(thread))
    }

    /// A process has a thread at this round that has just begun, or has ended since.
    pub(super) fn has_new_threads(&self, pid: u32) -> bool {
        self.threads_of(pid).any(|thread| thread.wait != Wait::Unknown && self.is_new(thread))
    }

    /// A process has data workers of torch's.
    fn has_torch_workers(&self, pid: u32) -> bool {
        self.processes.values().any(|process| process.is_torch_worker() && process.parent == pid)
    }

    /// A thread of the trainer that is not torch's, where no data workers are. One that runs no Python computes for its
    /// caller; that the call is for a batch, only the loop's stacks tell.
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
