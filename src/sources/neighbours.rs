//! The processes of the host that are not of the job and used the most CPU time since the last look.
//!
//! Unlike the job's files those of a whole host are not kept open: they would be thousands. A look opens each
//! `/proc/PID/stat` below one descriptor of `/proc` and remembers 24 bytes of it; names and owners are read for those
//! few that are shown.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, RawDir, openat};

use super::bytes;
use super::process;
use super::task_files::{self, Stat};
use super::{Roots, kept};
use crate::sample::neighbours::MOST;
use crate::sample::{NeighbourProcess, NeighboursSample, ProcessId};

/// Most processes that are looked at, which bounds what is remembered to 768 KiB.
const MOST_PROCESSES: usize = 32_768;
/// Longest name that `/proc/PID/stat` gives, bytes: that of a kernel worker with its work queue
/// (fs/proc/array.c, `proc_task_name`).
const LONGEST_NAME: usize = 64;
/// `PF_KTHREAD` of `Stat::flags` (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Looks at the host's processes, each time for what has moved since.
#[derive(Debug)]
pub struct NeighboursReader {
    proc_root: PathBuf,
    counters: Counters,
    now: Vec<Seen>,
    job: Vec<u32>,
    busiest: Vec<Busy>,
    names: HashMap<ProcessId, Names>,
    path: String,
    before_ns: Option<u64>,
    page_size: u64,
    ticks_per_second: u32,
}

/// What is remembered of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    id: ProcessId,
    ticks: u64,
}

/// The processes as they were at the last look.
#[derive(Debug, Default)]
struct Counters {
    /// By PID.
    seen: Vec<Seen>,
    /// No process was left out, so one that is not among them is younger than the look.
    complete: bool,
}

impl Counters {
    /// Takes the counters of a look.
    fn replace(&mut self, seen: &mut Vec<Seen>, complete: bool) {
        // The kernel lists them in this order.
        seen.sort_unstable_by_key(|seen| seen.id.pid);
        std::mem::swap(&mut self.seen, seen);
        seen.clear();
        self.complete = complete;
    }

    /// Ticks since the look: all there are of a process that has started since. `None` where that cannot be known.
    fn moved(&self, now: Seen) -> Option<u64> {
        let at = self.seen.binary_search_by_key(&now.id.pid, |seen| seen.id.pid).ok();
        match at.and_then(|at| self.seen.get(at)) {
            Some(before) if before.id == now.id => now.ticks.checked_sub(before.ticks),
            // The PID had another owner at the look.
            Some(_) => Some(now.ticks),
            None => self.complete.then_some(now.ticks),
        }
    }
}

/// A process that used CPU time, before its names are known.
#[derive(Debug, Clone, Copy)]
struct Busy {
    id: ProcessId,
    parent: u32,
    ticks: u64,
    rss_pages: u64,
    kernel: bool,
    name: [u8; LONGEST_NAME],
    name_length: usize,
}

impl Busy {
    fn of(id: ProcessId, stat: &Stat<'_>, ticks: u64) -> Self {
        let mut name = [0; LONGEST_NAME];
        let name_length = stat.comm.len().min(LONGEST_NAME);
        name.iter_mut().zip(stat.comm).for_each(|(to, from)| *to = *from);
        let kernel = stat.flags & KERNEL_THREAD != 0;
        Self { id, parent: stat.parent, ticks, rss_pages: stat.rss_pages, kernel, name, name_length }
    }

    fn name(&self) -> &[u8] {
        self.name.get(..self.name_length).unwrap_or_default()
    }
}

/// What is read of a process that is shown, once.
#[derive(Debug, Clone)]
struct Names {
    comm: Arc<str>,
    command: Arc<str>,
    uid: Option<u32>,
}

impl NeighboursReader {
    /// Nothing has been looked at yet.
    #[must_use]
    pub fn new(roots: &Roots) -> Self {
        Self {
            proc_root: roots.proc.clone(),
            counters: Counters::default(),
            now: Vec::new(),
            job: Vec::new(),
            busiest: Vec::new(),
            names: HashMap::new(),
            path: String::new(),
            before_ns: None,
            page_size: rustix::param::page_size() as u64,
            ticks_per_second: u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100),
        }
    }

    /// Looks at every process. `now_ns` is CLOCK_MONOTONIC; `job` are the job's PIDs, which are left out together with
    /// their children. The first look has no window and no processes.
    ///
    /// # Errors
    /// Where `/proc` cannot be listed.
    pub fn read(&mut self, now_ns: u64, job: &[u32]) -> io::Result<NeighboursSample> {
        self.job.clear();
        self.job.extend_from_slice(job);
        self.job.sort_unstable();
        self.busiest.clear();
        self.now.clear();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, &self.proc_root, flags, Mode::empty())?;
        let mut room = [MaybeUninit::<u8>::uninit(); 8192];
        let mut entries = RawDir::new(&folder, &mut room);
        let mut complete = true;
        let mut others = 0_u32;
        while let Some(entry) = entries.next() {
            let pid = bytes::number(entry?.file_name().to_bytes()).and_then(|pid| u32::try_from(pid).ok());
            let Some(pid) = pid else { continue };
            if self.now.len() >= MOST_PROCESSES {
                complete = false;
                break;
            }
            match self.look(&folder, pid) {
                Ok(true) => others = others.saturating_add(1),
                Ok(false) => {}
                Err(error) => complete &= kept::is_gone(&error),
            }
        }
        self.counters.replace(&mut self.now, complete);
        let window_ns = self.before_ns.map_or(0, |before_ns| now_ns.saturating_sub(before_ns));
        self.before_ns = Some(now_ns);
        self.keep_busiest();
        let processes = self.named();
        Ok(NeighboursSample {
            monotonic_ns: now_ns,
            window_ns,
            ticks_per_second: self.ticks_per_second,
            others: others.saturating_sub(u32::try_from(processes.len()).unwrap_or(u32::MAX)),
            processes,
        })
    }

    /// Looks at one process, and tells whether it is a neighbour.
    fn look(&mut self, folder: &OwnedFd, pid: u32) -> io::Result<bool> {
        self.path.clear();
        let _ = write!(self.path, "{pid}/stat");
        let mut room = [0_u8; 1024];
        let file = kept::open_at(folder, &self.path)?;
        let line = kept::read_line(&file, &mut room)?;
        let stat = task_files::stat(line).ok_or(io::ErrorKind::InvalidData)?;
        let id = ProcessId { pid, start_ticks: stat.start_ticks };
        let seen = Seen { id, ticks: stat.user_ticks.saturating_add(stat.system_ticks) };
        self.now.push(seen);
        let of_job = |pid: &u32| self.job.binary_search(pid).is_ok();
        // A child of the job that is younger than the job's list is of the job as well.
        if of_job(&pid) || of_job(&stat.parent) {
            return Ok(false);
        }
        if self.before_ns.is_some()
            && let Some(ticks) = self.counters.moved(seen).filter(|ticks| *ticks > 0)
        {
            self.busiest.push(Busy::of(id, &stat, ticks));
            if self.busiest.len() >= 4 * MOST {
                self.keep_busiest();
            }
        }
        Ok(true)
    }

    fn keep_busiest(&mut self) {
        self.busiest.sort_unstable_by_key(|busy| (Reverse(busy.ticks), busy.id));
        self.busiest.truncate(MOST);
    }

    /// The busiest with their names; names of others are forgotten.
    fn named(&mut self) -> Vec<NeighbourProcess> {
        let busiest = &self.busiest;
        self.names.retain(|id, _| busiest.iter().any(|busy| busy.id == *id));
        let own = own_pid(&self.proc_root);
        let mut processes = Vec::with_capacity(busiest.len());
        for busy in busiest {
            let known = self.names.get(&busy.id).filter(|known| known.comm.as_bytes() == busy.name());
            let names = match known {
                Some(known) => known.clone(),
                None => {
                    let names = names(&self.proc_root, busy);
                    self.names.insert(busy.id, names.clone());
                    names
                }
            };
            processes.push(NeighbourProcess {
                id: busy.id,
                comm: names.comm,
                command: names.command,
                uid: names.uid,
                cpu_ticks: busy.ticks,
                rss_bytes: busy.rss_pages.saturating_mul(self.page_size),
                kernel: busy.kernel,
                own: own.is_some_and(|own| busy.id.pid == own || busy.parent == own),
            });
        }
        processes
    }
}

/// A name, command line and owner. A process that has ended since has no more than its name.
fn names(proc_root: &Path, busy: &Busy) -> Names {
    let folder = proc_root.join(busy.id.pid.to_string());
    let (uid, _) = process::identity(&folder);
    let command = if busy.kernel { Arc::default() } else { process::command(&folder) };
    Names { comm: bytes::text(busy.name()), command, uid }
}

/// Our PID as this `/proc` counts.
fn own_pid(proc_root: &Path) -> Option<u32> {
    std::fs::read_link(proc_root.join("self")).ok()?.to_str()?.parse().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
