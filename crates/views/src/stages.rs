//! The pipeline: how a batch gets to the GPU, stage by stage, with the stage that limits it marked.
//!
//! The stages are the wait chain seen from its far end: what the loop waits for, and what that waits for, as far as the
//! longest wait leads; then the loop and the GPU. The shares are those of the verdict.
//!
//! Long because each stage's name, word, limit and share come from one verdict, and must agree.

mod by_kind;

use trainmon_base::stats::mean;
use trainmon_base::text::format::{counted, number, whole_percent};
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::causes::Cause;
use trainmon_diagnosis::diagnosis::chain::{ChainNode, Who, children};
use trainmon_diagnosis::diagnosis::loop_parts::{LoopPart, WaitFor};
use trainmon_diagnosis::diagnosis::verdict::{Class, Culprit, CulpritKind, WorkerVerdict};
use trainmon_diagnosis::diagnosis::{Signal, Verdict};
use trainmon_rates::frame::GpuRates;
use trainmon_waits::Frame;
use trainmon_waits::taxonomy::End;
use trainmon_waits::time_split::LoopActivity;

/// What sort of stage it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageKind {
    /// Storage, or a server.
    Source,
    /// Data-loader workers.
    Workers,
    /// Another process, a thread, a lock.
    Other,
    /// The batches that wait to be taken.
    Queue,
    /// The training loop.
    Loop,
    /// The GPU.
    Gpu,
}

impl StageKind {
    /// The class whose color it has.
    pub fn class(self) -> Class {
        match self {
            Self::Source => Class::Io,
            Self::Workers | Self::Queue | Self::Other => Class::DataLoader,
            Self::Loop => Class::Cpu,
            Self::Gpu => Class::Gpu,
        }
    }
}

/// One stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// What sort.
    pub kind: StageKind,
    /// Its name: `4 workers`.
    pub name: String,
    /// How busy it is, 0–1; `None` where that is not known or means nothing.
    pub busy: Option<f64>,
    /// A word or two: what it does most, or which one it is.
    pub word: String,
    /// Of the training loop: where its time goes, the largest part first.
    pub parts: Vec<(LoopPart, f64)>,
    /// It holds the run back.
    pub limit: bool,
}

impl Stage {
    fn new(kind: StageKind, name: impl Into<String>, busy: Option<f64>, word: impl Into<String>) -> Self {
        let busy = busy.filter(|share| share.is_finite()).map(|share| share.clamp(0.0, 1.0));
        Self {
            kind,
            name: sanitize(&name.into()).into_owned(),
            busy,
            word: sanitize(&word.into()).into_owned(),
            parts: Vec::new(),
            limit: false,
        }
    }
}

impl Stage {
    /// Whether there is nothing to look at: a queue as full as it should be, or a stage that hardly does anything.
    pub fn is_quiet(&self) -> bool {
        !self.limit && (self.word == FULL_QUEUE || self.busy.is_some_and(|busy| busy < QUIET))
    }
}

/// The word of a queue that has batches all the time.
const FULL_QUEUE: &str = "full";
/// A stage that is less busy than this hardly does anything.
const QUIET: f64 = 0.1;
/// Shares of a wait below this are not a stage.
const SHOWN: f64 = 0.05;
/// The loop waits for data longer than this where nothing is in the queue.
const EMPTY: f64 = 0.10;
/// Workers that are idle for longer than this have filled the queue.
const FULL: f64 = 0.30;
/// Most stages before the loop.
const UPSTREAM: usize = 3;

/// The stages in the order in which a batch passes them. Empty where nothing is known of a loop.
pub fn stages(verdict: &Verdict, frame: Option<&Frame>) -> Vec<Stage> {
    let is_unknown = verdict.class == Class::Unknown && !verdict.is_pending();
    let (Some(shares), false) = (verdict.shares, is_unknown) else { return Vec::new() };
    let mut stages = upstream(verdict, frame);
    let gpu = gpu(verdict, frame);
    if stages.is_empty()
        && gpu.is_none()
        && let Some(mut stages) = by_kind::stages(verdict)
    {
        mark(&mut stages, verdict);
        return stages;
    }
    let waits = shares[LoopActivity::InputWait];
    // Without workers, or anything else before it, the loop makes its batches itself.
    let loads = if stages.is_empty() && verdict.class == Class::DataLoader { waits } else { 0.0 };
    let own = shares[LoopActivity::HostBusy] + shares[LoopActivity::Checkpoint] + loads;
    let parts = verdict.loop_parts();
    let word = told(&parts, verdict).map(|(part, share)| {
        let does = match part {
            LoopPart::Activity(LoopActivity::InputWait) if loads > 0.0 => "makes batches".into(),
            _ if is_ahead(part, verdict) => "works while the GPU computes".into(),
            _ => part.verb(),
        };
        format!("{does} {}%", whole_percent(share))
    });
    let rank = verdict.ranks.iter().zip(0..).find(|(rank, _)| rank.straggler);
    let name = match (rank, &gpu) {
        (Some((rank, place)), _) => format!("loop of rank {}", rank.number(place)),
        (None, Some(_)) => "training loop".to_owned(),
        (None, None) => "loop (CPU)".to_owned(),
    };
    let of_loop = Stage::new(StageKind::Loop, name, Some(own), word.unwrap_or_default());
    stages.push(Stage { parts, ..of_loop });
    stages.extend(gpu);
    mark(&mut stages, verdict);
    stages
}

/// The one part of the loop's time to name: what the verdict blames comes before what takes longest, a batch that is late before the
/// GPU's own work.
pub fn told(parts: &[(LoopPart, f64)], verdict: &Verdict) -> Option<(LoopPart, f64)> {
    parts.iter().find(|(part, _)| is_blamed(*part, verdict)).or(parts.first()).copied()
}

/// Whether what the verdict blames makes batches late.
fn waits_for_batches(verdict: &Verdict) -> bool {
    let share = |activity| verdict.shares.map_or(0.0, |shares| shares[activity]);
    let waits = share(LoopActivity::InputWait);
    match verdict.class {
        Class::DataLoader | Class::Io => waits > EMPTY,
        Class::Cpu => waits > EMPTY && waits > share(LoopActivity::HostBusy),
        _ => false,
    }
}

/// What the loop waits for, the farthest first.
fn upstream(verdict: &Verdict, frame: Option<&Frame>) -> Vec<Stage> {
    let waits = longest(verdict);
    if verdict.workers.is_empty() {
        let mut stages: Vec<Stage> = waits.iter().filter_map(|node| stage(node, verdict)).take(UPSTREAM).collect();
        stages.reverse();
        return stages;
    }
    let source = waits.iter().rev().find(|node| {
        let resource = node.resource();
        matches!(resource, Some(End::Net | End::Disk | End::Flush | End::Lock)) || matches!(node.who, Who::Process(_))
    });
    let source = source.and_then(|node| stage(node, verdict)).or_else(|| storage(frame));
    // A disk that does nothing is not what an I/O verdict is about.
    let is_idle = |source: &Stage| verdict.class == Class::Io && source.busy.is_some_and(|busy| busy < SHOWN);
    let untraced = || Stage::new(StageKind::Source, "data source", None, "could not be traced");
    let source = source.map(|source| if is_idle(&source) { untraced() } else { source });
    let count = verdict.workers.len();
    let name = counted(count, "worker", "workers");
    let mean = |of: fn(&WorkerVerdict) -> Option<f64>| {
        let known: Vec<f64> = verdict.workers.iter().filter_map(of).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    };
    let workers = Stage::new(StageKind::Workers, name, mean(|w| w.busy), workers_word(&mean, verdict));
    let waits_for_data = verdict.shares.map_or(0.0, |shares| shares[LoopActivity::InputWait]);
    let queue = match mean(|w| w.idle) {
        _ if waits_for_data > EMPTY => "empty",
        Some(idle) if idle > FULL => FULL_QUEUE,
        _ => "part full",
    };
    let queue = Stage::new(StageKind::Queue, "queue", None, queue);
    source.into_iter().chain([workers, queue]).collect()
}

/// What the workers do most: a stage of their work where stacks tell, else waiting or idling.
fn workers_word(mean: &impl Fn(fn(&WorkerVerdict) -> Option<f64>) -> Option<f64>, verdict: &Verdict) -> String {
    let shares = [
        ("on CPU", mean(|w| w.busy)),
        ("waiting for their source", mean(|w| w.io_wait)),
        ("queueing for a CPU", mean(|w| w.runnable)),
        ("idle", mean(|w| w.idle)),
    ];
    let most = shares.into_iter().filter_map(|(word, share)| Some((word, share?))).max_by(|a, b| a.1.total_cmp(&b.1));
    let Some((word, share)) = most else { return String::new() };
    let stages = [
        ("load", mean(|w| w.stages.map(|stages| stages.load))),
        ("decode", mean(|w| w.stages.map(|stages| stages.decode))),
        ("transform", mean(|w| w.stages.map(|stages| stages.transform))),
        ("collate", mean(|w| w.stages.map(|stages| stages.collate))),
    ];
    let stage =
        stages.into_iter().filter_map(|(word, share)| Some((word, share?))).max_by(|a, b| a.1.total_cmp(&b.1));
    match stage.filter(|(_, share)| word == "on CPU" && *share > SHOWN) {
        Some((stage, share)) => format!("{stage} {}%", whole_percent(share)),
        None if verdict.workers.is_empty() => String::new(),
        None => format!("{word} {}%", whole_percent(share)),
    }
}

/// The nodes of the longest wait for anything but the GPU, that next to the loop first.
fn longest(verdict: &Verdict) -> Vec<&ChainNode> {
    let nodes = verdict.chain.as_slice();
    let mut path: Vec<&ChainNode> = Vec::new();
    let Some(root) = nodes.first().filter(|root| root.is_loop()) else { return path };
    let mut here = root;
    for _ in nodes {
        let is_shown = |node: &&ChainNode| node.share >= SHOWN && sort_of(node).is_some() && !node.is_loop();
        let next = children(nodes, here).into_iter().filter(is_shown).max_by(|a, b| a.share.total_cmp(&b.share));
        let Some(next) = next.filter(|next| !path.iter().any(|seen| seen.node == next.node)) else { break };
        path.push(next);
        here = next;
    }
    path
}

/// The kind of the loop's time that the verdict blames, and whether it is a wait that has a name.
fn blamed(verdict: &Verdict) -> Option<(LoopActivity, bool)> {
    if verdict.is_healthy() {
        return None;
    }
    let by_ranks = || verdict.waits.iter().any(|wait| wait.on == WaitFor::Ranks);
    let is_wait = verdict.cause.is_some_and(|cause| cause.is_wait(verdict.class))
        || verdict.cause == Some(Cause::Communication) && by_ranks();
    Some(match verdict.class {
        _ if is_wait => (LoopActivity::Other, true),
        Class::Io if verdict.cause == Some(Cause::CheckpointWrite) => (LoopActivity::Checkpoint, false),
        Class::DataLoader | Class::Io => (LoopActivity::InputWait, false),
        Class::Cpu if waits_for_batches(verdict) => (LoopActivity::InputWait, false),
        Class::Cpu if verdict.cause == Some(Cause::HostDeviceSync) => (LoopActivity::DeviceSync, false),
        Class::Cpu => (LoopActivity::HostBusy, false),
        Class::Gpu => (LoopActivity::DeviceSync, false),
        Class::Balanced | Class::Idle | Class::Unknown => return None,
    })
}

/// Whether the verdict blames this part of the loop's time.
pub fn is_blamed(part: LoopPart, verdict: &Verdict) -> bool {
    blamed(verdict) == Some((part.activity(), matches!(part, LoopPart::Wait(..))))
}

/// Whether the GPU computes while the loop does this: its own work, which then costs nothing.
pub fn is_ahead(part: LoopPart, verdict: &Verdict) -> bool {
    let is_busy = gpu_use(verdict).is_some_and(|gpu| gpu.busy >= FILLED);
    part == LoopPart::Activity(LoopActivity::HostBusy) && verdict.class == Class::Gpu && is_busy
}

/// A GPU that is busy for longer than this has no gaps for what the loop does.
const FILLED: f64 = 0.9;

/// What sort of thing a node is, in a word; `None` for the GPU, and for what was not traced.
fn sort_of(node: &ChainNode) -> Option<&'static str> {
    Some(match (&node.who, node.end) {
        (Who::Worker | Who::Process(_), _) => "process",
        (Who::Loop(_) | Who::Thread(_), _) => "thread",
        (Who::Resource(_), Some(End::Net)) => "network",
        (Who::Resource(_), Some(End::Disk | End::Flush)) => "disk",
        (Who::Resource(_), Some(End::Lock)) => "lock",
        (Who::Resource(_), Some(End::Timer)) => "sleep",
        (Who::Resource(_), Some(End::Terminal)) => "terminal",
        (Who::Resource(_) | Who::Others, _) => return None,
    })
}

/// A node of the chain as a stage: the share is that of the loop's time that leads there.
fn stage(node: &ChainNode, verdict: &Verdict) -> Option<Stage> {
    let (sort, name) = (sort_of(node)?, node.name());
    let file = name.rsplit('/').next().unwrap_or(name);
    // Several workers may wait for the same thing.
    let is_same = |other: &&ChainNode| (sort_of(other), other.name(), other.pid) == (Some(sort), name, node.pid);
    // Where the summary has a number for it, the same one.
    let is_blamed = |culprit: &&Culprit| culprit.kind == CulpritKind::Address && name == culprit.name;
    let told = verdict.culprits.iter().find(is_blamed).and_then(|culprit| culprit.share);
    let share = told.unwrap_or_else(|| verdict.chain.iter().filter(is_same).map(|node| node.share).sum());
    let share = format!("{}% of the loop's time", whole_percent(share));
    let of_process = |word: &str| node.pid.map_or_else(|| word.to_owned(), |pid| format!("{word} {pid}"));
    let does = match node.end {
        Some(End::Cpu) => "on CPU",
        Some(End::Disk) => "reads from disk",
        Some(End::Flush) => "writes to disk",
        Some(End::Memory) => "waits for memory",
        Some(End::Timer) => "sleeps",
        Some(End::Stopped) => "stopped",
        _ => "waits",
    };
    Some(match (&node.who, node.end) {
        (Who::Worker, _) => {
            let busy =
                verdict.workers.iter().find(|worker| Some(worker.pid) == node.pid).and_then(|worker| worker.busy);
            Stage::new(StageKind::Workers, of_process("worker"), busy, does)
        }
        (Who::Process(_), _) => Stage::new(StageKind::Other, of_process(name), None, format!("{does} {share}")),
        (Who::Loop(_) | Who::Thread(_), _) => {
            let name = node.tid.map_or_else(|| name.to_owned(), |tid| format!("thread {tid}"));
            Stage::new(StageKind::Other, name, None, format!("{does} {share}"))
        }
        (_, Some(End::Net)) => Stage::new(StageKind::Source, name, None, share),
        (_, Some(End::Disk | End::Flush)) => {
            Stage::new(StageKind::Source, if name.is_empty() { sort } else { name }, None, share)
        }
        (_, Some(End::Lock)) => Stage::new(StageKind::Other, format!("{sort} {file}"), None, share),
        _ => Stage::new(StageKind::Other, sort, None, share),
    })
}

/// The disk that the job's data is on.
fn storage(frame: Option<&Frame>) -> Option<Stage> {
    let storage = &frame?.storage;
    let disk = storage.mounts.iter().flat_map(|mount| &mount.disks).next().map(ToString::to_string);
    let busy = storage.utilization_pct.map(|pct| pct / 100.0);
    busy.map(|busy| Stage::new(StageKind::Source, "storage", Some(busy), disk.unwrap_or_else(|| "disks".to_owned())))
}

/// How busy the judged loop's GPU is over the verdict's window, 0–1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GpuUse {
    /// By any process.
    pub busy: f64,
    /// By this job, if another process computes on it as well.
    pub by_job: Option<f64>,
}

/// The one number of a GPU's use, for every place that shows it; `None` without a GPU.
pub fn gpu_use(verdict: &Verdict) -> Option<GpuUse> {
    let by_job = 1.0 - verdict.gpu_idle?.total;
    let told = |signal: Signal| verdict.evidence.iter().find(|line| line.signal == signal)?.value;
    let is_shared = verdict.cause == Some(Cause::SharedGpu);
    let all = told(Signal::GpuBusy).filter(|busy| is_shared && *busy > by_job);
    Some(GpuUse { busy: all.unwrap_or(by_job), by_job: all.map(|_| by_job) })
}

fn gpu(verdict: &Verdict, frame: Option<&Frame>) -> Option<Stage> {
    let late = verdict.ranks.iter().find(|rank| rank.straggler).map(|rank| rank.pid);
    let is_ours = |gpu: &&GpuRates| gpu.attached && late.is_none_or(|pid| gpu.job_pids.contains(&pid));
    let ours: Vec<_> = frame.into_iter().flat_map(|frame| &frame.gpus).filter(is_ours).collect();
    let now = mean(ours.iter().map(|gpu| gpu.utilization_pct)).map(|pct| pct / 100.0);
    let told = gpu_use(verdict);
    let busy = told.map(|told| told.busy).or(now);
    if ours.is_empty() && busy.is_none() {
        return None;
    }
    let name = match ours.as_slice() {
        [] => "GPU".to_owned(),
        [one] => format!("GPU {}", one.index),
        many => format!("{} GPUs", many.len()),
    };
    let sum = |of: fn(&GpuRates) -> Option<f64>| ours.iter().map(|gpu| of(gpu)).sum::<Option<f64>>();
    let watts = if !ours.is_empty() { sum(|gpu| gpu.power_w) } else { None };
    let limit = sum(|gpu| gpu.power_limit_w).map(|limit| format!(" of {}", number(Some(limit)))).unwrap_or_default();
    let word = match (told.and_then(|told| told.by_job), watts) {
        (Some(by_job), _) => format!("{}% by this job", whole_percent(by_job)),
        (None, Some(watts)) => format!("{} W{limit}", number(Some(watts))),
        (None, None) => String::new(),
    };
    Some(Stage::new(StageKind::Gpu, name, busy, word))
}

/// Marks the stage that the verdict blames.
fn mark(stages: &mut [Stage], verdict: &Verdict) {
    if verdict.is_healthy() && verdict.class == Class::Balanced {
        return;
    }
    // Of several stages of the loop, the longest.
    let share = |at: &usize| stages.get(*at).and_then(|stage| stage.busy).unwrap_or(0.0);
    let longest = || {
        let inside =
            (0..stages.len()).filter(|at| stages.get(*at).is_some_and(|stage| stage.kind == StageKind::Loop));
        inside.max_by(|a, b| share(a).total_cmp(&share(b)))
    };
    let place = |kinds: &[StageKind]| match kinds {
        [StageKind::Loop] => longest(),
        _ => stages.iter().position(|stage| kinds.contains(&stage.kind)),
    };
    let before_loop = place(&[StageKind::Source, StageKind::Other, StageKind::Workers]);
    let limit = match verdict.class {
        Class::Gpu => place(&[StageKind::Gpu]).or(place(&[StageKind::Loop])),
        Class::Io if verdict.cause == Some(Cause::CheckpointWrite) => place(&[StageKind::Loop]),
        Class::Io if verdict.cause.is_some_and(|cause| cause.is_wait(verdict.class)) => {
            before_loop.or(place(&[StageKind::Loop]))
        }
        Class::Io => place(&[StageKind::Source]).or(place(&[StageKind::Loop])),
        Class::DataLoader => place(&[StageKind::Workers]).or(before_loop).or(place(&[StageKind::Loop])),
        Class::Cpu if verdict.cause.is_some_and(|cause| cause.is_wait(verdict.class)) => {
            before_loop.or(place(&[StageKind::Loop]))
        }
        Class::Cpu if waits_for_batches(verdict) => place(&[StageKind::Workers]).or(place(&[StageKind::Loop])),
        Class::Cpu => place(&[StageKind::Loop]),
        Class::Balanced | Class::Idle | Class::Unknown => None,
    };
    if let Some(stage) = limit.and_then(|at| stages.get_mut(at)) {
        stage.limit = true;
    }
}
