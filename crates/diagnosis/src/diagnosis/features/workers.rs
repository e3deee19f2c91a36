//! The workers, together and one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::{Span, WeightedMean};
use crate::diagnosis::code::worker_stages;
use crate::diagnosis::parts::{Hottest, Stages, WorkerVerdict};
use crate::diagnosis::place;
use crate::diagnosis::thresholds::LARGER_HALF;
use trainmon_base::stats::{self, mean, round};
use trainmon_rates::threads::ThreadRoleRates;
use trainmon_sample::{ProcessId, ProcessRole, ThreadRole};
use trainmon_waits::Frame;
use trainmon_waits::frame::WorkerRates;
use trainmon_waits::stacks::Activity;

/// A resting worker uses less of a CPU than this, as a share of the time …
const RESTS: f64 = 0.005;
/// … while another uses more than this.
const WORKS: f64 = 0.05;
/// If this much of the loop's wait for loaders is at one pipe, 0–1, the loop did not wait for workers that hold no such pipe.
const MOST_WAITS: f64 = 0.5;

/// Shares are means over the set.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Workers {
    /// Workers alive at the end.
    pub count: usize,
    /// Torch's workers that ended before the others because their shard of a stream ended, or they had none.
    pub ended: usize,
    /// On a CPU.
    pub busy: f64,
    /// Waiting for data.
    pub io_wait: f64,
    /// Queueing.
    pub runnable: f64,
    /// Idle.
    pub idle: f64,
    /// The part of `idle` at a lock that another worker held, of the worker that waits there least: if they take turns, all of
    /// them wait.
    pub lock_wait: f64,
    /// The part of `io_wait` for a disk.
    pub disk_wait: f64,
    /// The part of `io_wait` for a socket.
    pub socket_wait: f64,
    /// The part of `io_wait` in timed sleeps.
    pub sleep: f64,
    /// Active threads per worker.
    pub active_threads: f64,
    /// Workers that appeared during the window, and the number of frames with new ones.
    pub new: usize,
    pub sets: usize,
    /// Sets of workers come and go too fast to be counted.
    pub in_quick_sets: bool,
    /// None has the name that torch gives its workers: they may be another loader's.
    pub unnamed: bool,
    /// The active share of the busiest worker and of the median worker of the same rank, because ranks have loaders of their
    /// own. With several ranks, that of the rank with the most uneven workers.
    pub busiest: (f64, f64),
    /// CPU use of all worker processes with their helper threads, CPUs.
    pub cpu_cores: Option<f64>,
    /// Each worker at the end.
    pub each: Vec<WorkerVerdict>,
    /// Time by stage, a mean over the workers, if stacks were read.
    pub stages: Option<Stages>,
    /// The path of their time, as shares of it, if stacks were read.
    pub place: Vec<Hottest>,
}

/// Means for one worker, or for all.
#[derive(Debug, Clone, Copy, Default)]
struct Means {
    /// Busy, waiting for data, queueing, idle; then waits for disks and sockets, sleeps, and waits at each other's locks.
    shares: [WeightedMean; 8],
    batches: WeightedMean,
}

impl Means {
    fn add(&mut self, worker: &WorkerRates, seconds: f64) {
        let WorkerRates { busy, io_wait, runnable, idle, disk_wait, socket_wait, sleep, lock_wait, .. } = worker;
        let parts = [busy, io_wait, runnable, idle, disk_wait, socket_wait, sleep, lock_wait];
        self.shares.iter_mut().zip(parts).for_each(|(mean, part)| mean.add(*part, seconds));
        self.batches.add(worker.batches_per_s, seconds);
    }

    /// Share of its time at a lock that another worker held.
    fn lock_wait(&self) -> f64 {
        let [.., lock_wait] = self.shares.map(WeightedMean::get);
        lock_wait.unwrap_or(0.0)
    }

    /// Share of its time with something to do.
    fn active(&self) -> Option<f64> {
        let [busy, io_wait, runnable, ..] = self.shares.map(WeightedMean::get);
        Some(busy? + io_wait.unwrap_or(0.0) + runnable.unwrap_or(0.0))
    }
}

impl Workers {
    pub(super) fn from_span(span: &Span<'_>) -> Option<Self> {
        let last = span.frames.last()?;
        // A set that is being restarted may be missing from the last frame.
        let sets = span.frames.iter().rev().map(|frame| span.workers(frame).collect::<Vec<_>>());
        let alive = sets.into_iter().find(|workers| !workers.is_empty())?;
        let mut resting = resting(span);
        resting.extend(of_other_loaders(span, &alive));
        resting.extend(no_loaders(span, &alive));
        let alive: Vec<_> = alive.into_iter().filter(|worker| !resting.contains(&worker.id)).collect();
        let (mut all, mut threads, mut new, mut sets) = (Means::default(), WeightedMean::default(), 0, 0);
        let mut by_worker: BTreeMap<ProcessId, Means> = BTreeMap::new();
        for (at, frame) in span.frames.iter().enumerate() {
            let before = new;
            for worker in span.workers(frame).filter(|worker| !resting.contains(&worker.id)) {
                all.add(worker, frame.seconds);
                by_worker.entry(worker.id).or_default().add(worker, frame.seconds);
                threads.add(Some(f64::from(worker.active_threads)), frame.seconds);
                new += usize::from(worker.new && at > 0);
            }
            sets += usize::from(new > before);
        }
        let [busy, io_wait, runnable, idle, disk_wait, socket_wait, sleep, _] = all.shares.map(WeightedMean::get);
        let lock_waits = by_worker.values().map(Means::lock_wait);
        let lock_wait = lock_waits.reduce(f64::min).unwrap_or(0.0);
        let mut actives: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for worker in &alive {
            let active = by_worker.get(&worker.id).and_then(Means::active);
            actives.entry(worker.rank).or_default().extend(active);
        }
        let each = each_worker(span, &alive, &by_worker);
        let now = span.workers(last).filter(|worker| !resting.contains(&worker.id)).count();
        Some(Self {
            count: if now == 0 { alive.len() } else { now },
            ended: ended(span, &resting),
            busy: busy?,
            io_wait: io_wait.unwrap_or(0.0),
            runnable: runnable.unwrap_or(0.0),
            idle: idle.unwrap_or(0.0),
            lock_wait,
            disk_wait: disk_wait.unwrap_or(0.0),
            socket_wait: socket_wait.unwrap_or(0.0),
            sleep: sleep.unwrap_or(0.0),
            active_threads: threads.get().unwrap_or(1.0),
            new,
            sets,
            in_quick_sets: span.is_quick(sets),
            unnamed: alive.iter().all(|worker| worker.unnamed),
            busiest: most_uneven(actives.values()),
            cpu_cores: span.mean(|frame| {
                let used = span.workers(frame).filter_map(|worker| worker.cpu_pct);
                used.reduce(|sum, pct| sum + pct).map(|pct| pct / 100.0)
            }),
            stages: mean_stages(&each),
            place: path(span, &each),
            each,
        })
    }

    /// Share of their time with something to do.
    pub fn active(&self) -> f64 {
        self.busy + self.io_wait + self.runnable
    }
}

/// The path of the workers' time.
fn path(span: &Span<'_>, each: &[WorkerVerdict]) -> Vec<Hottest> {
    let calls = span.stacks.all_workers().calls;
    let of = |share: Option<f64>| share.unwrap_or(0.0);
    let active = mean(each.iter().map(|worker| of(worker.busy) + of(worker.io_wait) + of(worker.runnable)));
    let active = active.unwrap_or(0.0).min(1.0);
    place::path(&calls, |samples| active * f64::from(samples) / f64::from(calls.samples.max(1)))
}

/// The time of each worker that is alive at the end.
fn each_worker(
    span: &Span<'_>,
    alive: &[&WorkerRates],
    by_worker: &BTreeMap<ProcessId, Means>,
) -> Vec<WorkerVerdict> {
    let pooled = span.stacks.all_workers();
    let one = |worker: &&WorkerRates| {
        let means = by_worker.get(&worker.id).copied().unwrap_or_default();
        let [busy, io_wait, runnable, idle, ..] = means.shares.map(WeightedMean::get);
        let own = span.stacks.workers.get(&worker.id);
        let complete = if busy.is_some() && runnable.is_some() { io_wait.zip(idle) } else { None };
        let by_stacks = complete.and_then(|(io_wait, idle)| worker_stages(io_wait, idle, own, &pooled));
        let (stages, hottest) = by_stacks.unzip();
        // All four or none.
        let share = |share: Option<f64>| if complete.is_some() { Some(round(share?, 3)) } else { None };
        WorkerVerdict {
            pid: worker.id.pid,
            busy: share(busy),
            io_wait: share(io_wait),
            runnable: share(runnable),
            idle: share(idle),
            batches_per_s: means.batches.get().map(|rate| round(rate, 3)),
            stages,
            hottest: hottest.flatten(),
        }
    };
    alive.iter().map(one).collect()
}

/// Workers that ended while the others of their set continued: torch's loader keeps their queue threads, which never run
/// again. It must hold for the whole span, because a set that starts or stops has only some of its threads for a moment. A
/// program's own queues have threads too, but these run when something is put in.
fn ended(span: &Span<'_>, resting: &BTreeSet<ProcessId>) -> usize {
    let of_frame = |frame: &&Frame| {
        let feeds = |role: &&ThreadRoleRates| {
            (role.process_role, role.thread_role) == (ProcessRole::Rank, ThreadRole::QueueThread)
        };
        let sum =
            |of: fn(&ThreadRoleRates) -> u32| frame.thread_roles.iter().filter(feeds).map(of).sum::<u32>() as usize;
        let (queue_threads, ran) = (sum(|role| role.count), sum(|role| role.ran));
        let named = || frame.workers.iter().filter(|worker| !worker.unnamed);
        let asleep = ran + named().filter(|worker| resting.contains(&worker.id)).count();
        queue_threads.saturating_sub(named().count().max(asleep))
    };
    span.frames.iter().map(of_frame).min().unwrap_or(0)
}

/// The largest and the median of the group in which they are furthest apart.
fn most_uneven<'a>(groups: impl Iterator<Item = &'a Vec<f64>>) -> (f64, f64) {
    let of_group =
        |actives: &Vec<f64>| Some((actives.iter().copied().max_by(f64::total_cmp)?, stats::median(actives)?));
    let apart = |(busiest, median): &(f64, f64)| busiest - median;
    groups.filter_map(of_group).max_by(|a, b| apart(a).total_cmp(&apart(b))).unwrap_or_default()
}

/// Workers that made and did nothing over the whole window while other workers of the same rank worked, or while the loop's
/// waits led elsewhere. They belong to another loader that is not in use now (validation), or to a pool that is not a loader.
fn resting(span: &Span<'_>) -> BTreeSet<ProcessId> {
    let mut moved: BTreeMap<ProcessId, (bool, f64)> = BTreeMap::new();
    for frame in &span.frames {
        for worker in span.workers(frame) {
            let sum = moved.entry(worker.id).or_default();
            sum.0 |= worker.new || worker.batches_per_s.is_some_and(|batches| batches > 0.0);
            sum.1 += worker.cpu_pct.unwrap_or(0.0) / 100.0 * frame.seconds + waits(worker) * frame.seconds;
        }
    }
    let seconds: f64 = span.frames.iter().map(|frame| frame.seconds).sum();
    let rests = |(made, busy): &(bool, f64)| !made && *busy < RESTS * seconds;
    let some_work = moved.values().any(|(_, busy)| *busy > WORKS * seconds);
    let unasked = |pid: u32| waited_for(span, pid).is_some_and(|share| share < RESTS);
    let resting = moved.into_iter().filter(|(id, sums)| rests(sums) && (some_work || unasked(id.pid)));
    resting.map(|(id, _)| id).collect()
}

/// Share of the time in which the loops' waits lead to a process, if they were traced for most of the time.
fn waited_for(span: &Span<'_>, pid: u32) -> Option<f64> {
    let ranks = || span.frames.iter().flat_map(|frame| span.ranks(frame));
    let chains = || ranks().filter_map(|one| one.chain.as_ref());
    let followed: f64 = chains().map(|chain| chain.seconds).sum();
    let seconds: f64 = span.frames.iter().map(|frame| frame.seconds).sum();
    let ways = chains().flat_map(|chain| &chain.paths).filter(|way| way.hops.iter().any(|hop| hop.pid == pid));
    let waits: f64 = ways.map(|way| f64::from(way.seconds)).sum();
    (followed >= LARGER_HALF.value * seconds).then(|| waits / followed)
}

/// Processes that the program forked or started from itself and that make no batches: a metrics server, an experiment tracker.
/// The loop waits for none of them as for a loader.
fn no_loaders(span: &Span<'_>, alive: &[&WorkerRates]) -> BTreeSet<ProcessId> {
    let ranks = || span.frames.iter().flat_map(|frame| span.ranks(frame));
    let peers = || ranks().filter_map(|one| one.chain.as_ref()).flat_map(|chain| &chain.peers);
    let loads = |pid: u32| peers().filter(|peer| peer.pid == pid).last().is_some_and(|peer| peer.loader);
    // A loop that spends most of its time getting batches gets them from whatever it waits for, however briefly.
    let main = span.stacks.all_ranks(span.only).main;
    let takes = main.samples_where(Activity::is_input) as f64 >= LARGER_HALF.value * main.total().max(1) as f64;
    let serves = |pid: u32| waited_for(span, pid).is_none_or(|share| share >= RESTS && (takes || loads(pid)));
    let unnamed = || alive.iter().filter(|worker| worker.unnamed);
    let served: BTreeSet<u32> = unnamed().filter(|worker| serves(worker.id.pid)).map(|worker| worker.rank).collect();
    unnamed().filter(|worker| !served.contains(&worker.rank)).map(|worker| worker.id).collect()
}

/// Workers of another loader than the one the loop waited for most. Each of torch's loaders has its own pipe for batches, and
/// it is known at which one the loop waits. A worker that was forked later holds the pipes of earlier loaders too: its own is
/// the one that fewest workers hold. A worker that holds none of these pipes belongs to a loader that the loop did not wait
/// for, if these pipes are most of the waits.
fn of_other_loaders(span: &Span<'_>, alive: &[&WorkerRates]) -> BTreeSet<ProcessId> {
    let mut others = BTreeSet::new();
    let ranks: BTreeSet<u32> = alive.iter().map(|worker| worker.rank).collect();
    for rank in ranks {
        let of_rank = |worker: &&&WorkerRates| worker.rank == rank;
        let (mut pipes, mut waited_for): (BTreeMap<&str, (BTreeSet<u32>, f64)>, f64) = (BTreeMap::new(), 0.0);
        let chains = span.frames.iter().flat_map(|frame| span.ranks(frame)).filter_map(|one| one.chain.as_ref());
        for chain in chains.filter(|chain| chain.process.pid == rank) {
            waited_for += chain.loader_s();
            for set in &chain.sets {
                let (workers, seconds) = pipes.entry(&set.pipe).or_default();
                *seconds += f64::from(set.seconds);
                // Its holders are known better later, once all workers have started.
                let known = alive.iter().filter(of_rank).map(|worker| worker.id.pid);
                *workers = known.filter(|pid| set.workers.contains(pid)).collect();
            }
        }
        pipes.retain(|_, (workers, _)| !workers.is_empty());
        let own = |pid: u32| {
            let holding = pipes.iter().filter(|(_, (workers, _))| workers.contains(&pid));
            holding.min_by_key(|(_, (workers, _))| workers.len()).map(|(pipe, _)| *pipe)
        };
        let loaders: Vec<(ProcessId, Option<&str>)> =
            alive.iter().filter(of_rank).map(|worker| (worker.id, own(worker.id.pid))).collect();
        let waited = |pipe: &str| pipes.get(pipe).map_or(0.0, |(_, seconds)| *seconds);
        let most = loaders.iter().filter_map(|(_, pipe)| *pipe).max_by(|a, b| waited(a).total_cmp(&waited(b)));
        let all_known = most.is_some_and(|most| waited(most) >= MOST_WAITS * waited_for);
        let other = loaders.into_iter().filter(|(_, pipe)| pipe.map_or(all_known, |_| *pipe != most));
        others.extend(other.map(|(id, _)| id));
    }
    others
}

/// Share of the time in which a worker waits for data.
fn waits(worker: &WorkerRates) -> f64 {
    worker.io_wait.unwrap_or(0.0)
}

fn mean_stages(each: &[WorkerVerdict]) -> Option<Stages> {
    let known: Vec<&Stages> = each.iter().filter_map(|worker| worker.stages.as_ref()).collect();
    let mean = |stage: fn(&Stages) -> f64| mean(known.iter().map(|stages| stage(stages)));
    Some(Stages {
        load: mean(|stages| stages.load)?,
        decode: mean(|stages| stages.decode)?,
        transform: mean(|stages| stages.transform)?,
        collate: mean(|stages| stages.collate)?,
        hand_over: mean(|stages| stages.hand_over)?,
    })
}
