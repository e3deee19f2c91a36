//! What the source threads write to and the assembler reads from: for each source the latest value, never a queue, and
//! whether the source can be trusted at this moment.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::sample::{
    GpuSample, HostSample, JobSample, LocalsSample, NeighboursSample, ProcessId, SourceState, SourceStatus, Sources,
    StackWindow, StacksSample, StorageSample,
};

/// A call that has been outstanding for longer counts as hung, nanoseconds. NVML calls on a healthy driver take
/// milliseconds, the first one up to a few seconds where persistence mode is off.
const HUNG_NS: u64 = 3_000_000_000;

/// Windows of stacks kept until the next sample; with intervals of minutes the first of each are enough.
const WINDOWS: usize = 16;
/// Most processes of which is kept that they train.
const TRAINING: usize = 1024;

/// What is shared between the source threads and the assembler.
#[derive(Debug, Default)]
pub struct Latest {
    values: Mutex<Values>,
    /// Told after each write.
    pub changed: Notify,
}

/// The latest of each source.
#[derive(Debug, Default)]
pub struct Values {
    /// The attached job.
    pub job: LatestSlot<JobSample>,
    /// The host.
    pub host: LatestSlot<HostSample>,
    /// Disks and mounts.
    pub storage: LatestSlot<StorageSample>,
    /// GPUs.
    pub gpu: LatestSlot<GpuSample>,
    /// Python stacks.
    pub stacks: StacksSlot,
    /// The busiest processes besides the job's, while they are wanted.
    pub neighbours: Option<Arc<NeighboursSample>>,
}

/// Windows of stacks that no sample holds yet. Each goes into one sample, so they are kept until they are taken.
#[derive(Debug, Default)]
pub struct StacksSlot {
    /// Oldest first, at most [`WINDOWS`].
    windows: Vec<StackWindow>,
    /// Oldest first, at most twice [`WINDOWS`].
    locals: Vec<LocalsSample>,
    /// Processes that have been seen in a backward pass, at most [`TRAINING`].
    training: Vec<ProcessId>,
    /// How the source stands.
    pub status: SourceStatus,
}

impl StacksSlot {
    /// A window has ended.
    pub fn add(&mut self, window: StackWindow) {
        if window.shows_backward() && self.training.len() < TRAINING && !self.training.contains(&window.process) {
            self.training.push(window.process);
        }
        if self.windows.len() < WINDOWS {
            self.windows.push(window);
        }
        self.status = SourceStatus { state: SourceState::Fresh, ..SourceStatus::default() };
    }

    /// Local variables have been read.
    pub fn add_locals(&mut self, locals: LocalsSample) {
        if self.locals.len() < 2 * WINDOWS {
            self.locals.push(locals);
        }
    }

    /// Forgets which processes train: one of them executes another program now.
    pub fn forget_training(&mut self) {
        self.training.clear();
    }

    /// The processes that have been seen in a backward pass.
    pub fn training(&self) -> Vec<ProcessId> {
        self.training.clone()
    }

    /// What has ended since the last call.
    pub fn take(&mut self) -> Option<Arc<StacksSample>> {
        let (windows, locals) = (std::mem::take(&mut self.windows), std::mem::take(&mut self.locals));
        (!windows.is_empty() || !locals.is_empty()).then(|| Arc::new(StacksSample { windows, locals }))
    }
}

/// The latest value of one source.
#[derive(Debug)]
pub struct LatestSlot<T> {
    /// The value.
    pub value: Option<Arc<T>>,
    /// The tick it was read for.
    pub tick: Option<u64>,
    /// CLOCK_MONOTONIC when it was read, nanoseconds.
    read_ns: u64,
    /// CLOCK_MONOTONIC when the call that is outstanding began.
    since_ns: Option<u64>,
    /// Why there is no value.
    trouble: Option<SourceStatus>,
}

/// A state with its reason.
pub(super) fn status(state: SourceState, reason: &str) -> SourceStatus {
    SourceStatus { state, reason: Some(reason.into()), ..SourceStatus::default() }
}

impl<T> Default for LatestSlot<T> {
    fn default() -> Self {
        Self { value: None, tick: None, read_ns: 0, since_ns: None, trouble: None }
    }
}

impl<T> LatestSlot<T> {
    /// A call begins.
    pub fn begin(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    /// The call has ended. Without a value the last one is dropped: it must not be taken for a fresh one.
    pub fn answer(&mut self, answer: Result<T, SourceStatus>, tick: u64, now_ns: u64) {
        let (value, trouble) = match answer {
            Ok(value) => (Some(Arc::new(value)), None),
            Err(trouble) => (None, Some(trouble)),
        };
        *self = Self { value, tick: Some(tick), read_ns: now_ns, since_ns: None, trouble };
    }

    /// Whether the source has answered for this tick.
    pub fn has_answered(&self, tick: u64) -> bool {
        self.tick.is_some_and(|answered| answered >= tick)
    }

    /// The state at `now_ns`, for ticks `interval_ns` apart.
    pub fn status(&self, now_ns: u64, interval_ns: u64) -> SourceStatus {
        let age_ns = now_ns.saturating_sub(self.read_ns);
        let outstanding = self.since_ns.map(|since| now_ns.saturating_sub(since));
        let plain = |state| SourceStatus { state, ..SourceStatus::default() };
        let mut found = match (&self.trouble, &self.value) {
            _ if outstanding.is_some_and(|waited| waited > HUNG_NS) => {
                status(SourceState::Hung, "a call has not come back for more than 3 s")
            }
            (Some(trouble), _) => trouble.clone(),
            (None, Some(_)) if age_ns > interval_ns.saturating_mul(2).saturating_add(500_000_000) => {
                plain(SourceState::Stale)
            }
            (None, Some(_)) => plain(SourceState::Fresh),
            (None, None) => plain(SourceState::Pending),
        };
        found.age_ms = self.value.is_some().then_some(age_ns / 1_000_000);
        found
    }
}

impl Latest {
    /// The values, to be held for a moment only.
    pub fn values(&self) -> MutexGuard<'_, Values> {
        // A panic in a source thread must not take the others with it: the values stay whole between two writes.
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes, and tells whoever waits for a change.
    pub fn write(&self, write: impl FnOnce(&mut Values)) {
        write(&mut self.values());
        self.changed.notify_waiters();
    }
}

impl Values {
    /// PIDs of the job, for the sources that look into its processes.
    pub fn pids(&self) -> Vec<u32> {
        self.job.value.iter().flat_map(|job| &job.processes).map(|process| process.id.pid).collect()
    }

    /// PIDs that NVML lists.
    pub fn gpu_pids(&self) -> Vec<u32> {
        let devices = self.gpu.value.iter().flat_map(|gpus| &gpus.devices);
        devices.flat_map(|device| &device.processes).map(|process| process.pid).collect()
    }

    /// Whether every source that can has answered for `tick`. One that hangs, or that has given up, is not waited for.
    pub fn complete(&self, tick: u64) -> bool {
        self.job.has_answered(tick)
            && self.host.has_answered(tick)
            && (self.storage.has_answered(tick) || self.storage.trouble.is_some())
            && (self.gpu.has_answered(tick) || self.gpu.trouble.is_some())
    }

    /// The state of every source.
    pub fn sources(&self, now_ns: u64, interval_ns: u64) -> Sources {
        Sources {
            job: self.job.status(now_ns, interval_ns),
            host: self.host.status(now_ns, interval_ns),
            storage: self.storage.status(now_ns, interval_ns),
            gpu: self.gpu.status(now_ns, interval_ns),
            stacks: self.stacks.status.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_slot_grows_stale_and_hangs() {
        let mut slot = LatestSlot::<u8>::default();
        assert_eq!(slot.status(0, SECOND).state, SourceState::Pending);
        slot.begin(0);
        slot.answer(Ok(1), 0, SECOND);
        assert_eq!(slot.status(2 * SECOND, SECOND).state, SourceState::Fresh);
        assert_eq!(slot.status(5 * SECOND, SECOND).state, SourceState::Stale);
        slot.begin(2 * SECOND);
        assert_eq!(slot.status(6 * SECOND, SECOND).state, SourceState::Hung);
        slot.answer(Err(status(SourceState::Absent, "x")), 1, 7 * SECOND);
        assert_eq!(slot.status(8 * SECOND, SECOND).state, SourceState::Absent);
        assert!(slot.value.is_none());
    }
}
