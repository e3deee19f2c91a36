//! The job and its processes: CPU, run-queue delay and I/O over the interval between two readings of the tree.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::delta::{Scheduled, add, by_key, copied, delta, rate, share, span};
use super::gpu::GpuFold;
use super::levels::WORTH_IT;
use super::pages;
use super::short_lived::ShortLived;
use super::threads::{ThreadFold, ThreadRates, ThreadRoleRates};
use trainmon_sample::{
    IoCounters, JobSample, OutlookSample, ProcessId, ProcessRole, ProcessSample, ProgressBar, Sample,
};

/// The job's rates, with the raw material for its training processes and workers.
#[derive(Debug, Default)]
pub struct JobFold {
    /// The job as a whole.
    pub rates: JobRates,
    /// All its processes.
    pub processes: Vec<ProcessRates>,
    /// Its busiest threads.
    pub threads: Vec<ThreadRates>,
    /// All its threads, by role.
    pub thread_roles: Vec<ThreadRoleRates>,
    /// One for each process of the later sample, in its order.
    pub deltas: Vec<ProcessDelta>,
    /// CPU use of short-lived children and threads.
    pub short_lived: ShortLived,
    /// Seconds between the two readings; `None` for the first sample, across a gap and for a stale part.
    pub seconds: Option<f64>,
    /// The job was not read since the sample before.
    pub stale: bool,
}

impl JobFold {
    /// A process of the later sample, and what it did.
    pub fn process<'a>(&'a self, job: &'a JobSample, id: ProcessId) -> Option<(&'a ProcessSample, &'a ProcessDelta)> {
        job.processes.iter().zip(&self.deltas).find(|(process, _)| process.id == id)
    }
}

/// What one process did between two readings. All fields are `None` for a new process.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessDelta {
    /// It existed at the earlier reading.
    pub known: bool,
    /// CPU use, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Of the first thread.
    pub main: Option<Scheduled>,
    /// Of all threads with counters at both readings.
    pub scheduled: Option<Scheduled>,
    /// Threads that ran or queued for at least a tenth of the interval.
    pub active_threads: u32,
    /// Page faults served from memory, per second.
    pub minor_faults_per_s: Option<f64>,
    /// Page faults served from storage, per second.
    pub major_faults_per_s: Option<f64>,
    /// CPU time in which the kernel fetched pages of mapped files from storage, in CPUs.
    pub fetching_cores: f64,
    /// Bytes per second through read calls; like the rates below from `/proc/PID/io`, if it can be read.
    pub read_chars_per_s: Option<f64>,
    /// Bytes per second through write calls.
    pub write_chars_per_s: Option<f64>,
    /// Read calls per second.
    pub read_calls_per_s: Option<f64>,
    /// Bytes per second fetched from storage.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second sent to storage.
    pub write_bytes_per_s: Option<f64>,
}

/// The job as a whole.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JobRates {
    /// CPU use, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// Share of the job's runnable time spent queueing for a CPU, 0–1.
    pub run_delay_share: Option<f64>,
    /// Number of CPUs that the job may use.
    pub cpus_allowed: Option<u32>,
    /// Physical cores behind those CPUs: hardware threads of one core count once.
    pub cores_allowed: Option<u32>,
    /// CFS quota in CPUs, if set.
    pub cpu_quota_cores: Option<f64>,
    /// Share of enforcement periods in which the cgroup was throttled, 0–1.
    pub throttled_share: Option<f64>,
    /// Sum of resident sets, bytes.
    pub rss_bytes: Option<u64>,
    /// Memory of the job with shared pages counted once, bytes, as of the last readings of its processes; only where jobs are
    /// followed for days.
    #[serde(default)]
    pub pss_bytes: Option<u64>,
    /// The last progress bar in the job's output, if that is a file; only where jobs are followed for days.
    #[serde(default)]
    pub progress: Option<ProgressBar>,
    /// Bytes per second fetched from storage.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second sent to storage.
    pub write_bytes_per_s: Option<f64>,
    /// Bytes per second through read calls, page cache hits included.
    pub read_chars_per_s: Option<f64>,
    /// Bytes per second through write calls.
    pub write_chars_per_s: Option<f64>,
    /// Read calls per second.
    pub read_calls_per_s: Option<f64>,
    /// Page faults served from storage, per second.
    pub major_faults_per_s: Option<f64>,
    /// The cgroup is frozen, as by `docker pause`.
    pub frozen: bool,
    /// The command that thaws it, if known.
    pub thaw: Option<Arc<str>>,
    /// Memory limit of the cgroup, bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Memory charged to the cgroup, bytes.
    pub memory_cgroup_bytes: Option<u64>,
    /// File pages of the cgroup read again soon after eviction, per second, in pages of 4 KiB.
    pub refaults_per_s: Option<f64>,
    /// Read limits on the cgroup: bytes per second, operations per second.
    pub io_read_limit: (Option<u64>, Option<u64>),
    /// Threads of the job that were on a CPU or queueing for at least a tenth of the interval: the measure for more
    /// runnable threads than CPUs.
    pub active_threads: Option<u32>,
    /// A machine-learning library that the job has mapped.
    pub library: Option<Arc<str>>,
    /// Device files of accelerators that the job uses and trainmon cannot read.
    #[serde(default)]
    pub accelerators: Vec<Arc<str>>,
    /// Number of threads.
    pub thread_count: u32,
    /// Seconds since the target started.
    pub age_s: Option<f64>,
}

/// One process of the job, for the table.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProcessRates {
    /// Which process.
    pub id: ProcessId,
    /// Parent PID.
    pub parent: u32,
    /// Role.
    pub role: ProcessRole,
    /// Command line, raw: sanitize before showing.
    pub command: Arc<str>,
    /// `comm`, raw.
    pub comm: Arc<str>,
    /// Owner.
    pub uid: Option<u32>,
    /// Nice value, −20 (most favorable) to 19.
    pub nice: Option<i32>,
    /// State letter.
    pub state: char,
    /// CPU use, percent of one CPU.
    pub cpu_pct: Option<f64>,
    /// CPU time since its start, seconds.
    pub cpu_time_s: Option<f64>,
    /// Share of runnable time spent queueing, 0–1.
    pub run_delay_share: Option<f64>,
    /// Resident set, bytes.
    pub rss_bytes: u64,
    /// Bytes per second through read calls, page cache hits included.
    pub read_chars_per_s: Option<f64>,
    /// Bytes per second fetched from storage.
    pub read_bytes_per_s: Option<f64>,
    /// Bytes per second sent to storage.
    pub write_bytes_per_s: Option<f64>,
    /// Page faults served from memory, per second.
    pub minor_faults_per_s: Option<f64>,
    /// Page faults served from storage, per second.
    pub major_faults_per_s: Option<f64>,
    /// Threads.
    pub threads: u32,
    /// GPU memory held, bytes, over all GPUs.
    pub gpu_memory_bytes: Option<u64>,
}

/// State letter of the target's first thread: `X` once it is gone, `?` if unknown.
pub fn state(job: &JobSample) -> char {
    let target = job.processes.iter().find(|process| process.id == job.target);
    match target {
        Some(process) if process.state != '\0' => process.state,
        None if !job.alive => 'X',
        _ => '?',
    }
}

pub(crate) fn fold(before: Option<&JobSample>, sample: &Sample, job: &JobSample, gpu: &GpuFold) -> JobFold {
    let seconds = span(before.map(|before| before.monotonic_ns), job.monotonic_ns);
    // Without a time span there is nothing to compare with.
    let before = if seconds.is_some() { before } else { None };
    let earlier = by_key(before.map_or(&[][..], |before| &before.processes), |process| process.id);
    let mut out = JobFold { seconds, ..JobFold::default() };
    out.deltas.reserve_exact(job.processes.len());
    out.processes.reserve_exact(job.processes.len());
    let mut threads = ThreadFold::default();
    let units = Units { ticks_per_second: job.ticks_per_second, page_bytes: pages::bytes(sample) };
    for process in &job.processes {
        let before = earlier.get(&process.id).copied();
        let delta = ProcessDelta::between(before, process, seconds, units, &mut threads);
        out.processes.push(process_rates(process, &delta, job.ticks_per_second, &gpu.memory_by_pid));
        out.deltas.push(delta);
    }
    out.short_lived = ShortLived::between(before, job);
    (out.threads, out.thread_roles) = threads.finish();
    out.rates = job_rates(before, sample, job, &out.deltas, seconds);
    out.rates.accelerators.clone_from(&gpu.unread);
    let of_children = out.short_lived.children.values().sum::<f64>() * 100.0;
    out.rates.cpu_pct = out.rates.cpu_pct.map(|cpu| cpu + of_children);
    out
}

/// What the machine counts in.
#[derive(Debug, Clone, Copy)]
struct Units {
    ticks_per_second: u32,
    page_bytes: f64,
}

impl ProcessDelta {
    fn between(
        before: Option<&ProcessSample>,
        now: &ProcessSample,
        seconds: Option<f64>,
        units: Units,
        threads: &mut ThreadFold,
    ) -> Self {
        let (Some(before), Some(span_s)) = (before, seconds) else {
            now.threads.iter().for_each(|thread| threads.add(now, thread, None, 0.0));
            return Self::default();
        };
        let io_s =
            |count: fn(&IoCounters) -> u64| rate(now.io.as_ref().map(count), before.io.as_ref().map(count), seconds);
        let mut out = Self {
            known: true,
            minor_faults_per_s: rate(Some(now.minor_faults), Some(before.minor_faults), seconds),
            major_faults_per_s: rate(Some(now.major_faults), Some(before.major_faults), seconds),
            read_chars_per_s: io_s(|io| io.read_chars),
            write_chars_per_s: io_s(|io| io.write_chars),
            read_calls_per_s: io_s(|io| io.read_calls),
            read_bytes_per_s: io_s(|io| io.read_bytes),
            write_bytes_per_s: io_s(|io| io.write_bytes),
            ..Self::default()
        };
        let user = delta(Some(now.user_ticks), Some(before.user_ticks));
        let system = delta(Some(now.system_ticks), Some(before.system_ticks));
        if let (Some(user), Some(system), true) = (user, system, units.ticks_per_second > 0) {
            let cores = |ticks: u64| ticks as f64 / f64::from(units.ticks_per_second) / span_s;
            out.cpu_pct = Some((cores(user) + cores(system)) * 100.0);
            out.fetching_cores = cores(system) * out.fetched_share(units.page_bytes);
        }
        let earlier = by_key(&before.threads, |thread| thread.tid);
        for thread in &now.threads {
            let was = earlier.get(&thread.tid);
            let on_cpu = delta(thread.on_cpu_ns, was.and_then(|was| was.on_cpu_ns));
            let delay = delta(thread.run_delay_ns, was.and_then(|was| was.run_delay_ns));
            let did = on_cpu.zip(delay).map(|(on_cpu, delay)| Scheduled { on_cpu, delay });
            threads.add(now, thread, did, span_s);
            if thread.tid == now.id.pid {
                out.main = did;
            }
            Scheduled::add(&mut out.scheduled, did);
            if did.is_some_and(|did| did.seconds() >= WORTH_IT * span_s) {
                out.active_threads += 1;
            }
        }
        out
    }

    /// Of the pages that the kernel got for the process, the part that it had to fetch from storage for a mapping
    /// rather than a read call, 0–1. In system time they weigh about the same as pages that were in memory.
    fn fetched_share(&self, page_bytes: f64) -> f64 {
        let (Some(fetched), Some(read), Some(minor)) =
            (self.read_bytes_per_s, self.read_chars_per_s, self.minor_faults_per_s)
        else {
            return 0.0;
        };
        let fetched = (fetched - read).max(0.0) / page_bytes;
        if fetched > 0.0 { fetched / (fetched + minor) } else { 0.0 }
    }
}

fn process_rates(
    process: &ProcessSample,
    delta: &ProcessDelta,
    ticks_per_second: u32,
    gpu_memory: &HashMap<u32, u64>,
) -> ProcessRates {
    let ticks = process.user_ticks as f64 + process.system_ticks as f64;
    let sampled = copied!(process => ProcessRates: id parent role command comm state uid nice rss_bytes);
    let counted = copied!(delta, sampled => ProcessRates:
        cpu_pct read_chars_per_s read_bytes_per_s write_bytes_per_s minor_faults_per_s major_faults_per_s);
    ProcessRates {
        cpu_time_s: (ticks_per_second > 0).then(|| ticks / f64::from(ticks_per_second)),
        run_delay_share: delta.scheduled.map(Scheduled::delay_share),
        threads: process.thread_count,
        gpu_memory_bytes: gpu_memory.get(&process.id.pid).copied(),
        ..counted
    }
}

/// The memory of the job's processes; `None` before each of them was read.
fn pss_bytes(outlook: &OutlookSample, job: &JobSample) -> Option<u64> {
    let known: HashMap<ProcessId, u64> = outlook.memory.iter().map(|memory| (memory.id, memory.pss_bytes)).collect();
    job.processes
        .iter()
        .map(|process| known.get(&process.id).copied())
        .try_fold(0, |sum: u64, one| Some(sum.saturating_add(one?)))
}

fn job_rates(
    before: Option<&JobSample>,
    sample: &Sample,
    job: &JobSample,
    deltas: &[ProcessDelta],
    seconds: Option<f64>,
) -> JobRates {
    let group = &job.cgroup;
    let was = before.map(|before| &before.cgroup).filter(|was| was.path == group.path);
    let mut out = JobRates {
        cpus_allowed: cpus_allowed(sample, job),
        cores_allowed: job.physical_cores.map(u32::from),
        cpu_quota_cores: group.cpu_quota_cores.filter(|cores| cores.is_finite() && *cores >= 0.0),
        frozen: group.frozen == Some(true),
        thaw: group.thaw.clone(),
        memory_limit_bytes: group.memory_limit_bytes,
        memory_cgroup_bytes: group.memory_bytes,
        refaults_per_s: rate(group.refaulted_file_pages, was.and_then(|was| was.refaulted_file_pages), seconds)
            .map(|pages| pages * pages::of_4_kib(sample)),
        io_read_limit: (group.io_read_limit_bytes_per_s, group.io_read_limit_iops),
        library: job.library.clone(),
        thread_count: job.processes.iter().fold(0, |sum, process| sum.saturating_add(process.thread_count)),
        rss_bytes: job.processes.iter().map(|process| process.rss_bytes).reduce(u64::saturating_add),
        pss_bytes: sample.outlook.as_ref().and_then(|outlook| pss_bytes(outlook, job)),
        progress: sample.outlook.as_ref().and_then(|outlook| outlook.progress),
        age_s: age_s(sample, job),
        ..JobRates::default()
    };
    let throttled = delta(group.throttled_periods, was.and_then(|was| was.throttled_periods));
    let periods = delta(group.periods, was.and_then(|was| was.periods));
    if let (Some(throttled), Some(periods), Some(_)) = (throttled, periods, seconds) {
        out.throttled_share = Some(share(throttled, periods));
    }
    let mut scheduled = None;
    let mut active = 0u32;
    for delta in deltas {
        add(&mut out.cpu_pct, delta.cpu_pct);
        add(&mut out.read_bytes_per_s, delta.read_bytes_per_s);
        add(&mut out.write_bytes_per_s, delta.write_bytes_per_s);
        add(&mut out.read_chars_per_s, delta.read_chars_per_s);
        add(&mut out.write_chars_per_s, delta.write_chars_per_s);
        add(&mut out.read_calls_per_s, delta.read_calls_per_s);
        add(&mut out.major_faults_per_s, delta.major_faults_per_s);
        active = active.saturating_add(delta.active_threads);
        Scheduled::add(&mut scheduled, delta.scheduled);
    }
    out.run_delay_share = scheduled.map(Scheduled::delay_share);
    out.active_threads = scheduled.map(|_| active);
    out
}

/// The number of allowed CPUs, or of all CPUs if the mask is unknown.
fn cpus_allowed(sample: &Sample, job: &JobSample) -> Option<u32> {
    let all = || sample.host.as_deref().map_or(0, |host| host.cpus.len());
    let count = if job.allowed_cpus.is_empty() { all() } else { job.allowed_cpus.len() };
    u32::try_from(count).ok().filter(|count| *count > 0)
}

/// A start time counts from boot on CLOCK_BOOTTIME (proc(5), `starttime`).
fn age_s(sample: &Sample, job: &JobSample) -> Option<f64> {
    if job.ticks_per_second == 0 || job.target == ProcessId::default() {
        return None;
    }
    let started_s = job.target.start_ticks as f64 / f64::from(job.ticks_per_second);
    Some(sample.boottime_ns as f64 / 1e9 - started_s).filter(|age| *age >= 0.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::Rates;
    use crate::testing::*;
    use trainmon_sample::{CgroupSample, HostSample, ThreadRole};

    fn folds(samples: impl IntoIterator<Item = Sample>) -> Vec<JobFold> {
        let mut rates = Rates::default();
        samples.into_iter().map(|sample| rates.next(Arc::new(sample)).job.unwrap()).collect()
    }

    fn last(samples: impl IntoIterator<Item = Sample>) -> JobFold {
        folds(samples).pop().unwrap()
    }

    fn io(factor: u64) -> Option<IoCounters> {
        Some(IoCounters {
            read_chars: 100 * factor,
            write_chars: 200 * factor,
            read_calls: factor,
            write_calls: 2 * factor,
            read_bytes: 4096 * factor,
            write_bytes: 512 * factor,
        })
    }

    #[test]
    fn cpu_io_and_delay() {
        let before = ProcessSample { io: io(1), ..process(10) };
        let after = ProcessSample {
            io: io(3),
            user_ticks: 30,
            system_ticks: 20,
            minor_faults: 9,
            major_faults: 4,
            rss_bytes: 7,
            nice: Some(-5),
            uid: Some(1000),
            threads: vec![thread(10, ThreadRole::Main, 300, 100), thread(11, ThreadRole::Other, 5, 5)],
            ..process(10)
        };
        let fold = last([job_tick(0, vec![before]), job_tick(1, vec![after])]);
        assert!(close(fold.rates.cpu_pct, 50.0));
        assert!(close(fold.rates.run_delay_share, 0.25));
        assert_eq!(fold.rates.active_threads, Some(1), "the new thread is not counted");
        assert!(close(fold.rates.read_bytes_per_s, 8192.0) && close(fold.rates.write_bytes_per_s, 1024.0));
        assert!(close(fold.rates.read_chars_per_s, 200.0) && close(fold.rates.write_chars_per_s, 400.0));
        assert!(close(fold.rates.read_calls_per_s, 2.0) && close(fold.rates.major_faults_per_s, 4.0));
        assert_eq!((fold.rates.rss_bytes, fold.rates.thread_count), (Some(7), 1));
        let shown = &fold.processes[0];
        assert!(close(shown.cpu_pct, 50.0) && close(shown.cpu_time_s, 0.5));
        assert!(close(shown.minor_faults_per_s, 9.0) && close(shown.major_faults_per_s, 4.0));
        assert!(close(shown.read_chars_per_s, 200.0));
        assert_eq!((shown.nice, shown.uid), (Some(-5), Some(1000)));
        assert_eq!(state(&job(0, vec![process(10)])), 'S');
    }

    #[test]
    fn a_counter_that_went_back_is_a_gap_of_its_own_field() {
        let before = ProcessSample { io: io(5), user_ticks: 9, ..process(10) };
        let after = ProcessSample { io: io(4), user_ticks: 8, major_faults: 1, ..process(10) };
        let fold = last([job_tick(0, vec![before]), job_tick(1, vec![after])]);
        assert_eq!((fold.rates.cpu_pct, fold.rates.read_bytes_per_s), (None, None));
        assert!(close(fold.rates.major_faults_per_s, 1.0));
    }

    #[test]
    fn new_and_reused_pids_have_no_rates_and_exited_ones_vanish() {
        let busy = |pid, ticks| ProcessSample { user_ticks: ticks, ..process(pid) };
        let mut reused = busy(11, 5000);
        reused.id.start_ticks = 999;
        let fold = last([
            job_tick(0, vec![busy(10, 0), busy(11, 10), busy(13, 77)]),
            job_tick(1, vec![busy(10, 50), reused, busy(12, 4000)]),
        ]);
        let cpu: Vec<_> = fold.processes.iter().map(|process| process.cpu_pct).collect();
        assert_eq!(cpu, [Some(50.0), None, None]);
        assert!(close(fold.rates.cpu_pct, 50.0));
    }

    #[test]
    fn a_stale_part_has_no_rates_and_the_next_covers_both_intervals() {
        let at = |ms, ticks| Arc::new(job(ms, vec![ProcessSample { user_ticks: ticks, ..process(10) }]));
        let stale = at(0, 0);
        let with =
            |sequence, job: &Arc<JobSample>| Sample { job: Some(job.clone()), ..tick(sequence, sequence * 1000) };
        let folds = folds([with(0, &stale), with(1, &stale), with(2, &at(2000, 100))]);
        assert_eq!(folds[1].rates.cpu_pct, None);
        assert!(close(folds[2].rates.cpu_pct, 50.0));
    }

    #[test]
    fn cgroup_rates() {
        let at = |sequence, group: CgroupSample| {
            let job = JobSample { cgroup: group, ..job(sequence * 1000, vec![process(10)]) };
            Sample { job: Some(Arc::new(job)), ..tick(sequence, sequence * 1000) }
        };
        let group = |factor: u64, path: &str| CgroupSample {
            path: Some(path.into()),
            cpu_quota_cores: Some(1.5),
            periods: Some(10 * factor),
            throttled_periods: Some(4 * factor),
            refaulted_file_pages: Some(50 * factor),
            memory_limit_bytes: Some(99),
            io_read_limit_iops: Some(7),
            ..CgroupSample::default()
        };
        let fold = last([at(0, group(1, "/a")), at(1, group(2, "/a"))]);
        assert!(close(fold.rates.throttled_share, 0.4));
        assert!(close(fold.rates.refaults_per_s, 50.0));
        assert_eq!((fold.rates.cpu_quota_cores, fold.rates.memory_limit_bytes), (Some(1.5), Some(99)));
        assert_eq!(fold.rates.io_read_limit, (None, Some(7)));
        let fold = last([at(0, group(1, "/a")), at(1, group(1, "/a"))]);
        assert_eq!(fold.rates.throttled_share, Some(0.0));
        let moved = last([at(0, group(1, "/a")), at(1, group(2, "/b"))]);
        assert_eq!(moved.rates.throttled_share, None, "another group's counters");
    }

    #[test]
    fn memory_counts_once_every_process_was_read() {
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        let processes = [7, 8].map(|pid| ProcessSample { id: id(pid), ..ProcessSample::default() }).to_vec();
        let job = JobSample { processes, ..JobSample::default() };
        let memory = |pids: &[u32]| {
            let memory =
                pids.iter().map(|pid| trainmon_sample::ProcessMemory { id: id(*pid), pss_bytes: 5 }).collect();
            pss_bytes(&OutlookSample { memory, ..OutlookSample::default() }, &job)
        };
        assert_eq!((memory(&[7]), memory(&[7, 8, 9])), (None, Some(10)));
    }

    #[test]
    fn allowed_cpus_and_age() {
        let mut sample = job_tick(30, vec![process(10)]);
        sample.host = Some(Arc::new(HostSample { cpus: vec![Default::default(); 4], ..HostSample::default() }));
        let fold = last([sample.clone()]);
        assert_eq!(fold.rates.cpus_allowed, Some(4));
        assert!((fold.rates.age_s.unwrap() - 29.9).abs() < 1e-3);
        let mut job = job(30_000, vec![process(10)]);
        job.allowed_cpus = vec![1, 3];
        job.ticks_per_second = 0;
        sample.job = Some(Arc::new(job));
        let fold = last([sample]);
        assert_eq!((fold.rates.cpus_allowed, fold.rates.age_s), (Some(2), None));
    }
}
