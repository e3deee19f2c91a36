//! The sampler: what the training processes' threads and the workers are doing, many times a second.
//!
//! Sampling a blocked thread costs one read of `/proc/PID/task/TID/syscall` and, if the call alone is ambiguous (a read
//! may be from a pipe, a socket or a disk), one of `wchan`. Neither stops the thread. If `syscall` cannot be read, only
//! `wchan` is. Readings are kept verbatim; `rates` judges what they mean.

mod task;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::connections::Connections;
use super::descriptors::{self, Permit, ThriftyFile, Use};
use super::files::KeptFile;
use super::process::io_counters;
use task::{Task, TaskRead};
use trainmon_sample::syscall::{CallKind, Machine, kind};
use trainmon_sample::{
    Access, ConnectionsSample, Observation, ProcessId, ProcessRole, SampledProcess, SampledThread, SamplerSample,
    ThreadRole,
};

/// The counters of queue-feeding threads are read every this many rounds; the second number is for sparing mode.
const FEEDERS_EVERY: (u64, u64) = (2, 4);
/// With more queue-feeding threads than this, their counters are never read more often than that.
const MOST_FEEDERS_EVERY_ROUND: usize = 16;
/// Everything outside the loop's process is sampled every this many rounds (second number: sparing mode). At one in 20
/// rounds a second, a minute still gives a share to within 4 points.
const EVERYTHING_EVERY: (u64, u64) = (3, 8);
/// Bytes written by the first thread are read every this many rounds.
const WRITTEN_EVERY: u64 = 4;
/// Most workers sampled in one round; beyond that they take turns.
const MOST_WORKERS: usize = 16;
/// Most rounds between two ticks, two minutes' worth. Beyond that, new ones are dropped and the oldest kept.
const MOST_ROUNDS: usize = 6000;
/// From this timeout on, milliseconds, a wait counts as one with a timeout of seconds.
const LONG_MS: i32 = 1500;

/// What to sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SamplerPlan {
    /// `syscall` cannot be read.
    pub no_syscall: bool,
    /// Training processes, the attached one first, then workers.
    pub processes: Vec<ProcessPlan>,
}

/// One process to sample.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessPlan {
    /// Identity.
    pub id: ProcessId,
    /// How many times it has executed another program: files opened before belong to the program before.
    pub execs: u32,
    /// Training process or worker.
    pub role: ProcessRole,
    /// For a worker: the PID of its training process.
    pub rank: Option<u32>,
    /// The first thread comes first. For a training process also the pin-memory thread and those that computed lately;
    /// for any process the active ones, because others may wait for them.
    pub threads: Vec<ThreadPlan>,
    /// Queue-feeding threads.
    pub queue_threads: Vec<u32>,
}

/// One thread to sample.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Thread ID.
    pub tid: u32,
    /// Its role.
    pub role: ThreadRole,
    /// Sampled only because others may wait for it, in the rounds that look up what threads wait on.
    pub aside: bool,
}

impl ThreadPlan {
    /// A thread that matters in its own right.
    pub fn new(tid: u32, role: ThreadRole) -> Self {
        Self { tid, role, aside: false }
    }
}

/// Samples training processes and workers; see [`Sampler::round`].
#[derive(Debug, Default)]
pub struct Sampler {
    proc_root: PathBuf,
    plan: SamplerPlan,
    processes: Vec<SampledProc>,
    rounds: u64,
    sparing: bool,
    next_worker: usize,
    /// Start of the current tick.
    began_us: u64,
    last_us: u64,
    gaps_us: Vec<u32>,
    /// The first round of the tick that sampled everything.
    followed: Option<u32>,
    seen: TaskRead,
    connections: Connections,
}

#[derive(Debug, Default)]
struct SampledProc {
    plan: ProcessPlan,
    threads: Vec<Task>,
    /// Planned threads not sampled because no more files may be kept open.
    left_out: u32,
    /// I/O counters of the queue-feeding threads.
    queue_threads: Vec<ThriftyFile>,
    main_io: Option<ThriftyFile>,
    /// The process's memory: arguments of polls, and deadlines of futex waits.
    memory: Option<(KeptFile, Permit)>,
    /// The feeding threads' write count when the first thread was last seen waiting on a descriptor, until it moves on.
    awaited: Option<u64>,
    fed: Vec<(u32, u64)>,
    written: Vec<(u32, u64)>,
}

/// Which counters of a training process to read in a round.
#[derive(Debug, Clone, Copy)]
struct Due {
    queue_threads: bool,
    written: bool,
}

/// Whether it is blocked in a call that other threads of the process may have to end: a wait with a timeout of seconds
/// is for another thread.
fn may_wait_for_own_threads(main: &Observation) -> bool {
    let ends_late = [main.timeout_ms, main.deadline_ms].into_iter().flatten().any(|ms| ms >= LONG_MS);
    main.state != Some('R') && !ends_late
}

/// Whether it is blocked in a call that a batch may end: on descriptors, in a queue with a timeout, or in an unknown
/// call.
fn may_wait_for_a_batch(main: &Observation) -> bool {
    let kind = main.call.and_then(|number| kind(Machine::OWN, number));
    let on_descriptors = matches!(kind, None | Some(CallKind::Poll | CallKind::PollLike | CallKind::Socket));
    main.state != Some('R') && (on_descriptors || main.deadline_ms.is_some_and(|ms| ms >= LONG_MS))
}

impl SampledProc {
    /// Opens what the plan names, reusing what `before` has open. Threads sampled only because others may wait for them
    /// are left out if their files cannot be kept open.
    fn open(proc_root: &Path, plan: &ProcessPlan, before: Option<Self>, no_syscall: bool) -> Self {
        let pid = plan.id.pid;
        let mut process = before.unwrap_or_default();
        let io = |tid: &u32| {
            let path = proc_root.join(format!("{pid}/task/{tid}/io"));
            ThriftyFile::open(path, Some(Use::Rounds)).ok()
        };
        if !no_syscall && process.memory.is_none() {
            process.memory = descriptors::permit(Use::Rounds)
                .and_then(|permit| Some((KeptFile::open(proc_root.join(format!("{pid}/mem"))).ok()?, permit)));
        }
        let mut tasks = std::mem::take(&mut process.threads);
        let thread = |thread: &ThreadPlan| match tasks.iter().position(|task| task.samples.tid == thread.tid) {
            Some(at) => {
                let mut task = tasks.swap_remove(at);
                (task.samples.role, task.samples.aside) = (thread.role, thread.aside);
                task
            }
            None => Task::open(proc_root, pid, thread, no_syscall),
        };
        process.threads = plan.threads.iter().map(thread).collect();
        process.threads.retain(|task| !task.samples.aside || task.is_cheap());
        process.left_out = u32::try_from(plan.threads.len() - process.threads.len()).unwrap_or(u32::MAX);
        if plan.role == ProcessRole::Rank {
            process.main_io = process.main_io.or_else(|| io(&pid));
        }
        if process.plan.queue_threads != plan.queue_threads {
            process.queue_threads = plan.queue_threads.iter().filter_map(io).collect();
        }
        process.plan = plan.clone();
        process
    }

    /// Samples a training process in one round. With `connections`, all planned threads are sampled, and what they wait
    /// on is looked up.
    fn sample_rank(&mut self, round: u32, due: Due, mut connections: Option<&mut Connections>, seen: &mut TaskRead) {
        let pid = self.plan.id.pid;
        let mut main = Observation::default();
        let mut helper_runs = false;
        let pinned = self.plan.threads.iter().any(|thread| thread.role == ThreadRole::Pin);
        for task in &mut self.threads {
            let all = connections.is_some();
            let with = connections.as_deref_mut().map(|connections| (pid, connections));
            let own_memory = self.memory.as_ref().map(|(memory, _)| memory);
            let memory = if all { own_memory } else { None };
            match task.samples.role {
                _ if task.samples.aside => {
                    if all {
                        task.sample(round, memory, with, seen);
                    }
                }
                ThreadRole::Main => {
                    let memory = if pinned { memory.or(own_memory) } else { memory };
                    main = task.sample(round, memory, with, seen);
                }
                ThreadRole::Pin => {
                    task.sample(round, memory, with, seen);
                }
                _ if !all && (helper_runs || !may_wait_for_own_threads(&main)) => {}
                _ => helper_runs |= task.sample(round, memory, with, seen).state == Some('R'),
            }
        }
        if due.written
            && let Some(io) = self.main_io.as_ref().and_then(|file| file.with(io_counters).ok())
        {
            self.written.push((round, io.write_chars));
        }
        // Fetching a batch ends with handing out the next index, so the count is read while that is awaited.
        let (waits, runs) = (may_wait_for_a_batch(&main), main.state == Some('R'));
        let often = (waits || runs && self.awaited.is_some()) && self.queue_threads.len() <= MOST_FEEDERS_EVERY_ROUND;
        let count = if often || due.queue_threads { self.fed_now() } else { None };
        self.fed.extend(count.map(|count| (round, count)));
        self.awaited = count.filter(|count| waits || runs && self.awaited == Some(*count));
    }

    /// Write calls of all queue-feeding threads.
    fn fed_now(&self) -> Option<u64> {
        let calls = self.queue_threads.iter().map(|file| file.with(io_counters).ok().map(|io| io.write_calls));
        if !self.queue_threads.is_empty() { calls.sum::<Option<u64>>() } else { None }
    }

    /// What was sampled since the last tick, which had this many rounds.
    fn take(&mut self, rounds: u32) -> SampledProcess {
        if self.plan.role == ProcessRole::Worker {
            self.fed.extend(self.fed_now().map(|count| (rounds, count)));
        }
        let threads = self.threads.iter_mut().map(|task| {
            let SampledThread { tid, role, aside, rounds: at, seen } = &task.samples;
            // As much room as this tick took.
            let (at, seen) = (Vec::with_capacity(at.len()), Vec::with_capacity(seen.len()));
            let next = SampledThread { tid: *tid, role: *role, aside: *aside, rounds: at, seen };
            let mut taken = std::mem::replace(&mut task.samples, next);
            if taken.rounds.len() == rounds as usize {
                taken.rounds = Vec::new();
            }
            taken
        });
        SampledProcess {
            id: self.plan.id,
            role: self.plan.role,
            rank: self.plan.rank,
            threads: threads.collect(),
            queue_threads: u32::try_from(self.queue_threads.len()).unwrap_or(u32::MAX),
            fed: std::mem::take(&mut self.fed),
            written: std::mem::take(&mut self.written),
        }
    }
}

impl Sampler {
    /// A sampler without a plan.
    pub fn new(proc_root: &Path) -> Self {
        Self { proc_root: proc_root.to_path_buf(), connections: Connections::new(proc_root), ..Self::default() }
    }

    /// Turns sparing mode on or off; it is on once a verdict has been stable for long. Everything except the loop's own
    /// process is then sampled less often. Call it right after [`Self::take`].
    pub fn set_sparing(&mut self, sparing: bool) {
        self.sparing = sparing;
        self.connections.set_sparing(sparing);
    }

    /// Adopts a new plan, keeping the descriptors of whatever stays. Call it right after [`Self::take`].
    pub fn follow(&mut self, plan: SamplerPlan) {
        if plan == self.plan {
            return;
        }
        let mut before: BTreeMap<ProcessId, SampledProc> =
            self.processes.drain(..).map(|process| (process.plan.id, process)).collect();
        if descriptors::scarce(Use::Rounds).is_some() {
            // The most important ones come first in the plan and must get descriptors.
            before.values_mut().for_each(|process| process.threads.retain(|task| !task.samples.aside));
        }
        let open = |wanted: &ProcessPlan| {
            let before = before.remove(&wanted.id).filter(|before| before.plan.execs == wanted.execs);
            SampledProc::open(&self.proc_root, wanted, before, plan.no_syscall)
        };
        self.processes = plan.processes.iter().map(open).collect();
        self.plan = plan;
    }

    /// Samples everything that is due once. `now_ns` is CLOCK_MONOTONIC.
    pub fn round(&mut self, now_ns: u64) {
        if self.gaps_us.len() >= MOST_ROUNDS {
            return;
        }
        let round = u32::try_from(self.gaps_us.len()).unwrap_or(u32::MAX);
        let now_us = now_ns / 1000;
        if round == 0 {
            (self.began_us, self.last_us) = (now_us, now_us);
        }
        self.gaps_us.push(u32::try_from(now_us.saturating_sub(self.last_us)).unwrap_or(u32::MAX));
        self.last_us = now_us;
        let everything = self.rounds.is_multiple_of(of_pace(EVERYTHING_EVERY, self.sparing));
        let due = Due {
            queue_threads: self.rounds.is_multiple_of(of_pace(FEEDERS_EVERY, self.sparing)),
            written: self.rounds.is_multiple_of(WRITTEN_EVERY),
        };
        self.connections.begin_round(now_us);
        self.followed = self.followed.or(everything.then_some(round));
        for process in self.processes.iter_mut().filter(|process| process.plan.role == ProcessRole::Rank) {
            let connections = if everything { Some(&mut self.connections) } else { None };
            process.sample_rank(round, due, connections, &mut self.seen);
        }
        if everything {
            self.sample_others(round);
        }
        self.rounds += 1;
    }

    /// Samples the workers, and whatever else may be waited for.
    fn sample_others(&mut self, round: u32) {
        let is_other = |process: &&SampledProc| process.plan.role != ProcessRole::Rank;
        let count = self.processes.iter().filter(is_other).count().max(1);
        let start = if count > MOST_WORKERS { self.next_worker % count } else { 0 };
        let others = self.processes.iter_mut().filter(|process| is_other(&&**process)).enumerate();
        for (_, other) in others.filter(|(at, _)| (at + count - start) % count < MOST_WORKERS) {
            for task in &mut other.threads {
                let with = Some((other.plan.id.pid, &mut self.connections));
                let memory = other.memory.as_ref().map(|(memory, _)| memory);
                task.sample(round, memory, with, &mut self.seen);
            }
        }
        self.next_worker = self.next_worker.wrapping_add(MOST_WORKERS);
    }

    /// What connects the sampled processes, from the samples since the last call. Call it with [`Self::take`].
    pub fn connections(&mut self) -> ConnectionsSample {
        let pids: Vec<u32> = self.plan.processes.iter().map(|process| process.id.pid).collect();
        self.connections.take(&pids, self.plan.no_syscall)
    }

    /// Planned threads not sampled because no more files may be kept open.
    pub fn left_out(&self) -> u32 {
        self.processes.iter().map(|process| process.left_out).fold(0, u32::saturating_add)
    }

    /// Processes outside the plan that hold the other end of something waited on.
    pub fn outside(&self) -> Vec<u32> {
        self.connections.outside()
    }

    /// Everything sampled since the last call.
    pub fn take(&mut self) -> SamplerSample {
        let rounds = u32::try_from(self.gaps_us.len()).unwrap_or(u32::MAX);
        let every = u32::try_from(of_pace(EVERYTHING_EVERY, self.sparing)).unwrap_or(1);
        SamplerSample {
            machine: Machine::OWN,
            syscall: if self.plan.no_syscall { Access::Denied } else { Access::Ok },
            began_ns: self.began_us * 1000,
            gaps_us: std::mem::take(&mut self.gaps_us),
            followed: self.followed.take().map(|first| (first, every)),
            processes: self.processes.iter_mut().map(|process| process.take(rounds)).collect(),
            seen: std::mem::take(&mut self.seen.table),
        }
    }
}

/// Of two numbers of rounds, the usual one or the one for sparing mode.
fn of_pace((usual, seldom): (u64, u64), sparing: bool) -> u64 {
    if sparing { seldom } else { usual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_do_is_sampled_more_seldom_where_little_is_asked_for() {
        let own = std::process::id();
        let process = |role| ProcessPlan {
            id: ProcessId { pid: own, start_ticks: 1 },
            role,
            threads: vec![ThreadPlan::new(own, ThreadRole::Main)],
            ..ProcessPlan::default()
        };
        let mut sampler = Sampler::new(Path::new("/proc"));
        let processes = vec![process(ProcessRole::Worker)];
        sampler.follow(SamplerPlan { no_syscall: false, processes });
        let mut tick = |sparing| {
            sampler.set_sparing(sparing);
            (0..48).for_each(|round| sampler.round(round * 20_000_000));
            let taken = sampler.take();
            let followed: Vec<u32> = taken.followed_rounds().collect();
            let sampled = taken.processes.first().unwrap().threads.first().unwrap().rounds.clone();
            assert_eq!(sampled, followed, "the rounds that are named are those in which everything was sampled");
            followed.len()
        };
        assert_eq!([tick(false), tick(true), tick(false)], [16, 6, 16]);
    }
}
