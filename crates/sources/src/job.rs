//! The job: the target, everything it started, and what each process does.
//!
//! The tree is found through `/proc/PID/task/TID/children`, so its cost does not grow with the host. A process that was
//! once part of the job stays part of it until it ends, even after its parent has gone. Orphans that were never found
//! below their parent are found by session and process group, in a rare scan of the whole host.

mod attach;
mod facts;
mod threads;
mod unwatched;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::accelerators::OpenDevices;
use super::clock;
use super::files::{ReadFailure, numbers_in};
use super::process::{Process, stat_of};
use super::roles::{self, Facts};
pub use attach::AttachError;
pub use facts::mapped_library;
use facts::{access, other_namespace, rank_place, run_identity, visible_devices, with_more_rights};
use trainmon_sample::ProcessRole;
use trainmon_sample::process::{TORCH_WORKER, is_of_learning};
use trainmon_sample::{Access, JobAccess, JobSample, ProcessId, ProcessSample, RunIdentity};
pub use unwatched::complete;

/// Most processes read for one job.
const MOST_PROCESSES: usize = 1024;
/// Most left-out processes counted.
const MOST_COUNTED: usize = 1 << 16;
/// `children` of threads other than the first one are read every this many ticks.
const ALL_THREADS_EVERY: u64 = 4;
/// The whole host is scanned for orphans every this many ticks …
const SCAN_EVERY: u64 = 10;
/// … and every this many scans, PIDs ruled out before are read again: a PID may have a new owner.
const RULED_OUT_EVERY: u64 = 6;
/// Libraries and descriptors are checked every this many ticks, and whenever the tree changes.
const FACTS_EVERY: u64 = 10;
/// Most processes read outside the job.
const MOST_OUTSIDE: usize = 16;
/// Reads the job tick after tick.
#[derive(Debug)]
pub struct JobReader {
    /// The attached process.
    pub target: ProcessId,
    proc_root: PathBuf,
    session: (i64, i64),
    processes: BTreeMap<u32, Process>,
    gpu_pids: Vec<u32>,
    training: Vec<ProcessId>,
    /// Processes outside the job that the job waits for.
    outside: BTreeMap<u32, Process>,
    access: JobAccess,
    with_more_rights: Option<Arc<str>>,
    visible_devices: Option<Arc<str>>,
    run: RunIdentity,
    other_namespace: bool,
    /// Processes in other sessions, or older than the job: none of them can become an orphan of the job.
    ruled_out: HashSet<u32>,
    /// Processes found but not watched, because there are too many.
    left_out: HashSet<u32>,
    /// Processes that could not be opened or read at the last tick because no descriptor was free.
    unread: u32,
    no_ptrace: bool,
    reads: u64,
    alive: bool,
    buffer: Vec<u8>,
}

/// Whether it has a machine-learning library mapped.
fn learns(process: &Process) -> bool {
    process.library.as_deref().is_some_and(is_of_learning)
}

impl JobReader {
    /// Attaches to `pid`: opens what will be read and finds out what may be read.
    ///
    /// With `no_ptrace`, files that need ptrace attach rights are never opened.
    ///
    /// # Errors
    /// [`AttachError`].
    pub fn attach(proc_root: &Path, pid: u32, no_ptrace: bool) -> Result<Self, AttachError> {
        let target = Process::open(proc_root, pid).map_err(|error| match error {
            failure if failure.is_gone() => AttachError::missing(proc_root, pid),
            ReadFailure::Denied => AttachError::denied(proc_root, pid),
            ReadFailure::Exhausted => AttachError::too_few_descriptors(pid),
            failure => AttachError::Failed(pid, failure.into()),
        })?;
        let stat = target.stat;
        if stat.is_kernel_thread() {
            return Err(AttachError::KernelThread(pid));
        }
        if !stat.is_alive() {
            return Err(AttachError::Zombie(pid));
        }
        let folder = target.folder.clone();
        let mut reader = Self {
            proc_root: proc_root.to_path_buf(),
            target: target.id,
            session: (stat.session, stat.group),
            access: access(&folder, no_ptrace),
            with_more_rights: with_more_rights(pid),
            visible_devices: visible_devices(&folder),
            run: run_identity(&folder),
            other_namespace: other_namespace(proc_root, &folder) || target.in_other_namespace(),
            processes: BTreeMap::from([(pid, target)]),
            gpu_pids: Vec::new(),
            training: Vec::new(),
            outside: BTreeMap::new(),
            ruled_out: HashSet::new(),
            left_out: HashSet::new(),
            unread: 0,
            no_ptrace,
            reads: 0,
            alive: true,
            buffer: Vec::with_capacity(8192),
        };
        reader.find_processes();
        reader.find_facts();
        Ok(reader)
    }

    /// Command line of the attached process, raw; its name if it has no command line.
    pub fn command(&self) -> Arc<str> {
        self.processes.get(&self.target.pid).map_or_else(
            || "".into(),
            |process| Arc::clone(if process.command.is_empty() { &process.comm } else { &process.command }),
        )
    }

    /// Sets the PIDs that NVML lists: using a GPU is what marks a training process.
    pub fn set_gpu_pids(&mut self, pids: Vec<u32>) {
        self.gpu_pids = pids;
    }

    /// Sets the processes that were seen in a backward pass.
    pub fn set_training(&mut self, training: Vec<ProcessId>) {
        self.training = training;
    }

    /// Sets the processes outside the job that hold the other end of something it waits for. They are read and sampled
    /// for as long as they are listed here.
    pub fn set_outside(&mut self, pids: &[u32]) {
        self.outside.retain(|pid, _| pids.contains(pid));
        for pid in pids.iter().copied().take(MOST_OUTSIDE) {
            if !self.outside.contains_key(&pid) && !self.processes.contains_key(&pid) && pid != std::process::id() {
                let opened = Process::open(&self.proc_root, pid);
                self.outside.extend(opened.ok().map(|process| (pid, process)));
            }
        }
    }

    /// The processes of [`Self::set_outside`] as they were at the last read.
    pub fn outside(&self) -> Vec<ProcessSample> {
        self.outside.values().map(|process| process.sample()).collect()
    }

    /// Reads everything; the caller fills in `sampler`, `cgroup` and `allowed_cpus`.
    pub fn read(&mut self, now_ns: u64) -> JobSample {
        let before: BTreeSet<ProcessId> = self.processes.values().map(|process| process.id).collect();
        let execs_before = self.execs();
        let mut gone = Vec::new();
        (self.unread, self.left_out) = (0, HashSet::new());
        for (pid, process) in &mut self.processes {
            match process.read() {
                // This tick is unknown: keep what was read last.
                Err(ReadFailure::Exhausted) => self.unread += 1,
                Ok(()) if process.stat.is_alive() => {}
                Ok(()) | Err(_) => gone.push(*pid),
            }
        }
        for pid in gone {
            if pid == self.target.pid {
                self.alive = false;
            } else {
                self.processes.remove(&pid);
            }
        }
        self.outside.retain(|_, process| process.read().is_ok() && process.stat.is_alive());
        self.find_processes();
        let execs = self.execs();
        if execs.0 != execs_before.0 {
            self.look_at_target();
        }
        let changed = execs != execs_before
            || self.processes.len() != before.len()
            || self.processes.values().any(|process| !before.contains(&process.id));
        if changed || self.reads.is_multiple_of(FACTS_EVERY) || self.reads < 3 {
            self.find_facts();
        } else {
            self.assign_roles();
        }
        self.find_queue_threads();
        if changed || self.reads.is_multiple_of(FACTS_EVERY) {
            self.share_descriptors();
        }
        self.reads += 1;
        self.sample(now_ns)
    }

    /// How many times the target, and all processes, have executed another program.
    fn execs(&self) -> (u32, u32) {
        let of_target = self.processes.get(&self.target.pid).map_or(0, |process| process.execs);
        (of_target, self.processes.values().fold(0, |sum, process| sum.wrapping_add(process.execs)))
    }

    /// Checks what may be read of the target now, and which GPUs it was given: an exec may change both.
    fn look_at_target(&mut self) {
        let Some(target) = self.processes.get(&self.target.pid) else { return };
        self.access = access(&target.folder, self.no_ptrace);
        self.visible_devices = visible_devices(&target.folder);
        self.run = run_identity(&target.folder);
    }

    fn sample(&self, now_ns: u64) -> JobSample {
        let mut processes: Vec<_> = self.processes.values().map(|process| process.sample()).collect();
        processes.sort_by_key(|process| process.id != self.target);
        let devices = || self.processes.values().map(|process| &process.devices);
        let minors: BTreeSet<u32> = devices().flat_map(|devices| &devices.minors).copied().collect();
        let accelerators: BTreeSet<&Arc<str>> = devices().flat_map(|devices| &devices.accelerators).collect();
        JobSample {
            monotonic_ns: now_ns,
            target: self.target,
            alive: self.alive,
            processes,
            access: self.access,
            with_more_rights: self.with_more_rights.clone(),
            nvidia_minors: (self.access.fd == Access::Ok).then(|| minors.into_iter().collect()),
            accelerators: accelerators.into_iter().cloned().collect(),
            cuda_visible_devices: self.visible_devices.clone(),
            run: self.run.clone(),
            library: self.library(),
            other_pid_namespace: self.other_namespace,
            ticks_per_second: clock::ticks_per_second(),
            unwatched: self.unwatched(),
            ..JobSample::default()
        }
    }

    /// The mapped library that says most about the job.
    fn library(&self) -> Option<Arc<str>> {
        let libraries = || self.processes.values().filter_map(|process| process.library.as_ref());
        libraries().find(|library| is_of_learning(library)).or_else(|| libraries().next()).cloned()
    }

    fn rank_of(&self, worker: u32) -> Option<u32> {
        let of = |pid| self.processes.get(&pid).map(|process| (process.stat.parent, process.role));
        roles::rank_of(worker, of)
    }

    /// Adds new processes below the known ones.
    fn find_processes(&mut self) {
        let every_thread = self.reads.is_multiple_of(ALL_THREADS_EVERY);
        let mut queue: Vec<u32> = self.processes.keys().copied().collect();
        let mut found = Vec::new();
        let mut lists_children = true;
        while let Some(pid) = queue.pop() {
            found.clear();
            if let Some(process) = self.processes.get(&pid) {
                process.children(every_thread, &mut self.buffer, &mut found);
                lists_children &= process.lists_children();
            }
            for child in found.drain(..) {
                if self.add(child) {
                    queue.push(child);
                }
            }
        }
        if !lists_children || self.reads % SCAN_EVERY == SCAN_EVERY - 1 {
            self.scan_host(lists_children);
        }
    }

    fn add(&mut self, pid: u32) -> bool {
        if self.processes.contains_key(&pid) {
            return false;
        }
        if self.processes.len() >= MOST_PROCESSES {
            if self.left_out.len() < MOST_COUNTED {
                self.left_out.insert(pid);
            }
            return false;
        }
        match Process::open(&self.proc_root, pid) {
            Ok(process) if process.stat.is_alive() => {
                self.processes.insert(pid, process);
                true
            }
            Err(ReadFailure::Exhausted) => {
                self.unread += 1;
                false
            }
            _ => false,
        }
    }

    /// Finds children by parent PID where the kernel has no `children` files, and orphans of the job: adopted by init,
    /// in the target's session and process group, and younger than the target.
    fn scan_host(&mut self, lists_children: bool) {
        let leads_group = self.session.1 == i64::from(self.target.pid);
        let own = std::process::id();
        let whole = !lists_children || (self.reads / SCAN_EVERY).is_multiple_of(RULED_OUT_EVERY);
        let before = std::mem::take(&mut self.ruled_out);
        let mut ruled_out = HashSet::with_capacity(before.len());
        let mut adopted = Vec::new();
        for pid in numbers_in(&self.proc_root) {
            if self.processes.contains_key(&pid) || pid == own {
                continue;
            }
            if !whole && before.contains(&pid) {
                ruled_out.insert(pid);
                continue;
            }
            let Some(stat) = stat_of(&self.proc_root, pid) else { continue };
            let child = self.processes.contains_key(&stat.parent);
            let may_be = stat.start_ticks >= self.target.start_ticks && stat.session == self.session.0;
            let orphan = leads_group && may_be && stat.parent == 1 && stat.group == self.session.1;
            if child || orphan {
                adopted.push(pid);
            } else if !may_be {
                ruled_out.insert(pid);
            }
        }
        self.ruled_out = ruled_out;
        for pid in adopted {
            self.add(pid);
        }
    }

    /// Looks for mapped libraries and open GPU device files, then assigns the roles.
    fn find_facts(&mut self) {
        for process in self.processes.values_mut() {
            process.devices = OpenDevices::default();
            if !process.comm.starts_with(TORCH_WORKER) {
                if !learns(process) {
                    process.library = mapped_library(&process.folder);
                }
                process.devices = OpenDevices::find(&process.folder);
            }
        }
        self.assign_roles();
    }

    fn assign_roles(&mut self) {
        let facts: Vec<Facts<'_>> = self
            .processes
            .iter()
            .map(|(pid, process)| Facts {
                pid: *pid,
                parent: process.stat.parent,
                comm: &process.comm,
                command: &process.command,
                executable: process.executable.as_deref().and_then(Path::to_str),
                library: learns(process),
                rank: process.is_rank(),
                works: process.works(),
                rests: process.rests(),
                joins: learns(process) && process.joins(),
                trains: self.training.contains(&process.id),
                device: process.devices.any() || self.gpu_pids.contains(pid),
            })
            .collect();
        let roles = roles::assign(self.target.pid, &facts);
        for (pid, process) in &mut self.processes {
            process.role = roles.get(pid).copied().unwrap_or_default();
            if process.role == ProcessRole::Rank && process.rank.is_none() {
                process.rank = Some(rank_place(&process.folder));
                // Its launcher may have named the run.
                if self.run.name.is_none() {
                    self.run.name = run_identity(&process.folder).name;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
