//! Which thread of a trainer runs the training loop: nearly always the main one. Where that rests, it is the thread whose stacks
//! show training; without such stacks the one that does most, but for threads that only compute for others.

use std::collections::{HashMap, HashSet};

use super::Graph;
use crate::rates::device::DeviceUse;
use crate::rates::stacks::PythonThread;
use crate::rates::wait::Wait;
use crate::sample::{Observation, SampledProcess, SamplerSample, ThreadRole};

/// A main thread that hardly runs only watches another one …
const WATCHES_CPU: f64 = 0.01;
/// … which computes at least this share of the time.
const LOOP_CPU: f64 = 0.05;
/// A wait that ends by itself within this time is one of a thread that looks after something now and then, milliseconds.
const WATCH_MS: i32 = 2000;
/// Waking once a second counts like so much CPU time, where the busiest thread is chosen.
const WAKE: f64 = 1e-4;
/// A thread takes what others make where it waits for that in this share of its stacks and more …
const TAKES: f64 = 0.2;
/// … one that makes it does not do so in this share …
const MAKES: f64 = 0.05;
/// … and one that only notes what it is given computes less of the time than this.
const NOTES_CPU: f64 = 0.005;
/// A thread trains where that is seen in this share of its stacks: it waits for the rest.
const TRAINS: f64 = 0.1;
/// Taking batches from torch's loader counts like so much of that: it may be done ahead of the loop.
const TAKES_BATCHES: f64 = 0.01;
/// While a loop's thread works the device is busy more by this much, 0–1, than while it waits for a lock: batches come late.
const CONTRAST: f64 = 0.2;
/// Fewer samples of both kinds than this say nothing, and so many count at most.
const SAMPLES: (f64, f64) = (8.0, 200.0);
/// Most threads of which the device's use beside them is kept.
const BESIDE: usize = 64;
/// Another thread takes over when it was the likelier for this many ticks.
const TICKS: u32 = 2;

/// The loop's thread of one trainer, followed over ticks.
#[derive(Debug, Default)]
pub(in crate::rates::chain) struct LoopThread {
    tid: Option<u32>,
    rival: Option<(u32, u32)>,
    moved: bool,
    /// Threads with Python frames, by the last stacks; none where there were none.
    python: Vec<PythonThread>,
    /// Several threads may run the loop, and nothing tells which does.
    guessed: bool,
    /// Threads that were seen to wait for work of a library's.
    pool: HashSet<u32>,
    /// The device's use while each thread waits for a lock without a time limit, and while it does not.
    beside: HashMap<u32, [Mean; 2]>,
}

/// Samples and the sum of the device's use at them.
#[derive(Debug, Default, Clone, Copy)]
struct Mean(f64, f64);

impl Mean {
    fn add(&mut self, busy: f64) {
        if self.0 >= SAMPLES.1 {
            (self.0, self.1) = (self.0 / 2.0, self.1 / 2.0);
        }
        (self.0, self.1) = (self.0 + 1.0, self.1 + busy);
    }

    fn get(self) -> Option<f64> {
        (self.0 >= SAMPLES.0).then(|| self.1 / self.0)
    }
}

impl LoopThread {
    /// The thread, as far as it is known.
    pub(in crate::rates::chain) fn tid(&self) -> Option<u32> {
        self.tid
    }

    /// It is another thread since this tick.
    pub(in crate::rates::chain) fn has_moved(&self) -> bool {
        self.moved
    }

    /// It is not the main thread, and another one may be it as well.
    pub(in crate::rates::chain) fn is_guessed(&self, main: u32) -> bool {
        self.guessed && self.tid.is_some_and(|tid| tid != main)
    }

    /// Takes the threads that the newest stacks show.
    pub(in crate::rates::chain) fn take_stacks(&mut self, threads: Vec<PythonThread>) {
        self.python = threads;
    }

    /// The thread of this tick.
    pub(in crate::rates::chain) fn of(
        &mut self,
        process: &SampledProcess,
        sampler: &SamplerSample,
        graph: &Graph<'_>,
        devices: &[&DeviceUse],
    ) -> u32 {
        let likeliest = self.likeliest(process, sampler, graph, devices);
        self.moved = false;
        let Some(current) = self.tid else {
            self.tid = Some(likeliest);
            return likeliest;
        };
        if current == likeliest {
            self.rival = None;
            return current;
        }
        let held = self.rival.filter(|(rival, _)| *rival == likeliest).map_or(1, |(_, ticks)| ticks + 1);
        let gone = process.threads.iter().all(|thread| thread.tid != current);
        if held >= TICKS || gone {
            (self.tid, self.rival, self.moved) = (Some(likeliest), None, true);
            return likeliest;
        }
        self.rival = Some((likeliest, held));
        current
    }
}

impl LoopThread {
    /// Notes the device's use beside what these threads do.
    fn look_beside(&mut self, process: &SampledProcess, sampler: &SamplerSample, devices: &[&DeviceUse], of: &[u32]) {
        self.beside.retain(|tid, _| of.contains(tid));
        let times: Vec<u64> = sampler.times().collect();
        for thread in process.threads.iter().filter(|thread| of.contains(&thread.tid)).take(BESIDE) {
            let means = self.beside.entry(thread.tid).or_default();
            for (round, place) in thread.samples() {
                let (Some(at_ns), Some(seen)) = (times.get(round as usize), sampler.seen.get(place as usize)) else {
                    continue;
                };
                let waits = Wait::of(seen, sampler.machine) == Wait::Futex && seen.deadline_ms.is_none();
                let Some(busy) = devices.iter().map(|device| device.busy(*at_ns)).reduce(f64::max) else { continue };
                if let Some(mean) = means.get_mut(usize::from(!waits)) {
                    mean.add(busy);
                }
            }
        }
    }

    /// How much more the device is busy while a thread does not wait for a lock.
    fn contrast(&self, tid: u32) -> Option<f64> {
        let [waits, works] = self.beside.get(&tid)?;
        Some(works.get()? - waits.get()?)
    }

    fn likeliest(
        &mut self,
        process: &SampledProcess,
        sampler: &SamplerSample,
        graph: &Graph<'_>,
        devices: &[&DeviceUse],
    ) -> u32 {
        let python = self.python.clone();
        let pid = process.id.pid;
        let main =
            process.threads.iter().find(|thread| thread.role == ThreadRole::Main).map_or(pid, |thread| thread.tid);
        let others = graph.of_process(pid).filter(|(tid, role, active)| {
            let runs_python =
                python.iter().all(|thread| thread.tid == main) || python.iter().any(|one| one.tid == *tid);
            *active && *role == ThreadRole::Other && *tid != main && runs_python
        });
        let mut others: Vec<(u32, (f64, f64))> =
            others.filter_map(|(tid, ..)| Some((tid, graph.pace(pid, tid)?))).collect();
        self.pool.retain(|tid| others.iter().any(|(other, _)| other == tid));
        for (tid, _) in others.iter().take(BESIDE) {
            if is_of_pool(process, sampler, *tid) {
                self.pool.insert(*tid);
            }
        }
        let of = |tid: u32| python.iter().find(|thread| thread.tid == tid);
        let share = |thread: &PythonThread| f64::from(thread.trains) / f64::from(thread.samples.max(1));
        let signs = |thread: &PythonThread| share(thread) + TAKES_BATCHES * f64::from(u32::from(thread.iterates > 0));
        let most = others.iter().filter_map(|(tid, _)| of(*tid)).max_by(|a, b| signs(a).total_cmp(&signs(b)));
        let most = most.filter(|thread| signs(thread) > 0.0);
        match most.map(|thread| thread.tid) {
            Some(tid) => others.retain(|(other, _)| *other == tid),
            // Threads of a library's pool compute for whoever waits for them.
            None if others.iter().any(|(tid, _)| !self.pool.contains(tid)) => {
                others.retain(|(tid, _)| !self.pool.contains(tid));
            }
            None => {}
        }
        let takes = |tid: u32| of(tid).map(takes);
        let makes = |(tid, _): &(u32, (f64, f64))| takes(*tid).is_some_and(|share| share < MAKES);
        let consumes = |(tid, (cpu, _)): &(u32, (f64, f64))| {
            *cpu >= NOTES_CPU && takes(*tid).is_some_and(|share| share >= TAKES)
        };
        // Those that do hardly anything are no rivals.
        let most = others.iter().map(|(_, (cpu, _))| *cpu).fold(0.0, f64::max);
        self.guessed = false;
        if others.iter().filter(|(_, (cpu, _))| *cpu >= NOTES_CPU.min(most)).count() > 1 {
            let tids: Vec<u32> = others.iter().map(|(tid, _)| *tid).collect();
            self.look_beside(process, sampler, devices, &tids);
            let feeds = |tid: u32| self.contrast(tid).filter(|contrast| *contrast >= CONTRAST);
            let fed =
                tids.iter().copied().filter_map(|tid| Some((tid, feeds(tid)?))).max_by(|a, b| a.1.total_cmp(&b.1));
            self.guessed = fed.is_none();
            if let Some((fed, _)) = fed {
                others.retain(|(tid, _)| *tid == fed);
            } else if others.iter().any(makes) && others.iter().any(consumes) {
                others.retain(consumes);
            }
        }
        let busiest = others.into_iter().max_by(|a, b| (a.1.0 + a.1.1 * WAKE).total_cmp(&(b.1.0 + b.1.1 * WAKE)));
        let Some((other, (other_cpu, _))) = busiest else { return main };
        let rests = graph.of_process(pid).any(|(tid, _, active)| tid == main && !active);
        let main_cpu = graph.pace(pid, main).map_or(0.0, |(cpu, _)| cpu);
        let watches = main_cpu < WATCHES_CPU && other_cpu >= LOOP_CPU && only_watches(process, sampler, main);
        // A main thread that works, and not at training, while another one trains.
        let share = |tid: u32| of(tid).map(share);
        let serves = share(main) == Some(0.0) && share(other).is_some_and(|trains| trains >= TRAINS);
        if rests || watches || serves { other } else { main }
    }
}

/// Share of a thread's stacks in which it waits for what others make.
fn takes(thread: &PythonThread) -> f64 {
    f64::from(thread.takes) / f64::from(thread.samples.max(1))
}

/// The thread waits for work as OpenMP's do (libgomp, config/linux/wait.h): in a bare FUTEX_WAIT without a time limit. CPython's
/// locks and glibc's conditions take FUTEX_WAIT_BITSET; see futex(2).
fn is_of_pool(process: &SampledProcess, sampler: &SamplerSample, tid: u32) -> bool {
    const COMMAND: u32 = 127;
    let Some(thread) = process.threads.iter().find(|thread| thread.tid == tid) else { return false };
    let seen = thread.samples().filter_map(|(_, place)| sampler.seen.get(place as usize));
    let waits: Vec<bool> = seen
        .filter(|seen| Wait::of(seen, sampler.machine) != Wait::Running)
        .map(|seen| seen.deadline_ms.is_none() && seen.operation.is_some_and(|operation| operation & COMMAND == 0))
        .collect();
    !waits.is_empty() && waits.iter().all(|of_pool| *of_pool)
}

/// Every wait of the thread ends by itself within a second or two, or is for events.
fn only_watches(process: &SampledProcess, sampler: &SamplerSample, tid: u32) -> bool {
    let Some(thread) = process.threads.iter().find(|thread| thread.tid == tid) else { return false };
    let mut waits = 0_u32;
    let mut watches = 0_u32;
    for (_, place) in thread.samples() {
        let Some(seen) = sampler.seen.get(place as usize) else { continue };
        let wait = Wait::of(seen, sampler.machine);
        if wait == Wait::Running {
            continue;
        }
        waits += 1;
        watches += u32::from(is_watch(seen, wait));
    }
    waits > 0 && watches * 10 >= waits * 9
}

fn is_watch(seen: &Observation, wait: Wait) -> bool {
    let ends = [seen.timeout_ms, seen.deadline_ms].into_iter().flatten().any(|ms| (0..=WATCH_MS).contains(&ms));
    match wait {
        Wait::Sleep => true,
        Wait::Futex | Wait::Poll | Wait::Pipe | Wait::Socket => ends || wait == Wait::Poll && seen.nfds.is_none(),
        _ => false,
    }
}
