//! One process of the job, with the descriptors that stay open for it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bytes;
use super::kept;
use super::task_files::{self, Stat};
use crate::sample::{Access, IoCounters, ProcessId, ProcessRole, ProcessSample, ThreadRole, ThreadSample};

/// Threads of one process that are watched one by one; a process with more is read as far as this.
const MOST_THREADS: usize = 2048;
/// Longest command line kept, bytes.
const LONGEST_COMMAND: usize = 4096;
/// A thread's name is read again this many times after it was first seen: names are set after the start.
const NAME_LOOKS: u8 = 4;

/// A process that is being read tick after tick.
#[derive(Debug)]
pub struct Process {
    /// Identity.
    pub id: ProcessId,
    /// Parent PID.
    pub parent: u32,
    /// Name of the main thread.
    pub comm: Arc<str>,
    /// Command line.
    pub command: Arc<str>,
    /// Path of the executable, where it may be read.
    pub executable: Option<PathBuf>,
    /// Role, given by `roles`.
    pub role: ProcessRole,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Whether `io` may be read.
    pub io_access: Access,
    inner_pid: Option<u32>,
    uid: Option<u32>,
    folder: PathBuf,
    stat: OwnedFd,
    io: Option<OwnedFd>,
    children: Option<OwnedFd>,
    reads: u32,
    latest: Latest,
}

/// What the last read of the process's own files gave.
#[derive(Debug, Clone, Copy, Default)]
struct Latest {
    state: char,
    threads: u32,
    nice: i32,
    minor_faults: u64,
    major_faults: u64,
    user_ticks: u64,
    system_ticks: u64,
    rss_pages: u64,
    io: Option<IoCounters>,
}

/// A thread that is being read.
#[derive(Debug)]
pub struct Thread {
    /// TID.
    pub tid: u32,
    /// Role by name; feeders are found by their counters.
    pub role: ThreadRole,
    /// Name, raw; that of the main thread is the process's.
    pub name: Arc<str>,
    /// Start, clock ticks after boot, where it was needed.
    pub start_ticks: Option<u64>,
    /// Time on a CPU since start, nanoseconds.
    pub on_cpu_ns: Option<u64>,
    /// Time queueing since start, nanoseconds.
    pub run_delay_ns: Option<u64>,
    /// On-CPU time in the last tick, nanoseconds: only to choose which threads the fast lane looks at.
    pub recent_ns: u64,
    schedstat: Option<OwnedFd>,
    name_looks: u8,
}

impl Process {
    /// Opens a process.
    ///
    /// # Errors
    /// ENOENT or ESRCH when it has gone; EACCES under `hidepid`.
    pub fn open(proc_root: &Path, pid: u32, buffer: &mut Vec<u8>) -> io::Result<Self> {
        let folder = proc_root.join(pid.to_string());
        let stat = kept::open(&folder.join("stat"))?;
        kept::read_into(&stat, buffer)?;
        let parsed = task_files::stat(buffer).ok_or(io::ErrorKind::InvalidData)?;
        let id = ProcessId { pid, start_ticks: parsed.start_ticks };
        let (parent, comm) = (parsed.parent, text(parsed.comm));
        let (io, io_access) = match kept::open(&folder.join("io")) {
            Ok(fd) => (Some(fd), Access::Ok),
            Err(error) if kept::is_denied(&error) => (None, Access::Denied),
            Err(_) => (None, Access::Absent),
        };
        let (uid, inner_pid) = identity(&folder);
        let mut process = Self {
            id,
            parent,
            comm,
            command: command(&folder),
            executable: fs::read_link(folder.join("exe")).ok(),
            role: ProcessRole::Other,
            threads: Vec::new(),
            io_access,
            inner_pid,
            uid,
            children: kept::open(&folder.join(format!("task/{pid}/children"))).ok(),
            folder,
            stat,
            io,
            reads: 0,
            latest: Latest::default(),
        };
        process.read(buffer)?;
        Ok(process)
    }

    /// The process's folder under `/proc`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// State letter at the last read.
    #[must_use]
    pub fn state(&self) -> char {
        self.latest.state
    }

    /// Whether the process is no kernel thread and has not ended.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        !matches!(self.latest.state, 'Z' | 'X' | 'x')
    }

    /// Whether its PID in its own namespace differs from ours.
    #[must_use]
    pub fn in_other_namespace(&self) -> bool {
        self.inner_pid.is_some_and(|inner| inner != self.id.pid)
    }

    /// Reads the process's files and all threads' `schedstat`.
    ///
    /// # Errors
    /// ESRCH when the process has gone.
    pub fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        kept::read_into(&self.stat, buffer)?;
        let Some(stat) = task_files::stat(buffer) else { return Err(io::ErrorKind::InvalidData.into()) };
        // The kernel answers ESRCH for a kept descriptor; another tree than /proc may show the number's next owner.
        if stat.start_ticks != self.id.start_ticks {
            return Err(rustix::io::Errno::SRCH.into());
        }
        let renamed = stat.comm != self.comm.as_bytes();
        if renamed {
            self.comm = text(stat.comm);
        }
        self.parent = stat.parent;
        self.latest = Latest::of(&stat);
        // A fork takes its parent's command line and changes it when it executes something else.
        if renamed || (1..4).contains(&self.reads) {
            self.command = command(&self.folder);
            self.executable = fs::read_link(self.folder.join("exe")).ok();
        }
        if let Some(io) = &self.io {
            self.latest.io = match kept::read_into(io, buffer) {
                Ok(()) => task_files::io(buffer),
                Err(error) => {
                    if kept::is_denied(&error) {
                        self.io_access = Access::Denied;
                    }
                    None
                }
            };
        }
        // Threads come and go seldom; the count in `stat` tells when, and a look now and then finds replacements.
        if self.latest.threads as usize != self.threads.len() || self.reads.is_multiple_of(8) {
            self.list_threads();
        }
        self.read_threads(buffer);
        self.reads = self.reads.saturating_add(1);
        Ok(())
    }

    /// PIDs of the children of the main thread, or of every thread.
    pub fn children(&self, every_thread: bool, buffer: &mut Vec<u8>, found: &mut Vec<u32>) {
        if let Some(children) = &self.children
            && kept::read_into(children, buffer).is_ok()
        {
            found.extend(numbers(buffer));
        }
        if every_thread {
            for thread in self.threads.iter().filter(|thread| thread.tid != self.id.pid) {
                let path = self.folder.join(format!("task/{}/children", thread.tid));
                if let Ok(bytes) = fs::read(path) {
                    found.extend(numbers(&bytes));
                }
            }
        }
    }

    /// Whether the kernel offers `children` files (CONFIG_PROC_CHILDREN).
    #[must_use]
    pub fn lists_children(&self) -> bool {
        self.children.is_some()
    }

    /// The sample of the last read.
    #[must_use]
    pub fn sample(&self, page_size: u64) -> ProcessSample {
        let latest = &self.latest;
        ProcessSample {
            id: self.id,
            parent: self.parent,
            inner_pid: self.inner_pid,
            role: self.role,
            comm: Arc::clone(&self.comm),
            command: Arc::clone(&self.command),
            uid: self.uid,
            nice: Some(latest.nice),
            state: latest.state,
            user_ticks: latest.user_ticks,
            system_ticks: latest.system_ticks,
            minor_faults: latest.minor_faults,
            major_faults: latest.major_faults,
            rss_bytes: latest.rss_pages.saturating_mul(page_size),
            thread_count: latest.threads,
            io: latest.io,
            threads: self
                .threads
                .iter()
                .map(|thread| ThreadSample {
                    tid: thread.tid,
                    role: thread.role,
                    name: Arc::clone(if thread.role == ThreadRole::Main { &self.comm } else { &thread.name }),
                    on_cpu_ns: thread.on_cpu_ns,
                    run_delay_ns: thread.run_delay_ns,
                })
                .collect(),
        }
    }

    /// I/O counters and start of one thread, read afresh.
    #[must_use]
    pub fn thread_io(&self, tid: u32, buffer: &mut Vec<u8>) -> Option<IoCounters> {
        let fd = kept::open(&self.folder.join(format!("task/{tid}/io"))).ok()?;
        kept::read_into(&fd, buffer).ok()?;
        task_files::io(buffer)
    }

    /// Start of one thread, clock ticks after boot.
    #[must_use]
    pub fn thread_start(&self, tid: u32, buffer: &mut Vec<u8>) -> Option<u64> {
        let fd = kept::open(&self.folder.join(format!("task/{tid}/stat"))).ok()?;
        kept::read_into(&fd, buffer).ok()?;
        Some(task_files::stat(buffer)?.start_ticks)
    }

    fn list_threads(&mut self) {
        let Ok(entries) = fs::read_dir(self.folder.join("task")) else { return };
        let mut tids: Vec<u32> = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .take(MOST_THREADS)
            .collect();
        tids.sort_unstable();
        self.threads.retain(|thread| tids.binary_search(&thread.tid).is_ok());
        for tid in tids {
            if self.threads.iter().any(|thread| thread.tid == tid) {
                continue;
            }
            let role = if tid == self.id.pid { ThreadRole::Main } else { ThreadRole::Other };
            self.threads.push(Thread {
                tid,
                role,
                name: Arc::clone(&self.comm),
                start_ticks: None,
                on_cpu_ns: None,
                run_delay_ns: None,
                recent_ns: 0,
                schedstat: kept::open(&self.folder.join(format!("task/{tid}/schedstat"))).ok(),
                name_looks: if role == ThreadRole::Main { 0 } else { NAME_LOOKS },
            });
        }
    }

    fn read_threads(&mut self, buffer: &mut Vec<u8>) {
        let mut room = [0_u8; 96];
        let mut gone = false;
        for thread in &mut self.threads {
            if thread.name_looks > 0 {
                thread.name_looks -= 1;
                if let Ok(fd) = kept::open(&self.folder.join(format!("task/{}/comm", thread.tid)))
                    && kept::read_into(&fd, buffer).is_ok()
                {
                    let name = buffer.strip_suffix(b"\n").unwrap_or(buffer);
                    if thread.name.as_bytes() != name {
                        thread.name = text(name);
                    }
                    if thread.role != ThreadRole::Feeder {
                        thread.role = role_of_name(name.trim_ascii());
                    }
                }
            }
            let Some(schedstat) = &thread.schedstat else { continue };
            match kept::read_line(schedstat, &mut room) {
                Ok(bytes) => {
                    let Some((on_cpu, delay)) = task_files::schedstat(bytes) else { continue };
                    thread.recent_ns = thread.on_cpu_ns.map_or(0, |before| on_cpu.saturating_sub(before));
                    thread.on_cpu_ns = Some(on_cpu);
                    thread.run_delay_ns = Some(delay);
                }
                Err(_) => {
                    thread.on_cpu_ns = None;
                    thread.run_delay_ns = None;
                    thread.schedstat = None;
                    gone = true;
                }
            }
        }
        if gone {
            self.threads.retain(|thread| thread.schedstat.is_some() || thread.role == ThreadRole::Main);
        }
    }
}

impl Latest {
    fn of(stat: &Stat<'_>) -> Self {
        Self {
            state: stat.state,
            threads: stat.threads,
            nice: stat.nice,
            minor_faults: stat.minor_faults,
            major_faults: stat.major_faults,
            user_ticks: stat.user_ticks,
            system_ticks: stat.system_ticks,
            rss_pages: stat.rss_pages,
            io: None,
        }
    }
}

/// Role of a thread by its name, as torch, NCCL and gloo set them.
fn role_of_name(name: &[u8]) -> ThreadRole {
    if name.starts_with(b"pt_data_pin") {
        ThreadRole::Pin
    } else if name.starts_with(b"pt_autograd") {
        ThreadRole::Autograd
    } else if name.starts_with(b"pt_nccl") || name.starts_with(b"pt_gloo") || name.starts_with(b"NCCL") {
        ThreadRole::Communication
    } else {
        ThreadRole::Other
    }
}

fn text(bytes: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

/// Command line with its arguments joined by spaces, cut at [`LONGEST_COMMAND`]; empty for kernel threads.
pub(super) fn command(folder: &Path) -> Arc<str> {
    let Ok(fd) = kept::open(&folder.join("cmdline")) else { return "".into() };
    let mut room = vec![0_u8; LONGEST_COMMAND];
    let Ok(bytes) = kept::read_line(&fd, &mut room) else { return "".into() };
    let mut joined = String::from_utf8_lossy(bytes).into_owned();
    joined = joined.trim_end_matches('\0').replace('\0', " ");
    joined.into()
}

/// Owner and innermost PID from `status`, read once.
pub(super) fn identity(folder: &Path) -> (Option<u32>, Option<u32>) {
    let Ok(bytes) = fs::read(folder.join("status")) else { return (None, None) };
    let field = |name: &[u8]| {
        bytes.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name)).map(<[u8]>::trim_ascii)
    };
    let first = |line: &[u8]| {
        line.split(u8::is_ascii_whitespace).find_map(bytes::number).and_then(|value| u32::try_from(value).ok())
    };
    let last = |line: &[u8]| {
        line.split(u8::is_ascii_whitespace)
            .filter_map(bytes::number)
            .next_back()
            .and_then(|value| u32::try_from(value).ok())
    };
    (field(b"Uid:").and_then(first), field(b"NSpid:").and_then(last))
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.split(u8::is_ascii_whitespace).filter_map(bytes::number).filter_map(|value| u32::try_from(value).ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
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
        let mut buffer = Vec::new();
        let process = Process::open(Path::new("/proc"), std::process::id(), &mut buffer).unwrap();
        drop(done);
        named.unwrap().join().unwrap();
        let sample = process.sample(4096);
        let thread = sample.threads.iter().find(|thread| &*thread.name == "pt_autograd_7").unwrap();
        assert_eq!(thread.role, ThreadRole::Autograd);
        let main = sample.threads.iter().find(|thread| thread.role == ThreadRole::Main).unwrap();
        assert_eq!(main.name, sample.comm);
        assert_eq!(sample.nice, rustix::process::getpriority_process(None).ok());
    }
}
