//! What costs a profiled job time, in shares of the window: exclusive parts of the first GPU's idle time, and what runs on it
//! without computing.

use super::super::causes::Cause;
use super::super::class::Class;
use trainmon_profiles::account::{
    Bound, CopyDirection, CopyRow, EfficiencyAccount, GpuAccount, IdleReason, IdleRow, ProfileAccount, SyncRow,
};
use trainmon_profiles::{NOTHING_RECORDED, blocks};
use trainmon_waits::taxonomy::Purpose;

/// A first launch or allocation that loads code or creates a context takes at least as long, milliseconds: 126 to 30,000 in public
/// traces.
const START_UP_MS: f64 = 20.0;
/// No call that only launches takes as long, milliseconds.
const LONG_CALL_MS: f64 = 1.0;
/// Or this share of the window.
const START_UP: f64 = 0.30;
/// Share of the idle time from which it is mostly spent with work that was launched and has not begun.
const MOSTLY_PENDING: f64 = 0.5;
/// Confidence where the host is not what the GPU waits for, or hardly anything was recorded.
const LITTLE_SHOWN: f64 = 0.60;
/// Confidence in waits that are copies of next to nothing: the GPU may wait for more than its host.
const WAITS_IN_COPIES: f64 = 0.85;
/// A slower copy than this, bytes per second, mostly waits: a tenth of what pageable memory reaches on PCIe 3.0.
const SLOW_COPY: f64 = 300e6;
/// A wait of the loop that is told although the GPU's part of the trace is missing, share of the window.
const WAIT_TOLD: f64 = 0.2;
/// Fewer operators and kernels than this are a part of a trace.
const FEW_EVENTS: u64 = 50;
/// Share of the kernels' time in kernels with few blocks from which the GPU counts as under-filled.
const MOSTLY_FEW_BLOCKS: f64 = 0.5;
/// Share of the peak below which a busy GPU does something else than large matrix products: public traces of busy GPUs reach from 9%
/// (a language model of 0.5 billion parameters) to 35% (ResNet-50).
const LOW_USE: f64 = 0.10;
/// Share of the kernels' time whose operators' work is known, from which their rate says something of the whole.
const MOSTLY_KNOWN: f64 = 0.5;
/// From this share of the memory's peak on, an operator is near it: the median of those that memory binds is 29% to 90% in public
/// traces.
const NEAR_PEAK: f64 = 0.4;
/// Share of the kernels' time near the limit of the memory from which that limit holds the whole.
const MOSTLY_MEMORY: f64 = 0.5;
/// Confidence in what a busy GPU is busy with: it follows from exact lengths and grids, but the limits above are judgment.
const FEW_BLOCKS_SURE: f64 = 0.85;
const MEMORY_SURE: f64 = 0.80;
const COMPUTE_SURE: f64 = 0.93;
/// The same where it computes at a small part of its peak, which is not what such a GPU does.
const LOW_USE_SURE: f64 = 0.75;
/// A GPU that computes less than this while graphs are recorded does nothing else.
const LITTLE_COMPUTED: f64 = 0.2;
/// Confidence that a gap without any record is Python of the loop.
const GUESSED_PYTHON: f64 = 0.60;

/// What a loss is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LossKind {
    /// The loop waits for batches.
    Data,
    /// Collectives run, and nothing that computes.
    Communication,
    /// Copies run alone, or block the thread that would launch.
    Copies,
    /// The GPU ran empty while the host waited for it.
    Syncs,
    /// The host cannot launch fast enough.
    Launches,
    /// The host computes, or runs Python, for long at a time.
    HostWork,
    /// One call at the start takes most of it.
    StartUp,
    /// The loop sleeps, or waits for another thread, a process or a socket.
    Blocked,
    /// The loop saves a state.
    Saving,
    /// Operators run on the CPU. Without a GPU.
    CpuOperators,
    /// Nothing is recorded of the host.
    Unrecorded,
}

/// A loss.
#[derive(Debug, Clone)]
pub(super) struct Loss {
    pub kind: LossKind,
    /// Of the window.
    pub share: f64,
    /// The most that a verdict of it can be sure of.
    pub most_sure: f64,
}

impl Loss {
    fn new(kind: LossKind, share: f64) -> Self {
        Self { kind, share: share.clamp(0.0, 1.0), most_sure: 1.0 }
    }

    pub fn class(&self) -> Class {
        match self.kind {
            LossKind::Data => Class::DataLoader,
            LossKind::Communication | LossKind::Copies => Class::Gpu,
            LossKind::Saving => Class::Io,
            LossKind::StartUp => Class::Idle,
            LossKind::Unrecorded => Class::Unknown,
            _ => Class::Cpu,
        }
    }

    pub fn cause(&self, account: &ProfileAccount) -> Option<Cause> {
        match self.kind {
            LossKind::Data if account.of_loop.is_some_and(|of_loop| of_loop.makes_batches) => {
                Some(Cause::InProcessLoading)
            }
            LossKind::Communication => Some(Cause::Communication),
            LossKind::Copies => Some(Cause::CopyBound),
            LossKind::Syncs => Some(Cause::HostDeviceSync),
            LossKind::Launches => Some(Cause::LaunchBound),
            LossKind::HostWork => Some(Cause::MainThread),
            LossKind::Blocked => {
                Cause::of_wait(largest(account, LossKind::Blocked).map_or(Purpose::Sleep, waits_for))
            }
            LossKind::Saving => Some(Cause::CheckpointWrite),
            LossKind::CpuOperators => Some(Cause::CpuTraining),
            LossKind::Data | LossKind::StartUp | LossKind::Unrecorded => None,
        }
    }

    /// How many times faster the window can get without it, at most.
    pub fn gain(&self) -> f64 {
        gain_of(self.share)
    }
}

/// How many times faster a window can get without a share of it, at most.
pub(super) fn gain_of(share: f64) -> f64 {
    1.0 / (1.0 - share).max(0.01)
}

/// Whether work had been launched for most of a GPU's idle time: then its host is not what it waits for.
pub(super) fn mostly_pending(gpu: &GpuAccount) -> bool {
    gpu.pending >= MOSTLY_PENDING * gpu.idle()
}

/// What a loop in a built-in function that blocks waits for. A lock, a condition or a queue is for another thread.
pub(super) fn waits_for(row: &IdleRow) -> Purpose {
    let has = |words: &[&str]| words.iter().any(|word| row.name.contains(word));
    if has(&["sleep"]) {
        Purpose::Sleep
    } else if has(&["acquire"]) {
        Purpose::Thread
    } else if has(&["waitpid"]) {
        Purpose::Process
    } else {
        Purpose::Remote
    }
}

/// The loss in functions that block. Where they do not just sleep, the trace does not show what they wait for.
fn blocked_loss(account: &ProfileAccount, share: f64) -> Loss {
    let sleeps = largest(account, LossKind::Blocked).is_none_or(|row| waits_for(row) == Purpose::Sleep);
    let loss = Loss::new(LossKind::Blocked, share);
    if sleeps { loss } else { Loss { most_sure: LITTLE_SHOWN, ..loss } }
}

/// All losses, in no order.
pub(super) fn find(account: &ProfileAccount) -> Vec<Loss> {
    match account.devices.first() {
        Some(gpu) => on_gpu(account, gpu),
        None => on_host(account),
    }
}

fn on_gpu(account: &ProfileAccount, gpu: &GpuAccount) -> Vec<Loss> {
    let share = |ms: f64| if account.window_ms > 0.0 { ms / account.window_ms } else { 0.0 };
    let idle = |wanted: &dyn Fn(&IdleRow) -> bool| {
        account.idle_at.iter().filter(|row| wanted(row)).map(|row| share(row.idle_ms)).sum::<f64>()
    };
    let by = gpu.idle_by;
    let alone: f64 =
        account.copies.iter().filter(|row| is_over_link(row)).map(|row| share(row.ms - row.overlapped_ms)).sum();
    if account.of_loop.is_none() {
        let unrecorded = Loss::new(LossKind::Unrecorded, gpu.idle());
        return vec![unrecorded, Loss::new(LossKind::Communication, gpu.exposed), Loss::new(LossKind::Copies, alone)];
    }
    let long = |wanted: &dyn Fn(&IdleRow) -> bool| {
        account.idle_at.iter().filter(|row| wanted(row)).map(|row| share(row.long_ms)).sum::<f64>()
    };
    let starting = idle(&|row| {
        let starts_up = row.longest_ms >= START_UP_MS || share(row.longest_ms) >= START_UP;
        is_start(row) && (account.steps > 1 || starts_up)
    });
    let blocked = long(&is_blocked);
    let working = long(&is_host_work);
    let unrecorded = long(&|row| is_unrecorded(row) || row.annotated);
    // What comes after a wait is lost to it as well, as far as the wait allows.
    let after: f64 = account.syncs.iter().map(|row| share(row.idle_ms - row.idle_inside_ms)).sum();
    let launching =
        (by.launch + by.operator + by.python - gpu.idle_in_copies - starting - blocked - working - unrecorded)
            .max(0.0);
    let after = after.min(launching);
    // Where steps repeat, the start is over: a call that takes long then allocates memory or loads code in every step.
    let (start_up, calling) = if account.steps > 1 { (0.0, starting) } else { (starting, 0.0) };
    // Nothing runs while graphs are recorded.
    let start_up = if account.captures > 0 && gpu.compute < LITTLE_COMPUTED { gpu.idle() } else { start_up };
    let mut host_work =
        Loss::new(LossKind::HostWork, (working + unrecorded + calling - gpu.idle_while_saving).max(0.0));
    if unrecorded > working {
        host_work.most_sure = GUESSED_PYTHON;
    }
    let mut launches = Loss::new(LossKind::Launches, launching - after);
    // The host had done its part, or most of what it did is missing.
    if mostly_pending(gpu) || events(account) < FEW_EVENTS {
        launches.most_sure = LITTLE_SHOWN;
        host_work.most_sure = LITTLE_SHOWN;
    }
    let [copies, syncs] = copies_and_syncs(account, alone, by.sync + after);
    vec![
        Loss::new(LossKind::Data, by.input_wait),
        Loss::new(LossKind::Communication, gpu.exposed),
        copies,
        syncs,
        launches,
        Loss::new(LossKind::StartUp, start_up),
        blocked_loss(account, blocked),
        Loss::new(LossKind::Saving, gpu.idle_while_saving),
        host_work,
    ]
}

/// Idle time in copies belongs to them, or to the waits: a call that takes long to copy some bytes waits for the GPU.
fn copies_and_syncs(account: &ProfileAccount, copied: f64, synced: f64) -> [Loss; 2] {
    let in_copies = account.devices.first().map_or(0.0, |gpu| gpu.idle_in_copies);
    if blocking_copies(account).is_some_and(only_waits) {
        let syncs = Loss { most_sure: WAITS_IN_COPIES, ..Loss::new(LossKind::Syncs, synced + in_copies) };
        [Loss::new(LossKind::Copies, copied), syncs]
    } else {
        [Loss::new(LossKind::Copies, copied + in_copies), Loss::new(LossKind::Syncs, synced)]
    }
}

/// Where the loop's own time goes, where it is the GPU's too.
fn on_host(account: &ProfileAccount) -> Vec<Loss> {
    let Some(of_loop) = account.of_loop else { return Vec::new() };
    let mut communication = Loss::new(LossKind::Communication, of_loop.collective);
    // Collectives of other threads, while the loop shows nothing: it may wait for them.
    if events(account) < FEW_EVENTS {
        communication.most_sure = LITTLE_SHOWN;
    }
    let unshown = of_loop.nothing + of_loop.annotation;
    let mut nothing = Loss::new(LossKind::HostWork, of_loop.python + unshown);
    if unshown > of_loop.python {
        nothing.most_sure = GUESSED_PYTHON;
    }
    let mut losses = vec![
        Loss::new(LossKind::Data, of_loop.input_wait),
        communication,
        blocked_loss(account, of_loop.blocked),
        Loss::new(LossKind::Saving, of_loop.saving),
    ];
    // A GPU's events are at the end of a file. A wait of the loop is one whatever the GPU does.
    let waits = losses.iter().any(|loss| loss.share >= WAIT_TOLD);
    if (account.gpu_unrecorded || account.cut_off) && !waits {
        let rest = 1.0 - of_loop.input_wait - of_loop.collective - of_loop.blocked - of_loop.saving;
        losses.push(Loss::new(LossKind::Unrecorded, rest));
    } else if !account.gpu_unrecorded && !account.cut_off {
        losses.extend([Loss::new(LossKind::CpuOperators, of_loop.operator), nothing]);
    }
    losses
}

/// Operators and kernels in the window.
fn events(account: &ProfileAccount) -> u64 {
    account.operators.iter().map(|row| row.count).sum::<u64>() + account.devices.first().map_or(0, |gpu| gpu.kernels)
}

fn is_copy(row: &IdleRow) -> bool {
    row.name.contains("emcpy") || row.name.contains("emset")
}

/// A call of the runtime that is no copy. One that takes long creates a context, loads code or allocates: a launch that does is
/// the first one of its kernel.
fn is_start(row: &IdleRow) -> bool {
    row.reason == Some(IdleReason::Launch) && !is_copy(row) && row.longest_ms >= LONG_CALL_MS
}

/// A copy that goes over PCIe or NVLink, rather than within a GPU.
fn is_over_link(row: &CopyRow) -> bool {
    row.direction != Some(CopyDirection::DeviceToDevice)
}

pub(super) fn is_unrecorded(row: &IdleRow) -> bool {
    row.name == NOTHING_RECORDED
}

/// A function that does nothing but wait.
fn is_blocked(row: &IdleRow) -> bool {
    row.reason == Some(IdleReason::Python) && blocks(&row.name)
}

/// Whether it is work of the host, as far as the GPU was idle for long meanwhile: then it launched nothing.
fn is_host_work(row: &IdleRow) -> bool {
    let works = matches!(row.reason, Some(IdleReason::Python | IdleReason::Operator));
    works && !is_unrecorded(row) && !is_blocked(row) && !row.annotated
}

/// The row of a kind with most idle time.
pub(super) fn largest(account: &ProfileAccount, kind: LossKind) -> Option<&IdleRow> {
    account.idle_at.iter().find(|row| match kind {
        LossKind::Copies => is_copy(row),
        LossKind::StartUp => is_start(row),
        LossKind::Launches => !is_copy(row) && matches!(row.reason, Some(IdleReason::Operator | IdleReason::Launch)),
        LossKind::Data => row.reason == Some(IdleReason::InputWait),
        LossKind::Blocked => is_blocked(row),
        _ => false,
    })
}

/// What the host works on for long while it launches nothing: the row with most of it. It may be that nothing is recorded.
pub(super) fn longest_work(account: &ProfileAccount) -> Option<&IdleRow> {
    let calls = account.steps > 1;
    let rows = account
        .idle_at
        .iter()
        .filter(|row| is_host_work(row) || row.annotated || is_unrecorded(row) || (calls && is_start(row)));
    rows.max_by(|a, b| a.long_ms.total_cmp(&b.long_ms)).filter(|row| row.long_ms > 0.0)
}

/// The blocking copies with most idle time.
pub(super) fn blocking_copies(account: &ProfileAccount) -> Option<&SyncRow> {
    let copies = account.syncs.iter().filter(|row| row.copies.is_some());
    copies.max_by(|a, b| a.idle_inside_ms.total_cmp(&b.idle_inside_ms))
}

/// Whether the calls of a row move so little that they mostly wait for the GPU.
pub(super) fn only_waits(row: &SyncRow) -> bool {
    row.bytes.unwrap_or_default() as f64 / (row.wait_ms / 1000.0).max(f64::MIN_POSITIVE) < SLOW_COPY
}

/// The copies that take most of the GPU's time, and their direction.
pub(super) fn largest_copies(account: &ProfileAccount) -> Option<(CopyDirection, Option<bool>)> {
    let row = account
        .copies
        .iter()
        .filter(|row| is_over_link(row))
        .max_by(|a, b| (a.ms - a.overlapped_ms).total_cmp(&(b.ms - b.overlapped_ms)))?;
    Some((row.direction?, row.pageable))
}

/// What a busy GPU is busy with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Busy {
    pub cause: Cause,
    pub confidence: f64,
}

pub(super) fn busy_with(account: &ProfileAccount, gpu: &GpuAccount) -> Busy {
    let few = gpu.few_blocks.is_some_and(|share| share >= MOSTLY_FEW_BLOCKS);
    let efficiency = account.efficiency.as_ref();
    let is_low =
        |found: &EfficiencyAccount| found.known >= MOSTLY_KNOWN && found.of_peak.is_some_and(|share| share < LOW_USE);
    if few {
        Busy { cause: Cause::UnderFilled, confidence: FEW_BLOCKS_SURE }
    } else if efficiency.is_some_and(|found| bound_by_memory(found) >= MOSTLY_MEMORY) {
        Busy { cause: Cause::MemoryBandwidth, confidence: MEMORY_SURE }
    } else if efficiency.is_some_and(is_low) {
        Busy { cause: Cause::ComputeBound, confidence: LOW_USE_SURE }
    } else {
        Busy { cause: Cause::ComputeBound, confidence: COMPUTE_SURE }
    }
}

/// Share of the GPU's time whose operators come close to the limit of its memory.
fn bound_by_memory(found: &EfficiencyAccount) -> f64 {
    let all: f64 = found.operators.iter().map(|row| row.device_ms).sum();
    let near = found
        .operators
        .iter()
        .filter(|row| row.bound == Some(Bound::Memory) && row.of_peak.is_some_and(|share| share >= NEAR_PEAK));
    if all > 0.0 { near.map(|row| row.device_ms).sum::<f64>() / all * found.known } else { 0.0 }
}
