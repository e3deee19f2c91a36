//! CPU time or memory that is wanted and not given. The causes of it differ in who has it instead; that threads queue, and
//! how surely, is the same for all of them.

use super::case::{Case, Loss};
use super::{Cause, Judgement};
use crate::diagnosis::features::Features;
use crate::diagnosis::thresholds::*;

thresholds! {
    QUEUES_LONG = 0.35, "share", "a thread that queues this much takes half as long again for its work";
    QUEUES_NOT = 0.30, "of the strength of queueing", "full cores without queueing: the work just fits, and who would gain from free cores is less clear";
    AT_WORK = 0.30, "share", "workers below this have no work of their own to speak of: full cores are then somebody else's affair";
    OF_THE_JOB = 0.50, "of the job's use", "others that take less than half of what the job has leave it the larger part";
    OWN_THREADS = 2.0, "threads per worker", "one is the worker's own";
    MAIN_WORKS = 0.30, "share", "a main thread that runs less hardly feels its queueing";
    ALONE = 0.70, "of the confidence", "queueing without full cores has an affinity mask or other threads on the same core behind it";
}

/// A factor of the case's own.
const QUEUEING: Sureness = Sureness { least: 0.65, most: 1.0, from: HARDLY, to: QUEUES_LONG };

/// Threads of the job queue for a CPU, or would as soon as they wanted more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queueing {
    pub confidence: f64,
    /// Other processes hold the CPUs.
    pub neighbours: bool,
    /// The job's threads are far more than the CPUs.
    pub crowded: bool,
    /// The allowed CPUs are full.
    pub full: bool,
}

/// Whether anybody can be short of anything: whoever is waited for; where nobody is, a main thread that shows it.
pub(super) fn may_be(case: &Case<'_>) -> bool {
    match case.loss {
        Loss::Workers(_) | Loss::InProcess => true,
        Loss::Busy(_) | Loss::Wait(_) => false,
        Loss::Dry(_) | Loss::NoDevice => {
            let (cpu, io) = (&case.window.cpu, &case.window.io);
            main_queues(case)
                || cpu.throttled.is_some_and(|share| share >= CGROUP_THROTTLED)
                || io.psi_memory.is_some_and(|pct| pct >= MEMORY_PRESSURE)
        }
    }
}

/// The main thread itself does not get the CPU it wants.
fn main_queues(case: &Case<'_>) -> bool {
    case.main.run_delay.is_some_and(|delay| delay >= MAIN_RUN_DELAY) && case.main.running > MAIN_WORKS
}

/// Whether threads queue, and how surely.
pub(super) fn queueing(case: &Case<'_>) -> Option<Queueing> {
    let cpu = &case.window.cpu;
    let workers = case.slow_workers();
    let wanted = match workers {
        None => case.main.run_delay.unwrap_or(0.0),
        Some(workers) => {
            let runnable = workers.busy + workers.runnable;
            if runnable < workers.io_wait {
                return None;
            }
            if runnable > HARDLY { workers.runnable / runnable } else { 0.0 }
        }
    };
    let full = cpu.full.is_some_and(|full| full >= CORES_FULL);
    let queues = wanted >= RUN_DELAY;
    let rest = workers.is_some_and(|workers| workers.busy + workers.runnable < AT_WORK);
    if case.undisturbed || !may_be(case) || !(queues || full && !rest) {
        return None;
    }
    let cores = cpu.usable();
    let others = cpu.others.unwrap_or(0.0);
    let neighbours = others_hold(case) && others >= OF_THE_JOB.value * cpu.job.unwrap_or(0.0);
    // They take what the job leaves: nothing of it waits for a CPU. Or its own work is the larger part.
    if neighbours && (!queues || workers.is_none() && wanted < LARGER_HALF) {
        return None;
    }
    let strength = QUEUEING.part(wanted).max(if full { QUEUES_NOT.value } else { 0.0 });
    let crowded = cpu.active_threads.unwrap_or(0.0) >= OVERSUBSCRIBED.value * cores
        && workers.is_none_or(|workers| workers.active_threads >= OWN_THREADS);
    Some(Queueing { confidence: case.sure * QUEUEING.between(strength), neighbours, crowded, full })
}

/// Others use a good part of the CPUs.
pub(in crate::diagnosis) fn others_hold(case: &Case<'_>) -> bool {
    case.window.cpu.others.unwrap_or(0.0) >= NEIGHBOUR.value * case.window.cpu.usable()
}

/// A main thread that queues although nobody is known to hold the CPUs.
pub(super) fn queues_alone(case: &Case<'_>, cause: Cause) -> Option<Judgement> {
    let explained = queueing(case).is_some_and(|queueing| queueing.neighbours || queueing.crowded || queueing.full);
    let alone = matches!(case.loss, Loss::Dry(_) | Loss::NoDevice) && main_queues(case) && !explained;
    alone.then(|| case.of(cause, ALONE))
}

/// What is gained by getting all CPUs: starved of them everything is slow, the waits and the work. It is what the job could
/// use over what it gets.
pub(super) fn all_cpus(window: &Features) -> Option<f64> {
    let used = window.cpu.job.filter(|used| *used > HARDLY)?;
    Some(window.without(1.0 - used / window.cpu.allowed?.max(used)))
}
