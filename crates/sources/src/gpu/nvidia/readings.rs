//! A GPU's readings as tables: field of the sample, call, and which values are believed.

use std::sync::Arc;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{
    Clock, EccCounter, GpuVirtualizationMode, MemoryError, PcieUtilCounter, TemperatureSensor,
};

use super::super::plausible::{self as believed, within};
use super::query::Query;
use super::raw;
use trainmon_sample::gpu::GpuReading;

/// Makes the call for each field that is still empty, and keeps plausible values.
macro_rules! read {
    ($query:ident, $into:ident: $($field:ident = $call:expr, $believed:expr;)*) => {$(
        if $into.$field.is_none() {
            $into.$field = $query.get(stringify!($field), || $call).and_then($believed);
        }
    )*};
}

/// The two calls for the memory.
const MEMORY: [&str; 2] = ["memory", "memory by the older call"];

/// Whether the GPU has no memory of its own (GB10, Jetson): NVML then says of both calls that they are not supported.
pub(super) fn is_integrated(query: &Query) -> bool {
    MEMORY.iter().all(|name| query.is_unsupported(name))
}

/// What does not change while the driver runs.
pub(super) fn facts(device: &Device<'static>, query: &mut Query, into: &mut GpuReading) {
    let text = |text: String| Some(text).filter(|text| !text.is_empty()).map(Arc::from);
    read! { query, into:
        name = raw::name(device), text;
        uuid = raw::uuid(device), text;
        minor = device.minor_number(), within(believed::MINOR);
        sm_clock_max_mhz = device.max_clock_info(Clock::SM), within(believed::CLOCK_MAX_MHZ);
        memory_clock_max_mhz = device.max_clock_info(Clock::Memory), within(believed::CLOCK_MAX_MHZ);
        pcie_generation_max = device.max_pcie_link_gen(), within(believed::PCIE_GENERATION);
        pcie_width_max = device.max_pcie_link_width(), within(believed::PCIE_WIDTH);
        mig = device.mig_mode().map(|mode| mode.current), |mode| within(0..=1)(mode).map(|mode| mode == 1);
        vgpu = device.virtualization_mode(), |mode| Some(mode == GpuVirtualizationMode::Vgpu);
        confidential = raw::confidential(device), |on| within(0..=1)(on).map(|on| on == 1);
    }
}

/// Slow readings.
pub(super) fn slow(device: &Device<'static>, query: &mut Query, into: &mut GpuReading) {
    read! { query, into:
        power_limit_mw = device.enforced_power_limit(), within(believed::POWER_LIMIT_MW);
        temperature_c = device.temperature(TemperatureSensor::Gpu), within(believed::TEMPERATURE_C);
        memory_clock_mhz = device.clock_info(Clock::Memory), within(believed::CLOCK_MHZ);
        pcie_generation = device.current_pcie_link_gen(), within(believed::PCIE_GENERATION);
        pcie_width = device.current_pcie_link_width(), within(believed::PCIE_WIDTH);
        encoder_pct = device.encoder_utilization().map(|encoder| encoder.utilization), within(believed::PERCENT);
        decoder_pct = device.decoder_utilization().map(|decoder| decoder.utilization), within(believed::PERCENT);
        ecc_uncorrected = device.total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile),
            within(believed::COUNTER);
    }
}

/// What is read in every tick. The power check depends on the limit, so the limit must be read before.
pub(super) fn fast(device: &Device<'static>, query: &mut Query, into: &mut GpuReading) {
    if let Some(rates) = query.get("utilization", || device.utilization_rates()) {
        into.utilization_pct = within(believed::PERCENT)(rates.gpu);
        into.memory_utilization_pct = within(believed::PERCENT)(rates.memory);
    }
    let memory = query
        .get(MEMORY[0], || device.memory_info().map(|memory| (memory.used, memory.total)))
        .or_else(|| query.get(MEMORY[1], || raw::memory_v1(device)));
    if let Some((used, total)) = memory {
        (into.memory_used_bytes, into.memory_total_bytes) = believed::memory(used, total);
    }
    let limit_mw = into.power_limit_mw;
    read! { query, into:
        power_mw = device.power_usage(), |power_mw| believed::power(power_mw, limit_mw);
        energy_mj = device.total_energy_consumption(), within(believed::COUNTER);
        sm_clock_mhz = device.clock_info(Clock::SM), within(believed::CLOCK_MHZ);
        clock_event_reasons = raw::clock_event_reasons(device), within(believed::COUNTER);
    }
    if let Some([sent, received]) = query.get("NVLink", || raw::nvlink_kib(device)) {
        into.nvlink_tx_kib = sent.and_then(within(believed::COUNTER));
        into.nvlink_rx_kib = received.and_then(within(believed::COUNTER));
    }
}

/// A virtual machine is not told power, heat and clocks of the GPU that its vGPU is a part of. A zero says that, too ("Management SDK
/// User Guide" of NVIDIA's virtual GPU software). Without a clock, nothing is known of what holds it down.
pub(super) fn leave_out_what_a_vgpu_is_not_told(seen: &mut GpuReading) {
    if seen.vgpu != Some(true) {
        return;
    }
    for value in [&mut seen.power_mw, &mut seen.temperature_c, &mut seen.sm_clock_mhz, &mut seen.memory_clock_mhz] {
        *value = value.filter(|value| *value > 0);
    }
    seen.energy_mj = seen.energy_mj.filter(|energy| *energy > 0);
    seen.clock_event_reasons = seen.clock_event_reasons.filter(|_| seen.sm_clock_mhz.is_some());
}

/// One direction of the PCIe link, replacing what was measured before.
pub(super) fn pcie(device: &Device<'static>, query: &mut Query, direction: PcieUtilCounter, into: &mut GpuReading) {
    let (name, rate_kib_s) = match direction {
        PcieUtilCounter::Receive => ("pcie_rx_kib_s", &mut into.pcie_rx_kib_per_s),
        PcieUtilCounter::Send => ("pcie_tx_kib_s", &mut into.pcie_tx_kib_per_s),
    };
    *rate_kib_s = query.get(name, || device.pcie_throughput(direction)).and_then(within(believed::PCIE_KIB_S));
}
