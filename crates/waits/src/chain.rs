//! The wait chain: what the loop waits for, and what that waits for in turn, from the loop's thread over pipes,
//! sockets, locks and other threads to the resource that ends the wait.
//!
//! What belongs here: the wait-for graph of a tick, the rules for following a wait through it, and the state from
//! earlier ticks that these rules need. What does not: what a wait costs the run (`rank`), or whether it matters
//! (`diagnosis`).
//!
//! The order of a tick:
//! 1. `loop_thread` finds the thread that runs the loop, nearly always the first one.
//! 2. `graph` connects the sampled threads by the pipes, sockets, locks and children they wait on.
//! 3. `graph/follow` starts at the loop's thread, once for each sample with a known wait. It finds what would wake the
//!    thread (`graph/descriptors`, `graph/short_lived`) and asks the same of that, until something runs, or waits for a
//!    disk, the GPU or a remote address, or sleeps or polls. The results are [`RoundPath`]s whose shares add up to 1:
//!    if several things may end a wait, each gets an equal part.
//! 4. What one sample cannot show is filled in from the last seconds: threads too short-lived to follow
//!    (`short_lived_paths`), a loop that sleeps and polls (`polling`), processes that work ahead (`work_ahead`),
//!    threads that run no Python (`native`).
//! 5. `round_paths` adds the samples up to the frame's [`ChainRates`], which are declared in `paths`.
//!
//! The idea is that of wait-for graphs and critical paths (wPerf, OSDI 2018: while A waits for B, A's wait is what B
//! does meanwhile).

mod graph;
mod loop_thread;
mod native;
pub mod paths;
mod polling;
mod round_paths;
mod short_lived_paths;
mod work_ahead;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::sampled::{SampleClock, SampledRank, SampledWorker};
use super::stacks::python_threads;
use super::time_split::LoopActivity;
use super::wait::Wait;
use crate::taxonomy::{Edge, End};
pub(super) use graph::Graph;
use loop_thread::LoopFinder;
pub(super) use loop_thread::ProcessTick;
use native::NativeThreads;
use paths::{ChainRates, WaitHop};
use polling::Polling;
use round_paths::{PathSums, RoundPath};
use short_lived_paths::ShortLivedPaths;
use trainmon_rates::device::{GpuUse, busiest};
use trainmon_rates::levels::MOSTLY;
use trainmon_sample::stacks::THREADS;
use trainmon_sample::{JobSample, StackWindow};
use work_ahead::WorkAhead;

/// What one sample's chain says about the loop's activity, if the wait itself does not. `sleeps`: the loop's own code
/// sleeps.
fn activity(
    paths: &[RoundPath],
    graph: &Graph<'_>,
    work_ahead: &WorkAhead,
    (pid, tid, main): (u32, u32, Wait),
    sleeps: bool,
) -> Option<LoopActivity> {
    match main {
        Wait::Running | Wait::DiskRead | Wait::DiskWrite | Wait::Memory => return None,
        // A socket with a 5 s timeout is polled just like the pipe of torch's loader.
        Wait::LoaderPoll if !graph.waits_on_sockets(pid, tid) => return None,
        _ => {}
    }
    let mut shares: BTreeMap<LoopActivity, f64> = BTreeMap::new();
    for path in paths {
        let of = match (path.hops.first(), path.end) {
            (None, End::Gpu) => LoopActivity::DeviceSync,
            (None, End::Net | End::Children | End::Asked) => LoopActivity::Other,
            (None, End::Timer) if sleeps => LoopActivity::Other,
            (None, End::Unknown) if path.name.is_some() => LoopActivity::Other,
            (None, _) => return None,
            (Some(hop), _) => match hop.by {
                // It works on request, or it is only a guess that the loop waits for it.
                Edge::Polls => LoopActivity::Other,
                _ if graph.is_loader(hop.pid, work_ahead) => LoopActivity::InputWait,
                // A thread of the program itself, without another loader: it makes the batches. Whether it works ahead
                // is unclear: now and then it needs the interpreter lock, which the loop holds while it works.
                Edge::Thread if path.hops.len() == 1 && path.end != End::Asked && graph.makes_batches(hop) => {
                    LoopActivity::InputWait
                }
                // Through one of its own threads that waits for a loader: the pool's, or the pin-memory thread.
                Edge::Thread if path.hops.get(1).is_some_and(|next| graph.is_loader(next.pid, work_ahead)) => {
                    LoopActivity::InputWait
                }
                Edge::Thread if path.hops.len() == 1 && path.end == End::Cpu => LoopActivity::HostBusy,
                _ => LoopActivity::Other,
            },
        };
        *shares.entry(of).or_default() += path.share;
    }
    shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(activity, _)| activity)
}

/// The first hop of a path into each other process.
fn foreign_hops(path: &RoundPath, pid: u32) -> impl Iterator<Item = &WaitHop> {
    let first =
        move |(at, hop): &(usize, &WaitHop)| !path.hops.iter().take(*at).any(|earlier| earlier.pid == hop.pid);
    path.hops.iter().enumerate().filter(first).map(|(_, hop)| hop).filter(move |hop| hop.pid != pid)
}

/// Whether a path leads straight out of the process to a known end.
fn leaves(path: &RoundPath, pid: u32) -> bool {
    match path.hops.first() {
        Some(hop) => hop.pid != pid,
        None => matches!(path.end, End::Net | End::Children),
    }
}

/// Corrects the workers' sampled waits, since a call does not always show its purpose. A worker that waits for its own
/// threads waits for what they wait for. One that waits to read what the training process writes, in any call, has
/// nothing to do. Waits for a lock that another worker holds are counted too.
pub(super) fn resolve_worker_waits(graph: &mut Graph<'_>, job: &JobSample, workers: &mut [SampledWorker]) {
    const MAY_BE: [Wait; 4] = [Wait::Futex, Wait::Pipe, Wait::Poll, Wait::Socket];
    let count = |worker: &SampledWorker, wait: Wait| worker.counts.get(&wait).copied().unwrap_or(0);
    let blocked = |worker: &SampledWorker| MAY_BE.iter().any(|wait| count(worker, *wait) > 0);
    if !workers.iter().any(blocked) {
        return;
    }
    let every = u32::try_from(job.sampler.followed_every()).unwrap_or(u32::MAX);
    for round in job.sampler.followed_rounds() {
        graph.go_to(round);
        let holders = graph.lock_holders(workers);
        for worker in workers.iter_mut().filter(|worker| blocked(worker)) {
            let seen = graph.own_wait(worker.id.pid).or_else(|| graph.rest(worker.id.pid, worker.rank));
            let Some((from, to)) = seen else {
                let waits = holders.contains(&worker.rank) && graph.is_at_shared_lock(worker.id.pid);
                worker.at_lock +=
                    if waits { every.min(count(worker, Wait::Futex).saturating_sub(worker.at_lock)) } else { 0 };
                continue;
            };
            let moved = count(worker, from).min(every);
            *worker.counts.entry(from).or_default() -= moved;
            *worker.counts.entry(to).or_default() += moved;
            worker.by_own_threads += if to == Wait::Running { moved } else { 0 };
        }
    }
    graph.rewind();
}

/// The state of one training process's wait chain between ticks.
#[derive(Debug, Default)]
pub(super) struct ChainState {
    loop_thread: LoopFinder,
    native: NativeThreads,
    work_ahead: WorkAhead,
    clock: SampleClock,
    short_lived: ShortLivedPaths,
    polling: Polling,
    /// The purpose of the latest followed wait of each kind, and whether it led straight out of the process.
    latest_by_wait: HashMap<Wait, (Option<LoopActivity>, bool)>,
    /// The worker pipe last waited at, and the PIDs that write to it.
    waited_at: Option<(Arc<str>, Vec<u32>)>,
}

impl ChainState {
    /// The thread that runs the loop, if known.
    pub(super) fn loop_tid(&self) -> Option<u32> {
        self.loop_thread.tid()
    }

    /// Whether the loop runs in another thread than in the previous tick.
    pub(super) fn has_moved(&self) -> bool {
        self.loop_thread.has_moved()
    }

    /// The thread that runs the loop in this tick.
    pub(super) fn loop_of(&mut self, tick: &ProcessTick<'_>) -> u32 {
        self.loop_thread.update(tick)
    }

    /// Takes the process's stacks: they show which threads run Python, and which train.
    pub(super) fn take_stacks(&mut self, window: &StackWindow) {
        let all = window.threads.len() < THREADS;
        let tids: Option<Vec<u32>> = window.threads.iter().map(|thread| thread.tid).collect();
        self.native.take(if all { tids } else { None });
        let threads = python_threads(window);
        let of_loop = self.loop_tid().unwrap_or(window.process.pid);
        self.polling.take_stacks(threads.iter().find(|thread| thread.tid == of_loop));
        self.loop_thread.take_stacks(threads);
    }

    /// Continues from the last sample without following anything: what came before it was not sampled.
    pub(super) fn rebase(&mut self, rank: &SampledRank) {
        self.clock.rebase(rank.points.last().map(|point| point.at_ns));
    }
}

/// A training process whose chain is followed through a tick.
struct FollowedRank<'a> {
    rank: &'a mut SampledRank,
    state: &'a mut ChainState,
    devices: Vec<&'a GpuUse>,
    paths: PathSums,
    /// The next point to process.
    next: usize,
}

/// The chains of the training loops, in their order; `None` for a loop without followed waits. If the chain shows what
/// a sample waited for, it is added to the sample.
pub(super) fn follow<'a>(
    graph: &mut Graph<'_>,
    job: &JobSample,
    ranks: impl Iterator<Item = (&'a mut ChainState, Vec<&'a GpuUse>, &'a mut SampledRank)>,
) -> Vec<Option<ChainRates>> {
    let followed = ranks.map(|(state, devices, rank)| {
        state.work_ahead.begin();
        state.native.note(rank.id.pid, graph);
        graph.set_native(rank.id.pid, state.native.tids());
        FollowedRank { rank, state, devices, paths: PathSums::default(), next: 0 }
    });
    let mut followed: Vec<FollowedRank<'_>> = followed.collect();
    for round in job.sampler.followed_rounds() {
        graph.go_to(round);
        followed.iter_mut().for_each(|one| one.go_to(round, graph, job.sampler.followed_every()));
    }
    followed.into_iter().map(|one| one.finish(graph)).collect()
}

impl FollowedRank<'_> {
    fn go_to(&mut self, round: u32, graph: &Graph<'_>, every: usize) {
        let Self { rank, state, devices, paths, next } = self;
        while rank.points.get(*next).is_some_and(|point| point.round < round) {
            *next += 1;
        }
        let Some(point) = rank.points.get(*next).copied().filter(|point| point.round == round) else { return };
        let (pid, tid) = (rank.id.pid, rank.tid);
        let mut all = graph.loop_paths(pid, tid, busiest(devices, point.at_ns));
        let seconds = state.clock.seconds(point.at_ns);
        state.short_lived.take(&mut all, graph, (pid, point.main), seconds);
        state.polling.take(&mut all, graph, (pid, tid, point.main), seconds);
        let found = &all.paths;
        let waits = found.iter().flat_map(|path| foreign_hops(path, pid).map(|hop| (hop.pid, path.share)));
        let works =
            found.iter().all(|path| path.hops.is_empty() && matches!(path.end, End::Cpu | End::Gpu | End::Timer));
        // A process may be idle while the loop waits for one of its own threads because its output is still being
        // handed over.
        let leaves: f64 = found.iter().filter(|path| leaves(path, pid)).map(|path| path.share).sum();
        let resting = (works || leaves >= MOSTLY).then(|| graph.asked(pid)).into_iter().flatten();
        state.work_ahead.add(waits, resting, works.then(|| graph.at_work((pid, tid))));
        let sleeps = point.main == Wait::Sleep && state.polling.is_by_code();
        let said = activity(found, graph, &state.work_ahead, (pid, tid, point.main), sleeps);
        state.latest_by_wait.insert(point.main, (said, leaves >= MOSTLY));
        // The samples up to the next followed one are assumed to wait like those followed last.
        for later in rank.points.iter_mut().skip(*next).take(every) {
            (later.by_chain, later.leaves) = state.latest_by_wait.get(&later.main).copied().unwrap_or_default();
        }
        // Once a batch has come out of a pipe, its tensors are fetched over sockets: they belong to the pipe last
        // waited at.
        let set = graph.waited_set((pid, tid), found);
        let fetches = point.main == Wait::Socket && said == Some(LoopActivity::InputWait);
        let last = if fetches { state.waited_at.as_ref() } else { None };
        if let Some(set) = set.as_ref().or(last) {
            paths.add_set(set, seconds);
        }
        state.waited_at = set.or(state.waited_at.take());
        paths.add(all, seconds);
    }

    fn finish(self, graph: &Graph<'_>) -> Option<ChainRates> {
        let Self { rank, state, paths, .. } = self;
        let peer = |pid| graph.peer(pid, &state.work_ahead);
        let of_loop = graph.thread(rank.id.pid, rank.tid).filter(|thread| thread.paced);
        let wakes_per_s = of_loop.map(|thread| thread.wakes_per_s);
        let guessed = state.loop_thread.is_guessed(rank.id.pid) || state.polling.guesses();
        let (process, tid, exact) = (rank.id, rank.tid, graph.exact && !guessed);
        let chain = ChainRates { process, tid, exact, wakes_per_s, ..paths.finish(peer) };
        Some(chain).filter(|chain| chain.samples > 0)
    }
}

#[cfg(test)]
mod tests;
