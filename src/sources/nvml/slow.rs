//! What does not change, and what moves slowly: read now and then, remembered in between.

use std::sync::Arc;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};

use super::ask::{Ask, Reading};
use super::plausible;
use crate::sample::gpu::{GpuDevice, GpuProcess};
use crate::sources::nvml_raw::{self, Buffers, ProcessList};

/// Slow readings, and facts that are still missing, are asked for this often, nanoseconds.
const SLOW_EVERY_NS: u64 = 5_000_000_000;

/// What does not change while the driver runs.
#[derive(Debug, Default)]
pub(super) struct Facts {
    name: Option<Arc<str>>,
    uuid: Option<Arc<str>>,
    minor: Option<u32>,
    sm_clock_max_mhz: Option<u32>,
    memory_clock_max_mhz: Option<u32>,
    pcie_generation_max: Option<u32>,
    pcie_width_max: Option<u32>,
    mig: Option<bool>,
    complete: bool,
    next_ns: u64,
}

/// What moves slowly, as last read.
#[derive(Debug, Default)]
pub(super) struct Slow {
    pub(super) power_limit_mw: Option<u32>,
    pub(super) temperature_c: Option<u32>,
    pub(super) memory_clock_mhz: Option<u32>,
    pub(super) pcie_generation: Option<u32>,
    pub(super) pcie_width: Option<u32>,
    pub(super) encoder_pct: Option<u32>,
    pub(super) decoder_pct: Option<u32>,
    pub(super) ecc_uncorrected: Option<u64>,
    pub(super) processes: Vec<GpuProcess>,
    next_ns: u64,
}

impl Facts {
    pub(super) fn read(&mut self, device: &Device<'static>, ask: &mut Ask) {
        if self.complete || ask.now_ns < self.next_ns {
            return;
        }
        self.next_ns = ask.now_ns.saturating_add(SLOW_EVERY_NS);
        let text = |text: String| Some(text).filter(|text| !text.is_empty()).map(Arc::from);
        missing(&mut self.name, || ask.ask(Reading::Name, || nvml_raw::name(device)).and_then(text));
        missing(&mut self.uuid, || ask.ask(Reading::Uuid, || nvml_raw::uuid(device)).and_then(text));
        missing(&mut self.minor, || ask.ask(Reading::Minor, || device.minor_number()).and_then(plausible::minor));
        missing(&mut self.sm_clock_max_mhz, || {
            ask.ask(Reading::SmClockMax, || device.max_clock_info(Clock::SM)).and_then(plausible::clock_maximum)
        });
        missing(&mut self.memory_clock_max_mhz, || {
            ask.ask(Reading::MemoryClockMax, || device.max_clock_info(Clock::Memory))
                .and_then(plausible::clock_maximum)
        });
        missing(&mut self.pcie_generation_max, || {
            ask.ask(Reading::PcieGenerationMax, || device.max_pcie_link_gen()).and_then(plausible::pcie_generation)
        });
        missing(&mut self.pcie_width_max, || {
            ask.ask(Reading::PcieWidthMax, || device.max_pcie_link_width()).and_then(plausible::pcie_width)
        });
        missing(&mut self.mig, || {
            let mode = ask.ask(Reading::Mig, || device.mig_mode())?;
            (mode.current <= 1).then_some(mode.current == 1)
        });
        self.complete = self.name.is_some()
            && self.uuid.is_some()
            && self.minor.is_some()
            && self.sm_clock_max_mhz.is_some()
            && self.memory_clock_max_mhz.is_some()
            && self.pcie_generation_max.is_some()
            && self.pcie_width_max.is_some()
            && self.mig.is_some();
    }

    pub(super) fn write(&self, seen: &mut GpuDevice) {
        seen.name.clone_from(&self.name);
        seen.uuid.clone_from(&self.uuid);
        seen.minor = self.minor;
        seen.sm_clock_max_mhz = self.sm_clock_max_mhz;
        seen.memory_clock_max_mhz = self.memory_clock_max_mhz;
        seen.pcie_generation_max = self.pcie_generation_max;
        seen.pcie_width_max = self.pcie_width_max;
        seen.mig = self.mig;
    }
}

impl Slow {
    pub(super) fn read(&mut self, device: &Device<'static>, ask: &mut Ask, buffers: &mut Buffers) {
        if ask.now_ns < self.next_ns {
            return;
        }
        self.next_ns = ask.now_ns.saturating_add(SLOW_EVERY_NS);
        self.power_limit_mw =
            ask.ask(Reading::PowerLimit, || device.enforced_power_limit()).and_then(plausible::power_limit);
        self.temperature_c = ask
            .ask(Reading::Temperature, || device.temperature(TemperatureSensor::Gpu))
            .and_then(plausible::temperature);
        self.memory_clock_mhz =
            ask.ask(Reading::MemoryClock, || device.clock_info(Clock::Memory)).and_then(plausible::clock);
        self.pcie_generation =
            ask.ask(Reading::PcieGeneration, || device.current_pcie_link_gen()).and_then(plausible::pcie_generation);
        self.pcie_width =
            ask.ask(Reading::PcieWidth, || device.current_pcie_link_width()).and_then(plausible::pcie_width);
        self.encoder_pct = ask
            .ask(Reading::Encoder, || device.encoder_utilization())
            .and_then(|encoder| plausible::percent(encoder.utilization));
        self.decoder_pct = ask
            .ask(Reading::Decoder, || device.decoder_utilization())
            .and_then(|decoder| plausible::percent(decoder.utilization));
        self.ecc_uncorrected = ask
            .ask(Reading::Ecc, || device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile))
            .and_then(plausible::counter);
        self.processes.clear();
        list(ask, device, ProcessList::Mps, &mut self.processes, buffers);
        list(ask, device, ProcessList::Graphics, &mut self.processes, buffers);
    }
}

/// Reads a fact that is still missing.
fn missing<T>(fact: &mut Option<T>, read: impl FnOnce() -> Option<T>) {
    if fact.is_none() {
        *fact = read();
    }
}

/// Appends a list of processes; their memory is not yet checked.
pub(super) fn list(
    ask: &mut Ask,
    device: &Device<'static>,
    which: ProcessList,
    processes: &mut Vec<GpuProcess>,
    buffers: &mut Buffers,
) {
    let reading = match which {
        ProcessList::Compute => Reading::Compute,
        ProcessList::Graphics => Reading::Graphics,
        ProcessList::Mps => Reading::Mps,
    };
    ask.ask(reading, || {
        processes.extend(nvml_raw::processes(device, which, buffers)?.filter_map(|process| {
            Some(GpuProcess {
                pid: plausible::pid(process.pid)?,
                memory_bytes: plausible::process_memory(process.used_memory, None),
                sm_utilization_pct: None,
                compute: which != ProcessList::Graphics,
            })
        }));
        Ok(())
    });
}
