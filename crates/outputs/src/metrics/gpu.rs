//! Metrics of the GPUs of the machine, whether or not a job uses them.

use std::sync::Arc;

use super::{Labeled, count, label, metrics, ratio};
use trainmon_rates::frame::GpuRates;
use trainmon_sample::gpu::{CLOCK_EVENT_REASONS, clock_event_words};

/// One GPU.
pub(super) struct GpuScope {
    gpu: GpuRates,
    driver: Option<Arc<str>>,
}

impl GpuScope {
    pub(super) fn labeled(gpu: &GpuRates, driver: &Option<Arc<str>>) -> Labeled<Self> {
        let driver = driver.clone();
        Labeled::new(labels(gpu), Self { gpu: gpu.clone(), driver })
    }
}

/// The labels by which a GPU is known to NVIDIA's DCGM exporter, too.
pub(super) fn labels(gpu: &GpuRates) -> impl Iterator<Item = (&'static str, String)> {
    let uuid = gpu.uuid.as_deref().map(|uuid| ("UUID", label(uuid)));
    [("gpu", gpu.index.to_string())].into_iter().chain(uuid)
}

/// A clock in hertz.
fn hertz(mhz: Option<u32>) -> Option<f64> {
    mhz.map(|mhz| f64::from(mhz) * 1e6)
}

metrics! {
    /// Of each GPU.
    GPU of GpuScope {
        /// model and driver; always 1
        Gauge gpu_info "" ["modelName", "driver"], |of, out| {
            let name = of.gpu.name.as_deref().unwrap_or_default();
            out.labeled([name, of.driver.as_deref().unwrap_or_default()], 1.0);
        };
        /// the GPU no longer answers (1)
        Gauge gpu_lost "", |of, out| out.value(f64::from(u8::from(of.gpu.lost)));
        /// share of the time in which a kernel ran
        Gauge gpu_utilization "ratio", |of, out| out.value(ratio(of.gpu.utilization_pct));
        /// share of the time in which the memory was read or written
        Gauge gpu_memory_utilization "ratio", |of, out| out.value(ratio(of.gpu.memory_utilization_pct));
        /// memory in use
        Gauge gpu_memory_used "bytes", |of, out| out.value(count(of.gpu.memory_used_bytes));
        /// memory fitted
        Gauge gpu_memory_total "bytes", |of, out| out.value(count(of.gpu.memory_total_bytes));
        /// power
        Gauge gpu_power "watts", |of, out| out.value(of.gpu.power_w);
        /// power limit
        Gauge gpu_power_limit "watts", |of, out| out.value(of.gpu.power_limit_w);
        /// temperature
        Gauge gpu_temperature "celsius", |of, out| out.value(of.gpu.temperature_c.map(f64::from));
        /// clock of the SMs
        Gauge gpu_sm_clock "hertz", |of, out| out.value(hertz(of.gpu.sm_clock_mhz));
        /// highest clock of the SMs
        Gauge gpu_sm_clock_max "hertz", |of, out| out.value(hertz(of.gpu.sm_clock_max_mhz));
        /// why the clocks are not higher: 1 for each reason that holds
        Gauge gpu_clock_event "" ["reason"], |of, out| {
            let Some(mask) = of.gpu.clock_event_reasons else { return };
            for (_, reason) in CLOCK_EVENT_REASONS {
                let holds = clock_event_words(mask).any(|word| word == reason);
                out.labeled([reason], f64::from(u8::from(holds)));
            }
        };
        /// share of the time in which SMs were active
        Gauge gpu_sm_active "ratio", |of, out| out.value(ratio(of.gpu.sm_active_pct));
        /// share of the time in which tensor cores were active
        Gauge gpu_tensor_active "ratio", |of, out| out.value(ratio(of.gpu.tensor_active_pct));
        /// share of the memory's bandwidth that was used
        Gauge gpu_dram_active "ratio", |of, out| out.value(ratio(of.gpu.dram_active_pct));
        /// bytes per second received over PCIe
        Gauge gpu_pcie_receive "bytes_per_second", |of, out| out.value(of.gpu.pcie_rx_bytes_per_s);
        /// bytes per second sent over PCIe
        Gauge gpu_pcie_transmit "bytes_per_second", |of, out| out.value(of.gpu.pcie_tx_bytes_per_s);
        /// uncorrected memory errors since the driver was loaded
        Gauge gpu_ecc_uncorrected_errors "", |of, out| out.value(count(of.gpu.ecc_uncorrected));
    }
}
