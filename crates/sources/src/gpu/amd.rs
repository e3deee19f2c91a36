//! AMD's GPUs, by the files of the kernel's drivers amdgpu and amdkfd: without a library and without rights.
//!
//! Sources: Documentation/gpu/amdgpu/thermal.rst and driver-misc.rst, drivers/gpu/drm/amd/pm/amdgpu_pm.c (the files of a card);
//! `metrics.rs` (the firmware's table); `kfd.rs` (ROCm's numbers, and processes). No real card has confirmed them: the tests read the
//! dumps of five cards that the crate amdgpu-sysfs has, and trees made up after the kernel's sources.
//!
//! Cost: a card is six or seven short reads of open files in a tick. `pcie_bw` is never read: it takes a second (amdgpu_pm.c). A card
//! that the driver has put to sleep is not woken.

use std::path::Path;
use std::sync::Arc;

use card::{Card, CardPlace};
use kfd::{KfdNode, KfdProcesses};

use super::uevent::Uevent;
use crate::fields::{hexadecimal, text};
use crate::files::read_once;
use crate::gpu_reader::Vendor;
use crate::{Roots, SourceOptions};
use trainmon_sample::{GpuReading, SourceState, SourceStatus};

mod card;
mod kfd;
mod metrics;
#[cfg(test)]
mod tests;

/// AMD's vendor ID in PCI.
const VENDOR: &[u8] = b"0x1002";
/// Most cards read, partitions included: eight GPUs of eight partitions.
const MOST_CARDS: usize = 64;
/// libdrm's list of product names, beside `/sys`.
const NAMES: &str = "usr/share/libdrm/amdgpu.ids";
/// Most bytes read of it; it has about 20 KiB.
const NAMES_BYTES: usize = 256 << 10;

/// All AMD GPUs.
pub(super) struct AmdGpus {
    cards: Vec<Card>,
    processes: KfdProcesses,
    driver: Option<Arc<str>>,
}

impl Vendor for AmdGpus {
    fn discover(options: &SourceOptions) -> Result<Self, SourceStatus> {
        let Roots { sys, .. } = &options.roots;
        let places = places(sys);
        if places.is_empty() {
            return Err(SourceStatus::new(SourceState::Absent, "this machine has no AMD GPU"));
        }
        let nodes = kfd::nodes(sys);
        let names = sys.parent().and_then(|root| read_once(root.join(NAMES), NAMES_BYTES).ok()).unwrap_or_default();
        let cards = cards(&places, &nodes, &String::from_utf8_lossy(&names));
        let processes = KfdProcesses::new(sys, nodes.iter().map(|node| node.gpu_id).collect());
        // Only AMD's own package has a version; the kernel's driver has the kernel's.
        let driver = read_once(sys.join("module/amdgpu/version"), 64).ok().map(|version| text(version.trim_ascii()));
        Ok(Self { cards, processes, driver })
    }

    fn read(&mut self, now_ns: u64) -> Result<Vec<GpuReading>, SourceStatus> {
        self.processes.look(now_ns);
        let processes = &self.processes;
        let read = |card: &mut Card| {
            let gpu = card.read(now_ns);
            // What an APU computes on may be all in the host's memory, which is not counted here.
            let unused_by = if gpu.integrated { Vec::new() } else { processes.without_memory.clone() };
            let processes = card.gpu_id.map(|id| processes.on(id, gpu.utilization_pct)).unwrap_or_default();
            // The driver tells the memory of whole GPUs only.
            let held = processes.iter().filter_map(|process| process.memory_bytes).fold(0, u64::saturating_add);
            let memory_used_bytes = gpu.memory_used_bytes.or(card.is_partition().then_some(held));
            GpuReading { processes, unused_by, memory_used_bytes, ..gpu }
        };
        let readings: Vec<GpuReading> = self.cards.iter_mut().map(read).collect();
        if readings.iter().all(|gpu| gpu.lost) {
            return Err(SourceStatus::new(SourceState::Gone, "the AMD GPUs are gone"));
        }
        Ok(readings)
    }

    fn driver(&self) -> Option<Arc<str>> {
        self.driver.as_ref().map(|version| format!("amdgpu {version}").into())
    }
}

/// The cards of AMD's, by PCI address.
fn places(sys: &Path) -> Vec<CardPlace> {
    let entries = std::fs::read_dir(sys.join("class/drm")).into_iter().flatten().flatten();
    let is_card = |name: &str| name.strip_prefix("card").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let mut found: Vec<CardPlace> = entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_card))
        .filter_map(|entry| place(&entry.path().join("device")))
        .take(MOST_CARDS)
        .collect();
    found.sort_by_key(|place| place.place);
    found
}

/// A card by its PCI device's folder, if it is one of AMD's.
fn place(folder: &Path) -> Option<CardPlace> {
    if read_once(folder.join("vendor"), 64).ok()?.trim_ascii() != VENDOR {
        return None;
    }
    let uevent = Uevent::read(folder)?;
    let address = uevent.value("PCI_SLOT_NAME=")?;
    // 0000:c1:00.0
    let mut parts = address.trim_ascii().split(|byte| matches!(byte, b':' | b'.')).map_while(hexadecimal);
    let (domain, bus, device) = (parts.next()?, parts.next()?, parts.next()?);
    let render = std::fs::read_dir(folder.join("drm"))
        .into_iter()
        .flatten()
        .flatten()
        .find_map(|entry| entry.file_name().to_str()?.strip_prefix("renderD")?.parse().ok());
    Some(CardPlace {
        folder: folder.to_owned(),
        render_minor: render,
        place: (domain, (bus & 0xff) << 8 | (device & 0x1f) << 3),
    })
}

/// The GPUs that ROCm sees, in its order, a card for each partition; then the others.
fn cards(places: &[CardPlace], nodes: &[KfdNode], names: &str) -> Vec<Card> {
    let of_node = |node: &KfdNode| places.iter().find(|place| place.place == node.place);
    let seen = nodes.iter().enumerate().filter_map(|(at, node)| {
        let before = nodes.get(..at)?.iter().filter(|other| other.place == node.place).count();
        let is_partitioned = nodes.iter().filter(|other| other.place == node.place).count() > 1;
        Some((of_node(node)?, Some(node), is_partitioned.then_some(before)))
    });
    let unseen = places.iter().filter(|place| !nodes.iter().any(|node| node.place == place.place));
    seen.chain(unseen.map(|place| (place, None, None)))
        .take(MOST_CARDS)
        .zip(0..)
        .map(|((place, node, partition), index)| Card::new(index, place, node, partition, names))
        .collect()
}
