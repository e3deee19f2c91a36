//! The source threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::software::SoftwareLookup;
use super::{RETRY, Shared, counts, spawn, stacks, why_no_thread};
use trainmon_base::trust::rights;
use trainmon_sample::{ConnectionsSample, SamplePart, SourceState, SourceStatus};
use trainmon_sources::cgroup::{CgroupReader, allowed_cpus, physical_cores};
use trainmon_sources::clock;
use trainmon_sources::host::HostReader;
use trainmon_sources::job::{self, JobReader};
use trainmon_sources::sampler::Sampler;
use trainmon_sources::{self as sources, Ask, AskedSource, StartAsked, unreadable};

/// Most rounds between two ticks: with an interval of an hour, one every 0.7 s is enough for its shares.
const MOST_ROUNDS: u32 = 5000;
/// Each gap between rounds is drawn evenly from half to one and a half times the mean: a fixed beat could fall into
/// step with a training loop of the same period and sample only one side of it.
const JITTER: f64 = 0.5;
/// The affinity mask is read every this many ticks.
const AFFINITY_EVERY: u64 = 10;

/// Starts all source threads. Returns the one that runs py-spy and the one that reads what loops count, if wanted.
///
/// Without the job's thread there is nothing to show. Each of the others may be missing, and its state then says why.
/// Those that only read /proc and /sys do so with all of trainmon's rights; those that load libraries or run programs
/// do not.
pub(super) fn start(job: JobReader, shared: &Arc<Shared>) -> io::Result<[Option<JoinHandle<()>>; 2]> {
    let (others_started, others_asked) = sync_channel::<Vec<SyncSender<u64>>>(1);
    spawn("tm-job", shared, move |shared| {
        rights::take_up();
        watch_job(job, shared, &others_asked.recv().unwrap_or_default());
    })?;
    let mut others = Others { shared, asked: Vec::new() };
    sources::start_asked(&mut others);
    // The receiver is gone if the job's thread has ended already.
    let _ = others_started.send(others.asked);
    let started = match stacks::switched_off(&shared.options) {
        Some(status) => Err(status),
        None => spawn("tm-stacks", shared, stacks::watch).map_err(|error| no_thread(&error)),
    };
    let stacks = started.map_err(|status| shared.latest.values().stacks.status = status).ok();
    // Without it py-spy reads some of what it would.
    let counts = if stacks.is_some() { spawn("tm-counts", shared, counts::watch).ok() } else { None };
    Ok([stacks, counts])
}

/// The threads of the sources that are read once a tick, as far as they could be started.
struct Others<'a> {
    shared: &'a Arc<Shared>,
    /// Channels that request a tick from each.
    asked: Vec<SyncSender<u64>>,
}

impl StartAsked for Others<'_> {
    fn start<S: AskedSource>(&mut self) {
        let (asked, asks) = sync_channel(1);
        let watch = move |shared: &Shared| {
            if S::WITH_RIGHTS {
                rights::take_up();
            }
            watch::<S>(shared, &asks);
        };
        match spawn(S::THREAD, self.shared, watch) {
            Ok(_) => self.asked.push(asked),
            Err(error) => {
                self.shared.latest.values().answer::<S::Value>(Err(no_thread(&error)), 0, clock::monotonic_ns());
            }
        }
    }
}

/// The state of a source whose thread cannot be started.
fn no_thread(error: &io::Error) -> SourceStatus {
    SourceStatus::new(SourceState::Absent, format!("cannot start a thread for it: {}", why_no_thread(error)))
}

/// The sampler and the tick. The other threads end when this one drops its senders.
fn watch_job(job: JobReader, shared: &Shared, others: &[SyncSender<u64>]) {
    let Shared { options, stop, effort, .. } = shared;
    let mut readers = JobReaders::new(job, shared);
    let interval_ns = u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX);
    let mut due_ns = clock::monotonic_ns();
    let mut tick = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock::monotonic_ns();
        if now_ns >= due_ns {
            for other in others {
                // A full channel means that the last call is still running: the source skips this tick.
                let _ = other.try_send(tick);
            }
            if !readers.tick(tick, now_ns) {
                shared.wake_ending();
                break;
            }
            tick += 1;
            // After a suspend or a long stall the beat restarts instead of catching up.
            due_ns = due_ns.saturating_add(interval_ns);
            if due_ns <= now_ns {
                due_ns = now_ns.saturating_add(interval_ns);
            }
        }
        readers.sampler.round(clock::monotonic_ns());
        let round = effort.get().round().max(options.interval / MOST_ROUNDS);
        let until_tick = Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns()));
        thread::sleep(round.mul_f64(1.0 + JITTER * (2.0 * fastrand::f64() - 1.0)).min(until_tick));
    }
}

/// The readers of the job's thread.
struct JobReaders<'a> {
    shared: &'a Shared,
    job: JobReader,
    sampler: Sampler,
    host: HostReader,
    cgroup: CgroupReader,
    allowed_cpus: Vec<u16>,
    physical_cores: Option<u16>,
    software: SoftwareLookup,
    /// How many times the job's processes had executed other programs.
    execs: u32,
}

impl<'a> JobReaders<'a> {
    fn new(job: JobReader, shared: &'a Shared) -> Self {
        let roots = &shared.options.sources.roots;
        Self {
            shared,
            job,
            sampler: Sampler::new(&roots.proc),
            host: HostReader::new(roots),
            cgroup: CgroupReader::for_process(roots, shared.options.pid),
            allowed_cpus: Vec::new(),
            physical_cores: None,
            software: SoftwareLookup::default(),
            execs: 0,
        }
    }

    /// Reads the job and the host for a tick; returns whether the job is alive.
    fn tick(&mut self, tick: u64, now_ns: u64) -> bool {
        let Shared { options, latest, effort, .. } = self.shared;
        let roots = &options.sources.roots;
        if tick.is_multiple_of(AFFINITY_EVERY) {
            let cpus = allowed_cpus(roots, options.pid);
            if cpus != self.allowed_cpus {
                self.physical_cores = physical_cores(roots, &cpus);
                self.allowed_cpus = cpus;
            }
        }
        let (gpu_pids, training) = {
            let values = latest.values();
            (values.gpu_pids(), values.stacks.training())
        };
        self.job.set_gpu_pids(gpu_pids);
        self.job.set_training(training);
        let mut sample = self.job.read(now_ns);
        sample.sampler = self.sampler.take();
        job::complete(&mut sample.unwatched, self.sampler.left_out());
        let outside = self.job.outside();
        sample.connections = Some(Arc::new(ConnectionsSample { outside, ..self.sampler.connections() }));
        self.job.set_outside(&self.sampler.outside());
        sample.cgroup = self.cgroup.read();
        sample.allowed_cpus.clone_from(&self.allowed_cpus);
        sample.physical_cores = self.physical_cores;
        self.software.add_to(&mut sample, &roots.proc);
        let host = self.host.read(now_ns).map_err(|error| unreadable("/proc/stat", &error));
        let alive = sample.alive;
        let execs = sample.processes.iter().fold(0_u32, |sum, process| sum.wrapping_add(process.execs));
        let executed = std::mem::replace(&mut self.execs, execs) != execs;
        latest.write(|values| {
            if executed {
                values.stacks.forget_training();
            }
            values.answer(Ok(sample), tick, now_ns);
            values.answer(host, tick, now_ns);
        });
        self.sampler.follow(self.job.sampler_plan());
        self.sampler.set_sparing(effort.get().is_sparing());
        alive
    }
}

/// Reads a source whenever asked. After a failure it is reopened, once [`RETRY`] has passed.
fn watch<S: AskedSource>(shared: &Shared, asks: &Receiver<u64>) {
    let Shared { options, latest, effort, .. } = shared;
    let mut reader: Option<S> = None;
    let mut failed_ns: Option<u64> = None;
    while let Ok(tick) = asks.recv() {
        let now_ns = clock::monotonic_ns();
        if failed_ns.is_some_and(|at| now_ns.saturating_sub(at) < RETRY.as_nanos() as u64) {
            continue;
        }
        let pids = {
            let mut values = latest.values();
            values.begin(S::Value::SOURCE, now_ns);
            values.pids()
        };
        let ask = Ask { now_ns, pids, sparing: effort.get().is_sparing() };
        let opened = reader.take().map_or_else(|| S::open(&options.sources), Ok);
        let answer = opened.and_then(|opened| reader.insert(opened).read(&ask));
        let now_ns = clock::monotonic_ns();
        failed_ns = answer.is_err().then_some(now_ns);
        if answer.is_err() {
            reader = None;
        }
        latest.write(|values| values.answer(answer, tick, now_ns));
    }
}
