//! The devices: which of them the job uses, how busy they were, and what of it was the job.

use std::collections::{HashMap, HashSet};

use super::GpuChoice;
use super::delta::{copied, delta, span};
use super::device::DeviceUse;
use super::frame::{GpuLink, GpuProcessRates, GpuRates};
use crate::sample::{GpuDevice, GpuProcess, GpuSample, JobSample, Sample};

/// Bytes per second of one PCIe lane, one way, by generation from 1, after line coding
/// (PCI Express Base Specification: 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with FLITs).
const PCIE_LANE_BYTES_S: [f64; 6] = [250e6, 500e6, 985e6, 1969e6, 3938e6, 7563e6];

/// NVML's energy counter moves in steps of up to 100 ms of consumption: below this interval the power reading is better.
const ENERGY_MIN_S: f64 = 0.5;

/// A reading this old still says whether the device works at all (for telling waits apart, not for rates).
const RECENT_NS: u64 = 3_000_000_000;

/// What the other parts need to know of the devices.
#[derive(Debug, Default)]
pub(super) struct GpuFold {
    pub link: GpuLink,
    pub rates: Vec<GpuRates>,
    /// Attached devices whose use is known.
    pub attached: Vec<DeviceUse>,
    memory: HashMap<u32, u64>,
}

impl GpuFold {
    /// Device memory by PID, summed over devices.
    pub(super) fn memory_by_pid(&self) -> &HashMap<u32, u64> {
        &self.memory
    }
}

pub(super) fn fold(
    choices: &[GpuChoice],
    before: Option<&Sample>,
    sample: &Sample,
    stale_against: Option<&Sample>,
) -> GpuFold {
    let Some(gpus) = sample.gpus.as_deref() else { return GpuFold::default() };
    let before_gpus = before.and_then(|before| before.gpus.as_deref());
    let stale = stale_against
        .and_then(|before| before.gpus.as_deref())
        .is_some_and(|before| before.monotonic_ns == gpus.monotonic_ns);
    let seconds = span(before_gpus.map(|before| before.monotonic_ns), gpus.monotonic_ns);
    let job = sample.job.as_deref();
    let pids = job.map(job_pids).unwrap_or_default();
    let (link, attached) = attached(choices, gpus, job, &pids);
    let matched = gpus.devices.iter().flat_map(|device| &device.processes).any(|process| pids.contains(&process.pid));

    let mut out = GpuFold { link, ..GpuFold::default() };
    for (position, device) in gpus.devices.iter().enumerate() {
        let earlier = before_gpus.and_then(|before| {
            before.devices.iter().find(|earlier| earlier.index == device.index && earlier.uuid == device.uuid)
        });
        let is_attached = attached.contains(&position);
        let use_now = Use::of(device, &pids, is_attached, matched);
        for process in &device.processes {
            if let Some(bytes) = process.memory_bytes {
                let total = out.memory.entry(process.pid).or_insert(0);
                *total = total.saturating_add(bytes);
            }
        }
        out.rates.push(rates(device, gpus.simulated, earlier, seconds, is_attached, stale, &use_now));
        let recent = sample.monotonic_ns.saturating_sub(gpus.monotonic_ns) <= RECENT_NS;
        if let Some(pct) = use_now.utilization_pct.filter(|_| is_attached && !device.lost && recent) {
            let scale = match use_now.job_utilization_pct {
                Some(own) if !use_now.others.is_empty() && pct > 0.0 => (own / pct).clamp(0.0, 1.0),
                _ => 1.0,
            };
            let from_ns = before.map_or(sample.monotonic_ns, |before| before.monotonic_ns);
            let listed = device.processes.iter().map(|process| process.pid).collect();
            let points = &device.utilization_points;
            out.attached.push(DeviceUse::new(listed, !stale, pct / 100.0, scale, points, sample, from_ns));
        }
    }
    out
}

/// PIDs by which NVML may name the job's processes: ours, and inside one PID namespace also the innermost ones. Seen from
/// the host, the inner PIDs of a container would only match strangers.
fn job_pids(job: &JobSample) -> HashSet<u32> {
    let inner = job.processes.iter().filter(|_| !job.other_pid_namespace).filter_map(|process| process.inner_pid);
    job.processes.iter().map(|process| process.id.pid).chain(inner).collect()
}

/// Positions of the devices that the job uses, and how that was told: the person's choice, else NVML's processes, else
/// open device files, else CUDA_VISIBLE_DEVICES.
fn attached(
    choices: &[GpuChoice],
    gpus: &GpuSample,
    job: Option<&JobSample>,
    pids: &HashSet<u32>,
) -> (GpuLink, HashSet<usize>) {
    let positions = |wanted: &dyn Fn(&GpuDevice) -> bool| -> HashSet<usize> {
        gpus.devices.iter().enumerate().filter(|(_, device)| wanted(device)).map(|(at, _)| at).collect()
    };
    if !choices.is_empty() {
        let chosen = positions(&|device| choices.iter().any(|choice| is_chosen(choice, device)));
        return (GpuLink::Chosen, chosen);
    }
    let by_process = positions(&|device| device.processes.iter().any(|process| pids.contains(&process.pid)));
    if !by_process.is_empty() {
        return (GpuLink::Processes, by_process);
    }
    let minors = job.and_then(|job| job.nvidia_minors.as_deref()).unwrap_or_default();
    let by_minor = positions(&|device| device.minor.is_some_and(|minor| minors.contains(&minor)));
    if !by_minor.is_empty() {
        return (GpuLink::OpenDevice, by_minor);
    }
    let visible = job.and_then(|job| job.cuda_visible_devices.as_deref()).unwrap_or_default();
    let visible = visible_devices(visible);
    let by_visible = positions(&|device| visible.iter().any(|choice| is_chosen(choice, device)));
    if by_visible.is_empty() { (GpuLink::None, by_visible) } else { (GpuLink::VisibleDevices, by_visible) }
}

fn is_chosen(choice: &GpuChoice, device: &GpuDevice) -> bool {
    match choice {
        GpuChoice::Index(index) => device.index == *index,
        GpuChoice::Uuid(prefix) => {
            !prefix.is_empty() && device.uuid.as_deref().is_some_and(|uuid| uuid.starts_with(prefix.as_str()))
        }
    }
}

/// The devices that a value of CUDA_VISIBLE_DEVICES names: indices or beginnings of UUIDs; what follows the first
/// invalid entry is invisible (CUDA C++ Programming Guide, "CUDA Environment Variables"). Indices are taken as NVML's,
/// which they are with CUDA_DEVICE_ORDER=PCI_BUS_ID and on hosts with devices of one kind. A MIG instance in the form
/// `MIG-GPU-<uuid>/…` names its device.
fn visible_devices(value: &str) -> Vec<GpuChoice> {
    let entry = |entry: &str| {
        let entry = entry.trim();
        if let Ok(index) = entry.parse() {
            return Some(GpuChoice::Index(index));
        }
        let uuid = entry.strip_prefix("MIG-").unwrap_or(entry);
        let uuid = uuid.split('/').next().unwrap_or(uuid);
        uuid.starts_with("GPU-").then(|| GpuChoice::Uuid(uuid.to_owned()))
    };
    value.split(',').map_while(entry).collect()
}

/// How a device was used, by the job and by others.
#[derive(Debug, Default)]
struct Use {
    utilization_pct: Option<f64>,
    job_utilization_pct: Option<f64>,
    job_memory_bytes: Option<u64>,
    others: Vec<GpuProcess>,
    job_pids: Vec<u32>,
    processes: Vec<GpuProcessRates>,
}

impl Use {
    /// `matched`: NVML names processes of the job somewhere, so the PIDs on both sides are of one namespace. Where they
    /// are not (inside a container), nobody on an attached device can be called a stranger, and a single process
    /// listed there is taken for the job's.
    fn of(device: &GpuDevice, pids: &HashSet<u32>, attached: bool, matched: bool) -> Self {
        let points = device.utilization_points.iter().filter(|point| point.pct <= 100);
        let (sum, count) = points.fold((0.0, 0u32), |(sum, count), point| (sum + f64::from(point.pct), count + 1));
        let utilization_pct = if count > 0 { Some(sum / f64::from(count)) } else { percent(device.utilization_pct) };
        let unmatchable = attached && !matched;
        let (own, others): (Vec<GpuProcess>, Vec<GpuProcess>) = device
            .processes
            .iter()
            .partition(|process| pids.contains(&process.pid) || unmatchable && device.processes.len() == 1);
        let alone = others.is_empty();
        let known = !unmatchable || device.processes.len() == 1;
        let mut processes = shown(&own, known.then_some(true));
        processes.extend(shown(&others, known.then_some(false)));
        let own_utilization = total(own.iter().map(|process| process.sm_utilization_pct.map(u64::from)))
            .map(|pct| (pct as f64).min(100.0))
            .or(utilization_pct.filter(|_| alone));
        Self {
            utilization_pct,
            job_utilization_pct: own_utilization.filter(|_| attached),
            job_memory_bytes: total(own.iter().map(|process| process.memory_bytes)),
            others: if unmatchable { Vec::new() } else { others },
            processes,
            job_pids: if unmatchable { Vec::new() } else { own.iter().map(|process| process.pid).collect() },
        }
    }
}

/// Processes as they are shown, those with the most memory first.
fn shown(of: &[GpuProcess], ours: Option<bool>) -> Vec<GpuProcessRates> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable_by_key(|process| (std::cmp::Reverse(process.memory_bytes), process.pid));
    let rates = |process: GpuProcess| GpuProcessRates {
        pid: process.pid,
        ours,
        memory_bytes: process.memory_bytes,
        sm_utilization_pct: process.sm_utilization_pct.filter(|pct| *pct <= 100),
        compute: process.compute,
    };
    sorted.into_iter().map(rates).collect()
}

/// Sum of what is known; `None` where nothing is.
fn total(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(u64::saturating_add)
}

/// A percentage; drivers mark "not available" with huge numbers.
fn percent(value: Option<u32>) -> Option<f64> {
    value.filter(|pct| *pct <= 100).map(f64::from)
}

fn rates(
    device: &GpuDevice,
    simulated: bool,
    earlier: Option<&GpuDevice>,
    seconds: Option<f64>,
    attached: bool,
    stale: bool,
    used: &Use,
) -> GpuRates {
    // What the driver measured over the last moments: not again what it said a tick ago, nor of a device that is lost.
    let fresh = !stale && !device.lost;
    let gpm = device.gpm.filter(|_| fresh);
    let share = |value: Option<f64>| value.filter(|pct| pct.is_finite() && *pct >= 0.0).map(|pct| pct.min(100.0));
    let per_s = |kib_s: Option<u32>| kib_s.filter(|_| fresh).map(|kib| f64::from(kib) * 1024.0);
    let processes = used.processes.iter().map(|process| GpuProcessRates {
        sm_utilization_pct: process.sm_utilization_pct.filter(|_| fresh),
        ..*process
    });
    GpuRates {
        attached,
        simulated,
        utilization_pct: used.utilization_pct.filter(|_| fresh),
        job_utilization_pct: used.job_utilization_pct.filter(|_| fresh),
        memory_utilization_pct: percent(device.memory_utilization_pct).filter(|_| fresh),
        job_memory_bytes: used.job_memory_bytes,
        power_w: power_w(device, earlier, seconds).filter(|_| fresh),
        power_limit_w: device.power_limit_mw.map(|mw| f64::from(mw) / 1e3),
        pcie_rx_bytes_s: per_s(device.pcie_rx_kib_s),
        pcie_tx_bytes_s: per_s(device.pcie_tx_kib_s),
        pcie_capacity_bytes_s: pcie_capacity(device),
        sm_active_pct: share(gpm.and_then(|gpm| gpm.sm_active_pct)),
        tensor_active_pct: share(gpm.and_then(|gpm| gpm.tensor_active_pct)),
        dram_active_pct: share(gpm.and_then(|gpm| gpm.dram_active_pct)),
        encoder_pct: device.encoder_pct.filter(|pct| fresh && *pct <= 100),
        decoder_pct: device.decoder_pct.filter(|pct| fresh && *pct <= 100),
        others: used.others.clone(),
        job_pids: used.job_pids.clone(),
        processes: processes.collect(),
        ..copied!(device => GpuRates: index uuid name lost memory_used_bytes memory_total_bytes temperature_c
            sm_clock_mhz sm_clock_max_mhz memory_clock_mhz memory_clock_max_mhz clock_event_reasons pcie_generation
            pcie_width pcie_generation_max pcie_width_max ecc_uncorrected mig)
    }
}

/// Mean power from the energy counter where it moved over an interval long enough for its steps, else the reading.
fn power_w(device: &GpuDevice, earlier: Option<&GpuDevice>, seconds: Option<f64>) -> Option<f64> {
    let moved = delta(device.energy_mj, earlier.and_then(|earlier| earlier.energy_mj)).filter(|mj| *mj > 0);
    let seconds = seconds.filter(|seconds| *seconds >= ENERGY_MIN_S);
    match (moved, seconds) {
        (Some(mj), Some(seconds)) => Some(mj as f64 / 1e3 / seconds),
        _ => device.power_mw.map(|mw| f64::from(mw) / 1e3),
    }
}

/// What the link could carry: an idle device trains it down, so its highest generation and width count.
fn pcie_capacity(device: &GpuDevice) -> Option<f64> {
    let generation = device.pcie_generation_max.or(device.pcie_generation)?;
    let width = device.pcie_width_max.or(device.pcie_width)?;
    let lane = PCIE_LANE_BYTES_S.get(usize::try_from(generation.checked_sub(1)?).ok()?)?;
    Some(lane * f64::from(width.min(32)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#[path = "gpu_tests.rs"]
mod tests;
