//! Which thread of a trainer runs the training loop: nearly always the main one.

use super::Graph;
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
/// Another thread takes over when it was the likelier for this many ticks.
const TICKS: u32 = 2;

/// The loop's thread of one trainer, followed over ticks.
#[derive(Debug, Default)]
pub(in crate::rates::chain) struct LoopThread {
    tid: Option<u32>,
    rival: Option<(u32, u32)>,
}

impl LoopThread {
    /// The thread, as far as it is known.
    pub(in crate::rates::chain) fn tid(&self) -> Option<u32> {
        self.tid
    }

    /// The thread of this tick.
    pub(in crate::rates::chain) fn of(
        &mut self,
        process: &SampledProcess,
        sampler: &SamplerSample,
        graph: &Graph<'_>,
    ) -> u32 {
        let likeliest = likeliest(process, sampler, graph);
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
            (self.tid, self.rival) = (Some(likeliest), None);
            return likeliest;
        }
        self.rival = Some((likeliest, held));
        current
    }
}

fn likeliest(process: &SampledProcess, sampler: &SamplerSample, graph: &Graph<'_>) -> u32 {
    let pid = process.id.pid;
    let main = process.threads.iter().find(|thread| thread.role == ThreadRole::Main).map_or(pid, |thread| thread.tid);
    let busiest = graph
        .of_process(pid)
        .filter(|(tid, role, active)| *active && *role == ThreadRole::Other && *tid != main)
        .filter_map(|(tid, ..)| Some((tid, graph.pace(pid, tid)?)))
        .max_by(|a, b| (a.1.0 + a.1.1 * WAKE).total_cmp(&(b.1.0 + b.1.1 * WAKE)));
    let Some((other, (other_cpu, _))) = busiest else { return main };
    let rests = graph.of_process(pid).any(|(tid, _, active)| tid == main && !active);
    let main_cpu = graph.pace(pid, main).map_or(0.0, |(cpu, _)| cpu);
    let watches = main_cpu < WATCHES_CPU && other_cpu >= LOOP_CPU && only_watches(process, sampler, main);
    if rests || watches { other } else { main }
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
