//! The last seconds in numbers: frames → the named values that the causes judge.
//!
//! Means are weighted by time. A number is `None` when no frame of the window had it.
//!
//! Long because it is mostly a list: each value of a window with how it follows from the frames.

mod around;
mod chain;
mod derived;
mod device;
mod loop_thread;
pub(in crate::diagnosis) mod places;
mod purpose;
mod workers;

use std::collections::BTreeSet;
use std::sync::Arc;

use trainmon_rates::PAGE;
use trainmon_sample::gpu::GpuXids;
use trainmon_sample::process::is_of_learning;
use trainmon_sample::{MountKind, ProcessId, ProcessRole, ThreadRole};
use trainmon_waits::frame::{CountedSteps, RankRates, Stall, WorkerRates};
use trainmon_waits::stacks::sums::StackSums;
use trainmon_waits::{Frame, Wait};

use super::job::JobDoes;
use super::thresholds::LARGER_HALF;
use around::Around;
pub(super) use chain::{Chain, ChainPath, OwnThreads, program, program_of};
pub(super) use device::Device;
pub(super) use loop_thread::{LoopStacks, LoopThread};
pub(super) use purpose::take_waits;
use trainmon_base::stats;
pub(super) use workers::Workers;

/// Share of frames with new workers at which sets come and go too fast for their steps to be counted. Queue threads are
/// looked for once a tick, so sets that live hardly longer are missed.
const QUICK_SETS: f64 = 0.6;
/// Shortest time over which growth of memory is measured, seconds.
const GROWTH_S: f64 = 0.5;
/// An error of a GPU older than this explains nothing that happens now, seconds.
const LATELY_S: u64 = 600;
/// A thread is active if it runs or queues for a tenth of the time, as in the count of a job's active threads.
const ACTIVE_PCT: f64 = 10.0;

/// Makes a struct from a list of values, each with its meaning and how it follows from the frames.
macro_rules! numbers {
    ($(#[$of:meta])* $Name:ident of $span:ident, $last:ident: $($(#[$doc:meta])* $field:ident: $Type:ty = $value:expr;)+) => {
        $(#[$of])*
        #[derive(Debug, Clone, Default)]
        pub(super) struct $Name {
            $($(#[$doc])* pub $field: $Type,)+
        }

        impl $Name {
            fn of_span($span: &Span<'_>, $last: &Frame) -> Self {
                Self { $($field: $value),+ }
            }
        }
    };
}

numbers! {
    /// The numbers of one window.
    Features of span, last:
    /// Seconds covered.
    seconds: f64 = span.frames.iter().map(|frame| frame.seconds).sum();
    /// Samples of the loops' threads.
    samples: u32 = {
        let ranks = span.frames.iter().flat_map(|frame| &frame.ranks);
        ranks.fold(0, |sum: u32, rank| sum.saturating_add(rank.samples))
    };
    /// Whether the target is alive at the end.
    alive: bool = last.alive;
    /// Share of frames in which the target was stopped, or its cgroup frozen.
    stopped: f64 = span.stopped;
    /// The control group is frozen at the end; with the command that resumes it, if known.
    frozen: Option<Option<Arc<str>>> = last.job.frozen.then(|| last.job.thaw.clone());
    /// The process's first thread has ended, and other threads continue.
    main_has_left: bool = last.alive && last.state == 'Z';
    /// Nothing was read of the job's processes.
    unwatched: bool = last.unwatched;
    /// The loop's time comes from another tool's record.
    profiled: bool = last.ranks.iter().any(|rank| rank.profiled);
    /// The loop's thread, a mean over the ranks.
    main: Option<LoopThread> = LoopThread::from_span(span);
    /// What the job does, filled once the loop is known.
    does: JobDoes = JobDoes::default();
    /// The job's GPUs.
    gpu: Option<Device> = Device::from_span(span);
    /// The job uses a GPU, whether its load is known or not.
    gpu_held: bool = last.gpus.iter().any(|gpu| gpu.attached && !gpu.lost) || !last.job.accelerators.is_empty();
    /// Errors that the driver has reported of the job's GPUs lately, by their index.
    gpu_errors: Vec<(u32, GpuXids)> = {
        let errors = last.gpus.iter().filter(|gpu| gpu.attached).filter_map(|gpu| Some((gpu.index, gpu.xids?)));
        errors.filter(|(_, xids)| xids.count > 0 && xids.is_within(LATELY_S, last.monotonic_ns)).collect()
    };
    /// Device files of accelerators that the job holds open and that cannot be read.
    accelerators: Vec<Arc<str>> = last.job.accelerators.clone();
    /// Some GPU to train on can be read, whether the job uses it or not.
    gpu_seen: bool = last.gpus.iter().any(|gpu| !gpu.lost && !gpu.for_display);
    workers: Option<Workers> = Workers::from_span(span);
    /// Processes that may be workers, whether the loop waited for any of them or not.
    has_children: bool = !last.workers.is_empty();
    /// What the loop waited for.
    chain: Option<Chain> = Chain::from_span(span);
    cpu: Cpus = span.frames.last().map(|last| Cpus::of_span(span, last)).unwrap_or_default();
    io: Storage = span.frames.last().map(|last| Storage::of_span(span, last)).unwrap_or_default();
    steps: Steps = span.steps();
    /// A machine-learning library is mapped.
    has_library: bool = last.job.library.is_some();
    /// A library that only machine learning uses, unlike NumPy.
    learns: bool = last.job.library.as_deref().is_some_and(is_of_learning);
    /// Age of the target at the end, seconds.
    age_s: Option<f64> = last.job.age_s;
    /// What surrounds the job.
    around: Around = Around::from_span(span);
    /// It has threads that exchange data with other ranks.
    communicates: bool = last.thread_roles.iter().any(|role| role.thread_role == ThreadRole::Communication);
    /// Its stacks or its options show mixed precision.
    mixed_precision: bool = {
        let training = last.processes.iter().filter(|process| process.role == ProcessRole::Rank);
        span.stacks.ranks.values().any(|stacks| stacks.mixed) || training.into_iter().any(|one| asks_for_mixed_precision(&one.command))
    };
    /// Number of ranks.
    ranks: usize = last.ranks.len();
    /// Numbers of ranks that should run here and have ended.
    ranks_gone: Vec<u32> = places::gone(last);
    /// Growth of the job's resident memory, bytes/s.
    growth_s: Option<f64> = span.growth();
    /// Waits for a batch of 30 ms and more with their place in the run, oldest first.
    stalls: Vec<Stall> = {
        let ranks = span.frames.iter().filter_map(|frame| span.ranks(frame).next());
        ranks.flat_map(|rank| rank.stalls.iter().copied()).collect()
    };
}

numbers! {
    /// The CPUs that the job may use.
    Cpus of span, last:
    /// CPUs that the job may use; the quota where it is smaller.
    cores: Option<f64> = allowed(last).into_iter().chain(last.job.cpu_quota_cores).reduce(f64::min);
    /// CPUs that it may use without the quota.
    allowed: Option<f64> = allowed(last);
    /// Physical cores of those CPUs, if known: hardware threads of one core count once.
    physical: Option<f64> = last.job.cores_allowed.map(f64::from);
    /// Use of the allowed CPUs, 0–1.
    full: Option<f64> = span.share(|frame| frame.host.allowed_cpu_pct);
    /// The job's use, CPUs.
    job: Option<f64> = span.share(|frame| frame.job.cpu_pct);
    /// Other processes' use of the allowed CPUs, CPUs.
    others: Option<f64> = span.share(|frame| frame.host.others_cpu_pct);
    /// Share of throttled periods.
    throttled: Option<f64> = span.mean(|frame| frame.job.throttled_share);
    /// Threads of the job that were active.
    active_threads: Option<f64> = span.mean(|frame| frame.job.active_threads.map(f64::from));
    /// Threads of the job that run or queue for a CPU at a time.
    wanting: Option<f64> = span.mean(wanting);
    /// Active threads of each process that has any.
    threads_each: Option<f64> = span.mean(threads_each);
    /// Taken by the hypervisor, 0–1.
    steal: Option<f64> = span.share(|frame| frame.host.steal_pct);
}

/// Threads of the job that run or queue for a CPU at a time.
fn wanting(frame: &Frame) -> Option<f64> {
    let running = frame.job.cpu_pct? / 100.0;
    let at_work = 1.0 - frame.job.run_delay_share?;
    (at_work > 0.0).then(|| running / at_work)
}

/// Active threads for each process that has any.
fn threads_each(frame: &Frame) -> Option<f64> {
    let active = frame.threads.iter().filter(|thread| f64::from(thread.cpu_pct + thread.run_delay_pct) >= ACTIVE_PCT);
    let (mut threads, mut processes) = (0_u32, BTreeSet::new());
    for thread in active {
        threads = threads.saturating_add(1);
        processes.insert(thread.process);
    }
    (threads > 0).then(|| f64::from(threads) / processes.len() as f64)
}

/// Whether an option of a command asks for mixed precision: `--bf16`, `--amp`, `--mixed_precision fp16`, `precision=bf16-mixed`.
fn asks_for_mixed_precision(command: &str) -> bool {
    const TYPES: [&str; 5] = ["bf16", "bfloat16", "fp16", "float16", "16-mixed"];
    const SWITCHES: [&str; 4] = ["amp", "use-amp", "autocast", "half"];
    const SWITCHED_OFF: [&str; 5] = ["false", "no", "none", "off", "0"];
    let command = command.to_ascii_lowercase().replace('_', "-");
    let words: Vec<&str> = command.split([' ', '=']).skip(1).collect();
    let is_off = |at: usize| words.get(at + 1).is_some_and(|next| SWITCHED_OFF.contains(next));
    let asks = |(at, word): (usize, &&str)| {
        let name = word.trim_start_matches('-');
        let is_option = word.starts_with('-');
        let named = TYPES.contains(&name) || name.strip_suffix("-mixed").is_some_and(|name| TYPES.contains(&name));
        (named || is_option && SWITCHES.contains(&name)) && !is_off(at)
    };
    words.iter().enumerate().any(asks)
}

fn allowed(last: &Frame) -> Option<f64> {
    last.job.cpus_allowed.map(f64::from)
}

impl Cpus {
    /// CPUs that the job may use, one at least.
    pub fn usable(&self) -> f64 {
        self.cores.unwrap_or(1.0).max(1.0)
    }

    /// CPUs that other processes leave to the job: at least one, or its quota if that is less.
    pub fn left(&self) -> f64 {
        let cores = self.cores.unwrap_or(1.0);
        (cores - self.others.unwrap_or(0.0)).max(cores.min(1.0))
    }
}

numbers! {
    /// Storage and memory.
    Storage of span, last:
    /// The disk's numbers are those of the job's data.
    devices_known: bool = last.storage.data_devices_known;
    /// Use of the busiest disk, percent.
    disk_busy_pct: Option<f64> = span.mean(|frame| frame.storage.utilization_pct);
    /// Read from disk, bytes/s.
    disk_read_per_s: Option<f64> = span.mean(|frame| frame.storage.read_bytes_per_s);
    /// Reads a second.
    reads_per_s: Option<f64> = span.mean(|frame| frame.storage.reads_per_s);
    /// Mean read, bytes.
    read_size: Option<f64> = span.mean(|frame| frame.storage.read_size_bytes);
    /// Mean time of an I/O, ms.
    await_ms: Option<f64> = span.mean(|frame| frame.storage.await_ms);
    /// The job's own reads from storage, bytes/s.
    job_read_per_s: Option<f64> = span.mean(|frame| frame.job.read_bytes_per_s);
    /// PSI memory, percent.
    psi_memory: Option<f64> = span.mean(|frame| frame.host.psi_memory_some_pct);
    /// Pages swapped in a second.
    swap_in: Option<f64> = span.mean(|frame| frame.host.swap_in_per_s);
    /// The part of the bytes read from storage that was evicted and is read again. A control group with a memory limit evicts
    /// its own pages, so they are part of the job's reads. Otherwise the host evicts, and they are part of all reads from the
    /// data's disk.
    refaulted: Option<f64> = {
        let part = |pages: Option<f64>, bytes: Option<f64>| Some(pages? * PAGE / bytes.filter(|bytes| *bytes > 0.0)?);
        let own = || part(span.mean(|frame| frame.job.refaults_per_s), span.mean(|frame| frame.job.read_bytes_per_s));
        let all = || part(span.mean(|frame| frame.host.refaults_per_s), span.mean(|frame| frame.storage.read_bytes_per_s));
        if last.job.memory_limit_bytes.is_some() { own().or_else(all) } else { all().or_else(own) }
    };
    /// The busiest disk with data of the job.
    disk: Option<Arc<str>> = {
        let of_data = last.storage.devices.iter().filter(|gpu| gpu.data);
        let busiest = of_data.max_by(|a, b| a.utilization_pct.total_cmp(&b.utilization_pct));
        busiest.map(|gpu| Arc::clone(&gpu.name))
    };
    /// Data files lie on a network file system.
    network: bool = has_mount(last, MountKind::Network);
    /// Data files lie on a user-space file system.
    fuse: bool = has_mount(last, MountKind::Fuse);
    /// Read limit of the cgroup, bytes/s.
    limit_bytes_per_s: Option<f64> = last.job.io_read_limit.0.map(|limit| limit as f64);
    /// Read limit of the cgroup, operations/s.
    limit_iops: Option<f64> = last.job.io_read_limit.1.map(|limit| limit as f64);
}

fn has_mount(last: &Frame, kind: MountKind) -> bool {
    last.storage.mounts.iter().any(|mount| mount.kind == kind)
}

impl Storage {
    /// Read from storage, by the job if known, bytes/s.
    pub fn read_s(&self) -> f64 {
        self.job_read_per_s.or(self.disk_read_per_s).unwrap_or(0.0)
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Steps {
    pub per_s: Option<f64>,
    pub count: Option<u64>,
    /// Step times in order, seconds.
    pub lengths_s: Vec<f64>,
    /// Counted by a variable of the loop, at the last frame, if nothing else counts them.
    pub counted: Option<CountedSteps>,
}

impl Steps {
    /// Steps per second, however they are counted.
    pub fn rate(&self) -> Option<f64> {
        self.per_s.or(self.counted.as_ref().map(|counted| counted.per_s))
    }

    /// Quantile of the step times, milliseconds.
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        stats::quantile(&self.lengths_s, quantile).map(|seconds| seconds * 1000.0)
    }
}

/// A time-weighted mean over the frames that have the number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WeightedMean {
    sum: f64,
    weight: f64,
}

impl WeightedMean {
    pub fn add(&mut self, value: Option<f64>, weight: f64) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    pub fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// Frames with a length, and the rank whose numbers are wanted.
struct Span<'a> {
    frames: Vec<&'a Frame>,
    /// Share of all frames, with a length or not, in which the target was stopped or frozen.
    stopped: f64,
    stacks: &'a StackSums,
    /// Only this rank.
    only: Option<ProcessId>,
}

impl<'a> Span<'a> {
    fn new(frames: &[&'a Frame], stacks: &'a StackSums, only: Option<ProcessId>) -> Self {
        let is_stopped = |frame: &&&Frame| matches!(frame.state, 'T' | 't') || frame.job.frozen;
        let stopped = frames.iter().filter(is_stopped).count();
        Self {
            frames: frames.iter().copied().filter(|frame| frame.seconds > 0.0).collect(),
            stopped: stopped as f64 / frames.len().max(1) as f64,
            stacks,
            only,
        }
    }

    /// The frame's ranks, or the wanted one.
    fn ranks(&self, frame: &'a Frame) -> impl Iterator<Item = &'a RankRates> + use<'a> {
        let only = self.only;
        frame.ranks.iter().filter(move |rank| only.is_none_or(|only| rank.id == only))
    }

    /// The frame's workers, or those of the wanted rank.
    fn workers(&self, frame: &'a Frame) -> impl Iterator<Item = &'a WorkerRates> + use<'a> {
        let only = self.only;
        frame.workers.iter().filter(move |worker| only.is_none_or(|only| worker.rank == only.pid))
    }

    /// Whether sets of workers come and go too fast, given the number of frames with new ones.
    fn is_quick(&self, frames_with_new: usize) -> bool {
        frames_with_new as f64 >= QUICK_SETS * self.frames.len() as f64
    }

    fn mean(&self, value: impl Fn(&'a Frame) -> Option<f64>) -> Option<f64> {
        let mut mean = WeightedMean::default();
        self.frames.iter().for_each(|frame| mean.add(value(frame), frame.seconds));
        mean.get()
    }

    /// The mean of percents, as a share.
    fn share(&self, pct: impl Fn(&'a Frame) -> Option<f64>) -> Option<f64> {
        self.mean(pct).map(|pct| pct / 100.0)
    }

    fn steps(&self) -> Steps {
        let (mut count, mut seconds, mut polled) = (None, 0.0, 0.0);
        let mut lengths_s = Vec::new();
        for frame in &self.frames {
            // Ranks step together: the first one speaks for all.
            let Some(rank) = self.ranks(frame).next() else { continue };
            // Between two sets of workers nothing is counted, but time passes.
            if count.is_some() || rank.steps.is_some() {
                count = Some(count.unwrap_or(0_u64).saturating_add(rank.steps.unwrap_or(0)));
                seconds += frame.seconds;
            }
            // If system calls cannot be read, any of these may be a wait for torch's loader.
            let may_be: &[Wait] =
                if rank.exact { &[Wait::LoaderPoll] } else { &[Wait::LoaderPoll, Wait::Poll, Wait::Futex] };
            let waits = may_be.iter().filter_map(|wait| rank.by_wait_s.get(wait.index()));
            polled += waits.map(|seconds| f64::from(*seconds)).sum::<f64>();
            lengths_s.extend(rank.step_lengths_s.iter().map(|length| f64::from(*length)));
        }
        let new = self.frames.iter().filter(|frame| self.workers(frame).any(|worker| worker.new)).count();
        let followed = !self.is_quick(new);
        // A loader that gets no requests while the loop continues without waiting does not feed it.
        let other = count == Some(0) && polled < LARGER_HALF.value * seconds;
        let count = if !other { count } else { None };
        let last = self.frames.last().and_then(|frame| self.ranks(frame).next());
        Steps {
            counted: last.and_then(|rank| rank.counted.clone()),
            per_s: if followed && seconds > 0.0 { count.map(|steps| steps as f64 / seconds) } else { None },
            count,
            lengths_s,
        }
    }

    /// Growth of the job's memory, bytes/s.
    fn growth(&self) -> Option<f64> {
        let (first, last) = (self.frames.first()?, self.frames.last()?);
        let seconds = last.monotonic_ns.checked_sub(first.monotonic_ns)? as f64 / 1e9;
        let grown = last.job.rss_bytes? as f64 - first.job.rss_bytes? as f64;
        (seconds > GROWTH_S).then(|| grown / seconds)
    }
}

impl Features {
    /// Sums up `frames`, oldest first. Frames without a length (the first of a session, or after a gap) count for their state
    /// only. `stacks` may reach back further than the frames, because they are taken rarely. `only` leaves out all other ranks
    /// and their workers.
    pub fn from_frames(frames: &[&Frame], stacks: &StackSums, only: Option<ProcessId>) -> Self {
        let Some(last) = frames.last().copied() else { return Self::default() };
        let mut window = Self::of_span(&Span::new(frames, stacks, only), last);
        let Some(main) = &mut window.main else { return window };
        match &window.gpu {
            Some(gpu) => main.take_spins(gpu.job_busy),
            // Nothing waits for a GPU that the job does not have.
            None if !window.gpu_held => main.wait_for_no_gpu(),
            None => {}
        }
        // The chain is that of one rank, whatever the others do.
        let of_one = if only.is_none() && window.ranks > 1 { window.chain.as_mut() } else { None };
        if let Some(chain) = of_one {
            let gpu = Device::of_rank(frames, stacks, chain.process);
            let rank = LoopThread::of_rank(frames, stacks, chain.process, gpu.as_ref());
            chain.of_rank = rank.map(|rank| rank.shares);
        }
        if let Some(stacks) = window.loop_stacks() {
            window.does = stacks.job();
        }
        window.settle();
        let split = window.split_by_purpose();
        if let Some((main, split)) = window.main.as_mut().zip(split) {
            main.shares = split;
            window.settle();
        }
        window
    }

    /// Makes every view of the loop's time agree with its split.
    fn settle(&mut self) {
        let Some(main) = &self.main else { return };
        if let Some(gpu) = &mut self.gpu {
            gpu.settle(&main.shares);
        }
        let Some(chain) = &mut self.chain else { return };
        let sleep_line = main.stacks.as_ref().and_then(|stacks| stacks.sleep_line.as_ref());
        let slept = sleep_line.map_or(0.0, |line| line.share);
        match chain.of_rank {
            Some(shares) => chain.settle(&shares, None, slept),
            None => chain.settle(&main.shares, self.gpu.as_ref().map(|gpu| &gpu.idle), slept),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::asks_for_mixed_precision;

    #[test]
    fn options_that_ask_for_mixed_precision() {
        for asks in [
            "python train.py --bf16",
            "python train.py --fp16 True --epochs 3",
            "python -m torch.distributed.run train.py --mixed_precision=bf16",
            "python train.py trainer.precision=bf16-mixed",
            "python train.py --precision 16-mixed",
            "python train.py --amp",
            "python train.py --dtype bfloat16",
        ] {
            assert!(asks_for_mixed_precision(asks), "{asks}");
        }
        for not in [
            "python train.py",
            "python train.py --amp false",
            "python train.py --fp16=no",
            "python train.py --mixed_precision no",
            "python train.py --data half",
            "python train.py --precision 32",
            "",
        ] {
            assert!(!asks_for_mixed_precision(not), "{not}");
        }
    }
}
