//! A process of the job and its threads: identity, activity, and counters.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::private::{Private, TextKind, Visit};
use trainmon_base::text::named_enum;

/// Highest PID of Linux (`PID_MAX_LIMIT`, include/linux/threads.h: 4 Mi on 64-bit machines).
pub const PID_MAX: u32 = 4 * 1024 * 1024;

/// A process identity that survives PID reuse: the PID plus its start time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ProcessId {
    /// PID as seen from trainmon's PID namespace.
    pub pid: u32,
    /// Start time in clock ticks after boot (`/proc/PID/stat` field 22, proc(5)).
    pub start_ticks: u64,
}

/// One process of the job.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ProcessSample {
    /// Identity.
    pub id: ProcessId,
    /// Parent PID.
    pub parent: u32,
    /// PID in the innermost PID namespace of the process (last number of `NSpid`).
    pub inner_pid: Option<u32>,
    /// Its role in the job.
    pub role: ProcessRole,
    /// `comm`, raw (may contain anything; sanitize before showing).
    pub comm: Arc<str>,
    /// Command line, arguments joined by spaces, cut at 4 KiB, raw except that secrets are masked.
    pub command: Arc<str>,
    /// Owner.
    pub uid: Option<u32>,
    /// Nice value, −20 (most favorable) to 19 (`/proc/PID/stat` field 19); `None` in recordings without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// State letter of `/proc/PID/stat` field 3 (R, S, D, T, t, Z, X, I).
    pub state: char,
    /// CPU time in user mode, clock ticks, all threads.
    pub user_ticks: u64,
    /// CPU time in kernel mode, clock ticks, all threads.
    pub system_ticks: u64,
    /// CPU time of its children that ended and were waited for, and of theirs, clock ticks (`/proc/PID/stat` fields 16
    /// and 17); `None` in recordings without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub children_ticks: Option<u64>,
    /// Page faults that needed no read from disk, since start.
    pub minor_faults: u64,
    /// Page faults that needed a read from disk, since start.
    pub major_faults: u64,
    /// Resident set, bytes.
    pub rss_bytes: u64,
    /// Number of threads.
    pub thread_count: u32,
    /// How many times it has executed another program while watched.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub execs: u32,
    /// I/O counters, if readable.
    pub io: Option<IoCounters>,
    /// For a training process: its place among the ranks, if its initial environment names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<RankPlace>,
    /// Every thread with its own counters.
    pub threads: Vec<ThreadSample>,
}

/// Prefix of the name that torch gives its workers (torch/utils/data/_utils/worker.py,
/// `_set_thread_name("pt_data_worker")`).
pub const TORCH_WORKER: &str = "pt_data_worker";
/// NumPy's own library: many programs that do not train use it, so on its own it says nothing about a process's role.
pub const NUMPY: &str = "_multiarray_umath";

/// Whether a library of [`JobSample::library`](super::JobSample::library) is used only for machine learning.
pub fn is_of_learning(library: &str) -> bool {
    library != NUMPY
}

impl ProcessSample {
    /// Whether it is a torch worker.
    pub fn is_torch_worker(&self) -> bool {
        self.comm.starts_with(TORCH_WORKER)
    }
}

impl Private for ProcessSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        visit(TextKind::Command, &mut self.command);
        visit(TextKind::Name, &mut self.comm);
        self.threads.iter_mut().for_each(|thread| visit(TextKind::Name, &mut thread.name));
    }
}

/// A process's place among the ranks of its run, as set by its launcher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankPlace {
    /// Its number among all of them, from 0.
    pub rank: u32,
    /// How many there are.
    pub world: u32,
    /// How many of them run on its machine, if the launcher says so.
    pub local_world: Option<u32>,
}

/// One thread.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ThreadSample {
    /// Thread ID.
    pub tid: u32,
    /// Its role.
    pub role: ThreadRole,
    /// `comm` of the thread, raw (may contain anything; sanitize before showing); empty if unknown.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Arc<str>,
    /// Time on a CPU, nanoseconds (`schedstat` field 1).
    pub on_cpu_ns: Option<u64>,
    /// Time runnable but waiting for a CPU, nanoseconds (`schedstat` field 2).
    pub run_delay_ns: Option<u64>,
    /// How many times it got a CPU (`schedstat` field 3): each time it was woken, and each time after it was preempted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeslices: Option<u64>,
}

/// `/proc/PID/io` (proc(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoCounters {
    /// Bytes requested by read-like system calls, page cache hits included.
    pub read_chars: u64,
    /// Bytes passed to write-like system calls.
    pub write_chars: u64,
    /// Read-like system calls.
    pub read_calls: u64,
    /// Write-like system calls.
    pub write_calls: u64,
    /// Bytes really fetched from storage.
    pub read_bytes: u64,
    /// Bytes really sent to storage.
    pub write_bytes: u64,
}

named_enum! {
    /// The role of a process in the job.
    #[derive(Default)]
    pub enum ProcessRole {
        /// Runs the training loop. Several under one PID are the ranks of a distributed run.
        Rank = "trainer",
        /// Makes batches for a training process.
        Worker = "worker",
        /// Starts ranks or restarts them (torchrun, a shell).
        Launcher = "launcher",
        /// Forkserver, resource tracker and other helpers.
        Helper = "helper",
        /// Unknown.
        #[default]
        Other = "other",
    }
}

/// The role of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadRole {
    /// The thread whose TID is the PID.
    Main,
    /// torch's pin-memory thread (`pt_data_pin`).
    Pin,
    /// torch's autograd threads (`pt_autograd_N`).
    Autograd,
    /// NCCL and gloo threads.
    Communication,
    /// Feeds a queue: in the training process it hands out batch indices, in a worker it hands over batches.
    #[serde(rename = "feeder")]
    QueueThread,
    /// Anything else.
    #[default]
    Other,
}

impl ThreadRole {
    /// The word shown to users.
    pub fn word(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Pin => "pin memory",
            Self::Autograd => "autograd",
            Self::Communication => "communication",
            Self::QueueThread => "feeder",
            Self::Other => "other",
        }
    }
}
