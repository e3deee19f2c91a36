//! The GPUs: which of them the job uses, how busy they were, and how much of that was for the job.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::GpuChoice;
use super::delta::{copied, delta, rate, span};
use super::device::GpuUse;
use super::gpu_link::{GpuLink, attached, job_pids, unread};
use super::levels::SHORT_INTERVAL_S;
use trainmon_sample::gpu::{GpuXids, MpsUse};
use trainmon_sample::{Gpm, GpuProcess, GpuReading, Sample};

/// Bytes per second of one PCIe lane in one direction, by generation from 1, after line coding (PCI Express Base
/// Specification: 2.5 and 5 GT/s with 8b/10b, 8 to 32 GT/s with 128b/130b, 64 GT/s with FLITs).
const PCIE_LANE_BYTES_S: [f64; 6] = [250e6, 500e6, 985e6, 1969e6, 3938e6, 7563e6];

/// No NVLinks of a GPU carry more in one direction, bytes per second: four times those of a B200.
const NVLINK_MOST_BYTES_S: f64 = 4e12;

/// A reading this old still says whether the GPU works at all (for identifying waits, not for rates).
const FRESH_NS: u64 = 3_000_000_000;

/// One GPU in the interval.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct GpuRates {
    /// Index.
    pub index: u32,
    /// UUID.
    pub uuid: Option<Arc<str>>,
    /// Product name, raw.
    pub name: Option<Arc<str>>,
    /// The job uses it.
    pub attached: bool,
    /// It no longer answers.
    pub lost: bool,
    /// The driver has put it to sleep.
    #[serde(default)]
    pub asleep: bool,
    /// It is on one chip with the CPUs and uses their memory.
    #[serde(default)]
    pub integrated: bool,
    /// A small integrated GPU that draws the screen.
    #[serde(default)]
    pub for_display: bool,
    /// Its use and its memory in use are the sums over the processes that trainmon may see.
    #[serde(default)]
    pub of_processes: bool,
    /// Values come from the simulated GPU.
    pub simulated: bool,
    /// Utilization over the interval, percent: mean of the samples buffer if there is one, else the last reading.
    pub utilization_pct: Option<f64>,
    /// The job's own part of it, percent.
    pub job_utilization_pct: Option<f64>,
    /// Memory controller use, percent.
    pub memory_utilization_pct: Option<f64>,
    /// Memory used, bytes.
    pub memory_used_bytes: Option<u64>,
    /// Memory fitted, bytes.
    pub memory_total_bytes: Option<u64>,
    /// Memory held by the job, bytes.
    pub job_memory_bytes: Option<u64>,
    /// Power, watts (from the energy counter if it moves, else the reading).
    pub power_w: Option<f64>,
    /// Power limit, watts.
    pub power_limit_w: Option<f64>,
    /// Temperature, °C.
    pub temperature_c: Option<u32>,
    /// SM clock, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Highest SM clock, MHz.
    pub sm_clock_max_mhz: Option<u32>,
    /// Memory clock, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Highest memory clock, MHz.
    pub memory_clock_max_mhz: Option<u32>,
    /// Clock event reasons, bit mask.
    pub clock_event_reasons: Option<u64>,
    /// PCIe receive, bytes per second in a 20 ms window.
    pub pcie_rx_bytes_per_s: Option<f64>,
    /// PCIe send.
    pub pcie_tx_bytes_per_s: Option<f64>,
    /// The link's capacity in one direction, bytes per second.
    pub pcie_capacity_bytes_per_s: Option<f64>,
    /// Current PCIe generation: an idle GPU trains its link down.
    pub pcie_generation: Option<u32>,
    /// Current PCIe width, lanes.
    pub pcie_width: Option<u32>,
    /// Highest PCIe generation of GPU and slot.
    pub pcie_generation_max: Option<u32>,
    /// Highest PCIe width of GPU and slot.
    pub pcie_width_max: Option<u32>,
    /// Data received over all NVLinks, bytes per second; `None` without NVLink, or where nothing ever went over it.
    #[serde(default)]
    pub nvlink_rx_bytes_per_s: Option<f64>,
    /// Data sent over all NVLinks.
    #[serde(default)]
    pub nvlink_tx_bytes_per_s: Option<f64>,
    /// Uncorrected ECC errors since driver load.
    pub ecc_uncorrected: Option<u64>,
    /// Errors that the driver has reported since trainmon attached.
    #[serde(default)]
    pub xids: Option<GpuXids>,
    /// Whether MIG is on.
    pub mig: Option<bool>,
    /// Whether it is a vGPU, a part of a GPU that other virtual machines may use, too.
    #[serde(default)]
    pub vgpu: Option<bool>,
    /// Whether confidential computing is on.
    #[serde(default)]
    pub confidential: Option<bool>,
    /// The job uses it through the multi-process service (MPS), as others may.
    #[serde(default)]
    pub by_mps: bool,
    /// The process of DCGM that may be why GPM refuses.
    #[serde(default)]
    pub gpm_beside: Option<Arc<str>>,
    /// SMs active, percent (GPM).
    pub sm_active_pct: Option<f64>,
    /// Tensor cores active, percent (GPM).
    pub tensor_active_pct: Option<f64>,
    /// DRAM bandwidth used, percent (GPM).
    pub dram_active_pct: Option<f64>,
    /// Encoder use, percent.
    pub encoder_pct: Option<u32>,
    /// Decoder use, percent.
    pub decoder_pct: Option<u32>,
    /// Processes outside the job.
    pub others: Vec<GpuProcess>,
    /// PIDs of the job on it, if NVML's PIDs are from trainmon's namespace.
    pub job_pids: Vec<u32>,
    /// All processes on it, the job's first, then by memory held.
    pub processes: Vec<GpuProcessRates>,
}

/// A process on a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuProcessRates {
    /// PID in the host's PID namespace.
    pub pid: u32,
    /// Whether it belongs to the job; `None` if NVML's PIDs are from another namespace, so that it is unclear.
    pub ours: Option<bool>,
    /// GPU memory held, bytes.
    pub memory_bytes: Option<u64>,
    /// SM utilization of this process in the interval, 0–100.
    pub sm_utilization_pct: Option<u32>,
    /// Whether it runs compute work; false for graphics only.
    pub compute: bool,
    /// Whether it is the server of MPS, which passes on what its clients do; then `ours` is `None`.
    #[serde(default)]
    pub mps_server: bool,
}

/// What the other parts need to know about the GPUs.
#[derive(Debug, Default)]
pub struct GpuFold {
    /// How the job's GPUs were identified.
    pub link: GpuLink,
    /// All GPUs, by index.
    pub rates: Vec<GpuRates>,
    /// Attached GPUs whose use is known.
    pub attached: Vec<GpuUse>,
    /// GPU memory by PID, summed over GPUs.
    pub memory_by_pid: HashMap<u32, u64>,
    /// Device files that the job holds open of accelerators without readings.
    pub unread: Vec<Arc<str>>,
}

impl GpuFold {
    /// The attached GPUs of one process: a rank's own if NVML's processes show which one, else any that the job uses.
    pub fn gpus_of(&self, pid: u32) -> Vec<&GpuUse> {
        let own: Vec<&GpuUse> = self.attached.iter().filter(|gpu| gpu.pids.contains(&pid)).collect();
        if own.is_empty() { self.attached.iter().collect() } else { own }
    }
}

pub(crate) fn fold(
    choices: &[GpuChoice],
    before: Option<&Sample>,
    sample: &Sample,
    stale_against: Option<&Sample>,
) -> GpuFold {
    let Some(gpus) = sample.gpus.as_deref() else {
        let unread = sample.job.as_ref().map(|job| job.accelerators.clone()).unwrap_or_default();
        return GpuFold { unread, ..GpuFold::default() };
    };
    let before_gpus = before.and_then(|before| before.gpus.as_deref());
    let stale = stale_against
        .and_then(|before| before.gpus.as_deref())
        .is_some_and(|before| before.monotonic_ns == gpus.monotonic_ns);
    let seconds = span(before_gpus.map(|before| before.monotonic_ns), gpus.monotonic_ns);
    let job = sample.job.as_deref();
    let pids = job.map(job_pids).unwrap_or_default();
    let (link, attached) = attached(choices, gpus, job, &pids);
    let matched = gpus.devices.iter().flat_map(|device| &device.processes).any(|process| pids.contains(&process.pid));

    let mut out = GpuFold { link, unread: unread(job, gpus, &attached), ..GpuFold::default() };
    for (position, device) in gpus.devices.iter().enumerate() {
        let earlier = before_gpus.and_then(|before| {
            before.devices.iter().find(|earlier| earlier.index == device.index && earlier.uuid == device.uuid)
        });
        let is_attached = attached.contains(&position);
        let used = usage(device, &pids, is_attached, matched);
        for process in &device.processes {
            if let Some(bytes) = process.memory_bytes {
                let total = out.memory_by_pid.entry(process.pid).or_insert(0);
                *total = total.saturating_add(bytes);
            }
        }
        let recent = sample.monotonic_ns.saturating_sub(gpus.monotonic_ns) <= FRESH_NS;
        if is_attached
            && !device.lost
            && recent
            && let Some(pct) = used.utilization_pct
        {
            let scale = match used.job_utilization_pct {
                Some(own) if !used.others.is_empty() && pct > 0.0 => (own / pct).clamp(0.0, 1.0),
                _ => 1.0,
            };
            let from_ns = before.map_or(sample.monotonic_ns, |before| before.monotonic_ns);
            let listed = device.processes.iter().map(|process| process.pid).collect();
            let points = &device.utilization_points;
            out.attached.push(GpuUse::new(listed, !stale, pct / 100.0, scale, points, sample, from_ns));
        }
        out.rates.push(GpuRates { simulated: gpus.simulated, ..rates(device, earlier, seconds, stale, used) });
    }
    out
}

/// Only how much a GPU was used by the job and by other processes. `matched`: NVML lists processes of the job
/// somewhere, so the PIDs on both sides are from one namespace. If they are not (inside a container), no process on an
/// attached GPU can be called foreign, and a single process listed there is assumed to be the job's.
fn usage(gpu: &GpuReading, pids: &HashSet<u32>, attached: bool, matched: bool) -> GpuRates {
    let points = gpu.utilization_points.iter().filter(|point| point.pct <= 100);
    let (sum, count) = points.fold((0.0, 0u32), |(sum, count), point| (sum + f64::from(point.pct), count + 1));
    let utilization_pct = if count > 0 { Some(sum / f64::from(count)) } else { percent(gpu.utilization_pct) };
    let unmatchable = attached && !matched;
    // The server of MPS only passes on what its clients do.
    let mps = gpu.mps.as_ref();
    let (servers, users): (Vec<GpuProcess>, Vec<GpuProcess>) =
        gpu.processes.iter().partition(|process| mps.is_some_and(|mps| mps.server == Some(process.pid)));
    let known = !unmatchable || users.len() == 1;
    let (own, others): (Vec<GpuProcess>, Vec<GpuProcess>) =
        users.iter().partition(|process| pids.contains(&process.pid) || unmatchable && known);
    let mut processes = shown(&own, known.then_some(true));
    processes.extend(shown(&others, known.then_some(false)));
    processes.extend(shown(&servers, None).into_iter().map(|server| GpuProcessRates { mps_server: true, ..server }));
    let own_utilization = match (servers.first(), mps) {
        (Some(server), Some(mps)) if server.sm_utilization_pct != Some(0) => through(server, mps, &own, &others),
        _ => total(own.iter().map(|process| process.sm_utilization_pct.map(u64::from))).map(|pct| pct as f64),
    };
    let alone = others.is_empty() && (servers.is_empty() || !own.is_empty());
    let own_utilization = own_utilization.map(|pct| pct.min(100.0)).or(if alone { utilization_pct } else { None });
    GpuRates {
        attached,
        utilization_pct,
        job_utilization_pct: if attached { own_utilization } else { None },
        job_memory_bytes: total(own.iter().map(|process| process.memory_bytes)),
        others: if unmatchable { Vec::new() } else { others },
        processes,
        job_pids: if unmatchable { Vec::new() } else { own.iter().map(|process| process.pid).collect() },
        by_mps: mps.is_some_and(|mps| {
            // Without a list of clients, a job that is not listed itself may be one.
            own.iter().any(|process| mps.clients.contains(&process.pid)) || mps.clients.is_empty() && own.is_empty()
        }),
        ..GpuRates::default()
    }
}

/// The job's use of a GPU where the driver counts work in the name of MPS's server: that is the job's if all clients are, else
/// nothing tells the parts apart.
fn through(server: &GpuProcess, mps: &MpsUse, own: &[GpuProcess], others: &[GpuProcess]) -> Option<f64> {
    if own.is_empty() || others.iter().any(|process| mps.clients.contains(&process.pid)) {
        return None;
    }
    let used = own.iter().chain([server]).map(|process| process.sm_utilization_pct.map(u64::from));
    total(used).map(|pct| pct as f64)
}

/// The processes to show, most memory first.
fn shown(of: &[GpuProcess], ours: Option<bool>) -> Vec<GpuProcessRates> {
    let mut sorted = of.to_vec();
    sorted.sort_unstable_by_key(|process| (std::cmp::Reverse(process.memory_bytes), process.pid));
    let rates = |process: GpuProcess| GpuProcessRates {
        ours,
        sm_utilization_pct: process.sm_utilization_pct.filter(|pct| *pct <= 100),
        mps_server: false,
        ..copied!(process => GpuProcessRates: pid memory_bytes compute)
    };
    sorted.into_iter().map(rates).collect()
}

/// Sum of the known values; `None` if no value is known.
fn total(values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.flatten().reduce(u64::saturating_add)
}

/// A percentage; drivers mark "not available" with huge numbers.
fn percent(value: Option<u32>) -> Option<f64> {
    value.filter(|pct| *pct <= 100).map(f64::from)
}

/// Adds everything else that is known about a GPU to its use.
fn rates(
    gpu: &GpuReading,
    earlier: Option<&GpuReading>,
    seconds: Option<f64>,
    stale: bool,
    mut used: GpuRates,
) -> GpuRates {
    // What the driver measured over the last moments: not a repeat of the last tick's reading, nor of a lost GPU.
    let fresh = !stale && !gpu.lost;
    let nothing = GpuReading::default();
    let now = if fresh { gpu } else { &nothing };
    if !fresh {
        (used.utilization_pct, used.job_utilization_pct) = (None, None);
        used.processes.iter_mut().for_each(|process| process.sm_utilization_pct = None);
    }
    let share = |of: fn(&Gpm) -> Option<f64>| {
        now.gpm.as_ref().and_then(of).filter(|pct| pct.is_finite() && *pct >= 0.0).map(|pct| pct.min(100.0))
    };
    let watts = |mw: u32| f64::from(mw) / 1e3;
    let bytes_s = |kib_s: u32| f64::from(kib_s) * 1024.0;
    let used = GpuRates {
        memory_utilization_pct: percent(now.memory_utilization_pct),
        power_w: power_w(now, earlier, seconds),
        power_limit_w: gpu.power_limit_mw.map(watts),
        pcie_rx_bytes_per_s: now.pcie_rx_kib_per_s.map(bytes_s),
        pcie_tx_bytes_per_s: now.pcie_tx_kib_per_s.map(bytes_s),
        pcie_capacity_bytes_per_s: pcie_capacity(gpu),
        nvlink_rx_bytes_per_s: nvlink(now, earlier, seconds, |gpu| gpu.nvlink_rx_kib),
        nvlink_tx_bytes_per_s: nvlink(now, earlier, seconds, |gpu| gpu.nvlink_tx_kib),
        gpm_beside: now.gpm_beside.clone(),
        sm_active_pct: share(|gpm| gpm.sm_active_pct),
        tensor_active_pct: share(|gpm| gpm.tensor_active_pct),
        dram_active_pct: share(|gpm| gpm.dram_active_pct),
        encoder_pct: now.encoder_pct.filter(|pct| *pct <= 100),
        decoder_pct: now.decoder_pct.filter(|pct| *pct <= 100),
        ..used
    };
    copied!(gpu, used => GpuRates: index uuid name lost asleep integrated for_display of_processes memory_used_bytes memory_total_bytes temperature_c sm_clock_mhz
        sm_clock_max_mhz memory_clock_mhz memory_clock_max_mhz clock_event_reasons pcie_generation pcie_width
        pcie_generation_max pcie_width_max ecc_uncorrected mig vgpu confidential xids)
}

/// Mean power from the energy counter if it moved over a long enough interval, else the reading. NVML's counter moves
/// in steps of up to 100 ms of consumption.
fn power_w(gpu: &GpuReading, earlier: Option<&GpuReading>, seconds: Option<f64>) -> Option<f64> {
    let moved = delta(gpu.energy_mj, earlier.and_then(|earlier| earlier.energy_mj)).filter(|mj| *mj > 0);
    let seconds = seconds.filter(|seconds| *seconds >= SHORT_INTERVAL_S);
    match (moved, seconds) {
        (Some(mj), Some(seconds)) => Some(mj as f64 / 1e3 / seconds),
        _ => gpu.power_mw.map(|mw| f64::from(mw) / 1e3),
    }
}

/// Rate of a counter of all NVLinks. One that is zero belongs to a GPU whose links, if it has any, are not connected.
fn nvlink(
    gpu: &GpuReading,
    earlier: Option<&GpuReading>,
    seconds: Option<f64>,
    kib: fn(&GpuReading) -> Option<u64>,
) -> Option<f64> {
    let now = kib(gpu).filter(|kib| *kib > 0);
    let seconds = seconds.filter(|seconds| *seconds >= SHORT_INTERVAL_S);
    let bytes_s = rate(now, earlier.and_then(kib), seconds)? * 1024.0;
    (bytes_s <= NVLINK_MOST_BYTES_S).then_some(bytes_s)
}

/// The link's capacity: an idle GPU trains the link down, so its highest generation and width count.
fn pcie_capacity(gpu: &GpuReading) -> Option<f64> {
    let generation = gpu.pcie_generation_max.or(gpu.pcie_generation)?;
    let width = gpu.pcie_width_max.or(gpu.pcie_width)?;
    let lane = PCIE_LANE_BYTES_S.get(usize::try_from(generation.checked_sub(1)?).ok()?)?;
    Some(lane * f64::from(width.min(32)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::GpuChoice;
    use crate::testing::*;
    use trainmon_sample::{GpuSample, JobSample, UtilizationPoint};

    fn device(index: u32) -> GpuReading {
        GpuReading {
            index,
            uuid: Some(format!("GPU-{index}abc").into()),
            minor: Some(index),
            utilization_pct: Some(40),
            ..GpuReading::default()
        }
    }

    fn with(ms: u64, devices: Vec<GpuReading>, job: JobSample) -> Sample {
        let gpus = GpuSample { monotonic_ns: ms * MS, devices, ..GpuSample::default() };
        Sample { gpus: Some(Arc::new(gpus)), job: Some(Arc::new(job)), ..tick(ms / 1000, ms) }
    }

    fn one(devices: Vec<GpuReading>, job: JobSample) -> GpuFold {
        fold(&[], None, &with(1000, devices, job), None)
    }

    fn on(pid: u32, memory: u64, sm: Option<u32>) -> GpuProcess {
        GpuProcess { pid, memory_bytes: Some(memory), sm_utilization_pct: sm, compute: true }
    }

    fn shown(rates: &GpuRates) -> Vec<(u32, Option<bool>)> {
        rates.processes.iter().map(|process| (process.pid, process.ours)).collect()
    }

    fn flags(out: &GpuFold) -> Vec<bool> {
        out.rates.iter().map(|gpu| gpu.attached).collect()
    }

    #[test]
    fn link_goes_from_processes_to_minors_to_visible_devices() {
        let mut job = job(0, vec![process(10)]);
        job.nvidia_minors = Some(vec![1]);
        job.cuda_visible_devices = Some("0".into());
        let mut devices = vec![device(0), device(1), device(2)];
        devices[2].processes = vec![on(10, 5, None)];
        let out = one(devices.clone(), job.clone());
        assert_eq!((out.link, flags(&out)), (GpuLink::Processes, vec![false, false, true]));
        devices[2].processes.clear();
        let out = one(devices.clone(), job.clone());
        assert_eq!((out.link, flags(&out)), (GpuLink::OpenDevice, vec![false, true, false]));
        job.nvidia_minors = Some(vec![]);
        let out = one(devices.clone(), job.clone());
        assert_eq!((out.link, flags(&out)), (GpuLink::VisibleDevices, vec![true, false, false]));
        job.cuda_visible_devices = None;
        let out = one(devices.clone(), job.clone());
        assert_eq!((out.link, flags(&out)), (GpuLink::None, vec![false; 3]));
        let choice = [GpuChoice::Uuid("GPU-1".into()), GpuChoice::Index(2)];
        let out = fold(&choice, None, &with(1000, devices, job), None);
        assert_eq!((out.link, flags(&out)), (GpuLink::Chosen, vec![false, true, true]));
    }

    /// A GPU whose driver has a file for it, and one for all of its GPUs, with so much memory in use.
    fn with_files(index: u32, memory: u64) -> GpuReading {
        let files = [format!("/dev/dri/renderD{}", 128 + index).into(), "/dev/kfd".into()].to_vec();
        GpuReading { minor: None, files, memory_used_bytes: Some(memory), ..device(index) }
    }

    #[test]
    fn a_process_that_the_driver_knows_without_memory_uses_no_gpu() {
        let mut job = job(0, vec![process(10)]);
        job.accelerators = ["/dev/dri/renderD128", "/dev/kfd"].map(Into::into).to_vec();
        job.cuda_visible_devices = Some("0".into());
        let mut devices = vec![with_files(0, 100 << 30)];
        devices[0].processes = vec![on(20, 100 << 30, None)];
        let out = one(devices.clone(), job.clone());
        assert_eq!((out.link, flags(&out)), (GpuLink::OpenDevice, vec![true]), "it may have another PID there");
        devices[0].unused_by = vec![10];
        let out = one(devices, job);
        assert_eq!((out.link, flags(&out)), (GpuLink::None, vec![false]));
        assert_eq!(shown(&out.rates[0]), [(20, Some(false))]);
    }

    #[test]
    fn of_files_that_the_runtime_opens_those_of_used_gpus_count() {
        let mut job = job(0, vec![process(10)]);
        job.accelerators = ["/dev/dri/renderD128", "/dev/dri/renderD129", "/dev/dri/renderD130", "/dev/kfd"]
            .map(Into::into)
            .to_vec();
        let gib = 1 << 30;
        // Another job's memory on a GPU says nothing against those of this one.
        let devices = vec![with_files(0, 10 * gib), with_files(1, gib / 3), with_files(2, 180 * gib)];
        let out = one(devices.clone(), job.clone());
        assert_eq!((out.link, flags(&out)), (GpuLink::OpenDevice, vec![true, false, true]));
        assert!(out.unread.is_empty(), "{:?}", out.unread);
        job.cuda_visible_devices = Some("1".into());
        assert_eq!(flags(&one(devices.clone(), job.clone())), [false, true, false], "a job that has just begun");
        let mut listed = devices;
        (listed[0].processes, listed[1].processes) = (vec![on(10, 4096, None)], vec![on(10, 9 << 30, None)]);
        let out = one(listed, job);
        assert_eq!((out.link, flags(&out)), (GpuLink::Processes, vec![false, true, false]));
    }

    #[test]
    fn a_gpu_that_draws_the_screen_counts_only_alone() {
        let mut devices = vec![device(0), with_files(1, 1)];
        devices[1].for_display = true;
        for gpu in &mut devices {
            gpu.processes = vec![on(10, 5, Some(0))];
        }
        let job = job(0, vec![process(10)]);
        assert_eq!(flags(&one(devices.clone(), job.clone())), [true, false]);
        assert_eq!(flags(&one(devices.split_off(1), job)), [true]);
    }

    #[test]
    fn accelerators_without_readings_stay_unread() {
        let mut job = job(0, vec![process(10)]);
        job.accelerators = ["/dev/dri/renderD135", "/dev/kfd"].map(Into::into).to_vec();
        let unread = |devices, job: &JobSample| {
            one(devices, job.clone()).unread.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(unread(vec![], &job), ["/dev/dri/renderD135", "/dev/kfd"]);
        job.nvidia_minors = Some(vec![3]);
        assert_eq!(unread(vec![with_files(0, 1)], &job).first().map(String::as_str), Some("/dev/nvidia3"));
        assert_eq!(unread(vec![device(0)], &job).len(), 2, "NVIDIA's GPUs can be read");
        job.nvidia_minors = None;
        let lost = GpuReading { lost: true, files: job.accelerators.clone(), ..device(0) };
        assert_eq!(unread(vec![lost], &job).len(), 2);
        // A card can be read, but it is another one.
        assert_eq!(unread(vec![with_files(0, 1)], &job), ["/dev/dri/renderD135", "/dev/kfd"]);
        assert_eq!(fold(&[], None, &Sample { gpus: None, ..with(1, vec![], job) }, None).unread.len(), 2);
    }

    #[test]
    fn inner_pids_count_only_in_our_own_namespace() {
        let mut job = job(0, vec![process(4000)]);
        job.processes[0].inner_pid = Some(10);
        let mut gpu = device(0);
        gpu.processes = vec![on(10, 5, None)];
        assert_eq!(one(vec![gpu.clone()], job.clone()).link, GpuLink::Processes);
        job.other_pid_namespace = true;
        assert_eq!(one(vec![gpu], job).link, GpuLink::None);
    }

    #[test]
    fn the_jobs_part_and_the_others() {
        let job = job(0, vec![process(10), process(11)]);
        let mut gpu = device(0);
        gpu.processes = vec![on(10, 5, Some(20)), on(11, 7, Some(5)), on(99, 100, Some(15))];
        let out = one(vec![gpu], job);
        let rates = &out.rates[0];
        assert_eq!(rates.job_utilization_pct, Some(25.0));
        assert_eq!(rates.job_memory_bytes, Some(12));
        assert_eq!(rates.others.len(), 1);
        assert_eq!(shown(rates), [(11, Some(true)), (10, Some(true)), (99, Some(false))]);
        assert_eq!((rates.processes[1].memory_bytes, rates.processes[1].sm_utilization_pct), (Some(5), Some(20)));
        assert!((out.attached[0].busy(0) - 0.25).abs() < 1e-9, "the device's use is cut to the job's part");
        assert_eq!(out.memory_by_pid.get(&11), Some(&7));
    }

    #[test]
    fn alone_on_the_device_its_use_is_the_jobs() {
        let job = job(0, vec![process(10)]);
        let mut gpu = device(0);
        gpu.processes = vec![on(10, 5, None)];
        assert_eq!(one(vec![gpu.clone()], job.clone()).rates[0].job_utilization_pct, Some(40.0));
        gpu.processes.push(on(99, 5, None));
        assert_eq!(one(vec![gpu], job).rates[0].job_utilization_pct, None);
    }

    #[test]
    fn in_a_container_nobody_is_called_a_stranger() {
        let mut job = job(0, vec![process(10)]);
        job.nvidia_minors = Some(vec![0]);
        let mut gpu = device(0);
        gpu.processes = vec![on(54_321, 6, Some(30))];
        let out = one(vec![gpu.clone()], job.clone());
        let rates = &out.rates[0];
        assert_eq!((rates.others.len(), rates.job_memory_bytes, rates.job_utilization_pct), (0, Some(6), Some(30.0)));
        assert_eq!(shown(rates), [(54_321, Some(true))]);
        gpu.processes.push(on(54_400, 7, Some(30)));
        let rates = one(vec![gpu], job).rates.remove(0);
        assert_eq!((rates.others.len(), rates.job_memory_bytes, rates.job_utilization_pct), (0, None, None));
        assert_eq!(shown(&rates), [(54_400, None), (54_321, None)]);
    }

    #[test]
    fn utilisation_is_the_mean_of_the_points() {
        let mut gpu = device(0);
        gpu.utilization_points = [0, 50, 100, 4_000_000].map(|pct| UtilizationPoint { unix_us: 0, pct }).to_vec();
        assert_eq!(one(vec![gpu], job(0, vec![])).rates[0].utilization_pct, Some(50.0));
        let sentinel = GpuReading { utilization_pct: Some(u32::MAX), ..device(0) };
        assert_eq!(one(vec![sentinel], job(0, vec![])).rates[0].utilization_pct, None);
    }

    #[test]
    fn power_from_energy_where_it_moves() {
        let at = |ms, energy_mj| {
            let gpu = GpuReading { energy_mj: Some(energy_mj), power_mw: Some(70_000), ..device(0) };
            with(ms, vec![gpu], job(ms, vec![]))
        };
        let power = |before: &Sample, now: &Sample| fold(&[], Some(before), now, Some(before)).rates[0].power_w;
        assert_eq!(power(&at(1000, 5_000), &at(2000, 155_000)), Some(150.0));
        assert_eq!(power(&at(1000, 5_000), &at(2000, 5_000)), Some(70.0), "did not move");
        assert_eq!(power(&at(1000, 5_000), &at(2000, 4_000)), Some(70.0), "went back");
        assert_eq!(power(&at(1000, 5_000), &at(1200, 9_000)), Some(70.0), "interval too short");
    }

    #[test]
    fn the_server_of_mps_is_nobody_s_rival() {
        let job = job(0, vec![process(10), process(11)]);
        let shared = |clients: &[u32], by_server, others: Vec<GpuProcess>| {
            let mut gpu = device(0);
            gpu.mps = Some(MpsUse { server: Some(50), clients: clients.to_vec() });
            gpu.processes = [vec![on(10, 5, Some(0)), on(11, 5, Some(0)), on(50, 1, by_server)], others].concat();
            one(vec![gpu], job.clone()).rates.remove(0)
        };
        // All its clients are the job's: what the driver counts in its name is the job's.
        let rates = shared(&[10, 11], Some(30), vec![]);
        assert_eq!((rates.job_utilization_pct, rates.others.len(), rates.by_mps), (Some(30.0), 0, true));
        assert_eq!(shown(&rates).last(), Some(&(50, None)));
        // Beside another client the parts are unknown, unless they are counted for each.
        let rates = shared(&[10, 11, 99], Some(30), vec![on(99, 7, Some(0))]);
        assert_eq!((rates.job_utilization_pct, rates.others.len()), (None, 1));
        let rates = shared(&[10, 11, 99], Some(0), vec![on(99, 7, Some(25))]);
        assert_eq!((rates.job_utilization_pct, rates.others.len()), (Some(0.0), 1));
        // Another process that is no client is counted by itself.
        let rates = shared(&[10, 11], Some(30), vec![on(99, 7, Some(25))]);
        assert_eq!((rates.job_utilization_pct, rates.others.len()), (Some(30.0), 1));
    }

    #[test]
    fn a_server_alone_does_not_say_who_its_clients_are() {
        let mut job = job(0, vec![process(10)]);
        job.nvidia_minors = Some(vec![0]);
        let mut gpu = device(0);
        gpu.mps = Some(MpsUse { server: Some(50), clients: vec![] });
        gpu.processes = vec![on(50, 1, Some(40))];
        let rates = one(vec![gpu], job).rates.remove(0);
        assert_eq!((rates.attached, rates.job_utilization_pct, rates.others.len()), (true, None, 0));
    }

    #[test]
    fn nvlink_rates_from_counters() {
        let at = |ms, kib| {
            let gpu = GpuReading { nvlink_rx_kib: kib, ..device(0) };
            with(ms, vec![gpu], job(ms, vec![]))
        };
        let rate = |before: Option<u64>, ms: u64, now: Option<u64>| {
            let (before, now) = (at(1000, before), at(1000 + ms, now));
            fold(&[], Some(&before), &now, Some(&before)).rates[0].nvlink_rx_bytes_per_s
        };
        assert_eq!(rate(Some(0), 2000, Some(4096)), Some(2.0 * 1024.0 * 1024.0));
        assert_eq!(rate(Some(5), 1000, Some(5)), Some(0.0));
        assert_eq!(rate(Some(0), 1000, Some(0)), None, "no link");
        assert_eq!(rate(Some(6), 1000, Some(5)), None, "went back");
        assert_eq!(rate(Some(5), 200, Some(6)), None, "interval too short");
        assert_eq!(rate(Some(5), 1000, Some(u64::MAX)), None, "more than any link carries");
        assert_eq!((rate(None, 1000, Some(5)), rate(Some(5), 1000, None)), (None, None));
    }

    #[test]
    fn a_stale_or_lost_device_has_no_use() {
        let mut gpu = device(0);
        gpu.gpm = Some(Gpm { sm_active_pct: Some(5.0), ..Gpm::default() });
        gpu.memory_used_bytes = Some(3);
        gpu.processes = vec![on(10, 5, Some(20))];
        let sample = with(1000, vec![gpu.clone()], job(1000, vec![]));
        let rates = fold(&[], Some(&sample), &sample, Some(&sample)).rates.remove(0);
        assert_eq!((rates.utilization_pct, rates.sm_active_pct, rates.memory_used_bytes), (None, None, Some(3)));
        assert_eq!((rates.processes[0].memory_bytes, rates.processes[0].sm_utilization_pct), (Some(5), None));
        gpu.lost = true;
        let rates = one(vec![gpu], job(0, vec![])).rates.remove(0);
        assert_eq!((rates.utilization_pct, rates.lost), (None, true));
    }

    #[test]
    fn link_capacity() {
        let gpu = |generation, width| GpuReading {
            pcie_generation: Some(1),
            pcie_generation_max: generation,
            pcie_width: Some(8),
            pcie_width_max: width,
            ..device(0)
        };
        assert_eq!(pcie_capacity(&gpu(Some(4), Some(16))), Some(1969e6 * 16.0));
        assert_eq!(pcie_capacity(&gpu(None, None)), Some(250e6 * 8.0));
        assert_eq!(pcie_capacity(&gpu(Some(0), Some(16))), None);
        assert_eq!(pcie_capacity(&gpu(Some(99), Some(16))), None);
    }
}
