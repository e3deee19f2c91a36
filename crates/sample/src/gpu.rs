//! The GPUs as reported by their drivers (or the simulated GPU).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::Private;

/// What each known bit of [`GpuReading::clock_event_reasons`] means
/// (`nvmlClocksEventReason*` and `nvmlClocksThrottleReason*` in nvml.h).
pub const CLOCK_EVENT_REASONS: [(u64, &str); 9] = [
    (0x1, "idle"),
    (0x2, "application-clocks"),
    (0x4, "power-cap"),
    (0x8, "hw-slowdown"),
    (0x10, "sync-boost"),
    (0x20, "sw-thermal"),
    (0x40, "hw-thermal"),
    (0x80, "power-brake"),
    (0x100, "display-clocks"),
];

/// The clock event reason of the software power cap.
pub const POWER_CAP: u64 = 0x4;
/// The clock event reason of the driver's temperature limits.
pub const SW_THERMAL: u64 = 0x20;
/// The clock event reason of the board's temperature alarms.
pub const HW_THERMAL: u64 = 0x40;

/// The clock event reasons by which heat or power holds the clocks down though the GPU could do more: HW slowdown, SW thermal, HW
/// thermal, HW power brake. The power cap is not one of them: it is where a busy GPU ends up.
pub const HELD_DOWN: u64 = 0x8 | 0x20 | 0x40 | 0x80;

/// The known clock event reasons in a mask, in words; empty if no known bit is set.
pub fn clock_event_words(mask: u64) -> impl Iterator<Item = &'static str> {
    CLOCK_EVENT_REASONS.iter().filter(move |(bit, _)| mask & bit != 0).map(|&(_, word)| word)
}

/// Errors that the driver reports by number, in words (NVIDIA's "Xid Errors"): those that end a job or need a reset.
const XIDS: [(u32, &str); 14] = [
    (13, "fault in a kernel of a program"),
    (31, "a program accessed memory that is not its own"),
    (43, "a program's work was stopped"),
    (45, "cleanup after earlier errors"),
    (48, "uncorrectable memory error"),
    (62, "controller halted"),
    (63, "memory row remapped"),
    (64, "cannot remap a memory row"),
    (74, "NVLink error"),
    (79, "fell off the bus"),
    (94, "contained memory error"),
    (95, "uncontained memory error"),
    (119, "GSP firmware does not answer"),
    (120, "GSP firmware failed"),
];

/// What is special about a GPU, in words: it is a part of one, encrypts, or is shared through MPS.
pub fn special_words(
    vgpu: Option<bool>,
    confidential: Option<bool>,
    by_mps: bool,
) -> impl Iterator<Item = &'static str> {
    let words = [(vgpu, "vGPU"), (confidential, "confidential computing"), (Some(by_mps), "MPS")];
    words.into_iter().filter(|(is_so, _)| *is_so == Some(true)).map(|(_, word)| word)
}

/// All GPUs at one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GpuSample {
    /// CLOCK_MONOTONIC when read, nanoseconds.
    pub monotonic_ns: u64,
    /// Driver version.
    pub driver: Option<Arc<str>>,
    /// True if the values come from trainmon's simulated GPU, not from a driver.
    pub simulated: bool,
    /// GPUs by index.
    pub devices: Vec<GpuReading>,
}

impl Private for GpuSample {}

/// One GPU. Every reading that the GPU or driver does not offer is `None`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GpuReading {
    /// NVML's index; those of other drivers count on from there.
    pub index: u32,
    /// UUID.
    pub uuid: Option<Arc<str>>,
    /// Product name, raw.
    pub name: Option<Arc<str>>,
    /// N of `/dev/nvidiaN`.
    pub minor: Option<u32>,
    /// Device files by which a process uses it; the first one is its own, the others are those of all GPUs of its driver. Empty for
    /// NVIDIA's, whose `minor` says it.
    #[serde(default)]
    pub files: Vec<Arc<str>>,
    /// True once the driver has reported this GPU as lost.
    pub lost: bool,
    /// The driver has put it to sleep, so that nothing was read.
    #[serde(default)]
    pub asleep: bool,
    /// It is on one chip with the CPUs and uses their memory.
    #[serde(default)]
    pub integrated: bool,
    /// A small integrated GPU that draws the screen, and is hardly ever used for training.
    #[serde(default)]
    pub for_display: bool,
    /// Its use and its memory in use are the sums over the processes that trainmon may see.
    #[serde(default)]
    pub of_processes: bool,
    /// Share of the last sample period in which a kernel ran, 0–100 (`nvmlDeviceGetUtilizationRates().gpu`).
    pub utilization_pct: Option<u32>,
    /// Share of the last sample period in which memory was read or written, 0–100.
    pub memory_utilization_pct: Option<u32>,
    /// Utilization points of the samples buffer since the last tick, in time order
    /// (`nvmlDeviceGetSamples(GPU_UTILIZATION_SAMPLES)`).
    pub utilization_points: Vec<UtilizationPoint>,
    /// Memory used, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory fitted, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Board power draw, milliwatts.
    pub power_mw: Option<u32>,
    /// Enforced power limit, milliwatts.
    pub power_limit_mw: Option<u32>,
    /// Energy since driver load, millijoules.
    pub energy_mj: Option<u64>,
    /// Core temperature, °C.
    pub temperature_c: Option<u32>,
    /// Streaming-multiprocessor clock, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Highest SM clock, MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Memory clock, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Highest memory clock, MHz.
    pub memory_clock_max_mhz: Option<u32>,
    /// Clock event reasons, NVML's bit mask (`nvmlClocksEventReason*` in nvml.h).
    pub clock_event_reasons: Option<u64>,
    /// PCIe bytes received by the GPU in a 20 ms window, KiB/s.
    #[serde(rename = "pcie_rx_kib_s")]
    pub pcie_rx_kib_per_s: Option<u32>,
    /// PCIe bytes sent by the GPU in a 20 ms window, KiB/s.
    #[serde(rename = "pcie_tx_kib_s")]
    pub pcie_tx_kib_per_s: Option<u32>,
    /// Current PCIe generation.
    pub pcie_generation: Option<u32>,
    /// Current PCIe link width, lanes.
    pub pcie_width: Option<u32>,
    /// Highest PCIe generation of GPU and slot.
    pub pcie_generation_max: Option<u32>,
    /// Highest PCIe width of GPU and slot.
    pub pcie_width_max: Option<u32>,
    /// Video encoder use, 0–100.
    pub encoder_pct: Option<u32>,
    /// Video decoder use, 0–100.
    pub decoder_pct: Option<u32>,
    /// Processes on the GPU.
    pub processes: Vec<GpuProcess>,
    /// GPU performance monitoring readings (Hopper and later).
    pub gpm: Option<Gpm>,
    /// Whether MIG is on.
    pub mig: Option<bool>,
    /// Uncorrected ECC errors since driver load.
    pub ecc_uncorrected: Option<u64>,
    /// Whether it is a vGPU: what a virtual machine has of a GPU that others may use, too (`nvmlDeviceGetVirtualizationMode`).
    #[serde(default)]
    pub vgpu: Option<bool>,
    /// Whether confidential computing is on, which encrypts copies and switches performance counters off
    /// (`nvmlSystemGetConfComputeState`).
    #[serde(default)]
    pub confidential: Option<bool>,
    /// The process of DCGM that may be why GPM refuses: its name and PID.
    #[serde(default)]
    pub gpm_beside: Option<Arc<str>>,
    /// The processes that share it through the multi-process service; `None` if no process does.
    #[serde(default)]
    pub mps: Option<MpsUse>,
    /// Data received over all NVLinks, a counter, KiB.
    #[serde(default)]
    pub nvlink_rx_kib: Option<u64>,
    /// Data sent over all NVLinks, a counter, KiB.
    #[serde(default)]
    pub nvlink_tx_kib: Option<u64>,
    /// Errors that the driver has reported since trainmon attached; `None` if it does not report them.
    #[serde(default)]
    pub xids: Option<GpuXids>,
    /// PIDs that the driver knows and that hold nothing on any of its GPUs. Empty where it does not tell.
    #[serde(default)]
    pub unused_by: Vec<u32>,
}

impl GpuReading {
    /// Whether it may be busy, and nothing says how much.
    pub fn hides_its_use(&self) -> bool {
        let is_idle = self.asleep || self.of_processes && self.processes.is_empty();
        !is_idle && self.utilization_pct.is_none() && self.utilization_points.is_empty()
    }
}

/// Processes that share a GPU through NVIDIA's multi-process service (MPS).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MpsUse {
    /// PID of the server, in whose name the driver may count what its clients do.
    pub server: Option<u32>,
    /// PIDs of its clients, sorted; empty where the driver lists the server alone.
    pub clients: Vec<u32>,
}

/// Errors of a GPU that the driver has reported (Xid).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuXids {
    /// How many.
    pub count: u64,
    /// Number of the last one that does not only follow from another; `None` without any.
    pub last: Option<u32>,
    /// CLOCK_MONOTONIC when that was seen, nanoseconds; 0 in older recordings.
    #[serde(default)]
    pub last_ns: u64,
}

/// What the driver reports when it ends programs on a GPU, whatever the reason ("Xid Errors" of NVIDIA's documentation).
const FOLLOW_UPS: [u32; 2] = [43, 45];

impl GpuXids {
    /// Counts an error that was seen at this time.
    pub fn add(&mut self, number: u32, now_ns: u64) {
        self.count = self.count.saturating_add(1);
        if self.last.is_none() || !FOLLOW_UPS.contains(&number) {
            (self.last, self.last_ns) = (Some(number), now_ns);
        }
    }

    /// Whether the last one was seen within so many seconds before this time.
    pub fn is_within(&self, seconds: u64, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.last_ns) <= seconds.saturating_mul(1_000_000_000)
    }

    /// The last one in words: `Xid 79 (fell off the bus)`; `None` without any.
    pub fn words(&self) -> Option<String> {
        let number = self.last?;
        let meaning = XIDS.iter().find(|(known, _)| *known == number).map(|(_, words)| format!(" ({words})"));
        Some(format!("Xid {number}{}", meaning.unwrap_or_default()))
    }
}

/// One point of the utilization samples buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UtilizationPoint {
    /// Wall clock of the point, microseconds since 1970 as the driver gives it.
    pub unix_us: u64,
    /// Utilization over the period that ends here, 0–100.
    pub pct: u32,
}

/// A process on a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcess {
    /// PID in the host's PID namespace.
    pub pid: u32,
    /// GPU memory held, bytes.
    pub memory_bytes: Option<u64>,
    /// SM utilization of this process since the last tick, 0–100 (`nvmlDeviceGetProcessUtilization`).
    pub sm_utilization_pct: Option<u32>,
    /// Whether it runs compute work; false for graphics only.
    pub compute: bool,
}

/// GPU performance monitoring (GPM) readings over the last tick, percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Gpm {
    /// SMs with at least one warp assigned.
    pub sm_active_pct: Option<f64>,
    /// Tensor cores active.
    pub tensor_active_pct: Option<f64>,
    /// DRAM bandwidth used.
    pub dram_active_pct: Option<f64>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn clock_events_in_words() {
        assert_eq!(clock_event_words(0x4 | 0x40).collect::<Vec<_>>(), ["power-cap", "hw-thermal"]);
        assert_eq!(clock_event_words(0x200).count(), 0);
    }

    #[test]
    fn errors_in_words() {
        let words = |last| GpuXids { count: 1, last, last_ns: 0 }.words();
        assert_eq!(words(Some(79)).as_deref(), Some("Xid 79 (fell off the bus)"));
        assert_eq!(words(Some(9_999)).as_deref(), Some("Xid 9999"));
        assert_eq!(words(None), None);
    }

    #[test]
    fn what_follows_from_an_error_does_not_hide_it() {
        let mut xids = GpuXids::default();
        xids.add(45, 1_000_000_000);
        assert_eq!((xids.count, xids.last), (1, Some(45)), "there is no other");
        for number in [48, 43, 45] {
            xids.add(number, 2_000_000_000);
        }
        assert_eq!((xids.count, xids.last), (4, Some(48)));
        assert!(xids.is_within(10, 12_000_000_000) && !xids.is_within(10, 12_000_000_001));
    }

    #[test]
    fn what_is_unknown_is_not_special() {
        assert_eq!(special_words(None, Some(false), false).count(), 0);
        assert_eq!(
            special_words(Some(true), Some(true), true).collect::<Vec<_>>(),
            ["vGPU", "confidential computing", "MPS"]
        );
    }

    proptest! {
        #[test]
        fn a_word_for_each_known_bit(mask: u64) {
            prop_assert_eq!(clock_event_words(mask).count(), (mask & 0x1ff).count_ones() as usize);
        }
    }
}
