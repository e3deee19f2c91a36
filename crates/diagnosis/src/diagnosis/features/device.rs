//! The GPUs of the job, or of one of its ranks.

use std::collections::BTreeMap;

use super::{Span, WeightedMean};
use crate::diagnosis::parts::GpuIdle;
use crate::diagnosis::thresholds::{LOW_POWER, PCIE_BUSY, SM_ACTIVE};
use trainmon_rates::frame::GpuRates;
use trainmon_sample::ProcessId;
use trainmon_sample::gpu::{HELD_DOWN, POWER_CAP};
use trainmon_waits::Frame;
use trainmon_waits::stacks::sums::StackSums;
use trainmon_waits::time_split::{Overlapped, TimeSplit};

/// Clock event reasons that take performance away. Idle (0x1) and applied clocks (0x2) do not.
const THROTTLING: u64 = POWER_CAP | HELD_DOWN;

/// Means over the GPUs.
#[derive(Debug, Clone, Default)]
pub(in crate::diagnosis) struct Device {
    /// The GPUs, by NVML's index, and the processes of the job known to use each.
    pub users: Vec<(u32, Vec<u32>)>,
    /// Use, 0–1.
    pub busy: f64,
    /// The job's own part, 0–1.
    pub job_busy: f64,
    /// Idle time by what the loop did: see [`Device::settle`].
    pub idle: GpuIdle,
    overlapped: Overlapped,
    /// Power against limit, 0–1.
    pub power: Option<f64>,
    /// Memory: DRAM activity from GPM, else the memory controller's use, 0–1.
    pub memory_busy: Option<f64>,
    /// SM activity from GPM, 0–1.
    pub sm_active: Option<f64>,
    /// Tensor core activity from GPM, 0–1.
    pub tensor_active: Option<f64>,
    /// PCIe use against the link, 0–1, the larger direction.
    pub pcie: Option<f64>,
    /// Share of frames with a throttling reason.
    pub throttled: f64,
    /// Whether any of the reasons is not the software power cap.
    pub held_down: bool,
    /// Other processes compute on the GPUs.
    pub others: bool,
    /// Other processes may compute on the GPUs, and how much is unknown.
    pub parts_unknown: bool,
    /// Processes share a GPU through MPS: they run side by side.
    pub by_mps: bool,
    /// A GPU is a vGPU: what other virtual machines use of the whole GPU is unknown.
    pub vgpu: bool,
    /// Confidential computing is on: each copy is encrypted on the host.
    pub confidential: bool,
    /// Traffic over NVLink, bytes/s, the larger direction.
    pub nvlink: Option<f64>,
    /// Difference in use between the least and the most used GPU, 0–1.
    pub spread: f64,
    /// A GPU of the job is lost.
    pub lost: bool,
}

impl Device {
    pub(super) fn from_span(span: &Span<'_>) -> Option<Self> {
        let last = span.frames.last()?;
        // One rank's GPUs if they are known, else all of the job's.
        let own: Option<u32> = span
            .only
            .map(|only| only.pid)
            .filter(|pid| last.gpus.iter().any(|gpu| gpu.attached && gpu.job_pids.contains(pid)));
        let is_used = |gpu: &&GpuRates| gpu.attached && own.is_none_or(|pid| gpu.job_pids.contains(&pid));
        let attached: Vec<&GpuRates> = last.gpus.iter().filter(is_used).collect();
        let readings = || {
            let frames = span.frames.iter();
            frames.flat_map(|frame| frame.gpus.iter().filter(is_used).map(|gpu| (gpu, frame.seconds)))
        };
        let mean = |value: &dyn Fn(&GpuRates) -> Option<f64>| {
            let mut mean = WeightedMean::default();
            readings().for_each(|(gpu, seconds)| mean.add(value(gpu), seconds));
            mean.get()
        };
        let share = |pct: fn(&GpuRates) -> Option<f64>| mean(&pct).map(|pct| pct / 100.0);
        if attached.is_empty() {
            return None;
        }
        let busy = share(|gpu| gpu.utilization_pct)?;
        let job_busy = share(|gpu| gpu.job_utilization_pct).map_or(busy, |job| job.min(busy));
        let mut by_gpu: BTreeMap<u32, WeightedMean> = BTreeMap::new();
        readings().for_each(|(gpu, seconds)| by_gpu.entry(gpu.index).or_default().add(gpu.utilization_pct, seconds));
        let by_gpu = || by_gpu.values().filter_map(|mean| mean.get());
        let (most, least) = (by_gpu().fold(0.0, f64::max), by_gpu().fold(100.0, f64::min));
        let masks: Vec<u64> = readings().filter_map(|(gpu, _)| Some(gpu.clock_event_reasons? & THROTTLING)).collect();
        let throttled = masks.iter().filter(|reasons| **reasons != 0).count();
        Some(Self {
            users: attached.iter().map(|gpu| (gpu.index, gpu.job_pids.clone())).collect(),
            busy,
            job_busy,
            idle: GpuIdle { total: 1.0 - job_busy, while_other: 1.0 - job_busy, ..GpuIdle::default() },
            overlapped: overlapped(span),
            power: mean(&|gpu| Some(gpu.power_w? / gpu.power_limit_w.filter(|limit| *limit > 0.0)?)),
            memory_busy: share(|gpu| gpu.dram_active_pct).or_else(|| share(|gpu| gpu.memory_utilization_pct)),
            sm_active: share(|gpu| gpu.sm_active_pct),
            tensor_active: share(|gpu| gpu.tensor_active_pct),
            pcie: mean(&|gpu| {
                let rate = gpu.pcie_rx_bytes_per_s?.max(gpu.pcie_tx_bytes_per_s?);
                Some(rate / gpu.pcie_capacity_bytes_per_s.filter(|capacity| *capacity > 0.0)?)
            }),
            throttled: throttled as f64 / masks.len().max(1) as f64,
            held_down: masks.iter().any(|reasons| reasons & !POWER_CAP != 0),
            others: attached.iter().any(|gpu| !gpu.others.is_empty()),
            parts_unknown: readings()
                .filter(|(gpu, _)| gpu.utilization_pct.is_some())
                .any(|(gpu, _)| gpu.by_mps || gpu.others.iter().any(|other| other.compute))
                && readings().all(|(gpu, _)| gpu.job_utilization_pct.is_none()),
            by_mps: attached.iter().any(|gpu| gpu.by_mps),
            vgpu: attached.iter().any(|gpu| gpu.vgpu == Some(true)),
            confidential: attached.iter().any(|gpu| gpu.confidential == Some(true)),
            nvlink: mean(&|gpu| Some(gpu.nvlink_rx_bytes_per_s?.max(gpu.nvlink_tx_bytes_per_s?))),
            spread: ((most - least) / 100.0).max(0.0),
            lost: attached.iter().any(|gpu| gpu.lost),
        })
    }

    /// The GPU of one rank, if it is known which it uses.
    pub fn of_rank(frames: &[&Frame], stacks: &StackSums, rank: ProcessId) -> Option<Self> {
        let gpu = Self::from_span(&Span::new(frames, stacks, Some(rank)))?;
        gpu.users.iter().all(|(_, pids)| pids.contains(&rank.pid)).then_some(gpu)
    }

    /// The indexes of the GPUs that a process uses; of all if that is unknown.
    pub fn indexes_of(&self, pid: u32) -> Vec<u32> {
        let known = self.users.iter().any(|(_, pids)| pids.contains(&pid));
        let used = self.users.iter().filter(|(_, pids)| !known || pids.contains(&pid));
        used.map(|(index, _)| *index).collect()
    }

    /// Takes the mean use over a whole recording, 0–1, in place of the window's: nothing is known of the loop, so there is no
    /// moment to tell apart.
    pub fn average(&mut self, busy: f64) {
        (self.busy, self.job_busy) = (busy, busy);
        self.idle = GpuIdle { total: 1.0 - busy, while_other: 1.0 - busy, ..GpuIdle::default() };
        self.overlapped = Overlapped::default();
    }

    /// Divides the idle time over what the loop turned out to do.
    pub fn settle(&mut self, shares: &TimeSplit) {
        let idle = self.overlapped.idle_during(shares, self.idle.total);
        self.idle = GpuIdle {
            total: self.idle.total,
            while_input_wait: idle.input_wait,
            while_host_busy: idle.host_busy,
            while_sync: idle.device_sync,
            while_other: idle.checkpoint + idle.other,
        };
    }

    /// Use of its link, if the link is in use all along apart from gaps.
    pub fn link(&self) -> Option<f64> {
        self.pcie.filter(|used| *used >= PCIE_BUSY)
    }

    /// Whether it is known to draw little power.
    pub fn low_power(&self) -> bool {
        self.power.is_some_and(|power| power < LOW_POWER)
    }

    /// Busy with few active multiprocessors or, without GPM, at little power.
    pub fn barely_filled(&self) -> bool {
        self.sm_active.map_or_else(|| self.low_power(), |active| active < SM_ACTIVE)
    }
}

/// The GPUs' use and the loop's time, sampled together; `None` if they were not.
fn overlapped(span: &Span<'_>) -> Overlapped {
    let mut sum = Overlapped::default();
    for rank in span.frames.iter().flat_map(|frame| span.ranks(frame)) {
        if let Some(idle) = rank.gpu_idle_s {
            sum += Overlapped { seconds: rank.split_s, idle };
        }
    }
    sum
}
