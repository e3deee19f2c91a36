//! The processes outside the job that used the most CPU time since the last scan.
//!
//! Unlike the job's files, those of a whole host are not kept open: they would be thousands. A scan opens each
//! `/proc/PID/stat` relative to one descriptor of `/proc` and remembers 24 bytes of it; names and owners are read only
//! for the few processes shown.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};

use super::fields::{number, text};
use super::files::{KeptFile, ReadFailure};
use super::{Roots, cgroup, clock, process, task_files};
use trainmon_sample::other_processes::MOST_OTHER_PROCESSES;
use trainmon_sample::{OtherProcessProcess, OtherProcessesSample, ProcessId};

/// Most processes read, which bounds the memory to about 2 MiB.
const MOST_SCANNED: usize = 32_768;

/// Scans the host's processes for CPU time used since the last scan.
#[derive(Debug, Default)]
pub struct OtherProcessesReader {
    roots: Roots,
    /// The CPUs that the job may use; empty if unknown.
    job_cpus: Vec<u16>,
    /// Processes that are reported even if they use no CPU time.
    asked: HashSet<u32>,
    counters: OtherProcessCounters,
    now: HashMap<u32, (u64, u64)>,
    job: HashSet<u32>,
    /// Those that used CPU time, with their parents but without command lines and owners.
    busiest: Vec<(u32, OtherProcessProcess)>,
    /// Command lines and owners of the processes shown, with the name that each had.
    names: HashMap<ProcessId, OtherProcessNames>,
    path: String,
    before_ns: Option<u64>,
    /// trainmon's own PID in this `/proc`, and its children: what these start is trainmon's as well.
    own: Option<u32>,
    own_children: Vec<u32>,
}

/// What is read once for each process shown: name, command line, owner, and whether it runs on CPUs other than the
/// job's.
type OtherProcessNames = (Arc<str>, Arc<str>, Option<u32>, bool);

/// The processes at the last scan.
#[derive(Debug, Default)]
struct OtherProcessCounters {
    /// Start time and CPU time so far by PID, clock ticks.
    seen: HashMap<u32, (u64, u64)>,
    /// No process was left out, so a process not listed is younger than the scan.
    complete: bool,
}

impl OtherProcessCounters {
    /// Clock ticks used since the scan; all of them for a process that started since. `None` if unknown.
    fn moved(&self, now: ProcessId, ticks: u64) -> Option<u64> {
        match self.seen.get(&now.pid) {
            Some((start_ticks, before)) if *start_ticks == now.start_ticks => ticks.checked_sub(*before),
            // The PID belonged to another process at the scan.
            Some(_) => Some(ticks),
            None => self.complete.then_some(ticks),
        }
    }
}

impl OtherProcessesReader {
    /// Starts with nothing read.
    pub fn new(roots: &Roots) -> Self {
        Self { roots: roots.clone(), ..Self::default() }
    }

    /// Sets which CPUs the job may use, and which processes to report even if they hardly use any.
    pub fn ask(&mut self, job_cpus: &[u16], pids: Vec<u32>) {
        self.asked = pids.into_iter().collect();
        self.job_cpus = job_cpus.to_vec();
    }

    /// Reads every process. `now_ns` is CLOCK_MONOTONIC; `job` are the job's PIDs, which are skipped together with
    /// their children. The first scan has no window and no processes.
    ///
    /// # Errors
    /// If `/proc` cannot be listed.
    pub fn read(&mut self, now_ns: u64, job: &[u32]) -> io::Result<OtherProcessesSample> {
        self.job = job.iter().copied().collect();
        self.busiest.clear();
        self.now.clear();
        self.own_children.clear();
        self.own = std::fs::read_link(self.roots.proc.join("self")).ok().and_then(|own| own.to_str()?.parse().ok());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &self.roots.proc, flags, Mode::empty())?;
        let mut room = [MaybeUninit::<u8>::uninit(); 8192];
        let mut entries = RawDir::new(&folder, &mut room);
        let mut complete = true;
        let mut others = 0_u32;
        while let Some(entry) = entries.next() {
            let Some(pid) = number(entry?.file_name().to_bytes()) else { continue };
            if self.now.len() >= MOST_SCANNED {
                complete = false;
                break;
            }
            match self.read_one(&folder, pid) {
                Ok(true) => others = others.saturating_add(1),
                Ok(false) => {}
                Err(failure) => complete &= failure.is_gone(),
            }
        }
        self.counters = OtherProcessCounters { seen: std::mem::take(&mut self.now), complete };
        let window_ns = self.before_ns.map_or(0, |before_ns| now_ns.saturating_sub(before_ns));
        self.before_ns = Some(now_ns);
        self.keep_busiest();
        let processes = self.named();
        Ok(OtherProcessesSample {
            monotonic_ns: now_ns,
            window_ns,
            ticks_per_second: clock::ticks_per_second(),
            others: others.saturating_sub(u32::try_from(processes.len()).unwrap_or(u32::MAX)),
            processes,
        })
    }

    /// Reads one process; returns whether it is outside the job and trainmon.
    fn read_one(&mut self, folder: &OwnedFd, pid: u32) -> Result<bool, ReadFailure> {
        self.path.clear();
        let _ = write!(self.path, "{pid}/stat");
        let mut room = [0_u8; 1024];
        let file = KeptFile::open_at(folder, &self.path)?;
        let line = file.read_line(&mut room)?;
        let stat = task_files::stat(line).ok_or(ReadFailure::Malformed)?;
        let id = ProcessId { pid, start_ticks: stat.start_ticks };
        self.now.insert(pid, (stat.start_ticks, stat.cpu_ticks()));
        if self.own == Some(stat.parent) {
            self.own_children.push(pid);
        }
        // A child of the job that is younger than the job's list belongs to the job too.
        if self.job.contains(&pid) || self.job.contains(&stat.parent) {
            return Ok(false);
        }
        if self.before_ns.is_some()
            && let Some(cpu_ticks) = self.counters.moved(id, stat.cpu_ticks())
            && (cpu_ticks > 0 || self.asked.contains(&pid))
        {
            let busy = OtherProcessProcess {
                id,
                comm: text(task_files::comm(line).unwrap_or_default()),
                cpu_ticks,
                rss_bytes: stat.rss_pages.saturating_mul(rustix::param::page_size() as u64),
                kernel: stat.is_kernel_thread(),
                ..OtherProcessProcess::default()
            };
            self.busiest.push((stat.parent, busy));
            if self.busiest.len() >= 4 * MOST_OTHER_PROCESSES {
                self.keep_busiest();
            }
        }
        Ok(true)
    }

    fn keep_busiest(&mut self) {
        let mut busiest = std::mem::take(&mut self.busiest);
        let by_time = |busy: &OtherProcessProcess| (Reverse(busy.cpu_ticks), busy.id);
        busiest.sort_unstable_by_key(|(_, busy)| (!self.asked.contains(&busy.id.pid), by_time(busy)));
        busiest.truncate(MOST_OTHER_PROCESSES);
        busiest.sort_unstable_by_key(|(_, busy)| by_time(busy));
        self.busiest = busiest;
    }

    /// The busiest processes with command lines and owners; those of other processes are forgotten. A process that has
    /// ended has only its name.
    fn named(&mut self) -> Vec<OtherProcessProcess> {
        let mut busiest = std::mem::take(&mut self.busiest);
        self.names.retain(|id, (comm, ..)| busiest.iter().any(|(_, busy)| busy.id == *id && busy.comm == *comm));
        let (own, own_children) = (self.own, &self.own_children);
        let named = busiest.drain(..).map(|(parent, busy)| {
            let names = self.names.entry(busy.id).or_insert_with(|| {
                let folder = self.roots.proc.join(busy.id.pid.to_string());
                let command = if busy.kernel { Arc::default() } else { process::command(&folder) };
                let (uid, _) = process::identity(&folder);
                (Arc::clone(&busy.comm), command, uid, runs_elsewhere(&self.roots, busy.id.pid, &self.job_cpus))
            });
            // py-spy is trainmon's grandchild.
            let is_own = own == Some(busy.id.pid) || own == Some(parent) || own_children.contains(&parent);
            let (comm, command, uid, elsewhere) = names.clone();
            OtherProcessProcess { comm, command, uid, own: is_own, elsewhere, ..busy }
        });
        let named = named.collect();
        self.busiest = busiest;
        named
    }
}

/// Whether a process may run on none of these CPUs.
fn runs_elsewhere(roots: &Roots, pid: u32, job_cpus: &[u16]) -> bool {
    let cpus = cgroup::allowed_cpus(roots, pid);
    !cpus.is_empty() && !job_cpus.is_empty() && cpus.iter().all(|cpu| job_cpus.binary_search(cpu).is_err())
}

#[cfg(test)]
mod tests;
