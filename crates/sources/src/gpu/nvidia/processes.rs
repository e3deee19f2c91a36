//! The processes on a GPU, with their memory and utilization.

use nvml_wrapper::Device;

use super::super::plausible::{self, within};
use super::host::HostFiles;
use super::query::Query;
use super::raw::{self, Buffers, ProcessList};
use super::{FURTHEST_BACK_US, SLOW_EVERY_NS};
use trainmon_sample::gpu::{GpuProcess, GpuReading, MpsUse};

/// What is remembered of a GPU's processes between ticks.
#[derive(Debug, Default)]
pub(super) struct NvmlProcesses {
    /// From the lists that are read now and then.
    slow: Vec<GpuProcess>,
    /// The list of compute processes, when it was read, and the memory in use at that time.
    compute: Vec<GpuProcess>,
    compute_until_ns: u64,
    memory_used_bytes: Option<u64>,
    mps: MpsUse,
    /// Timestamp of the newest utilization seen.
    seen_us: u64,
}

impl NvmlProcesses {
    /// Reads the lists that rarely contain a training job's processes.
    pub(super) fn read_slow(&mut self, device: &Device<'static>, query: &mut Query, buffers: &mut Buffers) {
        self.slow.clear();
        list(query, "MPS processes", device, ProcessList::Mps, &mut self.slow, buffers);
        self.mps.clients = self.slow.iter().map(|process| process.pid).collect();
        self.mps.clients.sort_unstable();
        list(query, "graphics processes", device, ProcessList::Graphics, &mut self.slow, buffers);
    }

    /// Reads the compute list when it is due. The GPU's memory must have been read already.
    ///
    /// A list takes the driver milliseconds, under its lock. So it is read again after five seconds, when the memory in
    /// use has changed (as when a process comes or goes), or when a process missing from it has used the GPU.
    pub(super) fn read_list(
        &mut self,
        device: &Device<'static>,
        query: &mut Query,
        seen: &mut GpuReading,
        buffers: &mut Buffers,
        host: &HostFiles,
    ) {
        if query.now_ns >= self.compute_until_ns || seen.memory_used_bytes != self.memory_used_bytes {
            self.compute.clear();
            let read = list(query, "compute processes", device, ProcessList::Compute, &mut self.compute, buffers);
            self.compute_until_ns = if read { query.now_ns.saturating_add(SLOW_EVERY_NS) } else { 0 };
            self.memory_used_bytes = seen.memory_used_bytes;
            self.mps.server = self.compute.iter().map(|process| process.pid).find(|pid| host.is_mps_server(*pid));
        }
        seen.mps = (self.mps != MpsUse::default()).then(|| self.mps.clone());
    }

    /// Reads each process's utilization. The list and the GPU's memory and utilization must have been read already.
    pub(super) fn read(
        &mut self,
        device: &Device<'static>,
        query: &mut Query,
        seen: &mut GpuReading,
        now_us: u64,
        buffers: &mut Buffers,
    ) {
        let processes = &mut seen.processes;
        processes.extend_from_slice(&self.compute);
        processes.extend_from_slice(&self.slow);
        merge(processes);
        for process in processes.iter_mut() {
            let total = seen.memory_total_bytes;
            process.memory_bytes = process.memory_bytes.and_then(|bytes| plausible::process_memory(bytes, total));
        }
        if processes.is_empty() {
            return;
        }
        // If the wall clock was set back, what was seen is in the future; then start over with the last second.
        let last_us = plausible::time(self.seen_us, 0, now_us);
        let furthest_us = now_us.saturating_sub(if last_us.is_none() { 1_000_000 } else { FURTHEST_BACK_US });
        let since_us = last_us.map_or(furthest_us, |last_us| last_us.max(furthest_us));
        let mut newest_us = since_us;
        let mut sampled = false;
        let mut stranger = false;
        query.get("process utilization", || {
            for entry in raw::process_utilization(device, since_us, buffers)? {
                let Some(point) = plausible::point(entry.timeStamp, entry.smUtil.into(), since_us, now_us) else {
                    continue;
                };
                newest_us = newest_us.max(point.unix_us);
                sampled = true;
                let place = processes.binary_search_by_key(&entry.pid, |process| process.pid);
                stranger |= place.is_err();
                if let Some(process) = place.ok().and_then(|place| processes.get_mut(place)) {
                    // One point per process is usual. Of several the highest is kept, rather than the mean of unequal
                    // times.
                    process.sm_utilization_pct = process.sm_utilization_pct.max(Some(point.pct));
                }
            }
            Ok(())
        });
        self.seen_us = newest_us;
        if stranger {
            self.compute_until_ns = 0;
        }
        // Only processes that ran are listed. A missing one did not run if others did, or if the GPU did not.
        if sampled || seen.utilization_pct == Some(0) {
            for process in processes {
                process.sm_utilization_pct = process.sm_utilization_pct.or(Some(0));
            }
        }
    }
}

/// Appends a list of processes and says whether it was available; their memory is not yet checked against the GPU's.
fn list(
    query: &mut Query,
    name: &'static str,
    device: &Device<'static>,
    which: ProcessList,
    processes: &mut Vec<GpuProcess>,
    buffers: &mut Buffers,
) -> bool {
    let read = query.get(name, || {
        processes.extend(raw::processes(device, which, buffers)?.iter().filter_map(|process| {
            Some(GpuProcess {
                pid: within(plausible::PID)(process.pid)?,
                memory_bytes: plausible::process_memory(process.usedGpuMemory, None),
                sm_utilization_pct: None,
                compute: which != ProcessList::Graphics,
            })
        }));
        Ok(())
    });
    read.is_some()
}

/// Sorts by PID and merges the entries of a process that is in several lists (or several MIG instances, which are not
/// yet told apart).
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
