//! What the last seconds amount to: frames → the few numbers that the rules judge.
//!
//! Means are weighted by time. A number is `None` when no frame of the window had it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::rates::Frame;
use crate::rates::Wait;
use crate::rates::frame::{GpuRates, Stall, TrainerRates, WorkerRates};
use crate::rates::stacks::Activity;
use crate::rates::time_split::TimeSplit;
use crate::sample::{MountKind, ProcessId};

use super::stacks::{self, MainActivities, StacksWindow};
use super::verdict::{GpuIdle, Hottest, Stages};

/// The window's numbers.
#[derive(Debug, Clone, Default)]
pub struct Window {
    /// Seconds covered.
    pub seconds: f64,
    /// Looks at the main threads.
    pub looks: u32,
    /// Target alive at the end.
    pub alive: bool,
    /// State letter at the end.
    pub state: char,
    /// Share of frames in which the target was stopped.
    pub stopped: f64,
    /// The main thread's time (mean over trainers).
    pub main: Option<MainWindow>,
    /// Devices of the job.
    pub gpu: Option<GpuWindow>,
    /// Some device can be seen, whether the job uses it or not.
    pub gpu_seen: bool,
    /// Workers.
    pub workers: Option<WorkersWindow>,
    /// CPUs.
    pub cpu: CpuWindow,
    /// Storage and memory.
    pub io: IoWindow,
    /// Steps.
    pub steps: StepsWindow,
    /// Machine-learning library.
    pub library: Option<Arc<str>>,
    /// Age of the target at the end, seconds.
    pub age_s: Option<f64>,
    /// Number of trainers.
    pub trainers: usize,
    /// Growth of the job's resident memory, bytes/s.
    pub growth_s: Option<f64>,
    /// Waits for a batch of 30 ms and more with their place in the run, oldest first.
    pub stalls: Vec<Stall>,
}

/// The main thread's time.
#[derive(Debug, Clone, Default)]
pub struct MainWindow {
    /// The five shares.
    pub shares: TimeSplit,
    /// Of the input wait: in the loader's own poll, which needs no guess.
    pub polled: f64,
    /// Running or queueing.
    pub running: f64,
    /// The same, wherever the code stood: with what of it lies in getting a batch.
    pub runnable: f64,
    /// Waiting for a disk.
    pub disk: f64,
    /// Waiting for written data to reach a disk.
    pub disk_write: f64,
    /// Waiting on a socket: a batch's descriptors are asked of its worker through one.
    pub socket: f64,
    /// Share of looks that could not be read.
    pub unreadable: f64,
    /// Waits were told apart by `syscall`.
    pub exact: bool,
    /// Share of runnable time spent queueing.
    pub run_delay: Option<f64>,
    /// CPU use of the trainer process, percent of a core.
    pub cpu_pct: Option<f64>,
    /// Data read by the trainer process, bytes/s.
    pub read_chars_s: Option<f64>,
    /// Share of frames in which it read more than the inline threshold.
    pub reading: f64,
    /// Waits for a batch, seconds each.
    pub waits_s: Vec<f64>,
    /// What the stacks say of it.
    pub activities: Option<MainActivities>,
}

/// Devices of the job.
#[derive(Debug, Clone, Default)]
pub struct GpuWindow {
    /// How many.
    pub count: usize,
    /// Name of the first.
    pub name: Option<Arc<str>>,
    /// Use, 0–1.
    pub busy: f64,
    /// The job's own part, 0–1.
    pub job_busy: f64,
    /// Idle time by what the main thread did.
    pub idle: GpuIdle,
    /// Power against limit, 0–1.
    pub power: Option<f64>,
    /// Memory controller, 0–1.
    pub memory_busy: Option<f64>,
    /// SM activity by GPM, 0–1.
    pub sm_active: Option<f64>,
    /// DRAM activity by GPM, 0–1.
    pub dram_active: Option<f64>,
    /// PCIe use against the link, 0–1, the larger direction.
    pub pcie: Option<f64>,
    /// Share of frames with a throttling reason.
    pub throttled: f64,
    /// The reasons seen.
    pub reasons: u64,
    /// Other processes compute on the devices.
    pub others: bool,
    /// Use differs by this much between the least and the most used device, 0–1.
    pub spread: f64,
    /// A device of the job is lost.
    pub lost: bool,
    /// Simulated.
    pub simulated: bool,
}

/// Workers, means over the set.
#[derive(Debug, Clone, Default)]
pub struct WorkersWindow {
    /// Alive at the end.
    pub count: usize,
    /// On a CPU.
    pub busy: f64,
    /// Waiting for their source.
    pub io_wait: f64,
    /// Queueing.
    pub runnable: f64,
    /// Without work.
    pub idle: f64,
    /// Of `io_wait`: disk.
    pub disk_wait: f64,
    /// Of `io_wait`: socket.
    pub socket_wait: f64,
    /// Batches a second, all workers.
    pub batches_s: Option<f64>,
    /// Active threads per worker.
    pub active_threads: f64,
    /// Data read, bytes/s, all workers.
    pub read_chars_s: Option<f64>,
    /// Workers that appeared during the window.
    pub new: usize,
    /// Busiest worker's active share, and the median worker's.
    pub busiest: (u32, f64, f64),
    /// CPU use of the worker processes together, helper threads included, cores.
    pub cpu_cores: Option<f64>,
    /// Each worker at the end.
    pub each: Vec<WorkerWindow>,
    /// Time by stage, mean over the workers, where stacks tell.
    pub stages: Option<Stages>,
}

/// One worker.
#[derive(Debug, Clone, Default)]
pub struct WorkerWindow {
    /// PID.
    pub pid: u32,
    /// The four shares: busy, waiting for its source, queueing, idle.
    pub shares: Option<[f64; 4]>,
    /// Batches a second.
    pub batches_s: Option<f64>,
    /// Time by stage, where stacks tell.
    pub stages: Option<Stages>,
    /// Its hottest function.
    pub hottest: Option<Hottest>,
}

/// CPUs.
#[derive(Debug, Clone, Default)]
pub struct CpuWindow {
    /// CPUs that the job may use; the quota where it is smaller.
    pub cores: Option<f64>,
    /// Allowed CPUs.
    pub allowed: Option<f64>,
    /// Quota in cores.
    pub quota: Option<f64>,
    /// Use of the allowed CPUs, 0–1.
    pub full: Option<f64>,
    /// The job's use, cores.
    pub job: Option<f64>,
    /// Others' use of the allowed CPUs, cores.
    pub others: Option<f64>,
    /// Share of the job's runnable time spent queueing.
    pub run_delay: Option<f64>,
    /// Share of throttled periods.
    pub throttled: Option<f64>,
    /// Threads of the job that were active.
    pub active_threads: Option<f64>,
    /// Taken by the hypervisor, 0–1.
    pub steal: Option<f64>,
}

/// Storage and memory.
#[derive(Debug, Clone, Default)]
pub struct IoWindow {
    /// Totals are of the job's devices.
    pub devices_known: bool,
    /// Utilisation of the busiest, percent.
    pub disk_busy_pct: Option<f64>,
    /// Read from disk, bytes/s.
    pub disk_read_s: Option<f64>,
    /// Reads a second.
    pub reads_s: Option<f64>,
    /// Mean read, bytes.
    pub read_size: Option<f64>,
    /// Mean time of an I/O, ms.
    pub await_ms: Option<f64>,
    /// The job's own reads from storage, bytes/s.
    pub job_read_s: Option<f64>,
    /// The job's reads through read calls, bytes/s.
    pub job_read_chars_s: Option<f64>,
    /// The job's writes, bytes/s.
    pub job_write_s: Option<f64>,
    /// Major faults a second.
    pub major_faults_s: Option<f64>,
    /// Received from the network, bytes/s.
    pub net_rx_s: Option<f64>,
    /// PSI memory, percent.
    pub psi_memory: Option<f64>,
    /// PSI io, percent.
    pub psi_io: Option<f64>,
    /// Pages swapped in a second.
    pub swap_in: Option<f64>,
    /// File pages read again after eviction, a second (cgroup's where known, else the host's).
    pub refaults_s: Option<f64>,
    /// Reclaims forced by the cgroup's memory limit, a second.
    pub limit_hits_s: Option<f64>,
    /// Data files on a network file system: its type.
    pub network: Option<Arc<str>>,
    /// Data files on a user-space file system: its type.
    pub fuse: Option<Arc<str>>,
    /// Read limit of the cgroup, bytes/s.
    pub limit_bytes_s: Option<f64>,
    /// Read limit of the cgroup, operations/s.
    pub limit_iops: Option<f64>,
}

/// Steps.
#[derive(Debug, Clone, Default)]
pub struct StepsWindow {
    /// Per second.
    pub per_s: Option<f64>,
    /// Counted.
    pub count: Option<u64>,
    /// Lengths in order, seconds.
    pub lengths_s: Vec<f64>,
}

impl StepsWindow {
    /// Quantile of the lengths, milliseconds.
    #[must_use]
    pub fn quantile_ms(&self, quantile: f64) -> Option<f64> {
        super::stats::quantile(&self.lengths_s, quantile).map(|seconds| seconds * 1000.0)
    }
}

/// A time-weighted mean over the frames that have the number.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, weight: f64) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.sum += value * weight;
            self.weight += weight;
        }
    }

    fn get(self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

fn mean_of(frames: &[&Frame], value: impl Fn(&Frame) -> Option<f64>) -> Option<f64> {
    let mut mean = Mean::default();
    for frame in frames {
        mean.add(value(frame), frame.seconds);
    }
    mean.get()
}

impl Window {
    /// Sums up `frames`, oldest first. Frames without a length (the first of a session, or after a gap) count for
    /// their state only. `stacks` may reach back further than the frames: they are taken seldom. `only` leaves out all
    /// trainers but that one, and their workers: one rank of several.
    #[must_use]
    pub fn of(frames: &[&Frame], stacks: &StacksWindow, only: Option<ProcessId>) -> Self {
        let Some(last) = frames.last() else { return Self::default() };
        let timed: Vec<&Frame> = frames.iter().copied().filter(|frame| frame.seconds > 0.0).collect();
        let stopped = frames.iter().filter(|frame| matches!(frame.state, 'T' | 't')).count();
        Self {
            seconds: timed.iter().map(|frame| frame.seconds).sum(),
            looks: timed
                .iter()
                .flat_map(|frame| &frame.trainers)
                .fold(0, |sum: u32, trainer| sum.saturating_add(trainer.samples)),
            alive: last.alive,
            state: last.state,
            stopped: stopped as f64 / frames.len().max(1) as f64,
            main: main_window(&timed, stacks, only),
            gpu: gpu_window(&timed, only),
            gpu_seen: last.gpus.iter().any(|gpu| !gpu.lost),
            workers: workers_window(&timed, stacks, only),
            cpu: cpu_window(&timed),
            io: io_window(&timed),
            steps: steps_window(&timed, only),
            stalls: timed
                .iter()
                .filter_map(|frame| trainers(frame, only).next())
                .flat_map(|trainer| trainer.stalls.iter().copied())
                .collect(),
            library: last.job.library.clone(),
            age_s: last.job.age_s,
            trainers: last.trainers.len(),
            growth_s: growth(&timed),
        }
    }

    /// The part of the input wait that the device did not cover: all of it where the device cannot be seen, else at
    /// most the device's idle time.
    #[must_use]
    pub fn lost_wait(&self) -> f64 {
        // Starting workers is no wait for a batch, but lost for the same reason.
        let starts =
            |main: &MainWindow| main.activities.as_ref().map_or(0.0, |seen| seen.share(Activity::LoaderStart));
        let wait = self.main.as_ref().map_or(0.0, |main| (main.shares.input_wait + starts(main)).min(1.0));
        self.gpu.as_ref().map_or(wait, |gpu| wait.min(1.0 - gpu.job_busy))
    }

    /// Share of the main thread's time in the work of taking batches over: what the stacks say, without the time blocked
    /// on a worker that is too busy to hand out its descriptors. The stacks only know where the code stood; whatever the
    /// call is blocked in (a socket, a pipe, a lock), work is done by a thread that runs or queues for a CPU, so what the lane
    /// saw of that in getting batches is the most it can be. The rest is waiting for a batch.
    #[must_use]
    pub fn receiving(&self) -> f64 {
        let Some(main) = &self.main else { return 0.0 };
        let receiving = main.activities.as_ref().map_or(0.0, |seen| seen.share(Activity::Receiving));
        (receiving - main.socket).min(main.runnable - main.running).max(0.0)
    }

    /// Seconds of one step without its waits for data.
    #[must_use]
    pub fn step_without_wait_s(&self) -> Option<f64> {
        let main = self.main.as_ref()?;
        let per_s = self.steps.per_s.filter(|rate| *rate > 0.0)?;
        Some((1.0 - main.shares.input_wait) / per_s)
    }
}

/// The frame's trainers, or the one asked for.
fn trainers(frame: &Frame, only: Option<ProcessId>) -> impl Iterator<Item = &TrainerRates> {
    frame.trainers.iter().filter(move |trainer| only.is_none_or(|only| trainer.id == only))
}

/// The frame's workers, or those of the trainer asked for.
fn workers_of(frame: &Frame, only: Option<ProcessId>) -> impl Iterator<Item = &WorkerRates> {
    frame.workers.iter().filter(move |worker| only.is_none_or(|only| worker.trainer == only.pid))
}

fn growth(frames: &[&Frame]) -> Option<f64> {
    let (first, last) = (frames.first()?, frames.last()?);
    let seconds = last.monotonic_ns.checked_sub(first.monotonic_ns)? as f64 / 1e9;
    let grown = last.job.rss_bytes? as f64 - first.job.rss_bytes? as f64;
    (seconds > 0.5).then(|| grown / seconds)
}

fn main_window(frames: &[&Frame], stacks: &StacksWindow, only: Option<ProcessId>) -> Option<MainWindow> {
    let mut sums = TimeSplit::default();
    let (mut seen, mut running, mut disk, mut unreadable, mut polled) = (0.0, 0.0, 0.0, 0.0, 0.0);
    let (mut disk_write, mut socket, mut runnable) = (0.0, 0.0, 0.0);
    let mut exact = true;
    let mut waits_s = Vec::new();
    let (mut delay, mut cpu, mut read) = (Mean::default(), Mean::default(), Mean::default());
    let mut reading = 0_usize;
    for frame in frames {
        for trainer in trainers(frame, only) {
            sums += trainer.split_s;
            seen += trainer.seconds_seen;
            running += trainer.running_s;
            let by_wait = |wait: Wait| f64::from(trainer.by_wait_s.get(wait.index()).copied().unwrap_or(0.0));
            disk += by_wait(Wait::DiskRead) + by_wait(Wait::Memory);
            unreadable += by_wait(Wait::Unknown);
            disk_write += by_wait(Wait::DiskWrite);
            socket += by_wait(Wait::Socket);
            runnable += by_wait(Wait::Running);
            polled += if trainer.exact { by_wait(Wait::LoaderPoll) } else { trainer.split_s.input_wait };
            exact &= trainer.exact || trainer.samples == 0;
            waits_s.extend(trainer.wait_lengths_s.iter().map(|length| f64::from(*length)));
            delay.add(trainer.run_delay_share, frame.seconds);
            cpu.add(trainer.cpu_pct, frame.seconds);
            read.add(trainer.read_chars_s, frame.seconds);
        }
        if trainers(frame, only)
            .any(|trainer| trainer.read_chars_s.is_some_and(|rate| rate >= super::thresholds::INLINE_READ.value))
        {
            reading += 1;
        }
    }
    if seen <= 0.0 {
        return None;
    }
    let mut window = MainWindow {
        shares: sums.map(|seconds| seconds / seen),
        polled: polled / seen,
        running: running / seen,
        runnable: (runnable / seen).max(0.0),
        disk: disk / seen,
        disk_write: disk_write / seen,
        socket: socket / seen,
        unreadable: unreadable / seen,
        exact,
        run_delay: delay.get(),
        cpu_pct: cpu.get(),
        read_chars_s: read.get(),
        reading: reading as f64 / frames.len().max(1) as f64,
        waits_s,
        activities: None,
    };
    window.activities = stacks::refine(&mut window, &stacks.main(only));
    Some(window)
}

fn gpu_window(frames: &[&Frame], only: Option<ProcessId>) -> Option<GpuWindow> {
    let last = frames.last()?;
    // One rank's devices, where it is known which they are; else all of the job's.
    let own: Option<u32> = only
        .map(|only| only.pid)
        .filter(|pid| last.gpus.iter().any(|gpu| gpu.attached && gpu.job_pids.contains(pid)));
    let is_used = |gpu: &&GpuRates| gpu.attached && own.is_none_or(|pid| gpu.job_pids.contains(&pid));
    let attached: Vec<&GpuRates> = last.gpus.iter().filter(is_used).collect();
    let first = attached.first()?;
    let over = |value: &dyn Fn(&GpuRates) -> Option<f64>| {
        let mut mean = Mean::default();
        for frame in frames {
            for gpu in frame.gpus.iter().filter(is_used) {
                mean.add(value(gpu), frame.seconds);
            }
        }
        mean.get()
    };
    let busy = over(&|gpu| gpu.utilization_pct)? / 100.0;
    let job_busy = over(&|gpu| gpu.job_utilization_pct).map_or(busy, |job| (job / 100.0).min(busy));
    let mut by_device: BTreeMap<u32, Mean> = BTreeMap::new();
    let (mut throttled, mut readings, mut reasons) = (0_usize, 0_usize, 0_u64);
    for frame in frames {
        for gpu in frame.gpus.iter().filter(is_used) {
            by_device.entry(gpu.index).or_default().add(gpu.utilization_pct, frame.seconds);
            if let Some(mask) = gpu.clock_event_reasons {
                readings += 1;
                if mask & THROTTLING != 0 {
                    throttled += 1;
                    reasons |= mask & THROTTLING;
                }
            }
        }
    }
    let by_device: Vec<f64> = by_device.values().filter_map(|mean| mean.get()).collect();
    let most = by_device.iter().copied().fold(0.0, f64::max);
    let least = by_device.iter().copied().fold(100.0, f64::min);
    Some(GpuWindow {
        count: attached.len(),
        name: first.name.clone(),
        busy,
        job_busy,
        idle: gpu_idle(frames, 1.0 - job_busy, only),
        power: over(&|gpu| Some(gpu.power_w? / gpu.power_limit_w.filter(|limit| *limit > 0.0)?)),
        memory_busy: over(&|gpu| gpu.memory_utilization_pct).map(|pct| pct / 100.0),
        sm_active: over(&|gpu| gpu.sm_active_pct).map(|pct| pct / 100.0),
        dram_active: over(&|gpu| gpu.dram_active_pct).map(|pct| pct / 100.0),
        pcie: over(&|gpu| {
            let rate = gpu.pcie_rx_bytes_s?.max(gpu.pcie_tx_bytes_s?);
            Some(rate / gpu.pcie_capacity_bytes_s.filter(|capacity| *capacity > 0.0)?)
        }),
        throttled: if readings == 0 { 0.0 } else { throttled as f64 / readings as f64 },
        reasons,
        others: attached.iter().any(|gpu| !gpu.others.is_empty()),
        spread: ((most - least) / 100.0).max(0.0),
        lost: attached.iter().any(|gpu| gpu.lost),
        simulated: first.simulated,
    })
}

/// Clock event reasons that take performance away: SW power cap 0x4, HW slowdown 0x8, SW thermal 0x20, HW thermal 0x40,
/// HW power brake 0x80 (nvml.h, `nvmlClocksEventReason*`). Idle (0x1) and applied clocks (0x2) do not.
pub const THROTTLING: u64 = 0x4 | 0x8 | 0x20 | 0x40 | 0x80;

fn gpu_idle(frames: &[&Frame], total: f64, only: Option<ProcessId>) -> GpuIdle {
    let mut sums = TimeSplit::default();
    let mut seen = 0.0;
    for trainer in frames.iter().flat_map(|frame| trainers(frame, only)) {
        if let Some(parts) = trainer.device_idle_s {
            sums += parts;
            seen += trainer.seconds_seen;
        }
    }
    if seen <= 0.0 {
        return GpuIdle { total, ..GpuIdle::default() };
    }
    let shares = sums.map(|seconds| seconds / seen);
    GpuIdle {
        total,
        while_input_wait: shares.input_wait,
        while_host_busy: shares.host_busy,
        while_sync: shares.device_sync,
        while_other: shares.checkpoint + shares.other,
    }
}

fn workers_window(frames: &[&Frame], stacks: &StacksWindow, only: Option<ProcessId>) -> Option<WorkersWindow> {
    let last: Vec<&WorkerRates> = workers_of(frames.last()?, only).collect();
    // A set that is just being rebuilt may be missing from the last frame.
    let alive = frames
        .iter()
        .rev()
        .map(|frame| workers_of(frame, only).collect::<Vec<_>>())
        .find(|workers| !workers.is_empty())?;
    let mut totals: BTreeMap<ProcessId, [Mean; 4]> = BTreeMap::new();
    let mut batches: BTreeMap<ProcessId, Mean> = BTreeMap::new();
    let mut sums = [Mean::default(); 6];
    let mut threads = Mean::default();
    let mut new = 0;
    for (at, frame) in frames.iter().enumerate() {
        for worker in workers_of(frame, only) {
            let WorkerRates { busy, io_wait, runnable, idle, disk_wait, socket_wait, .. } = worker;
            for (sum, part) in sums.iter_mut().zip([busy, io_wait, runnable, idle, disk_wait, socket_wait]) {
                sum.add(*part, frame.seconds);
            }
            let each = totals.entry(worker.id).or_default();
            for (sum, part) in each.iter_mut().zip([busy, io_wait, runnable, idle]) {
                sum.add(*part, frame.seconds);
            }
            batches.entry(worker.id).or_default().add(worker.batches_s, frame.seconds);
            threads.add(Some(f64::from(worker.active_threads)), frame.seconds);
            if worker.new && at > 0 {
                new += 1;
            }
        }
    }
    let [busy, io_wait, runnable, idle, disk_wait, socket_wait] = sums.map(Mean::get);
    let busy = busy?;
    let active = |id: &ProcessId| {
        let [busy, io_wait, runnable, _] = totals.get(id)?.map(Mean::get);
        Some(busy? + io_wait.unwrap_or(0.0) + runnable.unwrap_or(0.0))
    };
    let actives: Vec<(u32, f64)> =
        alive.iter().filter_map(|worker| Some((worker.id.pid, active(&worker.id)?))).collect();
    let busiest = actives.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or_default();
    let shares: Vec<f64> = actives.iter().map(|(_, share)| *share).collect();
    let median = super::stats::quantile(&shares, 0.5).unwrap_or(0.0);
    let sum_rate = |rate: &dyn Fn(&WorkerRates) -> Option<f64>| {
        mean_of(frames, |frame| {
            let rates: Vec<f64> = workers_of(frame, only).filter_map(rate).collect();
            (!rates.is_empty()).then(|| rates.iter().sum())
        })
    };
    let count = if last.is_empty() { alive.len() } else { last.len() };
    let pooled = stacks.all_workers();
    let each: Vec<WorkerWindow> = alive
        .iter()
        .map(|worker| {
            let shares = totals.get(&worker.id).and_then(|parts| {
                let [busy, io_wait, runnable, idle] = parts.map(Mean::get);
                Some([busy?, io_wait?, runnable?, idle?])
            });
            let batches_s = batches.get(&worker.id).and_then(|mean| mean.get());
            let mut window = WorkerWindow { pid: worker.id.pid, shares, batches_s, ..WorkerWindow::default() };
            if let Some((stages, hottest)) = stacks::worker_stages(&window, stacks.workers.get(&worker.id), &pooled) {
                window.stages = Some(stages);
                window.hottest = hottest;
            }
            window
        })
        .collect();
    Some(WorkersWindow {
        count,
        busy,
        io_wait: io_wait.unwrap_or(0.0),
        runnable: runnable.unwrap_or(0.0),
        idle: idle.unwrap_or(0.0),
        disk_wait: disk_wait.unwrap_or(0.0),
        socket_wait: socket_wait.unwrap_or(0.0),
        batches_s: sum_rate(&|worker| worker.batches_s),
        active_threads: threads.get().unwrap_or(1.0),
        read_chars_s: sum_rate(&|worker| worker.read_chars_s),
        new,
        busiest: (busiest.0, busiest.1, median),
        cpu_cores: sum_rate(&|worker| worker.cpu_pct).map(|pct| pct / 100.0),
        stages: mean_stages(&each),
        each,
    })
}

fn mean_stages(each: &[WorkerWindow]) -> Option<Stages> {
    let known: Vec<&Stages> = each.iter().filter_map(|worker| worker.stages.as_ref()).collect();
    let mean = |stage: fn(&Stages) -> f64| super::stats::mean(known.iter().map(|stages| stage(stages)));
    Some(Stages {
        load: mean(|stages| stages.load)?,
        decode: mean(|stages| stages.decode)?,
        transform: mean(|stages| stages.transform)?,
        collate: mean(|stages| stages.collate)?,
        hand_over: mean(|stages| stages.hand_over)?,
    })
}

fn cpu_window(frames: &[&Frame]) -> CpuWindow {
    let Some(last) = frames.last() else { return CpuWindow::default() };
    let allowed = last.job.cpus_allowed.map(f64::from);
    let quota = last.job.cpu_quota_cores;
    let cores = match (allowed, quota) {
        (Some(allowed), Some(quota)) => Some(allowed.min(quota)),
        (allowed, quota) => allowed.or(quota),
    };
    CpuWindow {
        cores,
        allowed,
        quota,
        full: mean_of(frames, |frame| frame.host.allowed_cpu_pct).map(|pct| pct / 100.0),
        job: mean_of(frames, |frame| frame.job.cpu_pct).map(|pct| pct / 100.0),
        others: mean_of(frames, |frame| frame.host.others_cpu_pct).map(|pct| pct / 100.0),
        run_delay: mean_of(frames, |frame| frame.job.run_delay_share),
        throttled: mean_of(frames, |frame| frame.job.throttled_share),
        active_threads: mean_of(frames, |frame| frame.job.active_threads.map(f64::from)),
        steal: mean_of(frames, |frame| frame.host.steal_pct).map(|pct| pct / 100.0),
    }
}

fn io_window(frames: &[&Frame]) -> IoWindow {
    let Some(last) = frames.last() else { return IoWindow::default() };
    let mount = |kind: MountKind| {
        last.storage.mounts.iter().find(|mount| mount.kind == kind).map(|mount| Arc::clone(&mount.fs_type))
    };
    let limit = |value: Option<u64>| value.map(|value| value as f64);
    IoWindow {
        devices_known: last.storage.data_devices_known,
        disk_busy_pct: mean_of(frames, |frame| frame.storage.utilization_pct),
        disk_read_s: mean_of(frames, |frame| frame.storage.read_bytes_s),
        reads_s: mean_of(frames, |frame| frame.storage.reads_s),
        read_size: mean_of(frames, |frame| frame.storage.read_size_bytes),
        await_ms: mean_of(frames, |frame| frame.storage.await_ms),
        job_read_s: mean_of(frames, |frame| frame.job.read_bytes_s),
        job_read_chars_s: mean_of(frames, |frame| frame.job.read_chars_s),
        job_write_s: mean_of(frames, |frame| frame.job.write_bytes_s),
        major_faults_s: mean_of(frames, |frame| frame.job.major_faults_s),
        net_rx_s: mean_of(frames, |frame| frame.host.net_rx_bytes_s),
        psi_memory: mean_of(frames, |frame| frame.host.psi_memory_some_pct),
        psi_io: mean_of(frames, |frame| frame.host.psi_io_some_pct),
        swap_in: mean_of(frames, |frame| frame.host.swap_in_s),
        refaults_s: mean_of(frames, |frame| frame.job.refaults_s.or(frame.host.refaults_s)),
        limit_hits_s: mean_of(frames, |frame| frame.job.memory_limit_hits_s),
        network: mount(MountKind::Network),
        fuse: mount(MountKind::Fuse),
        limit_bytes_s: limit(last.job.io_read_limit.0),
        limit_iops: limit(last.job.io_read_limit.1),
    }
}

/// Share of frames with new workers from which sets come and go too fast for their steps to be counted.
const QUICK_SETS: f64 = 0.6;

fn steps_window(frames: &[&Frame], only: Option<ProcessId>) -> StepsWindow {
    let (mut steps, mut seconds) = (0_u64, 0.0);
    let mut seen = false;
    let mut lengths_s = Vec::new();
    for frame in frames {
        // Ranks step together: the first trainer speaks for all.
        let Some(trainer) = trainers(frame, only).next() else { continue };
        seen |= trainer.steps.is_some();
        // Between two sets of workers there is nothing to count, but the time passes.
        if seen {
            steps = steps.saturating_add(trainer.steps.unwrap_or(0));
            seconds += frame.seconds;
        }
        lengths_s.extend(trainer.step_lengths_s.iter().map(|length| f64::from(*length)));
    }
    // Feeder threads are looked for once a tick: whole sets of workers that live hardly longer go unseen.
    let new = frames.iter().filter(|frame| workers_of(frame, only).any(|worker| worker.new)).count();
    let followed = (new as f64) < QUICK_SETS * frames.len() as f64;
    StepsWindow {
        per_s: (seen && followed && seconds > 0.0).then(|| steps as f64 / seconds),
        count: seen.then_some(steps),
        lengths_s,
    }
}
