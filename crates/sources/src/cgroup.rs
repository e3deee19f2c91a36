//! The job's cgroup: CPU quota and throttling, memory limit and refaults, read limits; v1, v2 and hybrid.
//!
//! Counters are read every time, from kept descriptors; limits and membership only now and then. A limit is the
//! tightest of the group and all its ancestors, as far up as the mounted hierarchy reaches. Inside a container, nothing
//! above the root of the container's view is visible. The procfs crate reads nothing below `/sys/fs/cgroup`.

mod find;
mod freezer;
mod limits;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use trainmon_sample::CgroupSample;

use super::Roots;
use super::fields::{keyed_number, lines, number, path_text};
use super::files::{KeptFile, KeptPath, READ_LIMIT, ReadFailure, read_once};
use find::{Hierarchies, Hierarchy, find};
use freezer::Freezer;

/// Limits and membership are read again after this many reads.
const REFRESH_EVERY: u32 = 10;

/// Reads the cgroup of one process.
#[derive(Debug, Default)]
pub struct CgroupReader {
    roots: Roots,
    pid: u32,
    membership: KeptPath,
    membership_seen: Vec<u8>,
    found: Hierarchies,
    reads: u32,
    limits: CgroupSample,
    counters: CgroupCounters,
    freezers: Vec<Freezer>,
    /// The command that thaws the group, set once it was found frozen.
    thaw: Option<Option<Arc<str>>>,
    buffer: Vec<u8>,
}

/// The files read every time, in the groups whose limits bind.
#[derive(Debug, Default)]
struct CgroupCounters {
    cpu_stat: Option<KeptPath>,
    memory_usage: Option<KeptPath>,
    memory_stat: Option<KeptPath>,
    oom_kills: Option<KeptPath>,
}

impl CgroupReader {
    /// Opens nothing before the first read.
    pub fn for_process(roots: &Roots, pid: u32) -> Self {
        let membership = KeptPath::new(roots.proc.join(pid.to_string()).join("cgroup"));
        Self { roots: roots.clone(), pid, membership, ..Self::default() }
    }

    /// Reads the counters, and every tenth time the limits and whether the process has moved to another group. What
    /// cannot be read is `None`. After the process has ended, its last group is read for as long as it exists.
    pub fn read(&mut self) -> CgroupSample {
        if self.reads.is_multiple_of(REFRESH_EVERY) {
            self.refresh();
        }
        self.reads = self.reads.wrapping_add(1);
        let mut sample = self.limits.clone();
        let buffer = &mut self.buffer;
        if let Some(text) = read(&mut self.counters.cpu_stat, buffer) {
            sample.periods = keyed_number(text, b"nr_periods");
            sample.throttled_periods = keyed_number(text, b"nr_throttled");
        }
        sample.memory_bytes = read(&mut self.counters.memory_usage, buffer).and_then(only_number);
        // v1 shows the subtree under `total_…`, and since Linux 6.0 in pages, like v2.
        sample.refaulted_file_pages = read(&mut self.counters.memory_stat, buffer).and_then(|text| {
            keyed_number(text, b"total_workingset_refault_file")
                .or_else(|| keyed_number(text, b"workingset_refault_file"))
        });
        sample.oom_kills =
            read(&mut self.counters.oom_kills, buffer).and_then(|text| keyed_number(text, b"oom_kill"));
        self.read_freezers(&mut sample);
        sample
    }

    fn read_freezers(&mut self, sample: &mut CgroupSample) {
        let mut frozen_by = None;
        for freezer in &mut self.freezers {
            let frozen = freezer.is_frozen(&mut self.buffer);
            sample.frozen = match (sample.frozen, frozen) {
                (Some(one), Some(other)) => Some(one || other),
                (one, other) => one.or(other),
            };
            frozen_by = frozen_by.or((frozen == Some(true)).then_some(freezer));
        }
        let thaw = &mut self.thaw;
        match frozen_by {
            Some(freezer) => sample.thaw.clone_from(thaw.get_or_insert_with(|| freezer.thaw())),
            None => *thaw = None,
        }
    }

    fn refresh(&mut self) {
        match self.membership.read(&mut self.buffer) {
            Ok(text) if text != self.membership_seen || self.found.is_empty() => {
                self.membership_seen = text.to_vec();
                self.found = find(&self.roots, self.pid, &self.membership_seen);
                self.counters = CgroupCounters::default();
                self.freezers = self.found.freezers.iter().flatten().filter_map(Freezer::new).collect();
            }
            Err(failure) if failure != ReadFailure::Gone && self.found.is_empty() => return,
            _ => {}
        }
        let found = &self.found;
        let cpu = found.cpu.as_ref().and_then(limits::cpu);
        let memory = found.memory.as_ref().and_then(limits::memory);
        let (io_read_limit_bytes_per_s, io_read_limit_iops) = found.io.as_ref().map(limits::io).unwrap_or_default();
        self.limits = CgroupSample {
            version: found.version.clone(),
            path: found.cpu.as_ref().map(|cpu| path_text(&cpu.path)),
            cpu_quota_cores: cpu.as_ref().map(|(cores, _)| *cores),
            memory_limit_bytes: memory.as_ref().map(|(bytes, _)| *bytes),
            io_read_limit_bytes_per_s,
            io_read_limit_iops,
            ..CgroupSample::default()
        };
        // Throttling happens at the group with the quota, reclaim at the group with the limit, so their counters are
        // read there; without a limit, in the job's own group.
        let limiting = memory.map(|(_, at)| at);
        let CgroupCounters { cpu_stat, memory_usage, memory_stat, oom_kills } = &mut self.counters;
        keep(cpu_stat, found.cpu.as_ref(), cpu.map(|(_, at)| at).as_deref(), "cpu.stat", "cpu.stat");
        let memory = found.memory.as_ref();
        keep(memory_usage, memory, limiting.as_deref(), "memory.current", "memory.usage_in_bytes");
        keep(memory_stat, memory, None, "memory.stat", "memory.stat");
        keep(oom_kills, memory, None, "memory.events", "memory.oom_control");
    }
}

/// Keeps the descriptor unless the file to read has changed. The file is `v1` or `v2` by version, in `at` or else in
/// the job's own group.
fn keep(kept: &mut Option<KeptPath>, hierarchy: Option<&Hierarchy>, at: Option<&Path>, v2: &str, v1: &str) {
    let path = hierarchy.and_then(|hierarchy| {
        let own = || hierarchy.folders.first().map(PathBuf::as_path);
        Some(at.or_else(own)?.join(if hierarchy.v2 { v2 } else { v1 }))
    });
    if kept.as_ref().map(KeptPath::path) != path.as_deref() {
        *kept = path.map(KeptPath::new);
    }
}

fn read<'b>(kept: &mut Option<KeptPath>, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
    kept.as_mut()?.read(buffer).ok()
}

/// The number in a file that holds nothing else.
fn only_number(text: &[u8]) -> Option<u64> {
    number(text.trim_ascii())
}

/// The CPUs that a process may run on: its affinity mask, which the kernel keeps within the cpuset (`Cpus_allowed_list`
/// in `/proc/PID/status`). Empty where unknown.
pub fn allowed_cpus(roots: &Roots, pid: u32) -> Vec<u16> {
    let path = roots.proc.join(pid.to_string()).join("status");
    let text = read_once(path, READ_LIMIT).unwrap_or_default();
    let list = lines(&text).find_map(|line| line.strip_prefix(b"Cpus_allowed_list:"));
    list.map(|list| cpu_list(list.trim_ascii())).unwrap_or_default()
}

/// How many physical cores these CPUs belong to; hardware threads of one core are siblings
/// (Documentation/admin-guide/cputopology.rst, `thread_siblings_list`). `None` unless known for every CPU.
pub fn physical_cores(roots: &Roots, cpus: &[u16]) -> Option<u16> {
    let mut cores = BTreeSet::new();
    for cpu in cpus {
        let path = roots.sys.join(format!("devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
        cores.insert(*cpu_list(read_once(path, READ_LIMIT).ok()?.trim_ascii()).first()?);
    }
    u16::try_from(cores.len()).ok().filter(|count| *count > 0)
}

/// Highest CPU number accepted in a list, far above the kernel's own limit (NR_CPUS is at most 8192).
const MOST_CPUS: u16 = 16_384;

/// Parses a list like `0-3,8,10-11` (cpuset(7)) into ascending numbers without repeats; empty if any part is malformed.
pub(crate) fn cpu_list(list: &[u8]) -> Vec<u16> {
    let mut cpus = Vec::new();
    for part in list.split(|&byte| byte == b',') {
        let mut ends = part.splitn(2, |&byte| byte == b'-');
        let mut end = || number(ends.next()?).filter(|&cpu: &u16| cpu < MOST_CPUS);
        let Some(first) = end() else { return Vec::new() };
        let last = if part.contains(&b'-') { end() } else { Some(first) };
        let Some(last) = last.filter(|&last| last >= first) else { return Vec::new() };
        // The kernel's lists ascend. Repeats in a hostile list must not pile up.
        if cpus.last().is_some_and(|&before| before >= first) {
            return Vec::new();
        }
        cpus.extend(first..=last);
    }
    cpus
}

/// Reads all of a small cgroup file.
fn small_file(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    let file = KeptFile::open_regular(folder.join(name)).ok()?;
    file.read_up_to(&mut buffer, 64 << 10).ok().map(<[u8]>::to_vec)
}

#[cfg(test)]
mod tests;
