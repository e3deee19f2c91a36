//! One process of the job, with the descriptors kept open for it.

mod keeping;
mod pace;
mod reads;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::accelerators::OpenDevices;
use super::clock;
use super::descriptors::{ThriftyFile, Use};
use super::fields::{numbers, text};
use super::files::{KeptFile, ReadFailure, numbers_in, read_once};
use super::task_files::{self, SchedStat, Stat};
pub use pace::Pace;
use reads::STAT_MOST;
pub(super) use reads::{command, io_counters};
pub use reads::{identity, main_tids, stat_of};
use trainmon_sample::{IoCounters, ProcessId, ProcessRole, ProcessSample, RankPlace, ThreadRole, ThreadSample};

/// Threads of one process watched individually; beyond that, threads are not read.
pub(super) const MOST_THREADS: usize = 2048;
/// Most bytes read of a thread's `children`; its other files are shorter.
const THREAD_FILE_MOST: usize = 64 << 10;
/// A process that only starts ranks and supervises them uses less than this share of a CPU: torchrun polls every 0.1 s
/// and takes 0.01.
const WORKS: f64 = 0.05;
/// A thread that wakes less often than this per second rests: a loop wakes for each batch or answer.
const RESTS_S: f64 = 0.1;
/// If `stat` does not show an exec, the command line is read again after this many reads.
const COMMAND_EVERY: u32 = 10;
/// A thread's name is read again this many times after it appeared: names are set after the start.
const NAME_READS: u8 = 4;

/// A process that is read tick after tick.
#[derive(Debug)]
pub struct Process {
    /// Identity.
    pub id: ProcessId,
    /// Name of its first thread.
    pub comm: Arc<str>,
    /// Command line.
    pub command: Arc<str>,
    /// Path of the executable, if it can be read.
    pub executable: Option<PathBuf>,
    /// Role, assigned by `roles`.
    pub role: ProcessRole,
    /// Threads.
    pub threads: Vec<Thread>,
    /// The machine-learning library it had mapped at the last check.
    pub library: Option<Arc<str>>,
    /// Its place among the ranks of its run; the outer `None` if not checked yet.
    pub rank: Option<Option<RankPlace>>,
    /// The GPU files it had open at the last check.
    pub devices: OpenDevices,
    /// Its folder under `/proc`.
    pub folder: PathBuf,
    /// Counters and state at the last read.
    pub stat: Stat,
    /// Where the last program that was seen is in memory (see `Stat::program`); 0 before.
    program: u64,
    /// How many times it has executed another program while watched.
    pub execs: u32,
    inner_pid: Option<u32>,
    uid: Option<u32>,
    /// Keep its files open as far as permitted.
    keep: Option<Use>,
    stat_file: ThriftyFile,
    io_file: Option<ThriftyFile>,
    children_file: Option<ThriftyFile>,
    reads: u32,
    /// CLOCK_MONOTONIC of the last read, nanoseconds.
    read_ns: u64,
    /// At the last read.
    io: Option<IoCounters>,
}

/// A thread of a watched process.
#[derive(Debug, Default)]
pub struct Thread {
    /// TID.
    pub tid: u32,
    /// Role by name; queue-feeding threads are found by their counters.
    pub role: ThreadRole,
    /// Name, raw; the first thread has the process's name.
    pub name: Arc<str>,
    /// At the last read.
    pub counters: Option<SchedStat>,
    /// On-CPU time in the last tick, nanoseconds; used only to choose which threads to sample.
    pub recent_ns: u64,
    /// How active it has been lately; used only to choose which threads to sample.
    pub pace: Pace,
    schedstat: Option<ThriftyFile>,
    name_reads: u8,
}

impl Process {
    /// Opens a process.
    ///
    /// # Errors
    /// Absent or gone if it does not exist; denied under `hidepid`.
    pub fn open(proc_root: &Path, pid: u32) -> Result<Self, ReadFailure> {
        let keep = Some(Use::Tick);
        let folder = proc_root.join(pid.to_string());
        let stat_file = ThriftyFile::open(folder.join("stat"), keep)?;
        let stat = stat_file
            .with(|file| task_files::stat(file.read_line(&mut [0_u8; STAT_MOST])?).ok_or(ReadFailure::Malformed))?;
        let (uid, inner_pid) = identity(&folder);
        let mut process = Self {
            id: ProcessId { pid, start_ticks: stat.start_ticks },
            comm: "".into(),
            command: command(&folder),
            executable: fs::read_link(folder.join("exe")).ok(),
            role: ProcessRole::Other,
            threads: Vec::new(),
            library: None,
            rank: None,
            devices: OpenDevices::default(),
            execs: 0,
            program: stat.program,
            inner_pid,
            uid,
            keep,
            io_file: ThriftyFile::open(folder.join("io"), keep).ok(),
            children_file: ThriftyFile::open(folder.join(format!("task/{pid}/children")), keep).ok(),
            folder,
            stat_file,
            reads: 0,
            read_ns: 0,
            stat,
            io: None,
        };
        process.read()?;
        Ok(process)
    }

    /// Whether its PID in its own namespace differs from the one trainmon sees.
    pub(crate) fn in_other_namespace(&self) -> bool {
        self.inner_pid.is_some_and(|inner| inner != self.id.pid)
    }

    /// Reads the process's files and all threads' `schedstat`.
    ///
    /// # Errors
    /// Gone if it has ended.
    pub fn read(&mut self) -> Result<(), ReadFailure> {
        let mut room = [0_u8; STAT_MOST];
        let length = self.stat_file.with(|file| file.read_line(&mut room).map(<[u8]>::len))?;
        let line = room.get(..length).unwrap_or_default();
        let (Some(stat), Some(comm)) = (task_files::stat(line), task_files::comm(line)) else {
            return Err(ReadFailure::Malformed);
        };
        // The kernel answers ESRCH for a kept descriptor; a tree other than /proc may show the PID's next owner.
        if stat.start_ticks != self.id.start_ticks {
            return Err(ReadFailure::Gone);
        }
        let renamed = comm != self.comm.as_bytes();
        if renamed {
            self.comm = text(comm);
        }
        let before = std::mem::replace(&mut self.stat, stat).program;
        let executed = stat.program != before;
        if stat.program != 0 {
            // While it executes another program, no program is in its memory for a moment.
            if self.program != 0 && self.program != stat.program {
                self.execs = self.execs.saturating_add(1);
                self.forget();
            }
            self.program = stat.program;
        }
        // A fork keeps its parent's command line until it executes something else.
        let hidden = stat.program == 0 && self.reads.is_multiple_of(COMMAND_EVERY);
        if ((renamed || executed || hidden) && self.reads > 0) || (1..4).contains(&self.reads) {
            self.command = command(&self.folder);
            self.executable = fs::read_link(self.folder.join("exe")).ok();
        }
        if let Some(file) = &self.io_file {
            self.io = file.with(io_counters).ok();
        }
        // Threads rarely come and go. The count in `stat` shows when; listing them now and then finds replacements.
        if (stat.threads as usize).min(MOST_THREADS) != self.threads.len() || self.reads.is_multiple_of(8) {
            self.list_threads();
        }
        self.read_threads();
        self.reads = self.reads.saturating_add(1);
        Ok(())
    }

    /// Forgets what was true of the program it ran before.
    fn forget(&mut self) {
        (self.role, self.library, self.rank) = (ProcessRole::Other, None, None);
        self.devices = OpenDevices::default();
        // An exec ends all other threads; the one that called it is now the first thread.
        self.threads.clear();
    }

    /// PIDs of the children of the first thread, or of every thread.
    pub fn children(&self, every_thread: bool, buffer: &mut Vec<u8>, found: &mut Vec<u32>) {
        if let Some(file) = &self.children_file {
            let read = |file: &KeptFile| {
                found.extend(numbers(file.read_short_records(buffer)?));
                Ok(())
            };
            // A process that has just ended has no children.
            let _ = file.with(read);
        }
        if every_thread {
            for thread in self.threads.iter().filter(|thread| thread.tid != self.id.pid) {
                found.extend(numbers(&self.of_thread(thread.tid, "children").unwrap_or_default()));
            }
        }
    }

    /// Whether the kernel has `children` files (CONFIG_PROC_CHILDREN).
    pub(crate) fn lists_children(&self) -> bool {
        self.children_file.is_some()
    }

    /// The sample of the last read.
    pub fn sample(&self) -> ProcessSample {
        let stat = &self.stat;
        ProcessSample {
            id: self.id,
            parent: stat.parent,
            inner_pid: self.inner_pid,
            role: self.role,
            comm: Arc::clone(&self.comm),
            command: Arc::clone(&self.command),
            uid: self.uid,
            nice: Some(stat.nice),
            state: stat.state,
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            children_ticks: Some(stat.children_ticks),
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            rss_bytes: stat.rss_pages.saturating_mul(rustix::param::page_size() as u64),
            thread_count: stat.threads,
            execs: self.execs,
            io: self.io,
            rank: self.rank.flatten(),
            threads: self
                .threads
                .iter()
                .map(|thread| ThreadSample {
                    tid: thread.tid,
                    role: thread.role,
                    name: Arc::clone(if thread.role == ThreadRole::Main { &self.comm } else { &thread.name }),
                    on_cpu_ns: thread.counters.map(|counters| counters.on_cpu_ns),
                    run_delay_ns: thread.counters.map(|counters| counters.run_delay_ns),
                    timeslices: thread.counters.map(|counters| counters.timeslices),
                })
                .collect(),
        }
    }

    /// Whether it has threads that only a training process has: of collectives, or of autograd. torch's address store
    /// has one too (`pt_tcpstore_uv`), even in a launcher, so that thread does not count.
    pub fn is_rank(&self) -> bool {
        let trains = |thread: &Thread| matches!(thread.role, ThreadRole::Communication | ThreadRole::Autograd);
        self.threads.iter().any(trains)
    }

    /// Whether its first thread computes, rather than only waiting for other processes.
    pub fn works(&self) -> bool {
        self.threads.iter().any(|thread| thread.role == ThreadRole::Main && thread.pace.cpu >= WORKS)
    }

    /// Whether its first thread has hardly woken lately, neither for batches nor for answers.
    pub fn rests(&self) -> bool {
        let mut main = self.threads.iter().filter(|thread| thread.role == ThreadRole::Main);
        main.any(|thread| {
            let pace = thread.pace;
            // A thread that computes without a break does not wake either.
            pace != Pace::default() && pace.timeslices_per_s < RESTS_S && pace.cpu < Pace::CPU
        })
    }

    /// Whether its first thread waits for a child to end (`do_wait`, kernel/exit.c).
    pub fn joins(&self) -> bool {
        self.rests() && read_once(self.folder.join("wchan"), 64).is_ok_and(|at| at == b"do_wait")
    }

    /// I/O counters of one thread, freshly read.
    pub(crate) fn thread_io(&self, tid: u32) -> Option<IoCounters> {
        task_files::io(&self.of_thread(tid, "io")?)
    }

    /// Start time of one thread, clock ticks after boot.
    pub(crate) fn thread_start(&self, tid: u32) -> Option<u64> {
        Some(task_files::stat(&self.of_thread(tid, "stat")?)?.start_ticks)
    }

    fn of_thread(&self, tid: u32, name: &str) -> Option<Vec<u8>> {
        read_once(self.folder.join(format!("task/{tid}/{name}")), THREAD_FILE_MOST).ok()
    }

    fn list_threads(&mut self) {
        let mut tids: Vec<u32> = numbers_in(&self.folder.join("task")).take(MOST_THREADS).collect();
        // Every process has a thread, so the folder could not be read.
        if tids.is_empty() {
            return;
        }
        tids.sort_unstable();
        self.threads.retain(|thread| tids.binary_search(&thread.tid).is_ok());
        let known: HashSet<u32> = self.threads.iter().map(|thread| thread.tid).collect();
        for tid in tids {
            if known.contains(&tid) {
                continue;
            }
            let role = if tid == self.id.pid { ThreadRole::Main } else { ThreadRole::Other };
            self.threads.push(Thread {
                tid,
                role,
                name: Arc::clone(&self.comm),
                schedstat: ThriftyFile::open(self.folder.join(format!("task/{tid}/schedstat")), self.keep).ok(),
                name_reads: if role == ThreadRole::Main { 0 } else { NAME_READS },
                ..Thread::default()
            });
        }
    }

    fn read_threads(&mut self) {
        let now_ns = clock::monotonic_ns();
        let seconds = now_ns.saturating_sub(self.read_ns) as f64 / 1e9;
        self.read_ns = now_ns;
        let mut room = [0_u8; 96];
        let mut gone = false;
        for thread in &mut self.threads {
            if thread.name_reads > 0 {
                thread.name_reads -= 1;
                let path = self.folder.join(format!("task/{}/comm", thread.tid));
                if let Ok(name) = read_once(path, 64) {
                    let name = name.strip_suffix(b"\n").unwrap_or(&name);
                    if thread.name.as_bytes() != name {
                        thread.name = text(name);
                    }
                    if thread.role != ThreadRole::QueueThread {
                        thread.role = role_of_name(name.trim_ascii());
                    }
                }
            }
            let Some(schedstat) = &thread.schedstat else { continue };
            let read = |file: &KeptFile| Ok(task_files::schedstat(file.read_line(&mut room)?));
            match schedstat.with(read) {
                // This tick is unknown.
                Err(ReadFailure::Exhausted) => {}
                Ok(None) => {}
                Ok(Some(counters)) => {
                    let moved = thread.counters.map(|before| counters.since(before));
                    thread.recent_ns = moved.map_or(0, |moved| moved.on_cpu_ns);
                    if seconds > 0.0
                        && let Some(moved) = moved
                    {
                        thread.pace = thread.pace.after(moved, seconds);
                    }
                    thread.counters = Some(counters);
                }
                Err(_) => {
                    (thread.counters, thread.schedstat) = (None, None);
                    gone = true;
                }
            }
        }
        if gone {
            self.threads.retain(|thread| thread.schedstat.is_some() || thread.role == ThreadRole::Main);
        }
    }
}

/// Role of a thread by its name, as torch, NCCL and gloo set them.
fn role_of_name(name: &[u8]) -> ThreadRole {
    if name.starts_with(b"pt_data_pin") {
        ThreadRole::Pin
    } else if name.starts_with(b"pt_autograd") {
        ThreadRole::Autograd
    } else if [b"pt_nccl".as_slice(), b"NCCL", b"pt_gloo", b"gloo_"].iter().any(|part| name.starts_with(part)) {
        ThreadRole::Communication
    } else {
        ThreadRole::Other
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;

    #[test]
    fn threads_have_names_and_the_process_its_nice_value() {
        let (done, wait) = channel::<()>();
        let (named, is_named) = channel();
        let named = thread::Builder::new().name("pt_autograd_7".into()).spawn(move || {
            named.send(()).unwrap();
            let _ = wait.recv();
        });
        is_named.recv().unwrap();
        let process = Process::open(Path::new("/proc"), std::process::id()).unwrap();
        drop(done);
        named.unwrap().join().unwrap();
        let sample = process.sample();
        let thread = sample.threads.iter().find(|thread| &*thread.name == "pt_autograd_7").unwrap();
        assert_eq!(thread.role, ThreadRole::Autograd);
        let main = sample.threads.iter().find(|thread| thread.role == ThreadRole::Main).unwrap();
        assert_eq!(main.name, sample.comm);
        assert_eq!(sample.nice, rustix::process::getpriority_process(None).ok());
    }
}
