//! What the source threads write and the assembler reads: for each source the latest value, never a queue, and whether
//! the source can be trusted right now.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use trainmon_sample::{
    LocalsSample, ProcessId, ProcessRole, Sample, SamplePart, SourceId, SourceState, SourceStatus, Sources,
    StackWindow, StacksSample,
};
use trainmon_sources::gpu;

/// A call that takes longer counts as hung, nanoseconds. NVML calls on a healthy driver take milliseconds; without
/// persistence mode the first one takes up to a few seconds.
const HUNG_NS: u64 = 3_000_000_000;

/// Windows of stacks kept until the next sample; with intervals of minutes the first of each are enough.
const WINDOWS: usize = 16;
/// Most readings of variables kept: two a second of eight training processes, for two seconds and a half.
const LOCALS: usize = 40;
/// Most processes remembered as training.
const TRAINING: usize = 1024;

/// Shared between the source threads and the assembler.
#[derive(Debug, Default)]
pub struct Latest {
    values: Mutex<Values>,
    /// Notified after each write.
    pub changed: Notify,
}

/// The latest of each source.
#[derive(Debug, Default)]
pub struct Values {
    /// What the next sample takes over, except the stacks, which are in `stacks`.
    pub sample: Sample,
    /// The state of each source's calls, in the order of [`SourceId::ALL`].
    calls: [Calls; SourceId::ALL.len()],
    /// Python stacks.
    pub stacks: StacksSlot,
    /// All that is known of the job's end is in `sample`.
    pub ending_read: bool,
}

/// Windows of stacks that are in no sample yet. Each goes into one sample, so they are kept until taken.
#[derive(Debug, Default)]
pub struct StacksSlot {
    /// Oldest first, at most [`WINDOWS`].
    windows: Vec<StackWindow>,
    /// Oldest first, at most [`LOCALS`].
    locals: Vec<LocalsSample>,
    /// Processes whose own memory says what their loops count: py-spy need not look.
    counted: Vec<ProcessId>,
    /// Processes that were seen in a backward pass, at most [`TRAINING`].
    training: Vec<ProcessId>,
    /// The state of the source.
    pub status: SourceStatus,
}

impl StacksSlot {
    /// Adds a finished window.
    pub fn add(&mut self, window: StackWindow) {
        if window.shows_backward() && self.training.len() < TRAINING && !self.training.contains(&window.process) {
            self.training.push(window.process);
        }
        if self.windows.len() < WINDOWS {
            self.windows.push(window);
        }
        self.status = SourceState::Fresh.into();
    }

    /// Adds a reading of local variables by py-spy.
    pub(crate) fn add_locals(&mut self, locals: LocalsSample) {
        if !self.is_counted(locals.process) {
            self.keep(locals);
        }
    }

    /// Adds a reading of the process's own memory.
    pub(crate) fn add_counts(&mut self, locals: LocalsSample) {
        if !self.is_counted(locals.process) {
            self.counted.push(locals.process);
        }
        self.keep(locals);
    }

    /// Its own memory no longer says, or never did, what its loops count. Processes that have ended are forgotten so, too.
    pub(crate) fn cannot_count(&mut self, process: ProcessId) {
        self.counted.retain(|id| *id != process);
    }

    /// Whether its own memory says what its loops count.
    pub(crate) fn is_counted(&self, process: ProcessId) -> bool {
        self.counted.contains(&process)
    }

    fn keep(&mut self, locals: LocalsSample) {
        if self.locals.len() < LOCALS {
            self.locals.push(locals);
        }
    }

    /// Forgets which processes train: one of them now executes another program.
    pub(crate) fn forget_training(&mut self) {
        self.training.clear();
    }

    /// The processes that were seen in a backward pass.
    pub fn training(&self) -> Vec<ProcessId> {
        self.training.clone()
    }

    /// Takes what has ended since the last call.
    pub fn take(&mut self) -> Option<Arc<StacksSample>> {
        let (windows, locals) = (std::mem::take(&mut self.windows), std::mem::take(&mut self.locals));
        (!windows.is_empty() || !locals.is_empty()).then(|| Arc::new(StacksSample { windows, locals }))
    }
}

/// The state of one source's calls.
#[derive(Debug, Default)]
struct Calls {
    /// The last tick that was answered.
    tick: Option<u64>,
    /// CLOCK_MONOTONIC of that answer, nanoseconds.
    read_ns: u64,
    /// CLOCK_MONOTONIC when the running call began.
    since_ns: Option<u64>,
    /// Why there is no value.
    trouble: Option<SourceStatus>,
}

impl Calls {
    /// Whether the running call takes too long.
    fn hangs(&self, now_ns: u64) -> bool {
        self.since_ns.is_some_and(|since| now_ns.saturating_sub(since) > HUNG_NS)
    }

    /// The state at `now_ns`, for ticks `interval_ns` apart.
    fn status(&self, now_ns: u64, interval_ns: u64) -> SourceStatus {
        let age_ns = now_ns.saturating_sub(self.read_ns);
        let has_value = self.tick.is_some() && self.trouble.is_none();
        let mut status = match &self.trouble {
            _ if self.hangs(now_ns) => {
                SourceStatus::new(SourceState::Hung, "a call has not come back for more than 3 s")
            }
            Some(trouble) => trouble.clone(),
            None if !has_value => SourceState::Pending.into(),
            None if age_ns > interval_ns.saturating_mul(2).saturating_add(500_000_000) => SourceState::Stale.into(),
            None => SourceState::Fresh.into(),
        };
        status.age_ms = has_value.then_some(age_ns / 1_000_000);
        status
    }
}

impl Latest {
    /// The values, to be held only briefly.
    pub fn values(&self) -> MutexGuard<'_, Values> {
        // A panic in a source thread must not take the others with it: the values are complete between two writes.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes, and notifies everything that waits for a change.
    pub fn write(&self, write: impl FnOnce(&mut Values)) {
        write(&mut self.values());
        self.changed.notify_waiters();
    }
}

impl Values {
    fn calls(&mut self, source: SourceId) -> Option<&mut Calls> {
        self.calls.get_mut(source as usize)
    }

    /// Starts a call.
    pub fn begin(&mut self, source: SourceId, now_ns: u64) {
        if let Some(calls) = self.calls(source) {
            calls.since_ns = Some(now_ns);
        }
    }

    /// Ends the call for a tick. Without a value the last one is dropped: it must not be mistaken for a fresh one.
    pub fn answer<P: SamplePart>(&mut self, answer: Result<P, SourceStatus>, tick: u64, now_ns: u64) {
        let (value, trouble) = match answer {
            Ok(value) => (Some(Arc::new(value)), None),
            Err(trouble) => (None, Some(trouble)),
        };
        *P::place(&mut self.sample) = value;
        if let Some(calls) = self.calls(P::SOURCE) {
            *calls = Calls { tick: Some(tick), read_ns: now_ns, since_ns: None, trouble };
        }
    }

    /// The last tick that the job has answered.
    pub fn job_tick(&self) -> Option<u64> {
        self.calls.get(SourceId::Job as usize)?.tick
    }

    /// Whether every source that is read once a tick has answered for `tick`. One that hangs or has given up is not
    /// waited for.
    pub fn complete(&self, tick: u64) -> bool {
        let asked = SourceId::ALL.iter().zip(&self.calls).filter(|(source, _)| **source != SourceId::Stacks);
        asked.into_iter().all(|(_, calls)| calls.tick >= Some(tick) || calls.trouble.is_some())
    }

    /// The state of every source.
    pub fn sources(&self, now_ns: u64, interval_ns: u64) -> Sources {
        let mut sources = Sources::default();
        for ((status, source), calls) in sources.all_mut().into_iter().zip(SourceId::ALL).zip(&self.calls) {
            *status = calls.status(now_ns, interval_ns);
            if *source == SourceId::Gpu && calls.hangs(now_ns) {
                *status = SourceStatus { age_ms: status.age_ms, ..gpu::hangs(HUNG_NS / 1_000_000_000) };
            }
        }
        Sources { stacks: self.stacks.status.clone(), ..sources }
    }

    /// PIDs of the job, for the sources that read its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.sample.job.iter().flat_map(|job| &job.processes).map(|process| process.id.pid).collect()
    }

    /// All processes of the job, and those whose output may show progress: the first one that trains, and the target.
    pub(crate) fn processes_and_writers(&self) -> (Vec<ProcessId>, Vec<u32>) {
        let Some(job) = &self.sample.job else { return (Vec::new(), Vec::new()) };
        let rank = job.processes.iter().find(|process| process.role == ProcessRole::Rank);
        let mut writers: Vec<u32> = rank.map(|process| process.id.pid).into_iter().collect();
        writers.push(job.target.pid);
        writers.dedup();
        (job.processes.iter().map(|process| process.id).collect(), writers)
    }

    /// PIDs that NVML lists.
    pub fn gpu_pids(&self) -> Vec<u32> {
        let devices = self.sample.gpus.iter().flat_map(|gpus| &gpus.devices);
        devices.flat_map(|device| &device.processes).map(|process| process.pid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::{GpuSample, HostSample, JobSample, StorageSample};

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_source_grows_stale_and_hangs() {
        let mut values = Values::default();
        let state = |values: &Values, now| values.sources(now * SECOND, SECOND).gpu.state;
        assert_eq!(state(&values, 0), SourceState::Pending);
        values.begin(SourceId::Gpu, 0);
        values.answer(Ok(GpuSample::default()), 0, SECOND);
        assert_eq!(state(&values, 2), SourceState::Fresh);
        assert_eq!(state(&values, 5), SourceState::Stale);
        values.begin(SourceId::Gpu, 2 * SECOND);
        assert_eq!(state(&values, 6), SourceState::Hung);
        values.answer::<GpuSample>(Err(SourceStatus::new(SourceState::Absent, "x")), 1, 7 * SECOND);
        assert_eq!(state(&values, 8), SourceState::Absent);
        assert!(values.sample.gpus.is_none());
    }

    #[test]
    fn a_tick_is_complete_without_those_that_have_given_up() {
        let mut values = Values::default();
        values.answer(Ok(JobSample::default()), 3, SECOND);
        values.answer(Ok(HostSample::default()), 3, SECOND);
        values.answer(Ok(StorageSample::default()), 3, SECOND);
        assert!(!values.complete(3), "the GPUs have not answered yet");
        values.answer::<GpuSample>(Err(SourceStatus::new(SourceState::Absent, "x")), 0, SECOND);
        assert!(values.complete(3) && !values.complete(4));
    }
}
