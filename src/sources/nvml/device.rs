//! One device of NVML: what is asked of it in a tick, and what is remembered in between.

use std::sync::Arc;

use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::{Device, Nvml};

use super::plausible::{
    self, CLOCK_MAX_MHZ, CLOCK_MHZ, MINOR, PCIE_GENERATION, PCIE_KIB_S, PCIE_LANES, PERCENT, PID, POWER_LIMIT_MW,
    TEMPERATURE_C, within,
};
use super::query::Queries;
use crate::sample::gpu::{Gpm, GpuDevice, GpuProcess};
use crate::sources::nvml_raw::{self, Buffers, ProcessList};

/// A lost device, or one that could not be opened, is asked again after this long, nanoseconds.
const LOST_FOR_NS: u64 = 10_000_000_000;
/// Slow readings, and facts that are still missing, are asked for this often, nanoseconds.
const SLOW_EVERY_NS: u64 = 5_000_000_000;
/// Points are never asked for further back than this, microseconds; the driver keeps about 20 s.
const FURTHEST_BACK_US: u64 = 5_000_000;
/// Nearest two GPM samples from which metrics are made, nanoseconds.
const GPM_EVERY_NS: u64 = 90_000_000;

/// A device, or the place of one that could not be opened.
#[derive(Debug)]
pub(super) struct DeviceReader {
    device: Result<Device<'static>, NvmlError>,
    again_ns: u64,
    queries: Queries,
    /// What does not change while the driver runs, and nothing else.
    facts: GpuDevice,
    /// The facts with what moves slowly as last read; processes are those of the slow lists.
    known: GpuDevice,
    slow_next_ns: u64,
    /// Time stamp of the newest point seen; `None` before the first read.
    points_seen_us: Option<u64>,
    processes_seen_us: u64,
    gpm_supported: Option<bool>,
    gpm_before: Option<(GpmSample<'static>, u64)>,
}

impl DeviceReader {
    pub(super) fn open(nvml: &'static Nvml, index: u32) -> Self {
        let facts = GpuDevice { index, ..GpuDevice::default() };
        Self {
            device: nvml.device_by_index(index),
            again_ns: 0,
            queries: Queries::default(),
            known: facts.clone(),
            facts,
            slow_next_ns: 0,
            points_seen_us: None,
            processes_seen_us: 0,
            gpm_supported: None,
            gpm_before: None,
        }
    }

    /// Why the device could not be opened.
    pub(super) fn refusal(&self) -> Option<&NvmlError> {
        self.device.as_ref().err()
    }

    /// The error that says that no device answers any more.
    pub(super) fn driver_gone(&mut self) -> Option<&NvmlError> {
        self.queries.driver_gone.as_ref()
    }

    /// Tries again to open a device that could not be opened.
    pub(super) fn reopen(&mut self, nvml: &'static Nvml, now_ns: u64) {
        if self.device.is_err() && now_ns >= self.again_ns {
            self.device = nvml.device_by_index(self.facts.index);
            self.again_ns = now_ns.saturating_add(LOST_FOR_NS);
        }
    }

    /// Reads the device; `pcie` is the direction whose rate is read in this tick.
    pub(super) fn read(
        &mut self,
        now_ns: u64,
        now_us: u64,
        pcie: Option<PcieUtilCounter>,
        buffers: &mut Buffers,
    ) -> GpuDevice {
        if let Err(error) = &self.device {
            let lost = matches!(error, NvmlError::GpuLost | NvmlError::ResetRequired);
            return GpuDevice { lost, ..self.facts.clone() };
        }
        self.queries.now_ns = now_ns;
        self.queries.driver_gone = None;
        if self.queries.lost && now_ns >= self.again_ns {
            self.queries.lost = false;
        }
        let mut seen = GpuDevice::default();
        if !self.queries.lost {
            self.read_slow(buffers);
            self.read_pcie(pcie);
            seen = self.known.clone();
            self.read_fast(&mut seen);
            self.read_points(&mut seen, now_us, buffers);
            self.read_processes(&mut seen, now_us, buffers);
            self.read_gpm(&mut seen);
        }
        if self.queries.lost {
            if now_ns >= self.again_ns {
                self.again_ns = now_ns.saturating_add(LOST_FOR_NS);
            }
            // What it answered before is forgotten; readings of this very tick are not shown beside the news.
            self.known = self.facts.clone();
            (self.slow_next_ns, self.points_seen_us, self.gpm_before) = (0, None, None);
            seen = GpuDevice { lost: true, ..self.facts.clone() };
        }
        seen
    }

    /// What does not change, as long as it is missing, and what moves slowly.
    fn read_slow(&mut self, buffers: &mut Buffers) {
        let Ok(device) = &self.device else { return };
        let (query, facts) = (&mut self.queries, &mut self.facts);
        if query.now_ns < self.slow_next_ns {
            return;
        }
        self.slow_next_ns = query.now_ns.saturating_add(SLOW_EVERY_NS);
        let text = |text: String| Some(text).filter(|text| !text.is_empty()).map(Arc::from);
        missing(&mut facts.name, || query.get("name", || nvml_raw::name(device)).and_then(text));
        missing(&mut facts.uuid, || query.get("UUID", || nvml_raw::uuid(device)).and_then(text));
        missing(&mut facts.minor, || query.get("minor", || device.minor_number()).and_then(within(MINOR)));
        missing(&mut facts.sm_clock_max_mhz, || {
            query.get("SM clock maximum", || device.max_clock_info(Clock::SM)).and_then(within(CLOCK_MAX_MHZ))
        });
        missing(&mut facts.memory_clock_max_mhz, || {
            query.get("memory clock maximum", || device.max_clock_info(Clock::Memory)).and_then(within(CLOCK_MAX_MHZ))
        });
        missing(&mut facts.pcie_generation_max, || {
            query.get("PCIe generation maximum", || device.max_pcie_link_gen()).and_then(within(PCIE_GENERATION))
        });
        missing(&mut facts.pcie_width_max, || {
            query.get("PCIe width maximum", || device.max_pcie_link_width()).and_then(within(PCIE_LANES))
        });
        missing(&mut facts.mig, || {
            let mode = query.get("MIG", || device.mig_mode())?;
            (mode.current <= 1).then_some(mode.current == 1)
        });

        let (pcie_rx_kib_s, pcie_tx_kib_s) = (self.known.pcie_rx_kib_s, self.known.pcie_tx_kib_s);
        let known = &mut self.known;
        *known = GpuDevice { pcie_rx_kib_s, pcie_tx_kib_s, ..facts.clone() };
        known.power_limit_mw =
            query.get("power limit", || device.enforced_power_limit()).and_then(within(POWER_LIMIT_MW));
        known.temperature_c =
            query.get("temperature", || device.temperature(TemperatureSensor::Gpu)).and_then(within(TEMPERATURE_C));
        known.memory_clock_mhz =
            query.get("memory clock", || device.clock_info(Clock::Memory)).and_then(within(CLOCK_MHZ));
        known.pcie_generation =
            query.get("PCIe generation", || device.current_pcie_link_gen()).and_then(within(PCIE_GENERATION));
        known.pcie_width = query.get("PCIe width", || device.current_pcie_link_width()).and_then(within(PCIE_LANES));
        let encoder = query.get("encoder", || device.encoder_utilization());
        known.encoder_pct = encoder.and_then(|encoder| within(PERCENT)(encoder.utilization));
        let decoder = query.get("decoder", || device.decoder_utilization());
        known.decoder_pct = decoder.and_then(|decoder| within(PERCENT)(decoder.utilization));
        known.ecc_uncorrected = query
            .get("ECC", || device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))
            .and_then(plausible::counter);
        for which in [ProcessList::Mps, ProcessList::Graphics] {
            list(query, device, which, &mut known.processes, buffers);
        }
    }

    /// One direction of the PCIe rate, remembered until its next turn.
    fn read_pcie(&mut self, direction: Option<PcieUtilCounter>) {
        let (Ok(device), Some(direction)) = (&self.device, direction) else { return };
        let (name, place) = match direction {
            PcieUtilCounter::Receive => ("PCIe received", &mut self.known.pcie_rx_kib_s),
            PcieUtilCounter::Send => ("PCIe sent", &mut self.known.pcie_tx_kib_s),
        };
        *place = self.queries.get(name, || device.pcie_throughput(direction)).and_then(within(PCIE_KIB_S));
    }

    /// What is asked in every tick.
    fn read_fast(&mut self, seen: &mut GpuDevice) {
        let Ok(device) = &self.device else { return };
        let query = &mut self.queries;
        if let Some(rates) = query.get("utilisation", || device.utilization_rates()) {
            seen.utilization_pct = within(PERCENT)(rates.gpu);
            seen.memory_utilization_pct = within(PERCENT)(rates.memory);
        }
        let memory = query
            .get("memory", || device.memory_info().map(|memory| (memory.used, memory.total)))
            .or_else(|| query.get("memory, older call", || nvml_raw::memory_v1(device)));
        if let Some((used, total)) = memory {
            (seen.memory_used_bytes, seen.memory_total_bytes) = plausible::memory(used, total);
        }
        let power = query.get("power", || device.power_usage());
        seen.power_mw = power.and_then(|power| plausible::power(power, seen.power_limit_mw));
        seen.energy_mj = query.get("energy", || device.total_energy_consumption()).and_then(plausible::counter);
        seen.sm_clock_mhz = query.get("SM clock", || device.clock_info(Clock::SM)).and_then(within(CLOCK_MHZ));
        seen.clock_event_reasons =
            query.get("clock events", || nvml_raw::clock_event_reasons(device)).and_then(plausible::counter);
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
        let answered = self.queries.get("samples", || {
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
        list(&mut self.queries, device, ProcessList::Compute, processes, buffers);
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
        self.queries.get("process utilisation", || {
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
        let query = &mut self.queries;
        let (now_ns, nvml) = (query.now_ns, device.nvml());
        // The wrapper frees samples by a function it takes for granted.
        if self.gpm_supported == Some(false) || nvml.lib().nvmlGpmSampleFree.is_err() {
            return;
        }
        if self.gpm_supported.is_none() {
            self.gpm_supported = query.get("GPM", || device.gpm_support());
        }
        if self.gpm_supported != Some(true)
            || self.gpm_before.as_ref().is_some_and(|&(_, then_ns)| now_ns < then_ns.saturating_add(GPM_EVERY_NS))
        {
            return;
        }
        let Some(sample) = query.get("GPM", || device.gpm_sample()) else { return };
        if let Some((before, _)) = &self.gpm_before {
            let wanted = [GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil, GpmMetricId::DramBwUtil];
            let metrics = query.get("GPM", || gpm_metrics_get(nvml, before, &sample, &wanted));
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
}

/// Reads a fact that is still missing.
fn missing<T>(fact: &mut Option<T>, read: impl FnOnce() -> Option<T>) {
    if fact.is_none() {
        *fact = read();
    }
}

/// Appends a list of processes; their memory is not yet checked.
fn list(
    queries: &mut Queries,
    device: &Device<'static>,
    which: ProcessList,
    processes: &mut Vec<GpuProcess>,
    buffers: &mut Buffers,
) {
    queries.get(which.name(), || {
        processes.extend(nvml_raw::processes(device, which, buffers)?.filter_map(|process| {
            Some(GpuProcess {
                pid: within(PID)(process.pid)?,
                memory_bytes: plausible::process_memory(process.used_memory, None),
                sm_utilization_pct: None,
                compute: which != ProcessList::Graphics,
            })
        }));
        Ok(())
    });
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
