//! One device of NVML: what is asked of it in a tick, and what is remembered in between.

use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use super::ask::{Ask, Reading};
use super::plausible;
use super::slow::{Facts, Slow, list};
use crate::sample::gpu::{Gpm, GpuDevice, GpuProcess};
use crate::sources::nvml_raw::{self, Buffers, ProcessList};

/// A lost device, or one that could not be opened, is asked again after this long, nanoseconds.
const LOST_FOR_NS: u64 = 10_000_000_000;
/// Points are never asked for further back than this, microseconds; the driver keeps about 20 s.
const FURTHEST_BACK_US: u64 = 5_000_000;
/// Nearest two GPM samples from which metrics are made, nanoseconds.
const GPM_EVERY_NS: u64 = 90_000_000;

/// Which way a PCIe rate goes, seen from the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PcieDirection {
    Received,
    Sent,
}

/// A device, or the place of one that could not be opened.
#[derive(Debug)]
pub(super) struct DeviceReader {
    index: u32,
    device: Result<Device<'static>, NvmlError>,
    again_ns: u64,
    ask: Ask,
    facts: Facts,
    slow: Slow,
    pcie_rx_kib_s: Option<u32>,
    pcie_tx_kib_s: Option<u32>,
    /// Time stamp of the newest point seen; `None` before the first read.
    points_seen_us: Option<u64>,
    processes_seen_us: u64,
    gpm_supported: Option<bool>,
    gpm_before: Option<(GpmSample<'static>, u64)>,
}

impl DeviceReader {
    pub(super) fn open(nvml: &'static Nvml, index: u32) -> Self {
        Self {
            index,
            device: nvml.device_by_index(index),
            again_ns: 0,
            ask: Ask::new(),
            facts: Facts::default(),
            slow: Slow::default(),
            pcie_rx_kib_s: None,
            pcie_tx_kib_s: None,
            points_seen_us: None,
            processes_seen_us: 0,
            gpm_supported: None,
            gpm_before: None,
        }
    }

    /// Whether the device could be opened.
    pub(super) fn reached(&self) -> bool {
        self.device.is_ok()
    }

    /// Why it could not.
    pub(super) fn refusal(&self) -> Option<&NvmlError> {
        self.device.as_ref().err()
    }

    /// The error that says that no device answers any more.
    pub(super) fn driver_gone(&mut self) -> Option<&NvmlError> {
        self.ask.driver_gone.as_ref()
    }

    /// Tries again to open a device that could not be opened.
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
        pcie: Option<PcieDirection>,
        buffers: &mut Buffers,
    ) -> GpuDevice {
        let mut seen = GpuDevice { index: self.index, ..GpuDevice::default() };
        let device = match &self.device {
            Ok(device) => device,
            Err(error) => {
                seen.lost = matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired);
                return seen;
            }
        };
        self.ask.now_ns = now_ns;
        self.ask.driver_gone = None;
        if self.ask.lost && now_ns >= self.again_ns {
            self.ask.lost = false;
        }
        if !self.ask.lost {
            self.facts.read(device, &mut self.ask);
            self.slow.read(device, &mut self.ask, buffers);
            match pcie {
                Some(PcieDirection::Received) => {
                    let rate = || device.pcie_throughput(PcieUtilCounter::Receive);
                    self.pcie_rx_kib_s = self.ask.ask(Reading::PcieReceived, rate).and_then(plausible::pcie_rate);
                }
                Some(PcieDirection::Sent) => {
                    let rate = || device.pcie_throughput(PcieUtilCounter::Send);
                    self.pcie_tx_kib_s = self.ask.ask(Reading::PcieSent, rate).and_then(plausible::pcie_rate);
                }
                None => {}
            }
            self.read_fast(&mut seen, now_us, buffers);
        }
        self.facts.write(&mut seen);
        if self.ask.lost {
            if now_ns >= self.again_ns {
                self.again_ns = now_ns.saturating_add(LOST_FOR_NS);
            }
            self.forget();
            // Readings made before the device was lost in this very tick are not shown beside the news.
            seen = GpuDevice { index: self.index, lost: true, ..GpuDevice::default() };
            self.facts.write(&mut seen);
        }
        seen
    }

    /// What is asked in every tick.
    fn read_fast(&mut self, seen: &mut GpuDevice, now_us: u64, buffers: &mut Buffers) {
        let Ok(device) = &self.device else { return };
        let ask = &mut self.ask;
        if let Some(rates) = ask.ask(Reading::Utilization, || device.utilization_rates()) {
            seen.utilization_pct = plausible::percent(rates.gpu);
            seen.memory_utilization_pct = plausible::percent(rates.memory);
        }
        let memory = ask
            .ask(Reading::Memory, || device.memory_info().map(|memory| (memory.used, memory.total)))
            .or_else(|| ask.ask(Reading::MemoryV1, || nvml_raw::memory_v1(device)));
        if let Some((used, total)) = memory {
            (seen.memory_used_bytes, seen.memory_total_bytes) = plausible::memory(used, total);
        }
        let power = ask.ask(Reading::Power, || device.power_usage());
        seen.power_mw = power.and_then(|power| plausible::power(power, self.slow.power_limit_mw));
        seen.energy_mj = ask.ask(Reading::Energy, || device.total_energy_consumption()).and_then(plausible::counter);
        seen.sm_clock_mhz = ask.ask(Reading::SmClock, || device.clock_info(Clock::SM)).and_then(plausible::clock);
        seen.clock_event_reasons = ask
            .ask(Reading::ClockEventReasons, || nvml_raw::clock_event_reasons(device))
            .and_then(plausible::counter);
        seen.power_limit_mw = self.slow.power_limit_mw;
        seen.temperature_c = self.slow.temperature_c;
        seen.memory_clock_mhz = self.slow.memory_clock_mhz;
        seen.pcie_generation = self.slow.pcie_generation;
        seen.pcie_width = self.slow.pcie_width;
        seen.encoder_pct = self.slow.encoder_pct;
        seen.decoder_pct = self.slow.decoder_pct;
        seen.ecc_uncorrected = self.slow.ecc_uncorrected;
        seen.pcie_rx_kib_s = self.pcie_rx_kib_s;
        seen.pcie_tx_kib_s = self.pcie_tx_kib_s;
        self.read_points(seen, now_us, buffers);
        self.read_processes(seen, now_us, buffers);
        self.read_gpm(seen);
    }

    /// Points of the samples buffer. The first read only learns where the buffer stands: its points lie before the
    /// attachment. A wall clock set back makes the points seen lie in the future; then we begin anew.
    fn read_points(&mut self, seen: &mut GpuDevice, now_us: u64, buffers: &mut Buffers) {
        let Ok(device) = &self.device else { return };
        let furthest_us = now_us.saturating_sub(FURTHEST_BACK_US);
        let first = self.points_seen_us.is_none_or(|seen_us| plausible::time(seen_us, 0, now_us).is_none());
        let since_us = if first { furthest_us } else { self.points_seen_us.unwrap_or(0).max(furthest_us) };
        let mut newest_us = since_us;
        let points = &mut seen.utilization_points;
        let answered = self.ask.ask(Reading::Samples, || {
            for point in nvml_raw::utilization_samples(device, since_us, buffers)? {
                if let Some(point) = plausible::point(point.unix_us, point.value, since_us, now_us) {
                    newest_us = newest_us.max(point.unix_us);
                    points.push(point);
                }
            }
            Ok(())
        });
        points.sort_unstable_by_key(|point| point.unix_us);
        if first {
            points.clear();
            // None yet: whatever comes from now on is new.
            newest_us = if newest_us == since_us { now_us } else { newest_us };
        }
        if answered.is_some() || first {
            self.points_seen_us = Some(newest_us);
        }
    }

    /// Processes with their memory and utilisation, by PID.
    fn read_processes(&mut self, seen: &mut GpuDevice, now_us: u64, buffers: &mut Buffers) {
        let Ok(device) = &self.device else { return };
        let total = seen.memory_total_bytes;
        let processes = &mut seen.processes;
        list(&mut self.ask, device, ProcessList::Compute, processes, buffers);
        processes.extend_from_slice(&self.slow.processes);
        merge(processes);
        for process in processes.iter_mut() {
            process.memory_bytes = process.memory_bytes.and_then(|bytes| plausible::process_memory(bytes, total));
        }
        if processes.is_empty() {
            return;
        }
        if plausible::time(self.processes_seen_us, 0, now_us).is_none() {
            self.processes_seen_us = 0;
        }
        // Before the first read: the second before it.
        let furthest_us =
            now_us.saturating_sub(if self.processes_seen_us == 0 { 1_000_000 } else { FURTHEST_BACK_US });
        let since_us = self.processes_seen_us.max(furthest_us);
        let mut newest_us = since_us;
        let mut sampled = false;
        self.ask.ask(Reading::ProcessUtilization, || {
            let mut count = 0_u64;
            for point in nvml_raw::process_utilization(device, since_us, buffers)? {
                let Some(point_seen) = plausible::point(point.unix_us, point.value, since_us, now_us) else {
                    continue;
                };
                newest_us = newest_us.max(point_seen.unix_us);
                sampled = true;
                if let Ok(place) = processes.binary_search_by_key(&point.pid, |process| process.pid)
                    && let Some(process) = processes.get_mut(place)
                {
                    // One point a process is usual; of several the highest is kept rather than a mean of unequal times.
                    process.sm_utilization_pct = process.sm_utilization_pct.max(Some(point_seen.pct));
                }
                count += 1;
            }
            Ok(count)
        });
        self.processes_seen_us = newest_us;
        // Only processes that ran are answered. One that is missing did not run if others did, or if the device did not.
        if sampled || seen.utilization_pct == Some(0) {
            for process in processes {
                process.sm_utilization_pct = process.sm_utilization_pct.or(Some(0));
            }
        }
    }

    /// GPU performance monitoring: metrics between the sample of the previous tick and one of now.
    fn read_gpm(&mut self, seen: &mut GpuDevice) {
        let Ok(device) = &self.device else { return };
        let ask = &mut self.ask;
        let (now_ns, nvml) = (ask.now_ns, device.nvml());
        // The wrapper frees samples by a function it takes for granted.
        if self.gpm_supported == Some(false) || nvml.lib().nvmlGpmSampleFree.is_err() {
            return;
        }
        if self.gpm_supported.is_none() {
            self.gpm_supported = ask.ask(Reading::Gpm, || device.gpm_support());
        }
        if self.gpm_supported != Some(true)
            || self.gpm_before.as_ref().is_some_and(|&(_, then_ns)| now_ns < then_ns.saturating_add(GPM_EVERY_NS))
        {
            return;
        }
        let Some(sample) = ask.ask(Reading::Gpm, || device.gpm_sample()) else { return };
        if let Some((before, _)) = &self.gpm_before {
            let wanted = [GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];
            let metrics = ask.ask(Reading::Gpm, || gpm_metrics_get(nvml, before, &sample, &wanted));
            let mut metrics = metrics
                .unwrap_or_default()
                .into_iter()
                .map(|metric| metric.ok().and_then(|metric| plausible::gpm_percent(metric.value)));
            let mut next = || metrics.next().flatten();
            let gpm = Gpm { sm_active_pct: next(), tensor_active_pct: next(), dram_active_pct: next() };
            seen.gpm = (gpm != Gpm::default()).then_some(gpm);
        }
        self.gpm_before = Some((sample, now_ns));
    }

    /// Forgets what a lost device answered.
    fn forget(&mut self) {
        self.slow = Slow::default();
        (self.pcie_rx_kib_s, self.pcie_tx_kib_s) = (None, None);
        self.points_seen_us = None;
        self.gpm_before = None;
    }
}

/// Sorts by PID and makes one entry of a process in several lists (or in several MIG instances: not told apart yet).
fn merge(processes: &mut Vec<GpuProcess>) {
    processes.sort_unstable_by_key(|process| process.pid);
    processes.dedup_by(|next, kept| {
        let same = next.pid == kept.pid;
        if same {
            kept.memory_bytes = kept.memory_bytes.max(next.memory_bytes);
            kept.compute |= next.compute;
        }
        same
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_several_lists_is_one() {
        let process =
            |pid, memory_bytes, compute| GpuProcess { pid, memory_bytes, sm_utilization_pct: None, compute };
        let mut processes = vec![
            process(9, Some(1), true),
            process(3, None, true),
            process(9, Some(5), false),
            process(3, Some(2), false),
        ];
        merge(&mut processes);
        assert_eq!(processes, [process(3, Some(2), true), process(9, Some(5), true)]);
    }
}
