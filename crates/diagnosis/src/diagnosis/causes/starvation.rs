//! CPU time that the job wants and does not get. The causes differ in what gets it instead; they share whether threads queue for a
//! CPU, and how certain that is.

use super::rule_input::RuleInput;
use super::{Cause, Judgment, slow_samples};
use crate::diagnosis::features::{ChainPath, Cpus, Features, LoopThread, Workers};
use crate::diagnosis::thresholds::*;
use trainmon_waits::Wait;
use trainmon_waits::taxonomy::{End, Purpose};

thresholds! {
    QUEUES_LONG = 0.35, "share", "a thread that queues this much takes half again as long for its work";
    QUEUES_NOT = 0.30, "of the strength of queueing", "full CPUs without queueing: the work just fits, and it is less clear what would gain from free CPUs";
    AT_WORK = 0.30, "share", "workers that want a CPU for less hardly work, so full CPUs are not their problem";
    OF_THE_JOB = 0.50, "of the job's use", "other processes that use less than half as much leave the job the larger part";
    WANT_AT_ONCE = 1.25, "threads that run or queue at a time, per CPU", "fewer leave nothing to take turns about: others' work beside them makes as much";
    OWN_THREADS = 2.0, "threads per process", "one is the process's own; fewer than two on average are a crowd of processes";
}

/// A factor of the certainty of the bottleneck.
const QUEUEING: ConfidenceRamp = ConfidenceRamp { least: 0.65, most: 1.0, from: HARDLY, to: QUEUES_LONG };

/// What there are too many of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crowd {
    /// Threads that compute together.
    Threads,
    Processes,
    /// Threads that each make batches of their own: fewer of them would not do more.
    Makers,
}

/// Threads of the job queue for a CPU, or would if they wanted more CPU time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queueing {
    pub confidence: f64,
    /// Other processes use the CPUs.
    pub behind_others: bool,
    /// The job has far more threads at work than CPUs: this is what there are too many of.
    pub crowded: Option<Crowd>,
    /// The allowed CPUs are full.
    pub full: bool,
    /// Most of the time goes into queueing.
    pub mostly: bool,
    /// The workers' queueing counts, not the loop's own.
    pub of_workers: bool,
}

/// Whether CPU time or memory can be short: for what the loop waits for, or for a loop that shows it itself.
pub(super) fn may_starve(case: &RuleInput<'_>) -> bool {
    if case.slow_workers().is_some() || case.loads_in_process() {
        return true;
    }
    let (cpu, io) = (&case.window.cpu, &case.window.io);
    let is_short = || {
        main_queues(case).is_some()
            || cpu.throttled.is_some_and(|share| share >= CGROUP_THROTTLED)
            || io.psi_memory.is_some_and(|pct| pct >= MEMORY_PRESSURE)
    };
    case.busy_gpu().is_none() && !case.waits_elsewhere() && is_short()
}

/// How long the threads that set the pace want a CPU, and how much of that they queue, both as shares of all time: queueing for
/// half of hardly any time costs nothing.
#[derive(Debug, Clone, Copy)]
struct CpuDemand {
    runnable: f64,
    queued: f64,
    /// How long they wait for something else, where no CPU would help.
    elsewhere: f64,
}

impl CpuDemand {
    /// Of the workers, if the loop waits for them, otherwise of the loop.
    fn new(case: &RuleInput<'_>) -> Self {
        case.slow_workers().map_or_else(|| Self::by_loop(case.window, case.main), Self::by_workers)
    }

    fn by_workers(workers: &Workers) -> Self {
        Self { runnable: workers.busy + workers.runnable, queued: workers.runnable, elsewhere: workers.io_wait }
    }

    /// Of the loop: its thread, and the threads that run while it waits for them.
    fn by_loop(window: &Features, main: &LoopThread) -> Self {
        let runnable = main.running.max(main.waits(Wait::Running));
        let mut wanted = Self { runnable, queued: runnable * main.run_delay.unwrap_or(0.0), elsewhere: 0.0 };
        let Some(chain) = &window.chain else { return Self { elsewhere: main.disk(), ..wanted } };
        let itself = |way: &ChainPath| way.hops.is_empty() && way.is_loops_own();
        for way in chain.ways.iter().filter(|way| !itself(way) && way.part != Purpose::Gpu) {
            match way.hops.last() {
                Some(last) if way.end == End::Cpu => {
                    wanted.runnable += way.lost;
                    wanted.queued += way.lost * main.run_delay_of(last.pid, last.tid);
                }
                _ => wanted.elsewhere += way.lost,
            }
        }
        wanted
    }

    /// The part of the time wanting a CPU that is spent queueing (run-queue delay).
    fn run_queue_delay(&self) -> f64 {
        if self.runnable > HARDLY { (self.queued / self.runnable).min(1.0) } else { 0.0 }
    }

    /// Most of its time goes into queueing.
    fn is_mostly_queueing(&self) -> bool {
        self.queued >= LARGER_HALF.value * (self.runnable + self.elsewhere)
    }

    /// It queues at least this part of that time, and loses enough by it to matter.
    fn reaches(&self, share: Threshold) -> bool {
        self.run_queue_delay() >= share && self.queued >= LOST_WAIT
    }
}

/// The loop's run-queue delay as a share of its runnable time, if it is long enough to matter.
pub(in crate::diagnosis) fn main_queues(case: &RuleInput<'_>) -> Option<f64> {
    Some(CpuDemand::by_loop(case.window, case.main))
        .filter(|wanted| wanted.reaches(MAIN_RUN_DELAY))
        .map(|wanted| wanted.run_queue_delay())
}

/// Whether threads queue for a CPU, and how certain that is.
pub(super) fn queueing(case: &RuleInput<'_>) -> Option<Queueing> {
    let cpu = &case.window.cpu;
    // The loop may lose more to its own queueing than to its workers: they all want a CPU at the same moment and rest afterwards.
    let by_loop = CpuDemand::by_loop(case.window, case.main);
    let itself = by_loop.reaches(QUEUES_LONG) && by_loop.queued >= case.lost;
    let workers = if !itself { case.slow_workers() } else { None };
    let wanted = workers.map_or(by_loop, CpuDemand::by_workers);
    if workers.is_some_and(|workers| wanted.runnable < workers.io_wait) {
        return None;
    }
    // Single batches are slow, and not because of queueing.
    if slow_samples::by_period(case).is_some() && !wanted.is_mostly_queueing() {
        return None;
    }
    let full = cpu.full.is_some_and(|full| full >= CORES_FULL);
    let queues = wanted.reaches(RUN_DELAY);
    let rest = wanted.runnable < AT_WORK;
    // Workers that have nothing to do for longer than they queue are not short of CPUs.
    if !full && workers.is_some_and(|workers| workers.idle >= WORKERS_IDLE && workers.idle > wanted.queued) {
        return None;
    }
    if case.undisturbed || !may_starve(case) || !(queues || full && !rest) {
        return None;
    }
    let cores = cpu.usable();
    let others = cpu.others.unwrap_or(0.0);
    let behind_others = others_hold(cpu) && others >= OF_THE_JOB.value * cpu.job.unwrap_or(0.0);
    // They only take what the job leaves free, so nothing of it waits for a CPU; or its own work is the larger part.
    if behind_others && (!queues || workers.is_none() && !wanted.is_mostly_queueing()) {
        return None;
    }
    let strength = QUEUEING.part(wanted.run_queue_delay()).max(if full { QUEUES_NOT.value } else { 0.0 });
    let each = case.slow_workers().map(|workers| workers.active_threads).or(cpu.threads_each);
    let by = match () {
        () if super::source::makers(case.window).is_some() => Crowd::Makers,
        () if each.is_none_or(|each| each >= OWN_THREADS) => Crowd::Threads,
        () => Crowd::Processes,
    };
    // Many threads that take turns and leave CPUs free are not too many, nor are those that fill the CPUs, but hardly ever want to run
    // at once.
    let at_once = cpu.wanting.is_none_or(|wanting| wanting >= WANT_AT_ONCE.value * cores);
    let too_many = full && at_once || wanted.is_mostly_queueing();
    let active = cpu.active_threads.unwrap_or(0.0) >= OVERSUBSCRIBED.value * cores;
    let crowded = if too_many && active { Some(by) } else { None };
    // Without workers, the loop loses no more than its own queueing.
    let sure = if queues && workers.is_none() {
        super::rule_input::LOST.at(wanted.queued).min(case.sure)
    } else {
        case.sure
    };
    let (confidence, mostly) = (sure * QUEUEING.between(strength), wanted.is_mostly_queueing());
    Some(Queueing { confidence, behind_others, crowded, full, mostly, of_workers: workers.is_some() })
}

/// Other processes use a good part of the CPUs. Under a quota for fewer CPUs than allowed, that counts only if they leave none free.
pub(in crate::diagnosis) fn others_hold(cpu: &Cpus) -> bool {
    let quota = cpu.allowed.filter(|allowed| cpu.usable() < *allowed);
    let room = quota.is_some() && cpu.full.is_some_and(|full| full < CORES_FULL);
    !room && cpu.others.unwrap_or(0.0) >= NEIGHBOUR.value * quota.unwrap_or(cpu.usable())
}

/// What the loop waits for loses more to queueing for a CPU (pauses by a quota included) than to other waits.
pub(super) fn queues_rather_than_waits(case: &RuleInput<'_>) -> bool {
    let wanted = CpuDemand::new(case);
    wanted.queued >= wanted.elsewhere
}

/// The loop queues for long although nothing is known to use the CPUs. If it queued less, its own work would be the larger part.
pub(super) fn queues_alone(case: &RuleInput<'_>, cause: Cause) -> Option<Judgment> {
    let explained =
        queueing(case).is_some_and(|queueing| queueing.behind_others || queueing.crowded.is_some() || queueing.full);
    let queues = CpuDemand::by_loop(case.window, case.main).reaches(QUEUES_LONG);
    let alone = case.purpose == Purpose::Own && case.busy_gpu().is_none() && queues && !explained;
    alone.then(|| case.found(cause, GUESSED))
}

/// What is gained if neither the loop nor what it waits for queues for a CPU any more. Workers then make a batch in the time that
/// they work and wait for their source, and the loop waits for them no longer than that.
pub(super) fn without_queueing(window: &Features) -> Option<f64> {
    let main = window.main.as_ref()?;
    let by_loop = CpuDemand::by_loop(window, main);
    let lost = window.lost_wait();
    let workers = match &window.workers {
        Some(workers) if lost >= LOST_WAIT => workers,
        _ => return Some(window.without(by_loop.queued)),
    };
    let (fed, own) = (workers.busy + workers.io_wait, main.running * main.run_delay.unwrap_or(0.0));
    Some(window.without(1.0 - fed.max(1.0 - lost - own)))
}
