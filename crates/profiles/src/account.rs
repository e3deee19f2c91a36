//! The account of a profile: where each share of its window went. It is what `profile` in the JSON of `diagnose` holds.
//!
//! Long because it is one list of plain types, which belong together.
//!
//! Shares are of the window, 0–1. What the profile does not show is `None` or an empty list.

use serde::{Deserialize, Deserializer, Serialize};

use super::calls::CountedCalls;
use super::drawn::{DrawnStep, SliceKind};
use super::ranks_account::RanksAccount;
use trainmon_base::text::named_enum;

named_enum! {
    /// Where a profile comes from.
    #[derive(Default)]
    pub enum ProfileSource {
        /// A file.
        #[default]
        Trace = "trace",
        /// Kineto, asked while the job ran.
        Kineto = "kineto",
        /// torch.profiler, started inside the job.
        Injected = "injected",
        /// Probes on calls: no kernels.
        Probe = "probe",
    }
}

named_enum! {
    /// What counts as a step.
    pub enum StepMark {
        /// `ProfilerStep#N`: the profiler was told.
        ProfilerStep = "profiler-step",
        /// A batch taken from the loader.
        Batch = "batch",
        /// A step of the optimizer.
        Optimizer = "optimizer",
        /// The annotation that takes most of the time and repeats.
        Annotation = "annotation",
    }
}

/// What ran in a window of a job, exactly.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileAccount {
    /// Where it comes from.
    pub source: ProfileSource,
    /// Name of the file, if it is one.
    pub file: Option<String>,
    /// The process that was asked for it; the first of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Number of the rank in its run, as the file says it.
    pub rank: Option<u32>,
    /// Ranks of the run.
    pub world_size: Option<u32>,
    /// Length of the window, milliseconds.
    pub window_ms: f64,
    /// Steps in it.
    pub steps: u64,
    /// What counts as one.
    pub steps_by: Option<StepMark>,
    /// Mean length of a step, milliseconds.
    pub step_ms: Option<f64>,
    /// Longest step, milliseconds.
    pub longest_step_ms: Option<f64>,
    /// Length of each step, milliseconds; of more than 1000 steps, the mean of each so many that follow each other.
    pub step_lengths_ms: Vec<f64>,
    /// The GPUs that worked, the one with most kernels first.
    pub devices: Vec<GpuAccount>,
    /// The thread that runs the loop; `None` if the profile shows no thread.
    #[serde(rename = "loop")]
    pub of_loop: Option<LoopAccount>,
    /// How kernels get to the GPU.
    pub launches: Option<LaunchAccount>,
    /// Calls that were counted from outside, instead of a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<CountedCalls>,
    /// Kernels by name, those with most time first.
    pub kernels: Vec<KernelRow>,
    /// Calls that wait for the GPU, those with most idleness behind them first.
    pub syncs: Vec<SyncRow>,
    /// Copies by direction and memory.
    pub copies: Vec<CopyRow>,
    /// Operators, those with most time on the GPU first, or on the host without a GPU.
    pub operators: Vec<OperatorRow>,
    /// Modules of the model, those with most time on the GPU first.
    pub modules: Vec<ModuleRow>,
    /// Where the host was while the GPU was idle, or at all without a GPU: the calls, operators and functions, those with most
    /// time first.
    pub idle_at: Vec<IdleRow>,
    /// Collectives by kind, those with most time first.
    pub collectives: Vec<CollectiveRow>,
    /// The ranks of the run side by side, where there are traces of several.
    pub across_ranks: Option<RanksAccount>,
    /// Requests, where there are no steps but annotations of requests.
    pub requests: Option<RequestAccount>,
    /// How well the busy time is used, where shapes were recorded.
    pub efficiency: Option<EfficiencyAccount>,
    /// Share of the window in which code was compiled.
    pub compiling: f64,
    /// Share of the window that the profiler itself took, by its own record.
    pub overhead: f64,
    /// The file is not whole: what ran last may be missing, and would count as idle.
    pub cut_off: bool,
    /// CUDA graphs that were recorded in the window: meanwhile nothing runs.
    pub captures: u64,
    /// A GPU was used, and nothing that ran on it was recorded.
    pub gpu_unrecorded: bool,
    /// Whether Python functions were recorded (`with_stack=True`).
    pub with_stack: bool,
    /// Whether shapes were recorded (`record_shapes=True`).
    pub with_shapes: bool,
    /// What makes the account partial, a sentence each.
    pub notes: Vec<String>,
    /// One step to draw.
    #[serde(skip)]
    pub drawn: Option<DrawnStep>,
}

impl ProfileAccount {
    /// Whether it is of a file, of which nothing else is known; all others are of a run that is watched as well.
    pub fn is_of_file(&self) -> bool {
        self.source == ProfileSource::Trace
    }

    /// What it is called: a file is a trace.
    pub fn noun(&self) -> &'static str {
        if self.is_of_file() { "trace" } else { "profile" }
    }

    /// The account of a file as that of a profile which a process was asked for. The file is gone a moment later, so nothing is
    /// said of it.
    pub fn asked_of(mut self, pid: u32, source: ProfileSource) -> Self {
        let of_profile = |note: &mut String| {
            // What is quoted is foreign.
            if !note.contains('`') {
                *note = note.replace("The file", "The profile").replace("trace", "profile");
            }
        };
        self.notes.iter_mut().for_each(of_profile);
        self.across_ranks.iter_mut().flat_map(|across| &mut across.notes).for_each(of_profile);
        Self { source, pid: Some(pid), file: None, ..self }
    }

    /// Keeps so many rows of each list, and says how many are left out. The rows are sorted: those that matter most are kept.
    pub fn keep_rows(&mut self, most: usize) -> usize {
        let lists = [
            cut(&mut self.devices, most),
            cut(&mut self.kernels, most),
            cut(&mut self.syncs, most),
            cut(&mut self.copies, most),
            cut(&mut self.operators, most),
            cut(&mut self.modules, most),
            cut(&mut self.idle_at, most),
            cut(&mut self.collectives, most),
            cut(&mut self.step_lengths_ms, most),
        ];
        let of_efficiency = self.efficiency.as_mut().map_or(0, |efficiency| cut(&mut efficiency.operators, most));
        lists.into_iter().sum::<usize>() + of_efficiency
    }
}

fn cut<R>(rows: &mut Vec<R>, most: usize) -> usize {
    let left_out = rows.len().saturating_sub(most);
    rows.truncate(most);
    left_out
}

/// One GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuAccount {
    /// Its number in the profile.
    pub index: i64,
    /// Its name.
    pub name: Option<String>,
    /// Its multiprocessors.
    pub multiprocessors: Option<u32>,
    /// Anything ran.
    pub busy: f64,
    /// A kernel ran that is no collective.
    pub compute: f64,
    /// A collective ran.
    pub communication: f64,
    /// A collective ran, and no other kernel.
    pub exposed: f64,
    /// A copy ran, or memory was set.
    pub copy: f64,
    /// A copy ran, and no kernel.
    pub copy_alone: f64,
    /// Nothing ran, by what the job's threads did.
    pub idle_by: IdleBy,
    /// Of [`IdleBy::operator`]: in a step or annotation, and the profile shows no more.
    pub idle_in_annotations: f64,
    /// The loop's thread saved a state, and nothing ran.
    pub idle_while_saving: f64,
    /// Of [`IdleBy::launch`]: a thread was in a call that copies or sets memory. Copies to and from pageable memory block it.
    pub idle_in_copies: f64,
    /// Nothing ran, although work had been launched well before: the GPU waited for something else than its host.
    pub pending: f64,
    /// Kernels that ran.
    pub kernels: u64,
    /// Their median length, microseconds.
    pub median_kernel_us: Option<f64>,
    /// Streams on which something ran.
    pub streams: u64,
    /// Share of the kernels' time in which a kernel had fewer blocks than the GPU has multiprocessors.
    pub few_blocks: Option<f64>,
}

impl GpuAccount {
    /// Share of the window in which nothing ran.
    pub fn idle(&self) -> f64 {
        (1.0 - self.busy).max(0.0)
    }
}

/// Idle shares of a GPU by what the threads of the job did: the first that holds, in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleBy {
    /// The loop waited for a batch.
    pub input_wait: f64,
    /// A thread was in a call that waits for the GPU.
    pub sync: f64,
    /// A thread was in another call of the GPU's runtime: it launched, copied, or allocated memory.
    pub launch: f64,
    /// A thread was in an operator or annotation.
    pub operator: f64,
    /// Python, or nothing that the profile shows.
    pub python: f64,
}

impl IdleBy {
    /// The shares with their names, in order.
    pub fn iter(&self) -> impl Iterator<Item = (IdleReason, f64)> {
        let shares = [self.input_wait, self.sync, self.launch, self.operator, self.python];
        IdleReason::ALL.into_iter().zip(shares)
    }
}

named_enum! {
    /// What the threads of the job did while a GPU was idle.
    pub enum IdleReason {
        /// The loop waited for a batch.
        InputWait = "input_wait",
        /// A call waited for the GPU.
        Sync = "sync",
        /// Another call of the GPU's runtime.
        Launch = "launch",
        /// An operator or annotation.
        Operator = "operator",
        /// Python, or nothing that the profile shows.
        Python = "python",
    }
}

impl IdleReason {
    /// What it is in a drawing, which has its color and its words.
    pub fn drawn(self) -> SliceKind {
        match self {
            Self::InputWait => SliceKind::Data,
            Self::Sync => SliceKind::Sync,
            Self::Launch => SliceKind::Launch,
            Self::Operator => SliceKind::Operator,
            Self::Python => SliceKind::Python,
        }
    }
}

/// The thread that runs the loop. The shares from `input_wait` to `nothing` add up to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LoopAccount {
    /// It waits for a batch.
    pub input_wait: f64,
    /// It is in a call that waits for the GPU, copies aside.
    pub sync: f64,
    /// It is in a collective of the host's side.
    pub collective: f64,
    /// It is in a function that does nothing but wait: a sleep, a lock.
    pub blocked: f64,
    /// It saves a state.
    pub saving: f64,
    /// It is in a call that copies or sets memory.
    pub in_copies: f64,
    /// It is in another call of the GPU's runtime.
    pub launch: f64,
    /// It is in an operator.
    pub operator: f64,
    /// It is in an annotation, and the profile shows no more.
    pub annotation: f64,
    /// It is in Python.
    pub python: f64,
    /// The profile shows nothing.
    pub nothing: f64,
    /// Of all this: in the optimizer's step.
    pub optimizer: f64,
    /// The backward pass runs, in any thread.
    pub backward: f64,
    /// The batches are made by the loop itself rather than by workers.
    pub makes_batches: bool,
}

impl LoopAccount {
    /// The share of a part of its time.
    pub fn part(&mut self, part: StepPart) -> Option<&mut f64> {
        Some(match part {
            StepPart::InputWait => &mut self.input_wait,
            StepPart::Sync => &mut self.sync,
            StepPart::Collective => &mut self.collective,
            StepPart::Blocked => &mut self.blocked,
            StepPart::Saving => &mut self.saving,
            StepPart::Copies => &mut self.in_copies,
            StepPart::Launch => &mut self.launch,
            StepPart::Operator => &mut self.operator,
            StepPart::Annotation => &mut self.annotation,
            StepPart::Python => &mut self.python,
            StepPart::Nothing => &mut self.nothing,
            StepPart::Compute | StepPart::Communication => return None,
        })
    }

    /// It is in a call that waits for the GPU, or copies: a copy that blocks waits for what the GPU does before it.
    pub fn waits_for_gpu(&self) -> f64 {
        self.sync + self.in_copies
    }
}

named_enum! {
    /// A part of a step. Those of a GPU add up to the step, and so do those of the loop.
    pub enum StepPart {
        /// The GPU runs a kernel that is no collective.
        Compute = "compute",
        /// The GPU runs collectives and no other kernel.
        Communication = "communication",
        /// The GPU copies, and runs no kernel; the loop is in a call that copies or sets memory.
        Copies = "copies",
        /// The loop waits for a batch. The parts from here on are idle time of the GPU, or all time of the loop.
        InputWait = "input_wait",
        /// A call waits for the GPU.
        Sync = "sync",
        /// Another call of the GPU's runtime.
        Launch = "launch",
        /// An operator; of a GPU's idle time also an annotation.
        Operator = "operator",
        /// Python; of a GPU's idle time also what is not recorded.
        Python = "python",
        /// The loop is in a collective of the host's side.
        Collective = "collective",
        /// The loop sleeps, or waits for a lock.
        Blocked = "blocked",
        /// The loop saves a state.
        Saving = "saving",
        /// The loop is in an annotation, and the trace shows no more.
        Annotation = "annotation",
        /// The trace shows nothing of the loop.
        Nothing = "nothing",
    }
}

/// How kernels get to the GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchAccount {
    /// Kernels per step; of all the window without steps.
    pub kernels_per_step: f64,
    /// Calls that launch, per step: fewer than the kernels with CUDA graphs.
    pub calls_per_step: f64,
    /// Median length of such a call, microseconds.
    pub call_us: Option<f64>,
    /// Median time from the call to the start of its kernel, microseconds: how far the host runs ahead.
    pub queue_us: Option<f64>,
    /// Launches of CUDA graphs.
    pub graph_launches: u64,
    /// Kernels that graphs launched.
    pub graph_kernels: u64,
}

/// A kernel by its name.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelRow {
    /// The name that a person reads.
    pub name: String,
    /// The name in the profile.
    pub raw: String,
    /// Number of runs.
    pub count: u64,
    /// Time of all of them, milliseconds.
    pub total_ms: f64,
    /// Median time of one, microseconds.
    pub median_us: f64,
    /// Blocks of its grid, if every run had the same number; else the median.
    pub blocks: Option<u64>,
    /// Estimated occupancy, percent, a mean weighted by time.
    pub occupancy_pct: Option<f64>,
}

/// Calls that wait for the GPU, of one kind at one place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SyncRow {
    /// The call of the runtime.
    pub call: String,
    /// The outermost operator that made it.
    pub operator: Option<String>,
    /// The function of the user's code that called the operator, and where it is: `train.py:41`.
    pub at: Option<String>,
    /// That function's name.
    pub function: Option<String>,
    /// Number of calls.
    pub count: u64,
    /// Calls per step.
    pub per_step: Option<f64>,
    /// How long they waited, milliseconds.
    pub wait_ms: f64,
    /// How long the GPU was idle because of them, milliseconds: idle time up to the next such call, and no more than the call
    /// waited. Removing the call can gain no more. NaN, null in JSON, where calls were counted from outside.
    #[serde(deserialize_with = "or_nan")]
    pub idle_ms: f64,
    /// Of it, how long the GPU was idle within the calls, milliseconds.
    #[serde(deserialize_with = "or_nan")]
    pub idle_inside_ms: f64,
    /// It is a copy that blocks its thread: its direction, and bytes of all of them.
    pub copies: Option<CopyDirection>,
    /// Bytes of these copies.
    pub bytes: Option<u64>,
}

/// A number that is not known is null in JSON.
fn or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

named_enum! {
    /// From where to where a copy goes.
    pub enum CopyDirection {
        /// From the host to the GPU.
        HostToDevice = "host-to-device",
        /// From the GPU to the host.
        DeviceToHost = "device-to-host",
        /// Within a GPU.
        DeviceToDevice = "device-to-device",
        /// From a GPU to another.
        PeerToPeer = "peer-to-peer",
        /// Unknown.
        Other = "other",
    }
}

/// Copies of one direction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CopyRow {
    /// From where to where.
    pub direction: Option<CopyDirection>,
    /// The host's memory is pageable rather than pinned; `None` where it is neither or unknown.
    pub pageable: Option<bool>,
    /// Number of copies.
    pub count: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time of all of them, milliseconds.
    pub ms: f64,
    /// Of it, time in which a kernel ran too, milliseconds.
    pub overlapped_ms: f64,
    /// Time in which a thread was blocked by them, milliseconds.
    pub blocked_ms: f64,
}

/// An operator: the outermost one on its thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorRow {
    /// Its name.
    pub name: String,
    /// Number of calls.
    pub count: u64,
    /// Time of what it launched on the GPU, milliseconds.
    pub device_ms: f64,
    /// Its time on the host, milliseconds.
    pub host_ms: f64,
    /// Time in which the GPU was idle while a thread was in it, waits for data and for the GPU aside, milliseconds.
    pub idle_ms: f64,
}

/// A module of the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModuleRow {
    /// Its class and number: `Linear_3`.
    pub name: String,
    /// Number of calls.
    pub count: u64,
    /// Time of what it launched on the GPU in the forward pass, milliseconds.
    pub device_ms: f64,
    /// Its time on the host, milliseconds.
    pub host_ms: f64,
}

/// What the host was doing while the first GPU was idle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleRow {
    /// Which part of [`IdleBy`] it is of.
    pub reason: Option<IdleReason>,
    /// The call, operator, annotation or function.
    pub name: String,
    /// It is an annotation, and the profile shows no more.
    pub annotated: bool,
    /// The operator around a call.
    pub operator: Option<String>,
    /// The function of the user's code around it: `train.py:41`.
    pub at: Option<String>,
    /// That function's name.
    pub function: Option<String>,
    /// Idle time, milliseconds.
    pub idle_ms: f64,
    /// In how many stretches.
    pub count: u64,
    /// The longest piece of them, milliseconds.
    pub longest_ms: f64,
    /// Of it, time in which the GPU was idle for a millisecond or more at a time: no gap between two launches lasts that long.
    pub long_ms: f64,
}

/// Collectives of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CollectiveRow {
    /// The name that a person reads.
    pub name: String,
    /// Number of them.
    pub count: u64,
    /// Time of all of them, milliseconds.
    pub total_ms: f64,
    /// Of it, time in which no other kernel ran, milliseconds.
    pub exposed_ms: f64,
    /// Bytes that a rank sends into all of them.
    pub bytes: Option<u64>,
    /// Ranks of the group.
    pub group_size: Option<u32>,
}

/// Requests of a server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestAccount {
    /// The annotation that marks one, digits left out.
    pub name: String,
    /// Number of them.
    pub count: u64,
    /// Median length, milliseconds.
    pub median_ms: f64,
}

/// How well the busy time is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EfficiencyAccount {
    /// Floating-point operations of the window, in trillions.
    pub tflop: f64,
    /// Per second of the window, trillions.
    pub tflop_per_s: f64,
    /// The GPU's peak in the number format that has most of the work, trillions per second.
    pub peak_tflop_per_s: Option<f64>,
    /// That number format.
    pub number: Option<String>,
    /// Share of the peak that the window reached (MFU).
    pub of_peak: Option<f64>,
    /// The GPU's peak of its memory, TB/s.
    pub peak_tb_per_s: Option<f64>,
    /// Share of the kernels' time whose operators' work is known.
    pub known: f64,
    /// Operators by name and shape, those with most time on the GPU first.
    pub operators: Vec<EfficiencyRow>,
}

named_enum! {
    /// Which of a GPU's limits an operator is closer to.
    pub enum Bound {
        /// Its arithmetic.
        Compute = "compute",
        /// Its memory.
        Memory = "memory",
        /// Neither: far from both.
        Neither = "neither",
    }
}

/// An operator with one shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EfficiencyRow {
    /// Its name.
    pub name: String,
    /// The shapes and type.
    pub shape: String,
    /// Number of calls.
    pub count: u64,
    /// Time on the GPU, milliseconds.
    pub device_ms: f64,
    /// Trillions of floating-point operations per second of it.
    pub tflop_per_s: f64,
    /// Bytes that it must read and write, TB per second of it.
    pub tb_per_s: f64,
    /// Which limit it is closer to.
    pub bound: Option<Bound>,
    /// Share of that limit's peak.
    pub of_peak: Option<f64>,
}
