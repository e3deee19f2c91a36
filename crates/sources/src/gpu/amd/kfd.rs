//! AMD's compute driver, amdkfd: how its runtimes number the GPUs, and which processes use them. Everyone may read it.
//!
//! Sources: drivers/gpu/drm/amd/amdkfd/kfd_topology.c (nodes), kfd_process.c (`vram_*`, bytes; `stats_*/cu_occupancy`, compute units;
//! both in decimal). The PIDs are those of the first PID namespace.
//!
//! The queues that programs of ROCm use are their own, so no driver counts a process's time on the GPU. Where several processes are on a
//! GPU, `cu_occupancy` (Instinct only) says how many compute units each of them holds at a moment; many moments make its part. The
//! driver asks every compute unit for it, so it is not read of a process that is alone.

use std::path::{Path, PathBuf};

use super::super::plausible;
use crate::fields::{keyed_number, number};
use crate::files::{number_in, numbers_in, read_once};
use trainmon_sample::gpu::GpuProcess;

/// How often the memory of processes is read unless processes come or go, nanoseconds.
const EVERY_NS: u64 = 5_000_000_000;
/// Most nodes and most processes read.
const MOST_NODES: usize = 4096;
/// A node's properties, which are about 1 KiB.
const PROPERTIES_BYTES: usize = 16 << 10;

/// A GPU, or a partition of one, as ROCm sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KfdNode {
    /// The driver's own number of it.
    pub gpu_id: u32,
    /// N of `/dev/dri/renderDN`.
    pub render_minor: u32,
    /// PCI domain, and bus and device; partitions share them.
    pub place: (u64, u64),
    /// Compute units.
    pub compute_units: u64,
    /// Memory, bytes.
    pub memory_bytes: Option<u64>,
}

/// The GPUs in the order in which the runtimes number them.
pub(super) fn nodes(sys: &Path) -> Vec<KfdNode> {
    let folder = sys.join("class/kfd/kfd/topology/nodes");
    let mut numbers: Vec<u32> = numbers_in(&folder).take(MOST_NODES).collect();
    numbers.sort_unstable();
    let read = |node: u32| {
        let at = |file: &str| read_once(folder.join(node.to_string()).join(file), PROPERTIES_BYTES).ok();
        let gpu_id = number(at("gpu_id")?.trim_ascii()).filter(|id| *id > 0)?;
        let properties = at("properties")?;
        let property = |key: &str| keyed_number(&properties, key.as_bytes());
        // Bits 0 to 2 are the function, and those above the bus may be the partition.
        let place = (property("domain").unwrap_or(0), property("location_id")? & 0xfff8);
        Some(KfdNode {
            gpu_id,
            render_minor: property("drm_render_minor")?.try_into().ok()?,
            place,
            compute_units: property("simd_count").unwrap_or(0) / property("simd_per_cu").unwrap_or(2).max(1),
            memory_bytes: at("mem_banks/0/properties").and_then(|bank| keyed_number(&bank, b"size_in_bytes")),
        })
    };
    numbers.into_iter().filter_map(read).collect()
}

/// The processes on the GPUs.
#[derive(Debug)]
pub(super) struct KfdProcesses {
    folder: PathBuf,
    gpu_ids: Vec<u32>,
    pids: Vec<u32>,
    next_ns: u64,
    /// By the driver's number of the GPU.
    found: Vec<(u32, GpuProcess)>,
    /// Those that hold nothing on any GPU.
    pub without_memory: Vec<u32>,
}

impl KfdProcesses {
    pub fn new(sys: &Path, gpu_ids: Vec<u32>) -> Self {
        Self {
            folder: sys.join("class/kfd/kfd/proc"),
            gpu_ids,
            pids: Vec::new(),
            next_ns: 0,
            found: Vec::new(),
            without_memory: Vec::new(),
        }
    }

    /// Looks for processes; their memory is read now and then.
    pub fn look(&mut self, now_ns: u64) {
        let mut pids: Vec<u32> =
            numbers_in(&self.folder).filter(|pid| plausible::PID.contains(pid)).take(MOST_NODES).collect();
        pids.sort_unstable();
        if now_ns < self.next_ns && pids == self.pids {
            return;
        }
        self.next_ns = now_ns.saturating_add(EVERY_NS);
        self.pids = pids;
        self.found.clear();
        self.without_memory.clear();
        for pid in &self.pids {
            let folder = self.folder.join(pid.to_string());
            let (mut told, mut held) = (false, false);
            for gpu_id in &self.gpu_ids {
                let memory_bytes = number_in(&folder.join(format!("vram_{gpu_id}")));
                let Some(memory_bytes) = memory_bytes.and_then(|bytes| plausible::process_memory(bytes, None)) else {
                    continue;
                };
                (told, held) = (true, held || memory_bytes > 0);
                // The runtime opens all GPUs, and holds nothing on those that the process does not use.
                if memory_bytes > 0 {
                    let process = GpuProcess {
                        pid: *pid,
                        memory_bytes: Some(memory_bytes),
                        sm_utilization_pct: None,
                        compute: true,
                    };
                    self.found.push((*gpu_id, process));
                }
            }
            if told && !held {
                self.without_memory.push(*pid);
            }
        }
    }

    /// Those on one GPU, by PID, each with its part of the GPU's use.
    pub fn on(&self, gpu_id: u32, utilization_pct: Option<u32>) -> Vec<GpuProcess> {
        let mut processes: Vec<GpuProcess> =
            self.found.iter().filter(|(id, _)| *id == gpu_id).map(|(_, process)| *process).collect();
        if let (Some(pct), true) = (utilization_pct, processes.len() > 1) {
            let held: Option<Vec<u64>> =
                processes.iter().map(|process| self.compute_units(process.pid, gpu_id)).collect();
            let held = held.unwrap_or_default();
            let all = held.iter().fold(0, |sum: u64, units| sum.saturating_add(*units));
            for (process, units) in processes.iter_mut().zip(held) {
                let part = f64::from(pct) * units as f64 / all as f64;
                process.sm_utilization_pct = if all > 0 { Some(part.round() as u32) } else { None };
            }
        }
        processes
    }

    /// The compute units that a process holds at this moment.
    fn compute_units(&self, pid: u32, gpu_id: u32) -> Option<u64> {
        number_in(&self.folder.join(pid.to_string()).join(format!("stats_{gpu_id}/cu_occupancy")))
    }
}
