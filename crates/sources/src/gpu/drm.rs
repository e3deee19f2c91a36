//! Intel's and other GPUs, by what their drivers tell of each process in `/proc/PID/fdinfo`.
//!
//! Sources: Documentation/gpu/drm-usage-stats.rst (`usage.rs`); Documentation/ABI/testing/sysfs-driver-intel-i915-hwmon and
//! sysfs-driver-intel-xe-hwmon (energy and its limit). No real GPU has confirmed it: the tests read files made up after these.
//!
//! No driver tells the GPU's use as a whole in the same way, so it is the sum over the processes that trainmon may see, and the reading
//! says so. Without a process on it, nothing is known of a GPU's use.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use usage::DrmUsage;

use super::uevent::Uevent;
use crate::files::{KeptFile, number_in, numbers_in, read_once};
use crate::gpu_reader::Vendor;
use crate::links::each_link;
use crate::simulated_gpu::percent;
use crate::{Roots, SourceOptions};
use trainmon_sample::gpu::GpuProcess;
use trainmon_sample::{GpuReading, SourceState, SourceStatus};

#[cfg(test)]
mod tests;
mod usage;

/// Drivers of NVIDIA's and AMD's GPUs, which are read in another way, and of displays of servers and virtual machines.
const NOT_READ_HERE: [&str; 12] = [
    "nvidia",
    "nvidia-drm",
    "nouveau",
    "amdgpu",
    "radeon",
    "ast",
    "mgag200",
    "bochs-drm",
    "cirrus",
    "virtio-pci",
    "vmwgfx",
    "simple-framebuffer",
];
/// How often processes that use a GPU are looked for, nanoseconds; and where the only ones draw the screen.
const LOOK_EVERY_NS: u64 = 10_000_000_000;
const LOOK_AT_DISPLAYS_EVERY_NS: u64 = 60_000_000_000;
/// Most cards, most files of processes, most descriptors of one process, and most bytes of one file.
const MOST_RENDER_NODES: usize = 32;
const MOST_CLIENTS: usize = 1024;
const MOST_DESCRIPTORS: usize = 4096;
const FDINFO_BYTES: usize = 16 << 10;

/// All GPUs whose drivers tell the use of processes.
pub(super) struct DrmGpus {
    proc: PathBuf,
    cards: Vec<DrmCard>,
    clients: Vec<DrmClient>,
    look_next_ns: u64,
    buffer: Vec<u8>,
}

/// One of them.
#[derive(Debug)]
struct DrmCard {
    /// Its PCI address; empty for one that is not on PCI.
    pci: Vec<u8>,
    facts: GpuReading,
    runtime_status: PathBuf,
    energy: Option<PathBuf>,
}

/// A process's open file of a GPU.
#[derive(Debug)]
struct DrmClient {
    pid: u32,
    file: KeptFile,
    /// What its use is counted from, and when that was read.
    from: (DrmUsage, u64),
}

impl Vendor for DrmGpus {
    fn discover(options: &SourceOptions) -> Result<Self, SourceStatus> {
        let Roots { proc, sys } = &options.roots;
        let cards = cards(sys);
        if cards.is_empty() {
            return Err(SourceStatus::new(SourceState::Absent, "this machine has no other GPU"));
        }
        Ok(Self { proc: proc.clone(), cards, clients: Vec::new(), look_next_ns: 0, buffer: Vec::new() })
    }

    fn read(&mut self, now_ns: u64) -> Result<Vec<GpuReading>, SourceStatus> {
        if now_ns >= self.look_next_ns {
            let only_displays = self.cards.iter().all(|card| card.facts.for_display);
            let every_ns = if only_displays { LOOK_AT_DISPLAYS_EVERY_NS } else { LOOK_EVERY_NS };
            self.look_next_ns = now_ns.saturating_add(every_ns);
            self.look(now_ns);
        }
        let mut users = self.users(now_ns);
        Ok(self.cards.iter().map(|card| card.reading(users.remove(&card.pci).unwrap_or_default())).collect())
    }

    fn driver(&self) -> Option<Arc<str>> {
        None
    }
}

/// What a process does on a GPU.
#[derive(Debug, Default, Clone, Copy)]
struct ProcessDrmUse {
    busy: Option<f64>,
    memory_bytes: Option<u64>,
}

impl DrmGpus {
    /// Looks for processes with a render node open; those known stay. Of the files of one client, which processes inherit, one is kept:
    /// that of the first process.
    fn look(&mut self, now_ns: u64) {
        let nodes: Vec<Arc<str>> = self.cards.iter().flat_map(|card| &card.facts.files).cloned().collect();
        let mut pids: Vec<u32> = numbers_in(&self.proc).collect();
        pids.sort_unstable();
        for pid in pids {
            let folder = self.proc.join(pid.to_string());
            let mut found = Vec::new();
            // Another user's process cannot be read.
            let _ = each_link(&folder, MOST_DESCRIPTORS, |link| {
                if nodes.iter().any(|node| node.as_bytes() == link.target) {
                    found.push(link.fd);
                }
            });
            for fd in found {
                if self.clients.len() >= MOST_CLIENTS {
                    return;
                }
                let Ok(file) = KeptFile::open(folder.join("fdinfo").join(fd.to_string())) else { continue };
                let Some(now) = file.read_up_to(&mut self.buffer, FDINFO_BYTES).ok().and_then(DrmUsage::parse) else {
                    continue;
                };
                if !self.clients.iter().any(|client| client.from.0.is_same_client(&now)) {
                    self.clients.push(DrmClient { pid, file, from: (now, now_ns) });
                }
            }
        }
    }

    /// What processes do on each GPU, by PID.
    fn users(&mut self, now_ns: u64) -> HashMap<Vec<u8>, BTreeMap<u32, ProcessDrmUse>> {
        let mut users: HashMap<Vec<u8>, BTreeMap<u32, ProcessDrmUse>> = HashMap::new();
        let buffer = &mut self.buffer;
        // With more clients than are read, the sum is not the GPU's.
        let all_are_read = self.clients.len() < MOST_CLIENTS;
        self.clients.retain_mut(|client| {
            let now = client.file.read_up_to(buffer, FDINFO_BYTES).ok().and_then(DrmUsage::parse);
            let Some(now) = now.filter(|now| now.is_same_client(&client.from.0)) else { return false };
            let (before, then_ns) = &client.from;
            let passed_ns = now_ns.saturating_sub(*then_ns);
            let busy = if all_are_read { now.busy_since(before, passed_ns) } else { None };
            let user = users.entry(now.pci.clone()).or_default().entry(client.pid).or_default();
            user.busy = user.busy.into_iter().chain(busy).reduce(|sum, more| sum + more);
            user.memory_bytes = user.memory_bytes.into_iter().chain(now.memory_bytes).reduce(u64::saturating_add);
            // Cycles that are not counted yet will be, and belong to the time from here on.
            if busy.is_some() || now.engines.len() != before.engines.len() {
                client.from = (now, now_ns);
            }
            true
        });
        users
    }
}

impl DrmCard {
    fn reading(&self, users: BTreeMap<u32, ProcessDrmUse>) -> GpuReading {
        if read_once(&self.runtime_status, 64).is_ok_and(|status| status.trim_ascii() == b"suspended") {
            return GpuReading { asleep: true, ..self.facts.clone() };
        }
        let busy = users.values().filter_map(|user| user.busy).reduce(|sum, more| sum + more);
        let memory = users.values().filter_map(|user| user.memory_bytes).reduce(u64::saturating_add);
        let process = |(pid, user): (u32, ProcessDrmUse)| GpuProcess {
            pid,
            memory_bytes: user.memory_bytes,
            sm_utilization_pct: user.busy.map(percent),
            compute: true,
        };
        let microjoules: Option<u64> = self.energy.as_deref().and_then(number_in);
        GpuReading {
            utilization_pct: busy.map(percent),
            memory_used_bytes: memory,
            processes: users.into_iter().map(process).collect(),
            energy_mj: microjoules.map(|energy| energy / 1000),
            ..self.facts.clone()
        }
    }
}

/// The cards with a render node and a driver that is not read in another way.
fn cards(sys: &Path) -> Vec<DrmCard> {
    let entries = std::fs::read_dir(sys.join("class/drm")).into_iter().flatten().flatten();
    let mut nodes: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.strip_prefix("renderD")?.parse().ok()?, entry.path())))
        .collect();
    nodes.sort();
    nodes
        .into_iter()
        .filter_map(|(minor, path)| card(minor, &path.join("device")))
        .take(MOST_RENDER_NODES)
        .zip(0..)
        .map(|(card, index)| DrmCard { facts: GpuReading { index, ..card.facts }, ..card })
        .collect()
}

fn card(minor: u32, folder: &Path) -> Option<DrmCard> {
    let uevent = Uevent::read(folder)?;
    let value = |key: &str| uevent.value(key);
    let driver = String::from_utf8_lossy(value("DRIVER=")?).into_owned();
    if NOT_READ_HERE.contains(&&*driver) {
        return None;
    }
    let pci = value("PCI_SLOT_NAME=").unwrap_or_default().to_vec();
    let vendor = match value("PCI_ID=").and_then(|id| id.split(|byte| *byte == b':').next()) {
        Some(b"8086") => "Intel ",
        _ => "",
    };
    let device =
        value("PCI_ID=").map(|id| format!(" {}", String::from_utf8_lossy(id).to_lowercase())).unwrap_or_default();
    let monitor =
        std::fs::read_dir(folder.join("hwmon")).into_iter().flatten().flatten().next().map(|entry| entry.path());
    let limit: Option<u64> = monitor.as_ref().and_then(|path| number_in(&path.join("power1_max")));
    // Intel's in the chip with the CPUs have this address, and those that are not on PCI are such ones too.
    let integrated = pci.is_empty() || pci.starts_with(b"0000:00:02.");
    let facts = GpuReading {
        name: Some(format!("{vendor}GPU{device} ({driver})").into()),
        files: vec![format!("/dev/dri/renderD{minor}").into()],
        integrated,
        for_display: integrated,
        of_processes: true,
        power_limit_mw: limit.and_then(|microwatts| u32::try_from(microwatts / 1000).ok()).filter(|mw| *mw > 0),
        ..GpuReading::default()
    };
    let energy = monitor.map(|path| path.join("energy1_input"));
    Some(DrmCard { pci, facts, runtime_status: folder.join("power/runtime_status"), energy })
}
