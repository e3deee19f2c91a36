//! The source threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::latest::status;
use super::{RETRY, Shared, spawn, stacks, why_no_thread};
use crate::sample::{ConnectionsSample, SourceState, SourceStatus};
use crate::sources::cgroup::{CgroupReader, allowed_cpus, physical_cores};
use crate::sources::clock;
use crate::sources::gpu::{self, GpuError, GpuReader};
use crate::sources::host::HostReader;
use crate::sources::job::{self, JobReader};
use crate::sources::sampler::Sampler;
use crate::sources::storage::StorageReader;
use crate::trust::rights;

/// Rounds between two ticks at most: with an interval of an hour one every 0.7 s is enough for its shares.
const MOST_ROUNDS: u32 = 5000;
/// Each gap between rounds is drawn evenly from half to one and a half of the mean: a fixed beat could fall into step
/// with a training loop of the same period and see only one side of it.
const JITTER: f64 = 0.5;
/// The affinity mask is read every so many ticks.
const AFFINITY_EVERY: u64 = 10;

/// Starts all source threads. What comes back is the one that runs py-spy, where that is wanted.
pub(super) fn start(job: JobReader, shared: &Arc<Shared>) -> io::Result<Option<JoinHandle<()>>> {
    let (gpu_asked, gpu_asks) = sync_channel(1);
    let (storage_asked, storage_asks) = sync_channel(1);
    let asked = [gpu_asked, storage_asked];
    // Without this one there is nothing to see. Each of the others may be missing, and its state then says why.
    // Those that read nothing but /proc and /sys do so with all our rights; what loads libraries and runs programs does not.
    spawn("tm-job", shared, move |shared| {
        rights::take_up();
        watch_job(job, shared, &asked);
    })?;
    let now_ns = clock::monotonic_ns();
    if let Err(error) = spawn("tm-gpu", shared, move |shared| watch_gpus(shared, &gpu_asks)) {
        shared.latest.values().gpu.answer(Err(no_thread(&error)), 0, now_ns);
    }
    let watch = move |shared: &Shared| {
        rights::take_up();
        watch_storage(shared, &storage_asks);
    };
    if let Err(error) = spawn("tm-storage", shared, watch) {
        shared.latest.values().storage.answer(Err(no_thread(&error)), 0, now_ns);
    }
    let started = match stacks::switched_off(&shared.options) {
        Some(status) => Err(status),
        None => spawn("tm-stacks", shared, stacks::watch).map_err(|error| no_thread(&error)),
    };
    Ok(started.map_err(|status| shared.latest.values().stacks.status = status).ok())
}

/// The state of a source whose thread cannot be started.
fn no_thread(error: &io::Error) -> SourceStatus {
    status(SourceState::Absent, &format!("no thread can be started for it: {}", why_no_thread(error)))
}

/// The sampler and the tick. The other threads end when this one drops its senders.
fn watch_job(mut job: JobReader, shared: &Shared, others: &[SyncSender<u64>]) {
    let Shared { options, latest, stop, effort, .. } = shared;
    let mut sampler = Sampler::new(&options.roots.proc);
    let mut host = HostReader::new(&options.roots);
    let mut cgroup = CgroupReader::for_process(&options.roots, options.pid);
    let mut cpus = allowed_cpus(&options.roots, options.pid);
    let mut cores = physical_cores(&options.roots, &cpus);
    let mut jitter = Jitter::new(clock::monotonic_ns());
    let interval_ns = u64::try_from(options.interval.as_nanos()).unwrap_or(u64::MAX);
    let mut due_ns = clock::monotonic_ns();
    let mut tick = 0_u64;
    let mut execs = 0;
    while !stop.load(Ordering::Relaxed) {
        let now_ns = clock::monotonic_ns();
        if now_ns >= due_ns {
            for other in others {
                // Full means that the last call is still outstanding: that source skips this tick.
                let _ = other.try_send(tick);
            }
            if tick.is_multiple_of(AFFINITY_EVERY) {
                let now = allowed_cpus(&options.roots, options.pid);
                if now != cpus {
                    cores = physical_cores(&options.roots, &now);
                    cpus = now;
                }
            }
            let (gpu_pids, training) = {
                let values = latest.values();
                (values.gpu_pids(), values.stacks.training())
            };
            job.set_gpu_pids(gpu_pids);
            job.set_training(training);
            let mut sample = job.read(now_ns);
            sample.sampler = sampler.take();
            job::complete(&mut sample.unwatched, sampler.left_out());
            let outside = job.outside();
            sample.connections = Some(Arc::new(ConnectionsSample { outside, ..sampler.connections() }));
            job.set_outside(&sampler.outside());
            sample.cgroup = cgroup.read();
            sample.allowed_cpus.clone_from(&cpus);
            sample.physical_cores = cores;
            let host_sample = host.read(now_ns).map_err(|error| unreadable("/proc/stat", &error));
            let alive = sample.alive;
            let now = sample.processes.iter().fold(0_u32, |sum, process| sum.wrapping_add(process.execs));
            let executed = std::mem::replace(&mut execs, now) != now;
            latest.write(|values| {
                if executed {
                    values.stacks.forget_training();
                }
                values.job.answer(Ok(sample), tick, now_ns);
                values.host.answer(host_sample, tick, now_ns);
            });
            sampler.follow(job.sampler_plan());
            sampler.set_sparing(effort.get().is_sparing());
            tick += 1;
            if !alive {
                break;
            }
            // After a suspend or a long stall the beat starts anew instead of catching up.
            due_ns = due_ns.saturating_add(interval_ns);
            if due_ns <= now_ns {
                due_ns = now_ns.saturating_add(interval_ns);
            }
        }
        sampler.round(clock::monotonic_ns());
        let round = effort.get().round().max(options.interval / MOST_ROUNDS);
        let until_tick = Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns()));
        thread::sleep(round.mul_f64(jitter.next(1.0 - JITTER, 1.0 + JITTER)).min(until_tick));
    }
}

fn watch_gpus(shared: &Shared, asks: &Receiver<u64>) {
    let Shared { options, latest, .. } = shared;
    let mut reader: Option<Box<dyn GpuReader>> = None;
    let mut failed_ns: Option<u64> = None;
    while let Ok(tick) = asks.recv() {
        let begun_ns = clock::monotonic_ns();
        if reader.is_none() && failed_ns.is_some_and(|at| begun_ns.saturating_sub(at) < RETRY.as_nanos() as u64) {
            continue;
        }
        latest.values().gpu.begin(begun_ns);
        let answer = match &mut reader {
            Some(open) => open.read(begun_ns),
            None => gpu::open_in(&options.roots, options.nvml_lib.as_deref(), options.simulated_device.as_deref())
                .and_then(|mut opened| {
                    let first = opened.read(begun_ns);
                    reader = Some(opened);
                    first
                }),
        };
        let now_ns = clock::monotonic_ns();
        failed_ns = answer.is_err().then_some(now_ns);
        reader = reader.filter(|_| answer.is_ok());
        latest.write(|values| values.gpu.answer(answer.map_err(|error| trouble(&error)), tick, now_ns));
    }
}

fn watch_storage(shared: &Shared, asks: &Receiver<u64>) {
    let Shared { options, latest, effort, .. } = shared;
    let mut reader = StorageReader::new(&options.roots);
    while let Ok(tick) = asks.recv() {
        let now_ns = clock::monotonic_ns();
        let pids = {
            let mut values = latest.values();
            values.storage.begin(now_ns);
            values.pids()
        };
        let sparing = effort.get().is_sparing();
        let answer = reader.read(now_ns, &pids, sparing).map_err(|error| unreadable("/proc/diskstats", &error));
        latest.write(|values| values.storage.answer(answer, tick, clock::monotonic_ns()));
    }
}

fn trouble(error: &GpuError) -> SourceStatus {
    SourceStatus { fix: error.fix.as_deref().map(Into::into), ..status(error.state, &error.reason) }
}

fn unreadable(what: &str, error: &io::Error) -> SourceStatus {
    let denied = error.kind() == io::ErrorKind::PermissionDenied;
    status(if denied { SourceState::Denied } else { SourceState::Absent }, &format!("{what}: {error}"))
}

/// A small generator of even draws (xorshift64*, Vigna 2016): rounds need to be irregular, not unpredictable.
struct Jitter(u64);

impl Jitter {
    fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn next(&mut self, low: f64, high: f64) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let draw = (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1_u64 << 53) as f64;
        low + draw * (high - low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_range_and_varies() {
        let mut jitter = Jitter::new(7);
        let draws: Vec<f64> = (0..1000).map(|_| jitter.next(0.5, 1.5)).collect();
        assert!(draws.iter().all(|draw| (0.5..1.5).contains(draw)));
        let mean = draws.iter().sum::<f64>() / 1000.0;
        assert!((0.95..1.05).contains(&mean), "{mean}");
    }
}
