//! One GPU in NVML: what is read of it in a tick, and what is remembered in between.

use nvml_wrapper::enum_wrappers::device::PcieUtilCounter;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use super::super::plausible;
use super::host::HostFiles;
use super::processes::NvmlProcesses;
use super::query::Query;
use super::raw::{self, Buffers};
use super::{FURTHEST_BACK_US, SLOW_EVERY_NS, readings};
use trainmon_sample::gpu::{Gpm, GpuReading};

/// A GPU that was lost or could not be opened is tried again after this long, nanoseconds.
const LOST_FOR_NS: u64 = 10_000_000_000;
/// Shortest time between two GPM samples for metrics, nanoseconds.
const GPM_EVERY_NS: u64 = 90_000_000;

/// A GPU, or the place of one that could not be opened.
#[derive(Debug)]
pub(super) struct DeviceReader {
    index: u32,
    device: Result<Device<'static>, NvmlError>,
    again_ns: u64,
    query: Query,
    /// What does not change while the driver runs.
    facts: GpuReading,
    /// Where each tick starts: the facts, and the slow readings as last read.
    slow: GpuReading,
    slow_next_ns: u64,
    processes: NvmlProcesses,
    /// Timestamp of the newest point seen; `None` before the first read.
    points_seen_us: Option<u64>,
    gpm_supported: Option<bool>,
    /// The GPU has GPM, and refused it in its last tick.
    gpm_refuses: bool,
    gpm_before: Option<(GpmSample<'static>, u64)>,
}

impl DeviceReader {
    pub(super) fn open(nvml: &'static Nvml, index: u32) -> Self {
        let facts = GpuReading { index, ..GpuReading::default() };
        Self {
            index,
            device: nvml.device_by_index(index),
            again_ns: 0,
            query: Query::default(),
            slow: facts.clone(),
            facts,
            slow_next_ns: 0,
            processes: NvmlProcesses::default(),
            points_seen_us: None,
            gpm_supported: None,
            gpm_refuses: false,
            gpm_before: None,
        }
    }

    /// Why the GPU could not be opened.
    pub(super) fn refusal(&self) -> Option<&NvmlError> {
        self.device.as_ref().err()
    }

    /// The GPU, if its errors may be asked for. Under MIG they are those of each instance, and need rights.
    pub(super) fn with_errors(&self) -> Option<&Device<'static>> {
        self.device.as_ref().ok().filter(|_| self.facts.mig != Some(true))
    }

    /// Whether it is the GPU of this handle, which may be anything.
    pub(super) fn has_handle_of(&self, other: &Device<'_>) -> bool {
        self.device.as_ref().is_ok_and(|device| raw::is_same(device, other))
    }

    /// The error that says that no GPU answers any more.
    pub(super) fn driver_gone(&self) -> Option<&NvmlError> {
        self.query.driver_gone.as_ref()
    }

    /// Tries again to open a GPU that could not be opened.
    pub(super) fn reopen(&mut self, nvml: &'static Nvml, now_ns: u64) {
        if self.device.is_err() && now_ns >= self.again_ns {
            self.device = nvml.device_by_index(self.index);
            self.again_ns = now_ns.saturating_add(LOST_FOR_NS);
        }
    }

    pub(super) fn read(
        &mut self,
        now_ns: u64,
        now_us: u64,
        pcie: Option<PcieUtilCounter>,
        buffers: &mut Buffers,
        host: &mut HostFiles,
    ) -> GpuReading {
        let device = match &self.device {
            Ok(device) => device,
            Err(error) => {
                let lost = matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired);
                return GpuReading { lost, ..self.facts.clone() };
            }
        };
        let query = &mut self.query;
        query.now_ns = now_ns;
        query.driver_gone = None;
        query.lost &= now_ns < self.again_ns;
        if !query.lost {
            if now_ns >= self.slow_next_ns {
                self.slow_next_ns = now_ns.saturating_add(SLOW_EVERY_NS);
                readings::facts(device, query, &mut self.facts);
                let (pcie_rx_kib_per_s, pcie_tx_kib_per_s) =
                    (self.slow.pcie_rx_kib_per_s, self.slow.pcie_tx_kib_per_s);
                self.slow = GpuReading { pcie_rx_kib_per_s, pcie_tx_kib_per_s, ..self.facts.clone() };
                readings::slow(device, query, &mut self.slow);
                self.processes.read_slow(device, query, buffers);
            }
            if let Some(direction) = pcie {
                readings::pcie(device, query, direction, &mut self.slow);
            }
            let mut seen = self.slow.clone();
            readings::fast(device, query, &mut seen);
            readings::leave_out_what_a_vgpu_is_not_told(&mut seen);
            if readings::is_integrated(query) {
                use_host_memory(&mut seen, host.memory());
            }
            self.read_points(&mut seen, now_us, buffers);
            if let Ok(device) = &self.device {
                self.processes.read_list(device, &mut self.query, &mut seen, buffers, host);
                self.processes.read(device, &mut self.query, &mut seen, now_us, buffers);
            }
            self.read_gpm(&mut seen);
            self.name_what_else_reads_gpm(&mut seen, host);
            if !self.query.lost {
                return seen;
            }
        }
        // Readings made earlier in this tick, before the GPU was lost, are dropped for good.
        if now_ns >= self.again_ns {
            self.again_ns = now_ns.saturating_add(LOST_FOR_NS);
        }
        self.slow = self.facts.clone();
        self.slow_next_ns = 0;
        self.points_seen_us = None;
        self.gpm_before = None;
        GpuReading { lost: true, ..self.facts.clone() }
    }

    /// Points of the samples buffer. The first read only finds the buffer's end: its points are older than the
    /// attachment. If the wall clock was set back, the points seen are in the future; then reading starts over.
    fn read_points(&mut self, seen: &mut GpuReading, now_us: u64, buffers: &mut Buffers) {
        let Ok(device) = &self.device else { return };
        let furthest_us = now_us.saturating_sub(FURTHEST_BACK_US);
        let last_us = self.points_seen_us.and_then(|last_us| plausible::time(last_us, 0, now_us));
        let since_us = last_us.map_or(furthest_us, |last_us| last_us.max(furthest_us));
        let mut newest_us = since_us;
        let points = &mut seen.utilization_points;
        let answered = self.query.get("utilization points", || {
            for (unix_us, value) in raw::utilization_samples(device, since_us, buffers)? {
                if let Some(point) = plausible::point(unix_us, value, since_us, now_us) {
                    newest_us = newest_us.max(point.unix_us);
                    points.push(point);
                }
            }
            Ok(())
        });
        points.sort_unstable_by_key(|point| point.unix_us);
        let first = last_us.is_none();
        if first {
            points.clear();
            // None yet: whatever comes from now on is new.
            newest_us = if newest_us == since_us { now_us } else { newest_us };
        }
        if answered.is_some() || first {
            self.points_seen_us = Some(newest_us);
        }
    }

    /// GPU performance monitoring: metrics between the previous tick's sample and a new one.
    fn read_gpm(&mut self, seen: &mut GpuReading) {
        let Ok(device) = &self.device else { return };
        let query = &mut self.query;
        let (now_ns, nvml) = (query.now_ns, device.nvml());
        // The wrapper frees samples with a function that it assumes to exist.
        if nvml.lib().nvmlGpmSampleFree.is_err() {
            return;
        }
        if self.gpm_supported.is_none() {
            self.gpm_supported = query.get("GPM", || device.gpm_support());
        }
        let then_ns = self.gpm_before.as_ref().map(|&(_, then_ns)| then_ns);
        if self.gpm_supported != Some(true)
            || then_ns.is_some_and(|then_ns| now_ns < then_ns.saturating_add(GPM_EVERY_NS))
        {
            return;
        }
        let sample = query.get("GPM", || device.gpm_sample());
        self.gpm_refuses = sample.is_none();
        let Some(sample) = sample else { return };
        if let Some((before, _)) = &self.gpm_before {
            let wanted = [GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];
            let metrics = query.get("GPM", || gpm_metrics_get(nvml, before, &sample, &wanted)).unwrap_or_default();
            let mut values = metrics.into_iter().map(|metric| plausible::gpm_percent(metric.ok()?.value));
            let mut next = || values.next().flatten();
            let gpm = Gpm { sm_active_pct: next(), tensor_active_pct: next(), dram_active_pct: next() };
            seen.gpm = (gpm != Gpm::default()).then_some(gpm);
            self.gpm_refuses = seen.gpm.is_none();
        }
        self.gpm_before = Some((sample, now_ns));
    }

    /// If the GPU refuses GPM though it has it, DCGM may be why.
    fn name_what_else_reads_gpm(&self, seen: &mut GpuReading, host: &mut HostFiles) {
        if self.gpm_refuses && seen.confidential != Some(true) {
            seen.gpm_beside = host.dcgm(self.query.now_ns);
        }
    }
}

/// A GPU on one chip with the CPUs: its memory is the host's, in use and all of it, and its link is inside the chip.
fn use_host_memory(seen: &mut GpuReading, memory: (Option<u64>, Option<u64>)) {
    (seen.memory_used_bytes, seen.memory_total_bytes) = memory;
    (seen.pcie_rx_kib_per_s, seen.pcie_tx_kib_per_s) = (None, None);
    (seen.pcie_generation, seen.pcie_generation_max) = (None, None);
    (seen.pcie_width, seen.pcie_width_max) = (None, None);
    seen.integrated = true;
}
