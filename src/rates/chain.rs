//! Whom the loop waits for: from its thread over pipes, sockets, locks and other threads to the resource that ends the wait.
//!
//! A wait-for graph, followed once for each sample of the loop's thread that has what it waits on: where a thread is blocked,
//! [`follow`](Graph::ways) finds who would let it go on and asks the same of that thread, until somebody runs, or waits for a
//! disk, the device, an address elsewhere or a timer. Time is passed on and never counted twice: the shares of all ends add up
//! to the time of the samples. Where several may end a wait, each gets an equal part of it.
//!
//! The idea is that of wait-for graphs and critical paths (wPerf, OSDI 2018: while A waits for B, A's wait is what B does
//! meanwhile).

mod beside;
mod graph;
mod loop_thread;
mod native;
mod passing;
pub mod paths;
mod polling;
mod ways;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::device::{DeviceUse, busiest};
use super::levels::MOSTLY;
use super::sampled::{SampleClock, SampledTrainer, SampledWorker};
use super::stacks::python_threads;
use super::time_split::LoopActivity;
use super::wait::Wait;
use crate::sample::stacks::THREADS;
use crate::sample::{JobSample, ProcessId, StacksSample};
use beside::Beside;
pub(super) use graph::Graph;
use loop_thread::LoopThread;
pub(super) use loop_thread::ProcessTick;
use native::NativeThreads;
use passing::Passing;
use paths::{ChainRates, WaitEdge, WaitEnd, WaitHop};
use polling::Polling;
use ways::{PathSums, RoundPath};

/// What one sample's chain says about the loop's activity, where the wait itself does not. `sleeps`: the loop's own code does.
fn activity(
    ways: &[RoundPath],
    graph: &Graph<'_>,
    beside: &Beside,
    (pid, tid, main): (u32, u32, Wait),
    sleeps: bool,
) -> Option<LoopActivity> {
    match main {
        Wait::Running | Wait::DiskRead | Wait::DiskWrite | Wait::Memory => return None,
        // A socket with a time limit of 5 s is polled in the same way as the pipe of torch's loader.
        Wait::LoaderPoll if !graph.waits_on_sockets(pid, tid) => return None,
        _ => {}
    }
    let mut shares: BTreeMap<LoopActivity, f64> = BTreeMap::new();
    for way in ways {
        let of = match (way.hops.first(), &way.end) {
            (None, WaitEnd::Device) => LoopActivity::DeviceSync,
            (None, WaitEnd::Net(_) | WaitEnd::Children | WaitEnd::Asked) => LoopActivity::Other,
            (None, WaitEnd::Timer) if sleeps => LoopActivity::Other,
            (None, WaitEnd::Unknown) if way.name.is_some() => LoopActivity::Other,
            (None, _) => return None,
            (Some(hop), _) => match hop.by {
                // It works on request, or it is a guess that it is waited for.
                WaitEdge::Polls => LoopActivity::Other,
                _ if graph.is_loader(hop.pid, beside) => LoopActivity::InputWait,
                // A thread of the program's own, where there is no other loader: it makes the batches. Whether it works ahead
                // cannot be told: it needs the interpreter lock now and then, which the loop holds while it works.
                WaitEdge::Thread if way.hops.len() == 1 && way.end != WaitEnd::Asked && graph.makes_batches(hop) => {
                    LoopActivity::InputWait
                }
                // Through a thread of its own that waits for a loader: the pool's, or the pin thread.
                WaitEdge::Thread if way.hops.get(1).is_some_and(|next| graph.is_loader(next.pid, beside)) => {
                    LoopActivity::InputWait
                }
                WaitEdge::Thread if way.hops.len() == 1 && way.end == WaitEnd::Cpu => LoopActivity::HostBusy,
                _ => LoopActivity::Other,
            },
        };
        *shares.entry(of).or_default() += way.share;
    }
    shares.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(activity, _)| activity)
}

/// The first hop of a way into each other process.
fn foreign_hops(way: &RoundPath, pid: u32) -> impl Iterator<Item = &WaitHop> {
    let first = move |(at, hop): &(usize, &WaitHop)| !way.hops.iter().take(*at).any(|earlier| earlier.pid == hop.pid);
    way.hops.iter().enumerate().filter(first).map(|(_, hop)| hop).filter(move |hop| hop.pid != pid)
}

/// Whether a way leads straight out of the process, to somebody who was found.
fn leaves(way: &RoundPath, pid: u32) -> bool {
    match way.hops.first() {
        Some(hop) => hop.pid != pid,
        None => matches!(way.end, WaitEnd::Net(_) | WaitEnd::Children),
    }
}

/// What a worker's main thread waits for is not always what its call says. One that waits for threads of its own waits for
/// what they wait for; one that waits to read what the trainer writes, in whatever call, has nothing to do. The sampled waits
/// of such workers are put down to that. Those that wait at a lock which another worker holds are counted beside it.
pub(super) fn look_into_workers(graph: &mut Graph<'_>, job: &JobSample, workers: &mut [SampledWorker]) {
    const MAY_BE: [Wait; 4] = [Wait::Futex, Wait::Pipe, Wait::Poll, Wait::Socket];
    let count = |worker: &SampledWorker, wait: Wait| worker.counts.get(wait.index()).copied().unwrap_or(0);
    let blocked = |worker: &SampledWorker| MAY_BE.iter().any(|wait| count(worker, *wait) > 0);
    if !workers.iter().any(blocked) {
        return;
    }
    let every = u32::try_from(job.sampler.followed_every()).unwrap_or(u32::MAX);
    for round in job.sampler.followed_rounds() {
        graph.go_to(round);
        let holders = graph.lock_holders(workers);
        for worker in workers.iter_mut().filter(|worker| blocked(worker)) {
            let seen = graph.own_wait(worker.id.pid).or_else(|| graph.rest(worker.id.pid, worker.trainer));
            let Some((from, to)) = seen else {
                let waits = holders.contains(&worker.trainer) && graph.is_at_shared_lock(worker.id.pid);
                worker.at_lock +=
                    if waits { every.min(count(worker, Wait::Futex).saturating_sub(worker.at_lock)) } else { 0 };
                continue;
            };
            let moved = count(worker, from).min(every);
            if let Some(count) = worker.counts.get_mut(from.index()) {
                *count -= moved;
            }
            if let Some(count) = worker.counts.get_mut(to.index()) {
                *count = count.saturating_add(moved);
            }
            worker.by_own_threads += if to == Wait::Running { moved } else { 0 };
        }
    }
    graph.rewind();
}

/// The wait chains of a job's trainers: what spans ticks.
#[derive(Debug, Default)]
pub(super) struct Chains {
    carries: HashMap<ProcessId, ChainCarry>,
}

/// What spans ticks, for one trainer.
#[derive(Debug, Default)]
struct ChainCarry {
    loop_thread: LoopThread,
    native: NativeThreads,
    beside: Beside,
    clock: SampleClock,
    passing: Passing,
    polling: Polling,
    /// What the latest followed wait of each kind was for, and whether it led straight out of the process.
    said: [(Option<LoopActivity>, bool); Wait::COUNT],
    /// The pipe of data workers that was waited at last, and who writes to it.
    waited_at: Option<(Arc<str>, Vec<u32>)>,
}

/// One trainer whose chain is followed through a tick.
struct Followed<'a> {
    trainer: &'a mut SampledTrainer,
    carry: &'a mut ChainCarry,
    devices: Vec<&'a DeviceUse>,
    ways: PathSums,
    /// The first point that was not come to yet.
    next: usize,
}

impl Chains {
    /// The thread that runs a trainer's loop, as far as it is known.
    pub(super) fn loop_tid(&self, trainer: ProcessId) -> Option<u32> {
        self.carries.get(&trainer)?.loop_thread.tid()
    }

    /// Takes the stacks of trainers whose chain was followed before: they tell which threads run Python, and which train.
    pub(super) fn take_stacks(&mut self, stacks: &StacksSample) {
        for window in &stacks.windows {
            if let Some(carry) = self.carries.get_mut(&window.process) {
                let all = window.threads.len() < THREADS;
                let tids: Option<Vec<u32>> = window.threads.iter().map(|thread| thread.tid).collect();
                carry.native.take(tids.filter(|_| all));
                let threads = python_threads(window);
                let of_loop = carry.loop_thread.tid().unwrap_or(window.process.pid);
                carry.polling.take_stacks(threads.iter().find(|thread| thread.tid == of_loop));
                carry.loop_thread.take_stacks(threads);
            }
        }
    }

    /// The thread that runs a trainer's loop in this tick.
    pub(super) fn loop_of(&mut self, tick: &ProcessTick<'_>) -> u32 {
        self.carries.entry(tick.process.id).or_default().loop_thread.update(tick)
    }

    /// Trainers whose loop runs in another thread since this tick than in the one before.
    pub(super) fn moved(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.carries.iter().filter(|(_, carry)| carry.loop_thread.has_moved()).map(|(id, _)| *id)
    }

    /// Forgets all trainers but these.
    pub(super) fn retain(&mut self, trainers: &[SampledTrainer]) {
        self.carries.retain(|id, _| trainers.iter().any(|trainer| trainer.id == *id));
    }

    /// Takes the last samples as those to go on from, and follows nothing: what lies before them was not seen.
    pub(super) fn rebase(&mut self, trainers: &[SampledTrainer]) {
        for trainer in trainers {
            let carry = self.carries.entry(trainer.id).or_default();
            carry.clock.rebase(trainer.points.last().map(|point| point.at_ns));
        }
    }

    /// The chains of the trainers' loops, in their order; none for one of which nothing was followed. Where the chain tells
    /// what a sample waited for, the sample is told.
    pub(super) fn follow<'a>(
        &'a mut self,
        graph: &mut Graph<'_>,
        job: &JobSample,
        trainers: &'a mut [SampledTrainer],
        devices_of: impl Fn(u32) -> Vec<&'a DeviceUse>,
    ) -> Vec<Option<ChainRates>> {
        let mut carries: HashMap<ProcessId, &mut ChainCarry> =
            self.carries.iter_mut().map(|(id, carry)| (*id, carry)).collect();
        let followed = trainers.iter_mut().map(|trainer| {
            let carry = carries.remove(&trainer.id)?;
            carry.beside.begin();
            carry.native.note(trainer.id.pid, graph);
            graph.set_native(trainer.id.pid, carry.native.tids());
            let devices = devices_of(trainer.id.pid);
            Some(Followed { trainer, carry, devices, ways: PathSums::default(), next: 0 })
        });
        let mut followed: Vec<Option<Followed<'_>>> = followed.collect();
        for round in job.sampler.followed_rounds() {
            graph.go_to(round);
            followed.iter_mut().flatten().for_each(|one| one.go_to(round, graph, job.sampler.followed_every()));
        }
        followed.into_iter().map(|one| one?.finish(graph)).collect()
    }
}

impl Followed<'_> {
    fn go_to(&mut self, round: u32, graph: &Graph<'_>, every: usize) {
        let Self { trainer, carry, devices, ways, next } = self;
        while trainer.points.get(*next).is_some_and(|point| point.round < round) {
            *next += 1;
        }
        let Some(point) = trainer.points.get(*next).copied().filter(|point| point.round == round) else { return };
        let (pid, tid) = (trainer.id.pid, trainer.tid);
        let mut all = graph.ways_of(pid, tid, busiest(devices, point.at_ns));
        let seconds = carry.clock.seconds(point.at_ns);
        carry.passing.take(&mut all, graph, (pid, point.main), seconds);
        carry.polling.take(&mut all, graph, (pid, tid, point.main), seconds);
        let found = &all.ways;
        let waits = found.iter().flat_map(|way| foreign_hops(way, pid).map(|hop| (hop.pid, way.share)));
        let works = found
            .iter()
            .all(|way| way.hops.is_empty() && matches!(way.end, WaitEnd::Cpu | WaitEnd::Device | WaitEnd::Timer));
        // Who rests while the loop waits for a thread of its own may do so because what it made is still being handed over.
        let leaves: f64 = found.iter().filter(|way| leaves(way, pid)).map(|way| way.share).sum();
        let resting = (works || leaves >= MOSTLY).then(|| graph.asked(pid)).into_iter().flatten();
        carry.beside.add(waits, resting, works.then(|| graph.at_work((pid, tid))));
        let sleeps = point.main == Wait::Sleep && carry.polling.is_by_code();
        let said = activity(found, graph, &carry.beside, (pid, tid, point.main), sleeps);
        if let Some(known) = carry.said.get_mut(point.main.index()) {
            *known = (said, leaves >= MOSTLY);
        }
        // The samples up to the next followed one are of waits like those that were followed last.
        for later in trainer.points.iter_mut().skip(*next).take(every) {
            (later.by_chain, later.leaves) = carry.said.get(later.main.index()).copied().unwrap_or_default();
        }
        // Tensors are fetched over sockets once their batch has come out of a pipe: of the one that was waited at last.
        let set = graph.waited_set((pid, tid), found);
        let fetches = point.main == Wait::Socket && said == Some(LoopActivity::InputWait);
        if let Some(set) = set.as_ref().or(carry.waited_at.as_ref().filter(|_| fetches)) {
            ways.add_set(set, seconds);
        }
        carry.waited_at = set.or(carry.waited_at.take());
        ways.add(all, seconds);
    }

    fn finish(self, graph: &Graph<'_>) -> Option<ChainRates> {
        let Self { trainer, carry, ways, .. } = self;
        let peer = |pid| graph.peer(pid, &carry.beside);
        let of_loop = graph.thread(trainer.id.pid, trainer.tid).filter(|thread| thread.paced);
        let wakes_per_s = of_loop.map(|thread| thread.wakes_per_s);
        let guessed = carry.loop_thread.is_guessed(trainer.id.pid) || carry.polling.guesses();
        let (process, tid, exact) = (trainer.id, trainer.tid, graph.exact && !guessed);
        let chain = ChainRates { process, tid, exact, wakes_per_s, ..ways.finish(peer) };
        Some(chain).filter(|chain| chain.samples > 0)
    }
}

#[cfg(test)]
mod tests;
