//! The numbers that a verdict rests on, with the limits they were compared with.

use trainmon_waits::Wait;
use trainmon_waits::stacks::Activity;
use trainmon_waits::time_split::TimeSplit;

use super::causes::checkpoint_write::CHECKPOINT;
use super::causes::file_lock::TAKE_TURNS;
use super::causes::memory_bandwidth::MEMORY_BUSY;
use super::causes::throttled::GPU_THROTTLED;
use super::causes::{Cause, CauseSpec, Judgment};
use super::class::Class;
use super::culprits::OTHERS_SHOWN;
use super::features::{Cpus, Device, Features, LoopThread, Storage, Workers};
use super::signals::Evidence;
use super::signals::Signal::{self, *};
use super::stalls;
use super::thresholds::*;
use trainmon_base::stats::round;

/// Smaller shares are not shown, except for the first of the list.
const VALUE_SHOWN: f64 = 0.01;
/// Use of a link and of a disk (percent) below which it is not shown.
const LINK_SHOWN: f64 = 0.2;
const DISK_SHOWN: f64 = 30.0;
/// Memory pressure below this is not shown, percent.
const PRESSURE_SHOWN: f64 = 1.0;

/// Collects the lines.
struct EvidenceLines<'a> {
    lines: Vec<Evidence>,
    /// The cause. Some of its signals are shown whatever their value.
    spec: Option<&'a CauseSpec>,
}

impl EvidenceLines<'_> {
    /// Adds a line if the value is known.
    fn add(&mut self, signal: Signal, value: impl Into<Option<f64>>, threshold: Option<Threshold>) {
        self.add_as(signal, value, threshold, signal.label());
    }

    /// The same with another label than the signal's.
    fn add_as(
        &mut self,
        signal: Signal,
        value: impl Into<Option<f64>>,
        threshold: Option<Threshold>,
        text: impl Into<String>,
    ) {
        self.lines.extend(value.into().map(|value| Evidence {
            signal,
            value: Some(round(value, 3)),
            unit: signal.unit(),
            threshold: threshold.map(|threshold| threshold.value),
            text: text.into(),
            from: None,
        }));
    }

    /// Adds a line if the value is more than next to nothing.
    fn add_some(&mut self, signal: Signal, value: f64, threshold: Option<Threshold>) {
        if value >= VALUE_SHOWN || self.is_asked_for(signal) {
            self.add(signal, value, threshold);
        }
    }

    fn is_asked_for(&self, signal: Signal) -> bool {
        self.spec.is_some_and(|spec| spec.always_shows(signal))
    }

    /// Adds a line if the cause itself asks for it.
    fn add_asked(&mut self, signal: Signal, value: f64, threshold: Option<Threshold>) {
        if self.is_asked_for(signal) {
            self.add(signal, value, threshold);
        }
    }

    fn main(&mut self, main: &LoopThread, shares: TimeSplit, window: &Features) {
        self.add(InputWait, shares.input_wait, Some(LOST_WAIT));
        if let Some(gpu) = &window.gpu {
            self.add(LostWait, gpu.idle.while_input_wait, Some(LOST_WAIT));
        }
        self.add(HostBusy, shares.host_busy, None);
        self.add_some(DeviceSync, shares.device_sync, Some(SYNC));
        self.add_some(Checkpoint, shares.checkpoint, Some(CHECKPOINT));
        self.add(MainRunDelay, main.run_delay, Some(MAIN_RUN_DELAY));
        if let Some(stacks) = &main.stacks {
            for (signal, share) in [
                (Loading, stacks.loading()),
                (Receiving, window.receiving()),
                (LoaderStart, stacks.shares.get(Activity::LoaderStart)),
                (QueueWait, stacks.shares.get(Activity::QueueWait)),
                (Model, stacks.shares.of_model()),
                (Report, stacks.shares.get(Activity::Report)),
                (Collectives, stacks.shares.get(Activity::Collective)),
            ] {
                self.add_some(signal, share, None);
            }
        }
        if window.gpu_held
            && let Some(stacks) = main.stacks.as_ref()
        {
            self.add_some(SyncLines, stacks.at_sync_lines(), None);
        }
        if let Some(chain) = &window.chain {
            for part in window.waits_elsewhere() {
                let known =
                    Cause::ALL.iter().filter_map(|cause| cause.spec().followed).find(|wait| wait.part == part);
                known.iter().for_each(|wait| self.add_some(wait.signal, chain.share(part), Some(LOST_WAIT)));
            }
        }
        self.add_asked(FutexWait, main.waits(Wait::Futex), None);
        self.add_asked(OtherThread, main.other_threads.busiest, Some(BUSY));
        if window.workers.is_none() {
            self.add(MainRead, main.read_chars_per_s, Some(INLINE_READ));
        }
    }

    fn device(&mut self, gpu: &Device) {
        self.add(GpuBusy, gpu.busy, Some(DEVICE_BUSY));
        let others = gpu.others && !gpu.parts_unknown;
        self.add(GpuOthers, others.then_some(gpu.busy - gpu.job_busy), Some(SHARED_GPU));
        self.add(GpuPower, gpu.power, Some(LOW_POWER));
        self.add(GpuMemoryBusy, gpu.memory_busy, Some(MEMORY_BUSY));
        self.add(SmActive, gpu.sm_active, Some(SM_ACTIVE));
        self.add(GpuThrottled, Some(gpu.throttled).filter(|share| *share > 0.0), Some(GPU_THROTTLED));
        self.add(Pcie, gpu.pcie.filter(|used| *used > LINK_SHOWN), Some(PCIE_BUSY));
        self.add(Nvlink, gpu.nvlink.filter(|bytes_s| *bytes_s > 0.0), None);
    }

    fn workers(&mut self, workers: &Workers, window: &Features) {
        self.add(Signal::Workers, workers.count as f64, None);
        self.add(WorkersBusy, workers.busy, Some(BUSY));
        self.add(WorkersIoWait, workers.io_wait, None);
        self.add(WorkersRunnable, workers.runnable, None);
        self.add(WorkersIdle, workers.idle, Some(WORKERS_IDLE));
        self.add_some(WorkersLockWait, workers.lock_wait, Some(TAKE_TURNS));
        if let Some(stages) = workers.stages {
            self.add_some(WorkersLoad, stages.load, None);
            self.add_some(WorkersDecode, stages.decode, None);
            self.add_some(WorkersTransform, stages.transform, None);
            self.add_some(WorkersCollate, stages.collate, None);
            self.add_some(WorkersHandOver, stages.hand_over, None);
        }
        if let Some(period) = stalls::period(&window.stalls) {
            let (ms, count) = (period.stall_s * 1000.0, workers.count);
            let text = format!("distance between stalls of {ms:.0} ms ({count} workers take turns)");
            self.add_as(StallEvery, f64::from(period.every), None, text);
        }
    }

    fn cpus(&mut self, cpu: &Cpus) {
        self.add(CpuFull, cpu.full, Some(CORES_FULL));
        let text = format!("CPUs used by the job, of {:.1} allowed", cpu.cores.unwrap_or(0.0));
        self.add_as(CpuJob, cpu.job, None, text);
        let others = cpu.others.filter(|cores| *cores > OTHERS_SHOWN);
        self.add(CpuOthers, others, None);
        self.add(CgroupThrottled, cpu.throttled.filter(|share| *share > 0.0), Some(CGROUP_THROTTLED));
    }

    fn storage(&mut self, io: &Storage, class: Class) {
        if class == Class::Io || io.disk_busy_pct.is_some_and(|pct| pct > DISK_SHOWN) {
            let which = if io.devices_known { "data disk" } else { "busiest disk" };
            self.add_as(DiskBusy, io.disk_busy_pct, Some(DISK_BUSY), format!("{which} busy"));
            self.add_as(DiskRead, io.disk_read_per_s, None, format!("data read from the {which}"));
            self.add(DiskReadSize, io.read_size, Some(SMALL_READ));
            self.add(DiskAwait, io.await_ms, None);
        }
        self.add(IoLimit, io.limit_bytes_per_s, None);
        self.add(PsiMemory, io.psi_memory.filter(|pct| *pct > PRESSURE_SHOWN), Some(MEMORY_PRESSURE));
    }
}

/// `shares`: where the loop's time went, as the verdict says.
pub(super) fn evidence(
    judgment: &Judgment,
    spec: Option<&CauseSpec>,
    window: &Features,
    shares: Option<TimeSplit>,
) -> Vec<Evidence> {
    let mut lines = EvidenceLines { lines: Vec::new(), spec };
    if let Some((main, shares)) = window.main.as_ref().zip(shares) {
        lines.main(main, shares, window);
    }
    if let Some(gpu) = &window.gpu {
        lines.device(gpu);
    }
    if let Some(workers) = &window.workers {
        lines.workers(workers, window);
    }
    lines.cpus(&window.cpu);
    lines.storage(&window.io, judgment.class);
    lines.lines
}
