//! The rules: a window's numbers → phase, class and cause with a confidence.
//!
//! The order is that of the question: is it training at all (phase) → does the loop lose time waiting for batches, and
//! where do the workers' seconds go → does it save state → does the device run dry, and what does the host do meanwhile
//! → the device itself. Each rule compares with a value of [`thresholds`](super::thresholds) only.

use crate::rates::stacks::Activity;

use super::stacks::MainActivities;
use super::stats::ramp;
use super::thresholds as limit;
use super::verdict::{Class, Phase};
use super::what_if::Loop;
use super::window::{GpuWindow, MainWindow, Window, WorkersWindow};

/// What the rules say of one window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Judgement {
    /// Phase.
    pub phase: Phase,
    /// Class.
    pub class: Class,
    /// Cause, one of the taxonomy's strings.
    pub cause: Option<&'static str>,
    /// 0–1.
    pub confidence: f64,
    /// What was missing or contradicts, in words.
    pub doubts: Vec<String>,
    /// What else was found.
    pub others: Vec<Other>,
}

/// A finding that is not the main one.
#[derive(Debug, Clone, PartialEq)]
pub struct Other {
    /// Class.
    pub class: Class,
    /// Cause.
    pub cause: &'static str,
    /// 0–1.
    pub confidence: f64,
    /// Words.
    pub text: String,
}

/// What is known besides the window.
#[derive(Debug, Clone, Copy, Default)]
pub struct Known {
    /// Steps have been counted, or batches waited for, since attaching.
    pub has_stepped: bool,
    /// Whole sets of workers were started again and again, the last two within the restart threshold.
    pub restarts: bool,
}

impl Judgement {
    fn new(phase: Phase, class: Class, cause: Option<&'static str>, confidence: f64) -> Self {
        Self { phase, class, cause, confidence: confidence.clamp(0.0, 0.99), ..Self::default() }
    }

    fn training(class: Class, cause: &'static str, confidence: f64) -> Self {
        Self::new(Phase::Training, class, Some(cause), confidence)
    }

    fn doubt(mut self, text: impl Into<String>, factor: f64) -> Self {
        self.doubts.push(text.into());
        self.confidence *= factor;
        self
    }

    fn other(mut self, class: Class, cause: &'static str, confidence: f64, text: impl Into<String>) -> Self {
        self.others.push(Other { class, cause, confidence, text: text.into() });
        self
    }
}

/// Judges one window.
#[must_use]
pub fn judge(window: &Window, known: Known) -> Judgement {
    if !window.alive {
        return Judgement::new(Phase::Finished, Class::Idle, None, 0.99);
    }
    if window.stopped > 0.5 {
        return Judgement::new(Phase::Stopped, Class::Idle, None, 0.99);
    }
    let Some(main) = &window.main else {
        return Judgement::new(Phase::Unknown, Class::Unknown, None, 0.0)
            .doubt("the main thread was not seen yet", 1.0);
    };
    if main.unreadable > 0.5 {
        return Judgement::new(Phase::Unknown, Class::Unknown, None, 0.0)
            .doubt("what the main thread waits for may not be read", 1.0);
    }
    if let Some(judgement) = not_training(window, main, known) {
        return judgement;
    }
    let mut judgement = bottleneck(window, main, known);
    qualify(window, main, &mut judgement);
    judgement
}

/// Cases in which no bottleneck is looked for.
fn not_training(window: &Window, main: &MainWindow, known: Known) -> Option<Judgement> {
    let job_pct = window.cpu.job.map_or(0.0, |cores| cores * 100.0);
    let device_unused = window.gpu.as_ref().is_none_or(|gpu| gpu.job_busy < limit::DEVICE_UNUSED.value);
    let looks_like_training = window.library.is_some() || window.gpu.is_some() || torch_steps(window);
    if !looks_like_training {
        return Some(
            Judgement::new(Phase::Unknown, Class::Unknown, None, 0.0)
                .doubt("no data workers, no machine-learning library and no GPU in use: not a training process", 1.0),
        );
    }
    if let Some(judgement) = main.activities.as_ref().and_then(|seen| other_phase(window, seen)) {
        return Some(judgement);
    }
    let workers_active = window.workers.as_ref().is_some_and(|workers| workers.busy + workers.io_wait > 0.10);
    let stepping = window.steps.per_s.is_some_and(|rate| rate > 0.0);
    let quiet = job_pct < limit::INACTIVE.value && device_unused && main.running < 0.05;
    if quiet && !stepping && !(workers_active && main.shares.input_wait > 0.5) {
        let phase = if known.has_stepped { Phase::Idle } else { Phase::Init };
        let phase = if window.age_s.is_some_and(|age| age > limit::STARTING.value) { Phase::Idle } else { phase };
        return Some(Judgement::new(phase, Class::Idle, None, 0.9));
    }
    // Busy, but with nothing that a training loop does: imports, data set set-up, compilation.
    let young = window.age_s.is_some_and(|age| age < limit::STARTING.value);
    let loads = main.shares.input_wait - main.disk; // without workers, waits for a disk count as waits for data
    // Stacks that show batches being made or a model at work are proof of a loop.
    let loop_seen = main.activities.as_ref().is_some_and(|seen| {
        seen.inline + seen.share(Activity::Backward) + seen.share(Activity::Optimizer) >= limit::LOST_WAIT.value
    });
    let no_loop = !stepping && loads < 0.02 && window.workers.is_none() && !loop_seen;
    let device_silent = window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy < limit::DEVICE_UNUSED.value);
    // Imports read files too, but memory grows with them; a loop's stays as it is.
    let growing = window.growth_s.is_some_and(|rate| rate >= limit::GROWING.value);
    let reads = main.reading >= 0.5 && !(young && growing);
    if no_loop && !known.has_stepped && !reads && (device_silent || (young && window.gpu.is_none())) {
        return Some(Judgement::new(Phase::Init, Class::Idle, None, if device_silent { 0.8 } else { 0.6 }));
    }
    // Workers are starting: the loop waits for its first batches.
    if !known.has_stepped && !stepping && window.workers.as_ref().is_some_and(|workers| workers.new > 0) {
        return Some(Judgement::new(Phase::Init, Class::Idle, None, 0.6));
    }
    None
}

/// A phase that the stacks name: importing, compiling, validating.
fn other_phase(window: &Window, seen: &MainActivities) -> Option<Judgement> {
    let most = |activity: Activity| seen.share(activity) >= limit::PHASE.value;
    let phase = if most(Activity::Import) && window.workers.is_none() {
        Phase::Init
    } else if most(Activity::Compile) {
        Phase::Compile
    } else if seen.validation >= limit::PHASE.value {
        Phase::Validation
    } else {
        return None;
    };
    Some(Judgement::new(phase, Class::Idle, None, 0.85))
}

fn torch_steps(window: &Window) -> bool {
    window.steps.count.is_some()
}

fn bottleneck(window: &Window, main: &MainWindow, known: Known) -> Judgement {
    let lost = window.lost_wait();
    let collectives = main.activities.as_ref().map_or(0.0, |seen| seen.share(Activity::Collective));
    if collectives >= limit::COLLECTIVES.value && collectives > lost {
        let confidence = 0.55 + 0.35 * ramp(collectives, limit::COLLECTIVES.value, 0.6);
        return Judgement::training(Class::Gpu, "communication", confidence);
    }
    let saving = main.shares.checkpoint.min(window.gpu.as_ref().map_or(1.0, |gpu| 1.0 - gpu.job_busy));
    if saving >= limit::CHECKPOINT.value && saving > lost {
        let confidence = 0.55 + 0.4 * ramp(saving, limit::CHECKPOINT.value, 0.35);
        let mut judgement = Judgement::training(Class::Io, "checkpoint-write", confidence);
        if main.shares.checkpoint > 0.5 {
            judgement.phase = Phase::Checkpoint;
        }
        // Without stacks, and without waits for the disk, a loop that writes a long log looks the same.
        if main.activities.is_none() && main.disk_write < 0.3 * main.shares.checkpoint {
            return judgement
                .doubt("the main thread writes a lot, which may be a log as well as a checkpoint", 0.75)
                .other(Class::Cpu, "main-thread", 0.4, "what it writes may be a log: see which files grow");
        }
        return judgement;
    }
    if lost >= limit::LOST_WAIT.value {
        return match &window.workers {
            Some(workers) => waits_for_workers(window, workers, lost, known),
            None => waits_in_process(window, main, lost),
        };
    }
    match &window.gpu {
        Some(gpu) => with_device(window, main, gpu),
        None => without_device(window, main, known),
    }
}

/// Confidence that a lost wait of this size is one: the threshold itself is a coin toss.
fn wait_confidence(lost: f64) -> f64 {
    0.50 + 0.45 * ramp(lost, limit::LOST_WAIT.value, 0.30)
}

fn waits_for_workers(window: &Window, workers: &WorkersWindow, lost: f64, known: Known) -> Judgement {
    let sure = wait_confidence(lost);
    if let Some(starved) = starved(window, Some(workers), sure) {
        return starved;
    }
    let active = workers.busy + workers.io_wait + workers.runnable;
    // A wchan-only look cannot tell a worker's wait for an index from its wait for a slow source.
    let exact = window.main.as_ref().is_some_and(|main| main.exact);
    let io_part = if active > 0.0 { workers.io_wait / active } else { 0.0 };
    if active > 0.05 && io_part >= limit::WORKERS_IO.value {
        return storage(window, workers, sure * (0.75 + 0.25 * ramp(io_part, 0.5, 0.7)));
    }
    let judgement = loader(window, workers, sure, known);
    if !exact && workers.idle > 0.8 && judgement.cause != Some("worker-restart") {
        return judgement.doubt("workers wait in a poll that may be for an index or for a slow source", 0.6);
    }
    if io_part > 0.3 {
        return judgement.other(
            Class::Io,
            "disk-bandwidth",
            io_part,
            format!("the workers wait for their source {:.0} % of the time", workers.io_wait * 100.0),
        );
    }
    judgement
}

/// CPU time that is wanted and not given: quota, neighbours, too many threads or workers, full cores; and memory.
fn starved(window: &Window, workers: Option<&WorkersWindow>, sure: f64) -> Option<Judgement> {
    let (cpu, io) = (&window.cpu, &window.io);
    let throttled = cpu.throttled.unwrap_or(0.0);
    if throttled >= limit::THROTTLED.value {
        let confidence = sure * (0.7 + 0.3 * ramp(throttled, limit::THROTTLED.value, 0.5));
        return Some(Judgement::training(Class::Cpu, "cgroup-throttled", confidence));
    }
    let swapping = io.swap_in.is_some_and(|pages| pages >= limit::SWAP_IN.value);
    if swapping || io.psi_memory.is_some_and(|pct| pct >= limit::MEMORY_PRESSURE.value) {
        return Some(Judgement::training(Class::Io, "memory-pressure", sure * 0.9));
    }
    let wanted = workers.map_or_else(
        || window.main.as_ref().and_then(|main| main.run_delay).unwrap_or(0.0),
        |workers| {
            let runnable = workers.busy + workers.runnable;
            if runnable > 0.05 { workers.runnable / runnable } else { 0.0 }
        },
    );
    let computing = workers.is_none_or(|workers| workers.busy + workers.runnable >= workers.io_wait);
    let full = cpu.full.is_some_and(|full| full >= limit::CORES_FULL.value);
    if !computing || (wanted < limit::RUN_DELAY.value && !full) {
        return None;
    }
    // The workers have no work of their own to speak of: full cores are then somebody else's affair.
    if workers.is_some_and(|workers| workers.busy + workers.runnable < 0.3) && wanted < limit::RUN_DELAY.value {
        return None;
    }
    // Full cores without queueing: the work just fits, and who would gain from free cores is less clear.
    let cores = cpu.cores.unwrap_or(1.0).max(1.0);
    let others = cpu.others.unwrap_or(0.0);
    let neighbours = others >= limit::NEIGHBOUR.value * cores && others >= 0.5 * cpu.job.unwrap_or(0.0);
    if neighbours && wanted < limit::RUN_DELAY.value {
        return None; // they take what the job leaves: nothing of it waits for a CPU
    }
    let strength = ramp(wanted, 0.05, 0.35).max(if full { 0.3 } else { 0.0 });
    let confidence = sure * (0.65 + 0.35 * strength);
    if neighbours {
        let judgement = Judgement::training(Class::Cpu, "noisy-neighbour", confidence);
        return Some(match workers {
            Some(workers) => without_neighbours(judgement, window, workers),
            None => judgement,
        });
    }
    let threads = cpu.active_threads.unwrap_or(0.0);
    if threads >= limit::OVERSUBSCRIBED.value * cores && workers.is_none_or(|workers| workers.active_threads >= 2.0) {
        return Some(Judgement::training(Class::Cpu, "thread-oversubscription", confidence));
    }
    let Some(workers) = workers else {
        return full.then(|| Judgement::training(Class::Cpu, "cores-saturated", confidence));
    };
    if workers.count as f64 >= limit::TOO_MANY_WORKERS.value * cores {
        return Some(Judgement::training(Class::DataLoader, "too-many-workers", confidence).other(
            Class::Cpu,
            "cores-saturated",
            0.5,
            "the allowed CPUs are full: past this number of workers only cheaper transforms help",
        ));
    }
    Some(Judgement::training(Class::Cpu, "cores-saturated", confidence))
}

/// What the neighbours are not to blame for: queueing is no part of the workers' own time for a batch, so what that is longer
/// than the loop's step would be waited for without them too. It is a finding of its own, and a doubt about them where it
/// is the larger part.
fn without_neighbours(judgement: Judgement, window: &Window, workers: &WorkersWindow) -> Judgement {
    let Some(fed) = Loop::of(window).map(|fed| fed.undisturbed(window)) else { return judgement };
    let floor_s = fed.own_s.max(fed.device_s);
    let step_s = fed.step_with(fed.workers);
    let left_s = step_s - floor_s;
    if left_s < limit::LOST_WAIT.value * step_s {
        return judgement;
    }
    let left = loader(window, workers, wait_confidence(left_s / step_s.max(1e-9)), Known::default());
    let judgement = if left_s > (1.0 - limit::NEIGHBOURS_HELP.value) * (fed.step_s - floor_s) {
        judgement
            .doubt("the workers' own time for a batch, without queueing, is most of what the loop waits for", 0.75)
    } else {
        judgement
    };
    let confidence = (left.confidence * 0.75).min(judgement.confidence);
    let words = "without the other processes this would still hold the loop back";
    judgement.other(left.class, left.cause.unwrap_or("too-few-workers"), confidence, words)
}

/// The workers' source is slow.
fn storage(window: &Window, workers: &WorkersWindow, confidence: f64) -> Judgement {
    let io = &window.io;
    let of = |cause, factor: f64| Judgement::training(Class::Io, cause, confidence * factor);
    let disk_part = if workers.io_wait > 0.0 { workers.disk_wait / workers.io_wait } else { 0.0 };
    let socket_part = if workers.io_wait > 0.0 { workers.socket_wait / workers.io_wait } else { 0.0 };
    if io.network.is_some() || socket_part >= 0.5 {
        return of("network-storage", 1.0);
    }
    if disk_part < 0.5 {
        return of("network-storage", 0.85)
            .doubt("the workers wait for a source that is no disk and no socket: a pipe, a timer or a service", 1.0);
    }
    disk(window, confidence)
}

/// A local disk is waited for.
fn disk(window: &Window, confidence: f64) -> Judgement {
    let io = &window.io;
    let of = |cause, factor: f64| Judgement::training(Class::Io, cause, confidence * factor);
    if io.fuse.is_some() {
        return of("network-storage", 0.8);
    }
    let read = io.job_read_s.or(io.disk_read_s).unwrap_or(0.0);
    let bytes_limited = io.limit_bytes_s.is_some_and(|most| read >= 0.6 * most);
    let iops_limited = io.limit_iops.is_some_and(|most| io.reads_s.unwrap_or(0.0) >= 0.6 * most);
    if bytes_limited || iops_limited {
        return of("io-throttled", 1.0);
    }
    let busy = io.disk_busy_pct.unwrap_or(0.0);
    let refaulted = io.refaults_s.unwrap_or(0.0) * 4096.0;
    if read > 0.0 && refaulted / read >= limit::REFAULT.value {
        return of("page-cache-miss", 0.95);
    }
    let small = io.read_size.is_some_and(|size| size < limit::SMALL_READ.value);
    let factor = if busy >= limit::DISK_BUSY.value { 1.0 } else { 0.85 };
    of(if small { "small-files" } else { "disk-bandwidth" }, factor)
}

/// The workers compute and cores are free.
fn loader(window: &Window, workers: &WorkersWindow, sure: f64, known: Known) -> Judgement {
    let of = |cause, factor: f64| Judgement::training(Class::DataLoader, cause, sure * factor);
    let active = workers.busy + workers.io_wait + workers.runnable;
    if known.restarts || workers.count > 0 && workers.new >= workers.count.max(2) {
        return of("worker-restart", 0.9);
    }
    let (_, busiest, median) = workers.busiest;
    if workers.count >= 2 && busiest - median >= limit::IMBALANCE.value && busiest >= limit::BUSY.value {
        return of("worker-imbalance", 0.95);
    }
    if hands_over(window, workers) {
        return of("hand-over", 0.95);
    }
    if workers.idle >= limit::WORKERS_IDLE.value {
        let longest = window.main.as_ref().and_then(|main| super::stats::quantile(&main.waits_s, 1.0)).unwrap_or(0.0);
        let step = window.step_without_wait_s().unwrap_or(f64::INFINITY);
        // A long wait now and then, with idle workers in between: single batches are slow, not all of them.
        if workers.count >= 2 && active > 0.1 && longest >= 4.0 * step {
            return of("slow-samples", 0.85);
        }
        return of("hand-over", if active < 0.2 { 0.85 } else { 0.7 });
    }
    let factor = 0.75 + 0.25 * ramp(active, 0.4, limit::BUSY.value);
    let largest = largest_stage(workers);
    if largest.is_some_and(|(stage, part)| stage == "collate" && part >= limit::COLLATE.value) {
        return of("collate", factor);
    }
    // Reading from memory has no cause of its own: more workers are all that can be done about it.
    let stage = largest.filter(|(stage, part)| *part >= limit::STAGE.value && *stage != "load");
    // CPUs that others use now may be free in a minute: they make it unsure that more workers help, which is no reason to
    // blame the workers' code.
    let helps = |fed: Option<Loop>| fed.is_none_or(|fed| more_workers_help(&fed));
    let now = Loop::of(window);
    let helps_undisturbed = helps(now.map(|fed| fed.undisturbed(window)));
    if let Some((stage, _)) = stage
        && !helps_undisturbed
    {
        let words = "more workers would help a little";
        return of(stage, factor).other(Class::DataLoader, "too-few-workers", 0.4, words);
    }
    let mut judgement = of("too-few-workers", factor);
    if helps_undisturbed && !helps(now) {
        let (others, cores) = (window.cpu.others.unwrap_or(0.0), window.cpu.cores.unwrap_or(1.0));
        let words = format!(
            "other processes use {others:.1} of the {cores:.1} CPUs that the job may use: more workers would have to share \
             them"
        );
        judgement = judgement.doubt(words, 0.75);
    }
    let Some((stage, part)) = stage else { return judgement };
    let words = format!("{:.0} % of the workers' active time is {stage}", part * 100.0);
    let confidence = (part * 0.8).min(judgement.confidence);
    judgement.other(Class::DataLoader, stage, confidence, words)
}

/// Batches are made, and moving them to the loop costs the most: the main thread spends its wait on receiving them, or the
/// workers' sending threads are busy while the workers themselves are not.
fn hands_over(window: &Window, workers: &WorkersWindow) -> bool {
    let Some(main) = &window.main else { return false };
    // Workers that rest make all of it the hand-over's; with busy ones a part of it is waiting for them.
    let resting = workers.idle >= limit::WORKERS_IDLE.value;
    let all = main.activities.as_ref().map_or(0.0, |seen| seen.share(Activity::Receiving));
    let receiving = if resting { all } else { window.receiving() };
    if receiving >= limit::RECEIVING.value * main.shares.input_wait.max(limit::LOST_WAIT.value) {
        return true;
    }
    let making = workers.stages.map(|stages| stages.load + stages.decode + stages.transform + stages.collate);
    workers
        .stages
        .zip(making)
        .is_some_and(|(stages, making)| stages.hand_over >= limit::BUSY.value && stages.hand_over > making)
}

/// The stage with the largest part of the workers' active time, and that part.
fn largest_stage(workers: &WorkersWindow) -> Option<(&'static str, f64)> {
    let stages = workers.stages?;
    let parts = [
        ("load", stages.load),
        ("decode", stages.decode),
        ("transform", stages.transform),
        ("collate", stages.collate),
    ];
    let active: f64 = parts.iter().map(|(_, share)| share).sum();
    let (stage, share) = parts.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (active > 0.05).then_some((stage, share / active))
}

/// Whether the workers that the CPUs can carry would bring most of what can be gained.
fn more_workers_help(fed: &Loop) -> bool {
    let found = fed.enough_workers();
    let possible = fed.without_waits() - 1.0;
    let most = found.speedup - 1.0 >= limit::WORKERS_HELP.value * possible || found.speedup >= limit::HELPFUL.value;
    found.workers > fed.workers && most
}

/// There are no workers, and the main thread waits for a disk or a source itself.
fn waits_in_process(window: &Window, main: &MainWindow, lost: f64) -> Judgement {
    let sure = wait_confidence(lost);
    if let Some(starved) = starved(window, None, sure) {
        return starved;
    }
    // What the loading itself takes: with stacks their share of it, else all that the main thread runs.
    let loading = main.activities.as_ref().map_or(main.running, |seen| (seen.inline - main.disk).max(0.0));
    if main.disk > loading {
        return disk(window, sure * 0.9).other(
            Class::DataLoader,
            "in-process-loading",
            0.6,
            "the main thread reads the batches itself: workers would read ahead",
        );
    }
    let factor = if main.activities.is_some() { 1.0 } else { 0.85 };
    Judgement::training(Class::DataLoader, "in-process-loading", sure * factor)
}

fn with_device(window: &Window, main: &MainWindow, gpu: &GpuWindow) -> Judgement {
    let theirs = gpu.busy - gpu.job_busy;
    if gpu.others && theirs >= limit::SHARED_GPU.value && gpu.busy >= limit::DEVICE_BUSY.value - 0.1 {
        let confidence = 0.6 + 0.35 * ramp(theirs, limit::SHARED_GPU.value, 0.4);
        return Judgement::training(Class::Gpu, "shared-gpu", confidence);
    }
    if gpu.job_busy >= limit::DEVICE_BUSY.value {
        return device_bound(window, main, gpu);
    }
    // Copies are no kernels: a device that is fed over a full link is idle by its utilisation.
    if gpu.pcie.is_some_and(|pcie| pcie >= limit::PCIE_BUSY.value) {
        let sure = 0.55 + 0.3 * ramp(gpu.pcie.unwrap_or(0.0), limit::PCIE_BUSY.value, 0.9);
        return Judgement::training(Class::Gpu, "copy-bound", sure);
    }
    device_runs_dry(window, main, gpu)
}

/// The device is busy: which part of it.
fn device_bound(window: &Window, main: &MainWindow, gpu: &GpuWindow) -> Judgement {
    let sure = 0.65 + 0.3 * ramp(gpu.job_busy, limit::DEVICE_BUSY.value, 0.95);
    let of = |cause, factor: f64| Judgement::training(Class::Gpu, cause, sure * factor);
    if gpu.throttled >= limit::GPU_THROTTLED.value && gpu.reasons & !0x4 != 0 {
        return of("throttled", 1.0);
    }
    let low_power = gpu.power.is_some_and(|power| power < limit::LOW_POWER.value);
    if gpu.pcie.is_some_and(|pcie| pcie >= limit::PCIE_BUSY.value) && low_power {
        return of("copy-bound", 0.85);
    }
    let memory = gpu.dram_active.or(gpu.memory_busy);
    if memory.is_some_and(|memory| memory >= limit::MEMORY_BUSY.value) {
        return of("memory-bandwidth", 0.9);
    }
    let few_multiprocessors = gpu.sm_active.is_some_and(|active| active < limit::SM_ACTIVE.value);
    if few_multiprocessors || (low_power && gpu.sm_active.is_none()) {
        // Tiny kernels back to back look the same: a host that does nothing but launch is then the limit.
        if main.running >= 0.9 && main.shares.device_sync < 0.05 && gpu.power.is_some_and(|power| power < 0.35) {
            return of("under-filled", 0.7).other(
                Class::Cpu,
                "launch-bound",
                0.5,
                "the main thread is on a CPU all the time: it may be launching many tiny kernels",
            );
        }
        // A rank that waits in a collective kernel is busy at low power as well, and so are all of them where the exchange
        // itself is slow.
        if window.trainers > 1 {
            return of("communication", 0.65).other(
                Class::Gpu,
                "under-filled",
                0.5,
                "kernels too small for the device look the same: see whether a single rank is busy at low power too",
            );
        }
        return of("under-filled", 0.9);
    }
    if gpu.throttled >= limit::GPU_THROTTLED.value {
        // The software power cap is where a well-used device ends up: worth a word, not a verdict.
        return of("compute-bound", 1.0).other(Class::Gpu, "throttled", 0.4, "the power limit holds the clocks down");
    }
    of("compute-bound", 1.0)
}

/// The device is idle part of the time and the loop does not wait for batches.
fn device_runs_dry(window: &Window, main: &MainWindow, gpu: &GpuWindow) -> Judgement {
    let idle = 1.0 - gpu.job_busy;
    let sure = 0.55 + 0.4 * ramp(idle, limit::DEVICE_IDLE.value, 0.4);
    if let Some(starved) = starved_main(window, main, sure) {
        return starved;
    }
    if reads_inline(window, main) {
        return Judgement::training(Class::DataLoader, "in-process-loading", sure * 0.85);
    }
    let shares = main.shares;
    let host = shares.host_busy;
    // What the host holds back is the idle time outside of waits for the device: a loop that waits for the device most
    // of the time and lets it idle a little is as good as device-bound.
    if idle < limit::DRY.value && shares.input_wait < 0.05 && shares.checkpoint < 0.05 {
        let confidence = 0.5 + 0.2 * ramp(idle, limit::DRY.value, limit::DEVICE_IDLE.value);
        return Judgement::new(Phase::Training, Class::Balanced, None, confidence);
    }
    // Without the syncs host and device would overlap, and the longer of the two would set the pace. A wait that spins
    // looks like work; the stacks then show one line that reads a value back.
    let lines = main.activities.as_ref().map_or(0.0, MainActivities::sync_share);
    let sync = shares.device_sync.max(lines);
    // What of it was blocked is no work already.
    let working = (host - (sync - shares.device_sync)).max(0.0);
    if sync >= limit::SYNC.value && gpu.job_busy >= working {
        return Judgement::training(Class::Cpu, "host-device-sync", sure * (0.75 + 0.2 * ramp(host, 0.05, 0.3)));
    }
    if host >= 0.4 {
        return host_holds_back(window, main, gpu, sure);
    }
    if shares.other >= 0.3 {
        return Judgement::new(Phase::Training, Class::Unknown, None, 0.3)
            .doubt("the main thread waits for something that is neither a batch nor the device", 1.0);
    }
    Judgement::new(Phase::Training, Class::Balanced, None, 0.6)
}

/// The host is what the device waits for: launching, or other work of the loop.
fn host_holds_back(window: &Window, main: &MainWindow, gpu: &GpuWindow, sure: f64) -> Judgement {
    let host = main.shares.host_busy;
    let low_power = gpu.power.is_none_or(|power| power < limit::LOW_POWER.value);
    let launches = match &main.activities {
        Some(seen) => seen.of_model() >= seen.outside() * 0.6,
        None => gpu.job_busy >= 0.35 && low_power && main.running > 0.8,
    };
    let judgement = if launches {
        Judgement::training(Class::Cpu, "launch-bound", sure * 0.85)
    } else {
        Judgement::training(Class::Cpu, "main-thread", sure * (0.8 + 0.2 * ramp(host, 0.4, 0.8)))
    };
    if window.workers.is_none() && main.activities.is_none() {
        return judgement.doubt("without stacks, loading in the main thread looks the same", 0.8).other(
            Class::DataLoader,
            "in-process-loading",
            0.4,
            "there are no data workers: the main thread may be making the batches itself",
        );
    }
    judgement
}

/// The main thread itself does not get the CPU it wants.
fn starved_main(window: &Window, main: &MainWindow, sure: f64) -> Option<Judgement> {
    let delayed = main.run_delay.is_some_and(|delay| delay >= limit::MAIN_RUN_DELAY.value) && main.running > 0.3;
    let throttled = window.cpu.throttled.is_some_and(|share| share >= limit::THROTTLED.value);
    let pressed = window.io.psi_memory.is_some_and(|pct| pct >= limit::MEMORY_PRESSURE.value);
    if !(delayed || throttled || pressed) {
        return None;
    }
    starved(window, None, sure).or_else(|| {
        // Queueing without full cores: an affinity mask or other threads on the same core.
        delayed.then(|| {
            let others = window.cpu.others.unwrap_or(0.0);
            let cores = window.cpu.cores.unwrap_or(1.0).max(1.0);
            let cause =
                if others >= limit::NEIGHBOUR.value * cores { "noisy-neighbour" } else { "thread-oversubscription" };
            Judgement::training(Class::Cpu, cause, sure * 0.7)
        })
    })
}

/// No workers, and the trainer reads data all the time. Stacks know better where there are some.
fn reads_inline(window: &Window, main: &MainWindow) -> bool {
    window.workers.is_none() && main.reading >= 0.6 && main.activities.is_none()
}

/// No device is in use.
fn without_device(window: &Window, main: &MainWindow, known: Known) -> Judgement {
    let cpu = main.cpu_pct.unwrap_or(0.0) / 100.0;
    let sure = 0.75;
    // Full cores are what training on the CPU looks like: only what somebody else does to the job goes before it.
    if let Some(starved) = starved_main(window, main, sure)
        && starved.cause != Some("cores-saturated")
    {
        return starved;
    }
    let computing = main.shares.host_busy >= limit::BUSY.value;
    if computing && reads_inline(window, main) && cpu < 1.3 {
        return Judgement::training(Class::DataLoader, "in-process-loading", 0.6).other(
            Class::Cpu,
            "cpu-training",
            0.4,
            "no device is in use",
        );
    }
    if computing {
        let seen = main.activities.as_ref();
        let model = seen.map_or(0.0, |seen| seen.of_model());
        // One busy thread, and no sign of a loop: no steps, no workers, no device.
        if model < limit::LOST_WAIT.value
            && !known.has_stepped
            && window.workers.is_none()
            && cpu < limit::COMPUTE_THREADS.value
        {
            return Judgement::new(Phase::Unknown, Class::Unknown, None, 0.2).doubt(
                "one thread computes, without workers, steps or a device: the job sets itself up, or trains on one CPU",
                1.0,
            );
        }
        // A loop of a single thread whose stacks hardly ever stand in the model is Python's own work.
        if let Some(seen) = seen.filter(|seen| seen.of_model() < 0.3 * seen.outside())
            && cpu < limit::COMPUTE_THREADS.value
            && seen.outside() >= limit::BUSY.value
        {
            return Judgement::training(Class::Cpu, "main-thread", 0.6).other(
                Class::Cpu,
                "cpu-training",
                0.4,
                "no device is in use",
            );
        }
        let judgement = Judgement::training(Class::Cpu, "cpu-training", 0.6 + 0.3 * ramp(cpu, 0.7, 1.5));
        if window.gpu_seen {
            return judgement.doubt("there is a GPU that the job does not use", 0.95);
        }
        return judgement;
    }
    Judgement::new(Phase::Training, Class::Unknown, None, 0.2)
        .doubt("the main thread neither computes nor waits for batches, and no device of the job can be seen", 1.0)
}

/// Lowers the confidence for what could not be seen and for contradictions.
fn qualify(window: &Window, main: &MainWindow, judgement: &mut Judgement) {
    if !main.exact {
        judgement.confidence *= 0.85;
        judgement.doubts.push("/proc/PID/syscall may not be read: any poll counts as a wait for a batch".into());
    }
    if main.activities.as_ref().is_some_and(|seen| seen.share(Activity::Graph) >= limit::PHASE.value) {
        judgement.confidence *= 0.7;
        judgement.doubts.push(
            "the step runs in one compiled call of TensorFlow: stacks cannot tell its waits for data from its work"
                .into(),
        );
    }
    // n looks know a share to within 0.5 / sqrt(n): 25 looks 10 points, 250 looks 3.
    judgement.confidence *= f64::from(window.looks) / (f64::from(window.looks) + 15.0);
    if let Some(gpu) = &window.gpu {
        if gpu.lost {
            judgement.doubts.push("a GPU of the job does not answer any more".into());
            judgement.confidence *= 0.5;
        }
        if gpu.spread > 0.4 && gpu.count > 1 {
            judgement.others.push(Other {
                class: Class::Gpu,
                cause: "communication",
                confidence: 0.4,
                text: format!("use differs by {:.0} points between the job's devices", gpu.spread * 100.0),
            });
        }
        if judgement.class != Class::Gpu && gpu.throttled >= limit::GPU_THROTTLED.value && gpu.reasons & !0x4 != 0 {
            judgement.others.push(Other {
                class: Class::Gpu,
                cause: "throttled",
                confidence: 0.5,
                text: "the device is throttled while it works".into(),
            });
        }
    }
    if window.cpu.steal.is_some_and(|steal| steal > 0.10) {
        judgement.others.push(Other {
            class: Class::Cpu,
            cause: "noisy-neighbour",
            confidence: 0.5,
            text: "the hypervisor takes more than a tenth of the CPU time (steal)".into(),
        });
    }
    if let (Some(workers), true) = (&window.workers, judgement.class == Class::Gpu)
        && workers.count > 0
        && workers.idle > 0.9
        && workers.count as f64 > window.cpu.cores.unwrap_or(f64::MAX)
    {
        judgement.others.push(Other {
            class: Class::DataLoader,
            cause: "too-many-workers",
            confidence: 0.3,
            text: format!("{} workers have nothing to do {:.0} % of the time", workers.count, workers.idle * 100.0),
        });
    }
    judgement.confidence = judgement.confidence.clamp(0.0, 0.99);
}
