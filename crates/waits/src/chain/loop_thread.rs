//! Which thread of a training process runs the training loop: nearly always the first one. If that is idle, it is the
//! thread whose stacks show training; without such stacks, the most active thread that does not merely compute for
//! others.

use std::collections::{HashMap, HashSet};

use super::Graph;
use crate::stacks::PythonThread;
use crate::stacks::correction::{ENOUGH_SAMPLES, RecentActivities};
use crate::wait::Wait;
use trainmon_rates::delta::copied;
use trainmon_rates::device::{GpuUse, busiest};
use trainmon_rates::levels::{BEYOND_CHANCE, HALF_A_TICK, LESS_THAN_SEEN, NEARLY_ALL, WORKING_SHARE, WORTH_IT};
use trainmon_sample::{Observation, SampledProcess, SampledThread, ThreadRole};

/// A wait with a shorter timeout belongs to a thread that checks on something now and then, milliseconds.
const WATCH_MS: i32 = 2000;
/// One wake-up per second counts as this much CPU time when the busiest thread is chosen.
const WAKE: f64 = 1e-4;
/// Most threads of one process compared with the GPU.
const MOST_CANDIDATES: usize = 64;
/// Another thread takes over once it was the likelier one for this many ticks.
const TICKS: u32 = 2;

/// The loop's thread in one training process, followed over ticks.
#[derive(Debug, Default)]
pub(in crate::chain) struct LoopFinder {
    tid: Option<u32>,
    rival: Option<(u32, u32)>,
    moved: bool,
    /// Threads with Python frames in the last stacks; empty without stacks.
    python: Vec<PythonThread>,
    /// Several threads may run the loop, and nothing shows which one does.
    guessed: bool,
    /// Threads that were sampled waiting for work from a library.
    pool: HashSet<u32>,
    /// The GPU's use while each thread waits for a lock without a timeout, and while it does not.
    beside: HashMap<u32, [RunningMean; 2]>,
}

/// One training process in one tick.
pub(crate) struct ProcessTick<'a> {
    pub process: &'a SampledProcess,
    pub graph: &'a Graph<'a>,
    /// Use of the GPUs that it uses.
    pub devices: Vec<&'a GpuUse>,
}

impl ProcessTick<'_> {
    fn main(&self) -> u32 {
        let main = self.process.threads.iter().find(|thread| thread.role == ThreadRole::Main);
        main.map_or(self.process.id.pid, |thread| thread.tid)
    }

    /// What a thread was doing: round, observation, and its meaning.
    fn seen(&self, tid: u32) -> impl Iterator<Item = (u32, &Observation, Wait)> {
        let thread = self.process.threads.iter().find(|thread| thread.tid == tid);
        thread.into_iter().flat_map(SampledThread::samples).filter_map(|(round, place)| {
            let place = place as usize;
            Some((round, self.graph.sampler.seen.get(place)?, *self.graph.waits.get(place)?))
        })
    }

    /// The share of a thread's waits that match; `None` if it did not wait.
    fn waits_that(&self, tid: u32, fits: impl Fn(&Observation, Wait) -> bool) -> Option<f64> {
        let waits = self.seen(tid).filter(|(.., wait)| *wait != Wait::Running);
        let (all, fit) = waits.fold((0_u32, 0_u32), |(all, fit), (_, seen, wait)| {
            (all.saturating_add(1), fit.saturating_add(u32::from(fits(seen, wait))))
        });
        (all > 0).then(|| f64::from(fit) / f64::from(all))
    }
}

/// A thread other than the first that may run the loop.
#[derive(Debug, Clone, Copy, Default)]
struct LoopCandidate {
    tid: u32,
    /// Share of the time on a CPU.
    cpu: f64,
    wakes_per_s: f64,
    /// From the last stacks.
    python: Option<PythonThread>,
}

impl LoopCandidate {
    fn weight(&self) -> f64 {
        self.cpu + self.wakes_per_s * WAKE
    }

    /// Signs of a training loop in its stacks. Taking batches from torch's loader is a weak one: a thread may do that
    /// ahead of the loop.
    fn signs(&self) -> f64 {
        self.python.map_or(0.0, |one| one.share(one.trains) + if one.iterates > 0 { LESS_THAN_SEEN } else { 0.0 })
    }

    /// Whether it makes what others take.
    fn makes(&self) -> bool {
        self.python.is_some_and(|one| one.share(one.takes) < WORKING_SHARE)
    }

    /// Whether it takes what others make, and does more than store it.
    fn consumes(&self) -> bool {
        self.cpu >= HALF_A_TICK && self.python.is_some_and(|one| one.share(one.takes) >= BEYOND_CHANCE)
    }
}

/// Number of samples, and the sum of the GPU's use at them.
#[derive(Debug, Default, Clone, Copy)]
struct RunningMean {
    samples: f64,
    sum: f64,
}

impl RunningMean {
    fn add(&mut self, busy: f64) {
        if self.samples >= RecentActivities::NEWEST_SAMPLES as f64 {
            self.samples /= 2.0;
            self.sum /= 2.0;
        }
        self.samples += 1.0;
        self.sum += busy;
    }

    fn get(self) -> Option<f64> {
        (self.samples >= ENOUGH_SAMPLES as f64).then(|| self.sum / self.samples)
    }
}

impl LoopFinder {
    /// The thread, if known.
    pub(in crate::chain) fn tid(&self) -> Option<u32> {
        self.tid
    }

    /// Whether it changed in this tick.
    pub(in crate::chain) fn has_moved(&self) -> bool {
        self.moved
    }

    /// Whether it is not the first thread, and another one may be it as well.
    pub(in crate::chain) fn is_guessed(&self, main: u32) -> bool {
        self.guessed && self.tid.is_some_and(|tid| tid != main)
    }

    /// Takes the threads in the newest stacks.
    pub(in crate::chain) fn take_stacks(&mut self, threads: Vec<PythonThread>) {
        self.python = threads;
    }

    /// The thread of this tick.
    pub(in crate::chain) fn update(&mut self, tick: &ProcessTick<'_>) -> u32 {
        let likeliest = self.likeliest(tick);
        self.moved = false;
        let current = *self.tid.get_or_insert(likeliest);
        if current == likeliest {
            self.rival = None;
            return current;
        }
        let held = self.rival.filter(|(rival, _)| *rival == likeliest).map_or(1, |(_, ticks)| ticks + 1);
        let gone = tick.process.threads.iter().all(|thread| thread.tid != current);
        if held < TICKS && !gone {
            self.rival = Some((likeliest, held));
            return current;
        }
        (self.tid, self.rival, self.moved) = (Some(likeliest), None, true);
        likeliest
    }

    fn likeliest(&mut self, tick: &ProcessTick<'_>) -> u32 {
        let (pid, main) = (tick.process.id.pid, tick.main());
        let known = tick.graph.thread(pid, main);
        let rests = known.is_some_and(|thread| !thread.active);
        let hardly_runs = known.is_none_or(|thread| thread.cpu < LESS_THAN_SEEN);
        let at_something_else = self.trains(main) == Some(0.0);
        // Nearly always the first thread works, or trains, or its activity is unknown.
        if !(rests || hardly_runs || at_something_else) {
            return main;
        }
        let Some(other) = self.likeliest_other(tick) else { return main };
        // It trains now and then itself, and waits for what the other thread does.
        if other.signs() <= 0.0
            && self.python.iter().any(|one| one.tid == main && one.share(one.steps) >= WORKING_SHARE)
        {
            return main;
        }
        let watches =
            || other.cpu >= WORKING_SHARE && tick.waits_that(main, is_watch).is_some_and(|share| share >= NEARLY_ALL);
        let serves = || at_something_else && self.trains(other.tid).is_some_and(|share| share >= WORTH_IT);
        if rests || hardly_runs && watches() || serves() { other.tid } else { main }
    }

    /// Share of a thread's stacks in which it trains.
    fn trains(&self, tid: u32) -> Option<f64> {
        self.python.iter().find(|one| one.tid == tid).map(|one| one.share(one.trains))
    }

    fn likeliest_other(&mut self, tick: &ProcessTick<'_>) -> Option<LoopCandidate> {
        let mut others = self.candidates(tick);
        self.note_pool(tick, &others);
        self.guessed = false;
        let by_signs = others.iter().copied().max_by(|a, b| a.signs().total_cmp(&b.signs()));
        if let Some(trains) = by_signs.filter(|one| one.signs() > 0.0) {
            return Some(trains);
        }
        // The threads of a library's pool compute for the thread that waits for them.
        if others.iter().any(|one| !self.pool.contains(&one.tid)) {
            others.retain(|one| !self.pool.contains(&one.tid));
        }
        // Threads that do hardly anything are not rivals.
        let most = others.iter().map(|one| one.cpu).fold(0.0, f64::max);
        if others.iter().filter(|one| one.cpu >= HALF_A_TICK.min(most)).count() > 1 {
            self.look_beside(tick, &others);
            let fed = others.iter().filter_map(|one| Some((*one, self.contrast(one.tid)?)));
            let fed = fed.filter(|(_, contrast)| *contrast >= BEYOND_CHANCE).max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((fed, _)) = fed {
                return Some(fed);
            }
            self.guessed = true;
            if others.iter().any(LoopCandidate::makes) && others.iter().any(LoopCandidate::consumes) {
                others.retain(LoopCandidate::consumes);
            }
        }
        others.into_iter().max_by(|a, b| a.weight().total_cmp(&b.weight()))
    }

    fn candidates(&self, tick: &ProcessTick<'_>) -> Vec<LoopCandidate> {
        let (pid, main) = (tick.process.id.pid, tick.main());
        let is_known = |tid: u32| self.python.iter().any(|one| one.tid == tid);
        // Stacks from another PID namespace have other thread IDs, including the first thread's.
        let knows_others = is_known(main) && self.python.len() > 1;
        let others = tick.graph.threads_of(pid).filter(|thread| {
            let other = thread.active && thread.role == ThreadRole::Other && thread.tid != main;
            other && (!knows_others || is_known(thread.tid))
        });
        let others = others.map(|thread| LoopCandidate {
            python: self.python.iter().find(|one| one.tid == thread.tid).copied(),
            ..copied!(thread => LoopCandidate: tid cpu wakes_per_s)
        });
        others.collect()
    }

    /// Notes which of these threads wait for work like threads of a library's pool.
    fn note_pool(&mut self, tick: &ProcessTick<'_>, others: &[LoopCandidate]) {
        self.pool.retain(|tid| others.iter().any(|other| other.tid == *tid));
        let of_pool = others.iter().take(MOST_CANDIDATES).map(|one| one.tid);
        self.pool.extend(of_pool.filter(|tid| tick.waits_that(*tid, is_of_pool) == Some(1.0)));
    }

    /// Notes the GPU's use during what these threads do.
    fn look_beside(&mut self, tick: &ProcessTick<'_>, others: &[LoopCandidate]) {
        self.beside.retain(|tid, _| others.iter().any(|other| other.tid == *tid));
        let times: Vec<u64> = tick.graph.sampler.times().collect();
        for tid in others.iter().take(MOST_CANDIDATES).map(|one| one.tid) {
            let [waiting, working] = self.beside.entry(tid).or_default();
            for (round, seen, wait) in tick.seen(tid) {
                let Some(at_ns) = times.get(round as usize) else { continue };
                let Some(busy) = busiest(&tick.devices, *at_ns) else { break };
                let waits = wait == Wait::Futex && seen.deadline_ms.is_none();
                if waits { waiting.add(busy) } else { working.add(busy) }
            }
        }
    }

    /// How much busier the GPU is while a thread does not wait for a lock: a loop's batches come late. Starving loops
    /// showed 0.20 to 0.25, with a GPU whose use is known per sixth of a second.
    fn contrast(&self, tid: u32) -> Option<f64> {
        let [waiting, working] = self.beside.get(&tid)?;
        Some(working.get()? - waiting.get()?)
    }
}

/// Whether it waits for work like OpenMP's threads (libgomp, config/linux/wait.h): a bare FUTEX_WAIT without a timeout.
/// CPython's locks and glibc's condition variables use FUTEX_WAIT_BITSET; see futex(2).
fn is_of_pool(seen: &Observation, _wait: Wait) -> bool {
    const FUTEX_COMMAND: u32 = 127;
    seen.deadline_ms.is_none() && seen.operation.is_some_and(|operation| operation & FUTEX_COMMAND == 0)
}

/// Whether the wait times out within a second or two, or is for events.
fn is_watch(seen: &Observation, wait: Wait) -> bool {
    let ends = [seen.timeout_ms, seen.deadline_ms].into_iter().flatten().any(|ms| (0..=WATCH_MS).contains(&ms));
    match wait {
        Wait::Sleep => true,
        Wait::Futex | Wait::Poll | Wait::Pipe | Wait::Socket => ends || wait == Wait::Poll && seen.nfds.is_none(),
        _ => false,
    }
}
