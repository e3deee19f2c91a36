//! The workers' time budget: exact counts from the scheduler, and the rest divided by the sampler's observations.

use super::frame::WorkerRates;
use super::sampled::SampledWorker;
use super::short_lived::{FOR_CHILDREN, explained};
use super::wait::Wait;
use trainmon_rates::delta::{by_key, copied, rate};
use trainmon_rates::job::{JobFold, ProcessDelta};
use trainmon_rates::levels::{CLEARLY, NEARLY_ALL};
use trainmon_sample::{JobSample, ProcessRole, ProcessSample};

/// Fewer samples than this in a tick show nothing.
const FEWEST_SAMPLES: u32 = 3;

/// All workers, in the order of the processes.
pub(super) fn fold(
    before: Option<&JobSample>,
    job: &JobSample,
    sampled: &[SampledWorker],
    folded: &JobFold,
    stale: bool,
) -> Vec<WorkerRates> {
    let before = if folded.seconds.is_some() { before } else { None };
    let samples = by_key(sampled, |worker| worker.id);
    let earlier = before.map_or(&[][..], |before| &before.sampler.processes);
    let earlier = by_key(earlier, |process| process.id);
    let workers = job.processes.iter().zip(&folded.deltas);
    let workers = workers.filter(|(process, _)| process.role == ProcessRole::Worker);
    let rates = workers.map(|(process, delta)| {
        let seen = samples.get(&process.id).copied();
        let mut rates = by_counters(process, delta, seen);
        rates.new = before.is_some() && !delta.known;
        if stale {
            return rates;
        }
        let batches_before = earlier.get(&process.id).and_then(|process| process.fed.last()).map(|(_, count)| *count);
        rates.batches_per_s = rate(seen.and_then(|seen| seen.batches), batches_before, folded.seconds);
        if let Some((busy, runnable)) = scheduled(delta, seen, folded.seconds) {
            // The first thread waited for running threads of its own process.
            let by_own_threads =
                seen.map_or(0.0, |seen| f64::from(seen.by_own_threads) / WorkerTimes::new(seen).all().max(1.0));
            let busy = (busy + by_own_threads).min(1.0 - runnable);
            let children = folded.short_lived.children.get(&process.id.pid).copied().unwrap_or(0.0);
            let fetching = delta.fetching_cores.min(busy);
            split(&mut rates, (busy - fetching, runnable, fetching), seen, children);
        }
        rates
    });
    rates.collect()
}

/// Whether the worker had nothing to do at nearly every sample.
pub(super) fn had_nothing_to_do(worker: &SampledWorker) -> bool {
    let count = worker.counts.values().sum::<u32>();
    count >= FEWEST_SAMPLES && WorkerTimes::new(worker).idle >= NEARLY_ALL * f64::from(count)
}

fn by_counters(process: &ProcessSample, delta: &ProcessDelta, sampled: Option<&SampledWorker>) -> WorkerRates {
    WorkerRates {
        id: process.id,
        rank: sampled.map_or(process.parent, |sampled| sampled.rank),
        unnamed: !process.is_torch_worker(),
        ..copied!(delta => WorkerRates: cpu_pct active_threads major_faults_per_s read_chars_per_s read_calls_per_s read_bytes_per_s)
    }
}

/// Shares of the wall time on a CPU and queueing for one. Exact if the first thread's schedstat is available. On
/// kernels without it: the process's CPU time, and queueing for the other samples in state R.
fn scheduled(delta: &ProcessDelta, sampled: Option<&SampledWorker>, seconds: Option<f64>) -> Option<(f64, f64)> {
    let seconds = if delta.known { seconds? } else { return None };
    if let Some(main) = delta.main {
        let busy = (main.on_cpu as f64 / 1e9 / seconds).min(1.0);
        return Some((busy, (main.delay as f64 / 1e9 / seconds).min(1.0 - busy)));
    }
    let seen = WorkerTimes::new(sampled?);
    let busy = (delta.cpu_pct? / 100.0).min(1.0);
    (seen.all() > 0.0).then(|| (busy, (seen.running / seen.all() - busy).clamp(0.0, 1.0 - busy)))
}

/// Divides the time besides `busy` and `runnable` between idle and I/O wait, like the samples that show the worker
/// blocked. `fetching` is the time in which the kernel fetched pages from storage for it: it is spent on the disk,
/// although it takes a CPU. Without samples the split stays unknown. Waiting for short-lived children, which use
/// `children` CPUs, is work of the worker.
fn split(
    rates: &mut WorkerRates,
    (busy, runnable, fetching): (f64, f64, f64),
    sampled: Option<&SampledWorker>,
    children: f64,
) {
    let (seen, for_children) = sampled.map(|worker| WorkerTimes::with_children(worker, children)).unwrap_or_default();
    let rest = (1.0 - busy - runnable).max(0.0);
    let busy = busy + for_children.min(rest);
    rates.busy = Some(busy);
    rates.runnable = Some(runnable);
    let rest = (1.0 - busy - runnable).max(0.0);
    if seen.all() <= 0.0 {
        return;
    }
    // Time in state R that the scheduler did not count, while storage was really read, is a hidden wait: reads past the
    // page cache (O_DIRECT) can show as R while the thread waits.
    let hidden = seen.running / seen.all() - busy - runnable;
    let reads = rates.read_bytes_per_s.is_some_and(|bytes| bytes > 0.0);
    let hidden = if hidden >= CLEARLY && reads { hidden } else { fetching }.min(rest);
    let shown = rest - hidden;
    let blocked = seen.all() - seen.running;
    let part = |count: f64| if blocked > 0.0 { (count / blocked).clamp(0.0, 1.0) * shown } else { 0.0 };
    // It ran at every sample: the rest is rounding, and no wait was seen.
    let idle = if blocked > 0.0 { part(seen.idle) } else { shown };
    rates.idle = Some(idle);
    rates.lock_wait = sampled.map(|worker| part(f64::from(worker.at_lock)).min(idle));
    rates.io_wait = Some((rest - idle).max(0.0));
    rates.disk_wait = Some((part(seen.disk) + hidden).min(rest - idle));
    rates.socket_wait = Some(part(seen.socket).min(rest - idle));
    rates.sleep = Some(part(seen.sleep).min(rest - idle));
}

/// A worker's samples by what they mean, as weights. Unreadable samples are left out.
///
/// Idle means waiting for an index, waiting for a futex (handing over, a full queue, another worker at the shared
/// queue), or stopped. torch workers wait for an index in a poll of 5 s, other loaders' on a pipe. Any other blocked
/// state is a wait for data.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct WorkerTimes {
    running: f64,
    idle: f64,
    disk: f64,
    socket: f64,
    sleep: f64,
    elsewhere: f64,
}

impl WorkerTimes {
    fn new(worker: &SampledWorker) -> Self {
        let mut seen = Self::default();
        for (&wait, &count) in &worker.counts {
            let weight = match wait {
                Wait::Running => &mut seen.running,
                Wait::LoaderPoll | Wait::Futex | Wait::Stopped => &mut seen.idle,
                // Without readable calls, any poll may be torch's.
                Wait::Poll if worker.torch && !worker.exact => &mut seen.idle,
                Wait::Pipe if !worker.torch => &mut seen.idle,
                Wait::DiskRead | Wait::Memory => &mut seen.disk,
                Wait::Socket => &mut seen.socket,
                Wait::Sleep => &mut seen.sleep,
                Wait::Poll | Wait::Pipe | Wait::DiskWrite | Wait::Child | Wait::Gpu | Wait::Other => {
                    &mut seen.elsewhere
                }
                Wait::Unknown => continue,
            };
            *weight += f64::from(count);
        }
        seen
    }

    /// The same without the waits for short-lived children, and the share that those waits had.
    fn with_children(worker: &SampledWorker, cores: f64) -> (Self, f64) {
        let mut seen = Self::new(worker);
        let all = seen.all();
        // Without readable calls, any poll may be torch's.
        let may_be =
            |wait: Wait| FOR_CHILDREN.contains(&wait) && (wait != Wait::Poll || !worker.torch || worker.exact);
        let waits = worker.counts.iter().filter(|(wait, _)| may_be(**wait));
        let waits: f64 = waits.map(|(_, count)| f64::from(*count)).sum();
        if cores <= 0.0 || waits <= 0.0 {
            return (seen, 0.0);
        }
        let gone = waits * explained(cores, waits / all);
        let elsewhere = gone.min(seen.elsewhere);
        seen.elsewhere -= elsewhere;
        seen.idle = (seen.idle - (gone - elsewhere)).max(0.0);
        (seen, gone / all)
    }

    fn all(&self) -> f64 {
        self.running + self.idle + self.disk + self.socket + self.sleep + self.elsewhere
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Frames;
    use crate::testing::*;
    use trainmon_sample::{IoCounters, Sample, ThreadRole};

    fn worker(pid: u32, on_cpu_ms: u64, delay_ms: u64) -> ProcessSample {
        ProcessSample {
            role: ProcessRole::Worker,
            comm: trainmon_sample::process::TORCH_WORKER.into(),
            parent: 10,
            threads: vec![thread(pid, ThreadRole::Main, on_cpu_ms, delay_ms)],
            ..process(pid)
        }
    }

    fn seen(pid: u32, counts: &[(Wait, u32)]) -> SampledWorker {
        let mut out = SampledWorker { id: id(pid), rank: 9, torch: true, exact: true, ..SampledWorker::default() };
        for (wait, count) in counts {
            out.counts.insert(*wait, *count);
        }
        out
    }

    fn sample(sequence: u64, workers: Vec<ProcessSample>, seen: Vec<SampledWorker>) -> Sample {
        let mut job = job(sequence * 1000, [vec![process(10)], workers].concat());
        job.sampler = sampler(&[], &seen);
        Sample { job: Some(Arc::new(job)), ..tick(sequence, sequence * 1000) }
    }

    fn one(before: ProcessSample, after: ProcessSample, seen: Vec<SampledWorker>) -> WorkerRates {
        let mut rates = Frames::default();
        rates.next(Arc::new(sample(0, vec![before], vec![])));
        rates.next(Arc::new(sample(1, vec![after], seen))).workers.pop().unwrap()
    }

    #[test]
    fn rest_is_split_by_the_samples() {
        let seen = seen(
            20,
            &[(Wait::Running, 25), (Wait::LoaderPoll, 6), (Wait::DiskRead, 9), (Wait::Socket, 3), (Wait::Sleep, 2)],
        );
        let rates = one(worker(20, 0, 0), worker(20, 500, 100), vec![seen]);
        assert!(close(rates.busy, 0.5) && close(rates.runnable, 0.1));
        assert!(close(rates.idle, 0.4 * 6.0 / 20.0) && close(rates.io_wait, 0.4 * 14.0 / 20.0));
        assert!(close(rates.disk_wait, 0.4 * 9.0 / 20.0) && close(rates.socket_wait, 0.4 * 3.0 / 20.0));
        assert_eq!((rates.rank, rates.new, rates.active_threads), (9, false, 1));
    }

    #[test]
    fn what_is_idle_depends_on_the_loader_and_on_what_can_be_read() {
        let idle = |counts: &[(Wait, u32)], torch: bool, exact: bool| {
            let comm = if torch { trainmon_sample::process::TORCH_WORKER } else { "python" };
            let worker = || ProcessSample { comm: comm.into(), ..worker(20, 0, 0) };
            let rates = one(worker(), worker(), vec![SampledWorker { exact, ..seen(20, counts) }]);
            assert!(close(rates.idle.zip(rates.io_wait).map(|(idle, io_wait)| idle + io_wait), 1.0));
            rates.idle
        };
        let pipes = [(Wait::Futex, 5), (Wait::Pipe, 15)];
        assert!(close(idle(&pipes, false, true), 1.0) && close(idle(&pipes, true, true), 0.25));
        let polls = [(Wait::Poll, 10), (Wait::Socket, 10)];
        assert!(close(idle(&polls, true, false), 0.5) && close(idle(&polls, true, true), 0.0));
        assert!(close(idle(&polls, false, false), 0.0));
    }

    #[test]
    fn waits_for_short_lived_children_are_work() {
        let with = |ticks| ProcessSample { children_ticks: Some(ticks), ..worker(20, 0, 0) };
        let seen = seen(20, &[(Wait::Pipe, 12), (Wait::Child, 4), (Wait::LoaderPoll, 4)]);
        for (ticks, busy, elsewhere) in [(70, 0.8, 0.0), (40, 0.4, 0.4), (0, 0.0, 0.8)] {
            let rates = one(with(0), with(ticks), vec![seen.clone()]);
            assert!(close(rates.busy, busy) && close(rates.io_wait, elsewhere), "{ticks}: {rates:?}");
            assert!(close(rates.idle, 0.2), "{ticks}: {rates:?}");
        }
    }

    #[test]
    fn without_samples_the_split_is_unknown() {
        let rates = one(worker(20, 0, 0), worker(20, 700, 0), vec![]);
        assert!(close(rates.busy, 0.7));
        assert_eq!((rates.idle, rates.io_wait, rates.rank), (None, None, 10));
    }

    #[test]
    fn a_new_worker_has_no_rates() {
        let mut rates = Frames::default();
        let first = rates.next(Arc::new(sample(0, vec![worker(20, 9, 9)], vec![])));
        assert!(!first.workers[0].new, "attached to, not begun");
        let frame = rates.next(Arc::new(sample(1, vec![worker(20, 9, 9), worker(21, 800, 0)], vec![])));
        let new = &frame.workers[1];
        assert_eq!((new.new, new.busy, new.cpu_pct, new.batches_per_s), (true, None, None, None));
    }

    #[test]
    fn state_r_without_cpu_time_while_reading_storage_is_a_disk_wait() {
        let reads = |read_bytes| Some(IoCounters { read_bytes, ..IoCounters::default() });
        let seen = seen(20, &[(Wait::Running, 30), (Wait::LoaderPoll, 10)]);
        let before = ProcessSample { io: reads(0), ..worker(20, 0, 0) };
        let rates =
            one(before.clone(), ProcessSample { io: reads(1 << 20), ..worker(20, 150, 0) }, vec![seen.clone()]);
        assert!(close(rates.io_wait, 0.6) && close(rates.disk_wait, 0.6) && close(rates.idle, 0.25));
        let rates = one(before, ProcessSample { io: reads(0), ..worker(20, 150, 0) }, vec![seen]);
        assert!(close(rates.idle, 0.85) && close(rates.io_wait, 0.0));
    }

    #[test]
    fn the_kernels_work_on_pages_from_storage_is_a_disk_wait() {
        let at = |part: u64, mapped: bool| {
            let bytes = part * 100_000 * 4096;
            let read_chars = if mapped { 0 } else { bytes };
            ProcessSample {
                io: Some(IoCounters { read_bytes: bytes, read_chars, ..IoCounters::default() }),
                user_ticks: 10 * part,
                system_ticks: 40 * part,
                minor_faults: 25_000 * part,
                ..worker(20, 500 * part, 0)
            }
        };
        let seen = seen(20, &[(Wait::Running, 20), (Wait::DiskRead, 10), (Wait::LoaderPoll, 10)]);
        let rates = one(at(0, true), at(1, true), vec![seen.clone()]);
        assert!(close(rates.busy, 0.18) && close(rates.idle, 0.25), "{rates:?}");
        assert!(close(rates.io_wait, 0.57) && close(rates.disk_wait, 0.57), "{rates:?}");
        // Read calls copy: part of that is the program's choice, and stays its work.
        let rates = one(at(0, false), at(1, false), vec![seen]);
        assert!(close(rates.busy, 0.5) && close(rates.io_wait, 0.25), "{rates:?}");
    }

    #[test]
    fn kernels_without_schedstat() {
        let bare = |ticks| {
            let mut worker = ProcessSample { user_ticks: ticks, ..worker(20, 0, 0) };
            worker.threads[0].on_cpu_ns = None;
            worker
        };
        let seen = seen(20, &[(Wait::Running, 30), (Wait::LoaderPoll, 10)]);
        let rates = one(bare(0), bare(50), vec![seen]);
        assert!(close(rates.busy, 0.5) && close(rates.runnable, 0.25) && close(rates.idle, 0.25));
        let rates = one(bare(0), bare(50), vec![]);
        assert_eq!(rates.busy, None);
    }

    #[test]
    fn batches() {
        let with = |batches| SampledWorker { batches: Some(batches), ..seen(20, &[]) };
        let mut rates = Frames::default();
        rates.next(Arc::new(sample(0, vec![worker(20, 0, 0)], vec![with(5)])));
        let frame = rates.next(Arc::new(sample(1, vec![worker(20, 0, 0)], vec![with(8)])));
        assert!(close(frame.workers[0].batches_per_s, 3.0));
        let frame = rates.next(Arc::new(sample(2, vec![worker(20, 0, 0)], vec![with(2)])));
        assert_eq!(frame.workers[0].batches_per_s, None);
    }

    #[test]
    fn nothing_to_do() {
        assert!(had_nothing_to_do(&seen(1, &[(Wait::LoaderPoll, 40), (Wait::Running, 1)])));
        assert!(!had_nothing_to_do(&seen(1, &[(Wait::LoaderPoll, 30), (Wait::Running, 10)])));
        assert!(!had_nothing_to_do(&seen(1, &[(Wait::LoaderPoll, 2)])));
    }
}
