//! Where a training loop spends its wall time: the sampler's samples → seconds by activity, waits and steps.
//!
//! A sample represents the time since the previous one, even across ticks. [`classify`](super::classify_wait::classify)
//! decides what each means; this file adds the times up.

use super::classify_wait::{WaitContext, classify};
use super::frame::{RankRates, Stall};
use super::overlap::Overlap;
use super::sampled::{SampleClock, SampledPoint, SampledRank, SampledWorker};
use super::stacks::Activities;
use super::stacks::correction::{Measured, correct};
use super::steps::StepCounter;
use super::time_split::{LoopActivity, Overlapped, TimeSplit};
use super::wait::Wait;
use super::workers;
use trainmon_rates::delta::{Scheduled, copied};
use trainmon_rates::device::{GpuUse, busiest};
use trainmon_rates::gpu::GpuFold;
use trainmon_rates::job::{JobFold, ProcessDelta};
use trainmon_rates::levels::{NEXT_TO_NOTHING, WORTH_IT};
use trainmon_sample::{JobSample, ProcessId, ProcessRole};

/// If the loop writes at least this much between two readings, it saves state: logs and metrics write far less.
const CHECKPOINT_BYTES: u64 = 1 << 20;

/// Longest time for which receiving a batch is believed, nanoseconds.
const FETCH_NS: u64 = 150_000_000;

/// Most waits kept for one interval.
const WAITS: usize = 64;

/// Shortest wait recorded as a stall, seconds: shorter ones are within the distance of two samples.
const STALL_S: f64 = 0.030;

impl RankRates {
    /// Limits the chain's waits for the GPU to those in the split, which the GPU's use bounds. What turns out to have
    /// been for short-lived threads was for a save if the process writes as if saving (`written_per_s` bytes per
    /// second), else for a batch, unless the training process has torch workers. A GPU that other processes use too is
    /// waited for longer than it works for the job.
    pub(super) fn leave_gpu(&mut self, has_torch_workers: bool, shared: bool, written_per_s: Option<f64>) {
        let share = self.split_s.device_sync / self.seconds_seen;
        let (Some(chain), true) = (&mut self.chain, share.is_finite()) else { return };
        let before = chain.short_lived_s();
        chain.leave_gpu(share * chain.seconds, shared);
        let moved = (chain.short_lived_s() - before) / chain.seconds * self.seconds_seen;
        let sample_s = self.seconds_seen / f64::from(self.samples);
        let saves = written_per_s.is_some_and(|bytes| bytes * sample_s >= CHECKPOINT_BYTES as f64);
        if moved.is_nan() || has_torch_workers && !saves {
            return;
        }
        for split in [Some(&mut self.split_s), self.gpu_idle_s.as_mut()].into_iter().flatten() {
            let moved = moved.clamp(0.0, split.other.max(0.0));
            split.other -= moved;
            *(if saves { &mut split.checkpoint } else { &mut split.input_wait }) += moved;
        }
    }

    /// The number shown for the rank: its own if the launcher set it, else its place among the job's training
    /// processes.
    pub fn number(&self, at: usize) -> u32 {
        self.place.map_or_else(|| u32::try_from(at).unwrap_or(u32::MAX), |place| place.rank)
    }

    /// The split as the sampler measured it, seconds.
    pub fn measured(&self) -> TimeSplit {
        self.measured_s.unwrap_or(self.split_s)
    }

    /// Seconds in one kind of wait.
    pub fn waited_s(&self, wait: Wait) -> f64 {
        self.by_wait_s.get(wait.index()).copied().unwrap_or(0.0).into()
    }

    /// Of the measured wait for data: seconds in the loader's own poll, which is not a guess.
    pub fn polled_s(&self) -> f64 {
        if self.exact { self.waited_s(Wait::LoaderPoll) } else { self.measured().input_wait }
    }

    /// Seconds blocked in a way that may be a wait for the GPU: see [`classify`].
    pub fn may_sync_s(&self) -> f64 {
        let waits = [Wait::Futex, Wait::Poll, Wait::Sleep, Wait::Gpu, Wait::Other];
        waits.into_iter().map(|wait| self.waited_s(wait)).sum()
    }

    /// Seconds in which the thread ran or queued for a CPU, its process's compute threads ran for it, or which are
    /// unknown.
    pub fn able_to_work_s(&self) -> f64 {
        let compute_threads = (self.measured().host_busy - self.running_s).max(0.0);
        self.waited_s(Wait::Running) + self.waited_s(Wait::Unknown) + compute_threads
    }

    /// Corrects the split by stack samples of the same thread.
    pub(super) fn correct(&mut self, stacks: &Activities) {
        let Some(split) = self.split_s.shares_of(self.seconds_seen) else { return };
        let measured = Measured {
            split,
            polled: self.polled_s() / self.seconds_seen,
            disk_write: self.waited_s(Wait::DiskWrite) / self.seconds_seen,
            may_sync: self.may_sync_s() / self.seconds_seen,
            able_to_work: self.able_to_work_s() / self.seconds_seen,
            elsewhere: self.elsewhere_s / self.seconds_seen,
            run_delay: self.run_delay_share,
            queued: self.run_delay_share.unwrap_or(0.0) * self.waited_s(Wait::Running) / self.seconds_seen,
        };
        if let Some(corrected) = correct(&measured, stacks) {
            let measured = self.split_s;
            self.measured_s = Some(measured);
            self.split_s = corrected.split.map(|share| share * self.seconds_seen);
            if let Some(idle) = &mut self.gpu_idle_s {
                *idle = Overlapped { seconds: measured, idle: *idle }.idle_during(&self.split_s, idle.total());
            }
        }
    }
}

/// The state of one training process between two ticks.
#[derive(Debug, Default)]
pub(super) struct SplitState {
    clock: SampleClock,
    written: Option<u64>,
    waited_s: f64,
    fetch: Fetch,
    steps: StepCounter,
}

/// The loop between its wait for a batch and the step: it receives and unpickles the batch, then hands out the next
/// index (torch's `_process_data` ends with `_try_put_index`). So as long as the feeding threads' count is the same as
/// during the wait, a running loop is still inside `next()`.
#[derive(Debug, Default)]
struct Fetch {
    count: Option<u64>,
    since_ns: u64,
}

impl Fetch {
    fn is_on(&mut self, point: &SampledPoint, kind: LoopActivity) -> bool {
        if kind == LoopActivity::InputWait {
            if point.batches_requested.is_some() {
                *self = Self { count: point.batches_requested, since_ns: point.at_ns };
            }
            return false;
        }
        let same = self.count.is_some() && point.batches_requested == self.count;
        // At the end of an epoch no more indices are handed out, so the count shows nothing for long.
        let fresh = point.at_ns.saturating_sub(self.since_ns) <= FETCH_NS;
        let on = kind == LoopActivity::HostBusy && point.main == Wait::Running && same && fresh;
        if !on {
            self.count = None;
        }
        on
    }
}

/// Adds up the samples of a training process.
pub(super) fn fold(
    state: &mut SplitState,
    rank: &SampledRank,
    job: &JobSample,
    workers: &[SampledWorker],
    folded: &JobFold,
    gpu: &GpuFold,
    stale: bool,
) -> RankRates {
    let (process, delta) = folded.process(job, rank.id).unzip();
    let mut rates = by_counters(rank.id, delta.unwrap_or(&ProcessDelta::default()));
    rates.exact = rank.exact;
    rates.place = process.and_then(|process| process.rank);
    if folded.seconds.is_some() {
        let devices = gpu.gpus_of(rank.id.pid);
        let training = job.library.is_some() || !devices.is_empty();
        let context = WaitContext { training, ..context(rank, job, workers) };
        go_through(rank, state, context, &devices, &mut rates);
    } else if !stale {
        state.rebase(rank);
    }
    rates
}

/// The target by its counters alone, if no training process was sampled.
pub(super) fn target(job: &JobSample, folded: &JobFold) -> Option<RankRates> {
    folded.process(job, job.target).map(|(target, delta)| by_counters(target.id, delta))
}

fn by_counters(id: ProcessId, delta: &ProcessDelta) -> RankRates {
    let run_delay_share = delta.main.map(Scheduled::delay_share);
    RankRates { id, run_delay_share, ..copied!(delta => RankRates: cpu_pct read_chars_per_s) }
}

/// What is known about a training process's workers; the same for all samples of one tick.
fn context(rank: &SampledRank, job: &JobSample, workers: &[SampledWorker]) -> WaitContext {
    let pid = rank.id.pid;
    let mut own_workers = workers.iter().filter(|worker| worker.rank == pid).peekable();
    let workers = own_workers.peek().is_some()
        || rank.queue_threads > 0
        || job.processes.iter().any(|process| process.role == ProcessRole::Worker && process.parent == pid);
    let loader_ahead = own_workers.peek().is_some() && own_workers.all(workers::had_nothing_to_do);
    WaitContext { exact: rank.exact, workers, loader_ahead, ..WaitContext::default() }
}

impl SplitState {
    /// Continues from the last readings, and counts nothing.
    fn rebase(&mut self, rank: &SampledRank) {
        self.clock.rebase(rank.points.last().map(|point| point.at_ns));
        self.written = rank.points.iter().rev().find_map(|point| point.written_chars);
        self.waited_s = 0.0;
        self.steps.rebase(rank.queue_threads, &readings(&rank.points));
    }

    /// Ends the wait for a batch, if there was one; `count` batches had been requested by then.
    fn end_wait(&mut self, rates: &mut RankRates, count: Option<u64>) {
        let waited_s = std::mem::take(&mut self.waited_s);
        let count = if waited_s >= STALL_S && rates.stalls.len() < WAITS { count } else { None };
        rates.stalls.extend(count.map(|count| Stall { count, seconds: waited_s as f32 }));
        rates.wait_lengths_s.extend((waited_s > 0.0).then_some(waited_s as f32));
    }
}

fn readings(points: &[SampledPoint]) -> Vec<(u64, u64)> {
    points.iter().filter_map(|point| Some((point.at_ns, point.batches_requested?))).collect()
}

/// Adds up what the samples mean: seconds by activity and by wait, waits for a batch, steps.
fn go_through(
    rank: &SampledRank,
    state: &mut SplitState,
    context: WaitContext,
    devices: &[&GpuUse],
    rates: &mut RankRates,
) {
    let writing = writing(&rank.points, &mut state.written);
    let mut overlaps: Vec<Overlap<'_>> = devices.iter().map(|gpu| Overlap::new(gpu)).collect();
    let mut split = TimeSplit::default();
    let mut by_wait = [0.0; Wait::COUNT];
    let mut requested = state.steps.last.map(|(_, count)| count);
    for (point, writing) in rank.points.iter().zip(writing) {
        let seconds = state.clock.seconds(point.at_ns);
        let gpu = busiest(devices, point.at_ns);
        let by_wait_alone = || classify(point, &WaitContext { gpu, writing, ..context });
        let kind = if writing { by_wait_alone() } else { point.by_chain.unwrap_or_else(by_wait_alone) };
        let kind = if state.fetch.is_on(point, kind) { LoopActivity::InputWait } else { kind };
        split[kind] += seconds;
        if let Some(total) = by_wait.get_mut(point.main.index()) {
            *total += seconds;
        }
        if point.main == Wait::Running && kind == LoopActivity::HostBusy {
            rates.running_s += seconds;
        }
        if point.leaves && kind == LoopActivity::Other {
            rates.elsewhere_s += seconds;
        }
        for overlap in &mut overlaps {
            overlap.add(point.at_ns, kind, seconds);
        }
        // A batch taken between two samples ends a wait even if both samples show one.
        let stepped = point.batches_requested.is_some_and(|now| requested.is_some_and(|before| now > before));
        let before = requested;
        requested = point.batches_requested.or(requested);
        if kind != LoopActivity::InputWait || stepped {
            state.end_wait(rates, before);
        }
        if kind == LoopActivity::InputWait {
            state.waited_s += seconds;
        }
        rates.seconds_seen += seconds;
    }
    rates.samples = u32::try_from(rank.points.len()).unwrap_or(u32::MAX);
    rates.by_wait_s = by_wait.map(|seconds| seconds as f32);
    keep_longest(&mut rates.wait_lengths_s);

    let sync_kept = sync_kept(&overlaps, split.device_sync, rates.seconds_seen);
    let kept = split.device_sync * sync_kept;
    rates.split_s = TimeSplit { device_sync: kept, other: split.other + (split.device_sync - kept), ..split };
    if rates.seconds_seen > 0.0 && !overlaps.is_empty() && devices.iter().all(|gpu| gpu.fresh) {
        let idle = rates.gpu_idle_s.insert(TimeSplit::default());
        for overlap in &overlaps {
            *idle += overlap.idle_s(sync_kept).map(|seconds| seconds / overlaps.len() as f64);
        }
    }
    let stepped = state.steps.fold(rank.queue_threads, &readings(&rank.points));
    (rates.steps, rates.step_lengths_s, rates.timed_steps) = (stepped.steps, stepped.lengths, stepped.timed);
}

/// Which samples are between two readings of the loop's written bytes that differ by a checkpoint's worth. Samples
/// after the tick's last reading continue the state before it.
fn writing(points: &[SampledPoint], carried: &mut Option<u64>) -> Vec<bool> {
    let mut out = Vec::with_capacity(points.len());
    let mut latest = false;
    for (at, point) in points.iter().enumerate() {
        let Some(written) = point.written_chars else { continue };
        let before = carried.replace(written);
        latest = before.and_then(|before| written.checked_sub(before)).is_some_and(|bytes| bytes >= CHECKPOINT_BYTES);
        out.resize(at + 1, latest);
    }
    out.resize(points.len(), latest);
    out
}

/// The part of the samples in a sync, 0–1, that the GPUs' busy time allows. Anything beyond waited for something else.
fn sync_kept(overlaps: &[Overlap<'_>], sync: f64, seen: f64) -> f64 {
    if overlaps.is_empty() || sync <= 0.0 {
        return 1.0;
    }
    let busy = overlaps.iter().map(Overlap::busy_s).sum::<f64>() / overlaps.len() as f64;
    // Utilization is rounded and lags by a sample period, so a tenth of it, and 2% of the sampled time, are allowed in
    // addition.
    ((busy * (1.0 + WORTH_IT) + seen * NEXT_TO_NOTHING) / sync).clamp(0.0, 1.0)
}

/// Cuts to the longest [`WAITS`], in the order in which they happened; among equal ones, keeps the first.
fn keep_longest(lengths: &mut Vec<f32>) {
    if lengths.len() <= WAITS {
        return;
    }
    let mut longest: Vec<(usize, f32)> = lengths.drain(..).enumerate().collect();
    longest.sort_by(|a, b| b.1.total_cmp(&a.1));
    longest.truncate(WAITS);
    longest.sort_by_key(|(at, _)| *at);
    lengths.extend(longest.into_iter().map(|(_, length)| length));
}

#[cfg(test)]
#[path = "rank_tests.rs"]
mod tests;
