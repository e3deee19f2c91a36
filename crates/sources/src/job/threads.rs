//! Which threads of the job matter: those that feed queues, and those to sample.

use std::collections::BTreeMap;

use super::JobReader;
use crate::process::Process;
use crate::sampler::{ProcessPlan, SamplerPlan, ThreadPlan};
use trainmon_sample::process::TORCH_WORKER;
use trainmon_sample::{Access, ProcessRole, ThreadRole};

/// A helper thread is sampled if it ran this long in the last tick, nanoseconds.
const HELPER_NS: u64 = 20_000_000;
/// Most helper threads of one training process sampled in each round.
const MOST_HELPERS: usize = 3;
/// Most threads of one process sampled because others may wait for them, the most active first …
const MOST_ASIDE: usize = 12;
/// … and over all processes that do not train. Each takes three of trainmon's descriptors, of which there may be no
/// more than 16384. Every process gets at least one.
const MOST_ASIDE_IN_ALL: usize = 1024;
/// What one wake-up per second counts when the most active threads are chosen, in seconds of CPU time.
const WAKE_CPU: f64 = 1e-3;
/// Most sampled processes that are neither training processes nor workers.
const MOST_OTHERS: usize = 64;
/// The queue-feeding threads of one set of workers start within this many clock ticks of each other: torch fills all
/// queues before it waits for the first batch.
const ONE_SET_TICKS: u64 = 5;

impl JobReader {
    /// What to sample until the next read.
    pub fn sampler_plan(&self) -> SamplerPlan {
        let most_aside = most_aside(self.processes.len() + self.outside.len());
        let plan = |process: &Process| {
            let with =
                |role| process.threads.iter().filter(move |thread| thread.role == role).map(|thread| thread.tid);
            let mut threads = vec![ThreadPlan::new(process.id.pid, ThreadRole::Main)];
            let mut queue_threads: Vec<u32> = with(ThreadRole::QueueThread).collect();
            let rank = match process.role {
                ProcessRole::Rank => {
                    threads.extend(with(ThreadRole::Pin).next().map(|tid| ThreadPlan::new(tid, ThreadRole::Pin)));
                    threads.extend(helpers(process));
                    None
                }
                ProcessRole::Worker => {
                    queue_threads.truncate(1);
                    Some(self.rank_of(process.id.pid).unwrap_or(self.target.pid))
                }
                _ if process.threads.iter().any(|thread| thread.pace.is_active()) => None,
                _ => return None,
            };
            let most = if process.role == ProcessRole::Rank { MOST_ASIDE } else { most_aside };
            threads.extend(aside(process, &threads, most));
            let (id, execs, role) = (process.id, process.execs, process.role);
            Some(ProcessPlan { id, execs, role, rank, threads, queue_threads })
        };
        let mut processes: Vec<ProcessPlan> = self.processes.values().filter_map(plan).collect();
        // The attached process first, because that is the one the screen shows.
        processes.sort_by_key(|process| (process.role, process.id != self.target, process.id.pid));
        let others = processes.partition_point(|process| process.role <= ProcessRole::Worker);
        processes.truncate(others + MOST_OTHERS);
        processes.extend(self.outside.values().map(|process| outside(process, most_aside)));
        SamplerPlan { no_syscall: self.access.syscall != Access::Ok, processes }
    }

    /// Finds the threads that feed queues. In a training process, torch's loader keeps one per worker, started right
    /// after the workers; each makes write calls and no read calls. It outlives a worker that ended because its shard
    /// is done. In a worker it is the oldest thread that has written.
    pub(super) fn find_queue_threads(&mut self) {
        if self.access.io != Access::Ok {
            return;
        }
        let mut served: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (pid, process) in &self.processes {
            if process.comm.starts_with(TORCH_WORKER)
                && let Some(rank) = self.rank_of(*pid)
            {
                served.entry(rank).or_default().push(process.id.start_ticks);
            }
        }
        for (pid, process) in &mut self.processes {
            if let Some(starts) = served.get(pid) {
                find_rank_queue_threads(process, starts);
            } else if process.comm.starts_with(TORCH_WORKER) {
                find_worker_queue_thread(process);
            }
        }
    }
}

/// The plan for a process outside the job that the job waits for.
fn outside(process: &Process, most_aside: usize) -> ProcessPlan {
    let mut threads = vec![ThreadPlan::new(process.id.pid, ThreadRole::Main)];
    threads.extend(aside(process, &threads, most_aside));
    ProcessPlan { id: process.id, execs: process.execs, role: ProcessRole::Other, threads, ..ProcessPlan::default() }
}

/// How many extra threads are sampled per process, with this many processes.
fn most_aside(processes: usize) -> usize {
    (MOST_ASIDE_IN_ALL / processes.max(1)).clamp(1, MOST_ASIDE)
}

/// The most active threads not yet planned: the process's other threads, and threads elsewhere, may wait for them.
fn aside(process: &Process, planned: &[ThreadPlan], most: usize) -> Vec<ThreadPlan> {
    let is_new = |tid: u32| planned.iter().all(|known| known.tid != tid);
    let mut active: Vec<_> = process
        .threads
        .iter()
        .filter(|thread| thread.pace.is_active() && is_new(thread.tid))
        .map(|thread| (thread.pace.cpu + thread.pace.timeslices_per_s * WAKE_CPU, thread))
        .collect();
    active.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.tid.cmp(&b.1.tid)));
    let mut aside: Vec<ThreadPlan> = active
        .into_iter()
        .take(most)
        .map(|(_, thread)| ThreadPlan { tid: thread.tid, role: thread.role, aside: true })
        .collect();
    // The same threads in another order are the same plan.
    aside.sort_unstable_by_key(|thread| thread.tid);
    aside
}

/// The threads of a training process that computed most in the last tick.
fn helpers(process: &Process) -> impl Iterator<Item = ThreadPlan> + use<> {
    let helps = |role| matches!(role, ThreadRole::Autograd | ThreadRole::Other);
    let busy = process.threads.iter().filter(|thread| helps(thread.role) && thread.recent_ns >= HELPER_NS);
    let mut busy: Vec<_> =
        busy.map(|thread| (std::cmp::Reverse(thread.recent_ns), thread.tid, thread.role)).collect();
    busy.sort_unstable();
    busy.into_iter().take(MOST_HELPERS).map(|(_, tid, role)| ThreadPlan::new(tid, role))
}

fn find_rank_queue_threads(process: &mut Process, worker_starts: &[u64]) {
    let known = process.threads.iter().filter(|thread| thread.role == ThreadRole::QueueThread).count();
    if known >= worker_starts.len() {
        return;
    }
    let first_start = worker_starts.iter().copied().min().unwrap_or(0);
    let tids: Vec<u32> =
        process.threads.iter().filter(|thread| thread.role == ThreadRole::Other).map(|thread| thread.tid).collect();
    let mut candidates = Vec::new();
    for tid in tids {
        let Some(io) = process.thread_io(tid) else { continue };
        if io.write_calls == 0 || io.read_calls > 0 {
            continue;
        }
        let Some(start) = process.thread_start(tid) else { continue };
        if start >= first_start {
            candidates.push((start, tid));
        }
    }
    candidates.sort_unstable();
    for tid in queue_threads_among(&candidates, worker_starts.len().saturating_sub(known)) {
        if let Some(thread) = process.threads.iter_mut().find(|thread| thread.tid == tid) {
            thread.role = ThreadRole::QueueThread;
        }
    }
}

/// The oldest `wanted` of these threads (start, TID; sorted), and those that started together with them, which fed
/// workers that have ended.
fn queue_threads_among(candidates: &[(u64, u32)], wanted: usize) -> impl Iterator<Item = u32> + '_ {
    let last = candidates.iter().take(wanted).next_back().map_or(0, |(start, _)| start + ONE_SET_TICKS);
    candidates.iter().take_while(move |(start, _)| *start <= last).map(|(_, tid)| *tid)
}

fn find_worker_queue_thread(process: &mut Process) {
    if process.threads.iter().any(|thread| thread.role == ThreadRole::QueueThread) {
        return;
    }
    let mut tids: Vec<u32> =
        process.threads.iter().filter(|thread| thread.role == ThreadRole::Other).map(|thread| thread.tid).collect();
    // In starting order: thread IDs rise, and wrap once the kernel runs out of them. The feeding thread precedes the
    // one that hands out descriptors, which also writes.
    let pid = process.id.pid;
    tids.sort_unstable_by_key(|tid| (*tid < pid, *tid));
    let queue_thread = tids.into_iter().find(|tid| process.thread_io(*tid).is_some_and(|io| io.write_calls > 0));
    if let Some(thread) = process.threads.iter_mut().find(|thread| Some(thread.tid) == queue_thread) {
        thread.role = ThreadRole::QueueThread;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_threads_of_workers_that_have_ended_count_too() {
        let candidates = [(500, 1), (501, 2), (502, 3), (900, 4)];
        let found = |wanted| queue_threads_among(&candidates, wanted).collect::<Vec<_>>();
        assert_eq!((found(1), found(3)), (vec![1, 2, 3], vec![1, 2, 3]));
        assert_eq!((found(0), found(4)), (vec![], vec![1, 2, 3, 4]));
    }

    #[test]
    fn a_large_job_has_fewer_threads_sampled_of_each_process() {
        assert_eq!([0, 9, 85, 272, 100_000].map(most_aside), [12, 12, 12, 3, 1]);
    }
}
