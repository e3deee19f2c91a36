//! The stacks thread: whose stacks are taken next, and how long it pauses in between.
//!
//! One run at a time, of one process. The training process and the workers take turns; among the workers, the least
//! sampled one comes next. The caller sets the length of the pause: a new or doubtful verdict needs many windows, a
//! settled one few. Above its share of CPU time (`budget`) it pauses longer, and says so. If neither torch's loader nor
//! `counts` counts a training process's steps, its local variables are read before and after each window: the loop's own
//! counter may be among them.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::budget::{CpuBudget, SHARE};
use super::{CollectorOptions, Shared, rest};
use trainmon_base::text::format::duration;
use trainmon_sample::{JobSample, ProcessId, ProcessRole, ProcessSample, SourceState, SourceStatus, StackWindow};
use trainmon_sources::py_spy::{OWN_READER, OwnReader, PySpy, Refusal, Taken};

/// Length of a window, seconds: py-spy takes whole seconds.
const WINDOW_S: u32 = 1;
/// Samples per second of a worker.
const WORKER_HZ: u32 = 25;
/// First pause after a failure that may pass; doubled with each further one.
const RETRY: Duration = Duration::from_secs(2);
/// Longest pause after failures.
const RETRY_MOST: Duration = Duration::from_secs(60);
/// An interval of at least this is long …
const LONG: Duration = Duration::from_secs(10);
/// … and this many windows are taken in it.
const WINDOWS_A_TICK: u32 = 8;
/// A worker that has used less CPU time than this since it was last sampled, and has read nothing, is idle; clock ticks
/// of 10 ms. torch's workers use 0.1 ms every 5 s while they wait for work.
const IDLE_TICKS: u64 = 5;
/// A pause from this length on is told.
const TOLD: Duration = Duration::from_secs(5);
/// A process that py-spy fails on this many times in a row is left to its own Python, if that has a reader.
const FAILS_AGAIN: u32 = 3;
/// Pause if there is nothing to wait for except the next tick.
const STEP: Duration = Duration::from_millis(50);

/// Takes stacks until `stop`.
pub(super) fn watch(shared: &Shared) {
    let (turns, budget, last) = (Turns::default(), CpuBudget::default(), Instant::now());
    let mut taker =
        StacksTaker { shared, turns, py_spy: None, failures: 0, execs: 0, budget, last, spent: Duration::ZERO };
    while !shared.stop.load(Ordering::Relaxed) {
        if !taker.step() {
            return;
        }
    }
}

/// The state kept from window to window.
struct StacksTaker<'a> {
    shared: &'a Shared,
    turns: Turns,
    /// Found with the first process.
    py_spy: Option<PySpy>,
    /// Failures in a row.
    failures: u32,
    /// How many times the attached process had executed another program.
    execs: u32,
    budget: CpuBudget,
    /// When the last look began.
    last: Instant,
    /// CPU time of this look so far.
    spent: Duration,
}

impl StacksTaker<'_> {
    /// Takes one window and pauses. False once there is nothing left to take.
    fn step(&mut self) -> bool {
        let Shared { latest, stop, effort, .. } = self.shared;
        let job = latest.values().sample.job.clone();
        let Some(job) = job else {
            rest(stop, || STEP); // the first sample comes at once
            return true;
        };
        if !job.alive {
            return false;
        }
        let execs = execs(&job);
        if execs != self.execs {
            // What was found out belongs to other programs.
            (self.turns, self.py_spy, self.execs) = (Turns::default(), None, execs);
        }
        let (ranks, mut workers) = (of_role(&job, ProcessRole::Rank), of_role(&job, ProcessRole::Worker));
        if effort.answer() {
            self.turns.rank_next();
        }
        self.turns.leave_out_idle(&job, &mut workers);
        let Some((process, rate_hz)) = self.turns.next(&ranks, &workers, effort.get().rank_hz()) else {
            rest(stop, || Duration::from_secs(1));
            return true;
        };
        self.turns.note_taken(&job, process);
        let (began, of_rank) = (Instant::now(), ranks.contains(&process));
        self.spent = Duration::ZERO;
        let taken = self.record(process, of_rank, rate_hz);
        if let Ok(Some(_)) = taken {
            // A second reading at a known distance: some counters restart every few seconds.
            self.read_locals(process, of_rank);
        }
        self.budget.spend(began - self.last, self.spent);
        self.last = began;
        match taken {
            Ok(None) => return false,
            Ok(Some(window)) => {
                self.failures = 0;
                self.turns.failed.remove(&process);
                latest.values().stacks.add(window);
                let pause = self.pause(process);
                self.rest(pause);
            }
            Err(refusal) => self.refused(process, of_rank, refusal),
        }
        true
    }

    /// A window of a process. `None` if `stop` was set meanwhile.
    fn record(&mut self, process: ProcessId, of_rank: bool, rate_hz: u32) -> Result<Option<StackWindow>, Refusal> {
        if self.turns.by_own.contains(&process) {
            self.read_locals(process, of_rank);
            return self.record_by_own(process, rate_hz);
        }
        let refusal = match self.record_by_py_spy(process, of_rank, rate_hz) {
            Err(refusal) => refusal,
            taken => return taken,
        };
        let failed = self.turns.failed.entry(process).or_default();
        *failed = failed.saturating_add(1);
        let lasts = refusal.last || *failed >= FAILS_AGAIN;
        // What is denied to one is denied to the other. A single failure says little.
        let fails = matches!(refusal.status.state, SourceState::Absent | SourceState::Hung);
        if !fails || !self.may_take_another() || !lasts {
            return Err(refusal);
        }
        // If neither succeeds, py-spy's reason is told.
        let taken = self.record_by_own(process, rate_hz).map_err(|_| refusal)?;
        self.turns.by_own.insert(process);
        Ok(taken)
    }

    /// The same by py-spy, preceded by the process's local variables.
    fn record_by_py_spy(
        &mut self,
        process: ProcessId,
        of_rank: bool,
        rate_hz: u32,
    ) -> Result<Option<StackWindow>, Refusal> {
        let Shared { options, stop, .. } = self.shared;
        let proc_root = &options.sources.roots.proc;
        if self.py_spy.is_none() {
            self.py_spy = Some(PySpy::find(proc_root, process, options.py_spy.as_deref())?);
        }
        self.read_locals(process, of_rank);
        let Some(py_spy) = &self.py_spy else { return Ok(None) };
        let taken = py_spy.record(proc_root, process, WINDOW_S, rate_hz, stop);
        self.paid(taken)
    }

    /// The same by the reader of the process's own Python.
    fn record_by_own(&mut self, process: ProcessId, rate_hz: u32) -> Result<Option<StackWindow>, Refusal> {
        let Shared { options, stop, .. } = self.shared;
        let proc_root = &options.sources.roots.proc;
        let taken = OwnReader::find(proc_root, process)?.record(proc_root, process, WINDOW_S, rate_hz, stop);
        self.paid(taken)
    }

    /// Whether something other than py-spy may take stacks: not if one was named.
    fn may_take_another(&self) -> bool {
        self.shared.options.py_spy.is_none()
    }

    /// What was taken, once its cost is counted.
    fn paid<T>(&mut self, taken: Result<Option<Taken<T>>, Refusal>) -> Result<Option<T>, Refusal> {
        self.spent += match &taken {
            Ok(taken) => taken.as_ref().map_or(Duration::ZERO, |taken| taken.cpu),
            Err(refusal) => refusal.cpu,
        };
        taken.map(|taken| taken.map(|taken| taken.what))
    }

    /// Reads a training process's local variables if nothing else counts its steps. A failure is not reported: the
    /// window's own failure says why. One that will not pass is not tried again.
    fn read_locals(&mut self, process: ProcessId, of_rank: bool) {
        let Shared { options, latest, stop, .. } = self.shared;
        // Whether torch's loader feeds it is known once it was sampled.
        let job = latest.values().sample.job.clone();
        let counts = of_rank && job.is_some_and(|job| has_queue_threads(&job, process) == Some(false));
        let Some(py_spy) = &self.py_spy else { return };
        if !counts || self.turns.without_locals.contains(&process) || latest.values().stacks.is_counted(process) {
            return;
        }
        let read = py_spy.locals(&options.sources.roots.proc, process, stop);
        match self.paid(read) {
            Ok(Some(locals)) => latest.values().stacks.add_locals(locals),
            Err(refusal) if refusal.last => {
                self.turns.without_locals.insert(process);
            }
            Ok(None) | Err(_) => {}
        }
    }

    /// How long to pause after a look at a process, for what it cost. A long pause is told, unless the process's own Python can take
    /// over: it is a cheaper reader.
    fn pause(&mut self, process: ProcessId) -> Duration {
        let Shared { options, latest, .. } = self.shared;
        let pause = self.budget.pause();
        if pause < TOLD {
            return pause;
        }
        let by_own = self.turns.by_own.contains(&process);
        if !by_own && self.may_take_another() && OwnReader::find(&options.sources.roots.proc, process).is_ok() {
            self.turns.by_own.insert(process);
            self.budget = CpuBudget::default();
            return Duration::ZERO;
        }
        let reason = format!(
            "{} pauses for {}: a look at process {} took {:.1} s of CPU time, and the limit is {:.0}% of one CPU",
            if by_own { OWN_READER } else { "py-spy" },
            duration(pause.as_secs_f64()),
            process.pid,
            self.spent.as_secs_f64(),
            SHARE * 100.0
        );
        latest.values().stacks.status = SourceStatus::new(SourceState::Stale, reason);
        pause
    }

    /// Pauses after a window for as long as demanded, which may become less meanwhile, but at least so long.
    fn rest(&self, pause: Duration) {
        let Shared { options, stop, effort, .. } = self.shared;
        // A window is not shown before the next tick, so with a long interval a few are enough.
        let between_ticks = if options.interval >= LONG { options.interval / WINDOWS_A_TICK } else { Duration::ZERO };
        let begun = effort.get().stacks_rest();
        rest(stop, || {
            if effort.is_asked_at_once() {
                pause
            } else {
                effort.get().stacks_rest().min(begun).max(between_ticks).max(pause)
            }
        });
    }

    /// Handles a missing window and its reason.
    fn refused(&mut self, process: ProcessId, of_rank: bool, refusal: Refusal) {
        if refusal.last {
            self.turns.refused.insert(process);
        }
        // A worker that has ended since is not a failure of the source.
        if of_rank || (refusal.status.state != SourceState::Gone && !refusal.last) {
            self.failures = self.failures.saturating_add(1);
            self.shared.latest.values().stacks.status = refusal.status;
        }
        let wait = RETRY.saturating_mul(1 << self.failures.saturating_sub(1).min(5)).min(RETRY_MOST);
        let wait = wait.max(self.budget.pause());
        rest(&self.shared.stop, || if self.failures == 0 { STEP } else { wait });
    }
}

fn of_role(job: &JobSample, role: ProcessRole) -> Vec<ProcessId> {
    job.processes.iter().filter(|process| process.role == role).map(|process| process.id).collect()
}

/// How many times the attached process has executed another program.
fn execs(job: &JobSample) -> u32 {
    job.processes.iter().find(|process| process.id == job.target).map_or(0, |target| target.execs)
}

/// Whether a training process's steps are counted without stacks, because torch's loader feeds it. `None` until it was
/// sampled.
pub(super) fn has_queue_threads(job: &JobSample, rank: ProcessId) -> Option<bool> {
    let sampled = job.sampler.processes.iter().find(|process| process.id == rank);
    sampled.map(|process| process.queue_threads > 0)
}

/// How often each process has been sampled.
#[derive(Debug, Default)]
struct Turns {
    seen: HashMap<ProcessId, u64>,
    refused: HashSet<ProcessId>,
    /// Training processes whose variables py-spy cannot read.
    without_locals: HashSet<ProcessId>,
    /// Processes whose own Python takes their stacks.
    by_own: HashSet<ProcessId>,
    /// How many times in a row py-spy failed on a process.
    failed: HashMap<ProcessId, u32>,
    worker_last: bool,
    /// What workers had done when last sampled: CPU time in clock ticks, and bytes through read calls.
    done: HashMap<ProcessId, (u64, u64)>,
}

/// CPU time so far, clock ticks, and bytes through read calls; `None` if they cannot be read.
fn done(process: &ProcessSample) -> Option<(u64, u64)> {
    Some((process.user_ticks.saturating_add(process.system_ticks), process.io?.read_chars))
}

impl Turns {
    /// Makes a training process the next to sample.
    fn rank_next(&mut self) {
        self.worker_last = true;
    }

    /// Removes those that have done nothing since they were last sampled: their stacks would be the same.
    fn leave_out_idle(&mut self, job: &JobSample, workers: &mut Vec<ProcessId>) {
        self.done.retain(|id, _| workers.contains(id));
        let is_idle = |process: &&ProcessSample| {
            let both = done(process).zip(self.done.get(&process.id));
            both.is_some_and(|(now, then)| now.0.saturating_sub(then.0) < IDLE_TICKS && now.1 == then.1)
        };
        let idle: Vec<ProcessId> = job.processes.iter().filter(is_idle).map(|process| process.id).collect();
        workers.retain(|id| !idle.contains(id));
    }

    /// Records what a process has done so far, because it is sampled now.
    fn note_taken(&mut self, job: &JobSample, id: ProcessId) {
        let process = job.processes.iter().find(|process| process.id == id);
        self.done.extend(process.and_then(done).map(|done| (id, done)));
    }

    /// The process to sample next, and the rate: a training process at `rank_hz`.
    fn next(&mut self, ranks: &[ProcessId], workers: &[ProcessId], rank_hz: u32) -> Option<(ProcessId, u32)> {
        self.seen.retain(|id, _| ranks.contains(id) || workers.contains(id));
        self.refused.retain(|id| ranks.contains(id) || workers.contains(id));
        self.without_locals.retain(|id| ranks.contains(id));
        self.by_own.retain(|id| ranks.contains(id) || workers.contains(id));
        self.failed.retain(|id, _| ranks.contains(id) || workers.contains(id));
        let least = |of: &[ProcessId]| {
            let known = of.iter().filter(|id| !self.refused.contains(id));
            known.min_by_key(|id| (self.seen.get(id).copied().unwrap_or(0), id.pid)).copied()
        };
        let (rank, worker) = (least(ranks), least(workers));
        let take_worker = worker.is_some() && (rank.is_none() || !self.worker_last && !self.seen.is_empty());
        self.worker_last = take_worker;
        let (process, rate_hz) = if take_worker { (worker?, WORKER_HZ) } else { (rank?, rank_hz) };
        *self.seen.entry(process).or_default() += 1;
        Some((process, rate_hz))
    }
}

/// The state of stacks if they are switched off.
pub(super) fn switched_off(options: &CollectorOptions) -> Option<SourceStatus> {
    let reason = match (options.no_stacks, options.no_ptrace) {
        (true, _) => "switched off by --no-stacks",
        (_, true) => "switched off by --no-ptrace",
        _ => return None,
    };
    Some(SourceStatus::new(SourceState::Absent, reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::IoCounters;

    fn ids(pids: &[u32]) -> Vec<ProcessId> {
        pids.iter().map(|pid| ProcessId { pid: *pid, start_ticks: 1 }).collect()
    }

    #[test]
    fn rank_and_workers_take_turns() {
        let mut turns = Turns::default();
        let (ranks, workers) = (ids(&[10]), ids(&[20, 21]));
        let pids: Vec<u32> =
            (0..6).filter_map(|_| turns.next(&ranks, &workers, 40)).map(|(process, _)| process.pid).collect();
        assert_eq!(pids, [10, 20, 10, 21, 10, 20]);
    }

    #[test]
    fn new_workers_come_first_and_refused_ones_never() {
        let mut turns = Turns::default();
        for _ in 0..8 {
            turns.next(&ids(&[10]), &ids(&[20]), 40);
        }
        turns.refused.insert(ids(&[22])[0]);
        let next: Vec<u32> = (0..2)
            .filter_map(|_| turns.next(&ids(&[10]), &ids(&[20, 21, 22]), 40))
            .map(|(process, _)| process.pid)
            .collect();
        assert_eq!(next, [10, 21]);
        assert_eq!(turns.next(&[], &[], 40), None);
    }

    #[test]
    fn workers_that_rest_are_left_out_until_they_work_again() {
        let job = |ticks: [u64; 2], read_chars: Option<u64>| {
            let processes = ids(&[20, 21]).into_iter().zip(ticks).map(|(id, user_ticks)| ProcessSample {
                id,
                user_ticks,
                io: read_chars.map(|read_chars| IoCounters { read_chars, ..IoCounters::default() }),
                ..ProcessSample::default()
            });
            JobSample { processes: processes.collect(), ..JobSample::default() }
        };
        let mut turns = Turns::default();
        let mut left = |job: &JobSample, taken: &[u32]| {
            let mut workers = ids(&[20, 21]);
            turns.leave_out_idle(job, &mut workers);
            ids(taken).into_iter().for_each(|id| turns.note_taken(job, id));
            workers.into_iter().map(|id| id.pid).collect::<Vec<u32>>()
        };
        assert_eq!(left(&job([0, 0], Some(0)), &[20, 21]), [20, 21], "those that were never looked at");
        assert_eq!(left(&job([1, IDLE_TICKS], Some(0)), &[]), [21]);
        assert_eq!(left(&job([2, IDLE_TICKS], Some(9)), &[20]), [20, 21], "who reads works");
        assert_eq!(left(&job([3, IDLE_TICKS], Some(9)), &[]), [21]);
        assert_eq!(left(&job([3, IDLE_TICKS], None), &[]), [20, 21], "what is read is not known");
    }

    #[test]
    fn after_a_change_the_rank_is_next() {
        let mut turns = Turns::default();
        let (ranks, workers) = (ids(&[10]), ids(&[20]));
        turns.next(&ranks, &workers, 40);
        turns.rank_next();
        assert_eq!(turns.next(&ranks, &workers, 40), Some((ranks[0], 40)));
        assert_eq!(turns.next(&ranks, &workers, 40), Some((workers[0], WORKER_HZ)));
    }

    #[test]
    fn without_workers_the_rank_alone() {
        let mut turns = Turns::default();
        for _ in 0..3 {
            assert_eq!(turns.next(&ids(&[10]), &[], 20).map(|(process, rate)| (process.pid, rate)), Some((10, 20)));
        }
    }
}
