//! The paths from a trainer's loop to what ends its waits, as frames hold them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rates::levels::WORTH_IT;
use crate::sample::ProcessId;
use crate::text::named_enum;

/// Most different paths kept of one interval; the rest is put together under an unknown end.
pub(super) const PATHS: usize = 24;

named_enum! {
    /// How a thread came to wait for another.
    pub enum WaitEdge {
        /// It reads what the other writes: a pipe or a unix socket.
        Reads = "reads",
        /// It writes what the other reads.
        Writes = "writes",
        /// A connection over an internet protocol on this machine.
        Network = "network",
        /// A lock or a queue within its process.
        Thread = "thread",
        /// The interpreter lock of its process.
        InterpreterLock = "interpreter-lock",
        /// A lock in memory that processes share.
        SharedMemory = "shared-memory",
        /// The end of a child.
        Child = "child",
        /// A lock on a file.
        FileLock = "file-lock",
        /// A lock on a file that it tries again and again, and sleeps meanwhile.
        TriesLock = "tries-lock",
        /// It sleeps and looks again whether the other is done.
        Polls = "polls",
    }
}

impl WaitEdge {
    /// A lock on a file that another process holds, whether it is waited for or tried again and again.
    pub fn is_file_lock(self) -> bool {
        matches!(self, Self::FileLock | Self::TriesLock)
    }
}

/// What is at the end of a chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WaitEnd {
    /// Running, or ready to run.
    Cpu,
    /// Children of its process that live for a moment each: a command that is started anew for each step. They compute.
    Children,
    /// Waiting to read from a disk.
    Disk,
    /// Waiting for written data to reach a disk.
    Flush,
    /// Waiting for memory.
    Memory,
    /// The device.
    Device,
    /// An address, with its port.
    Net(Arc<str>),
    /// A timer: it sleeps, or polls.
    Timer,
    /// A lock on this file, whose holder is not known.
    Lock(Arc<str>),
    /// Stopped by a signal.
    Stopped,
    /// Input at a terminal.
    Terminal,
    /// A data worker that was not seen.
    Loader,
    /// It waits for the one that waits for it: nothing to do.
    Asked,
    /// Not known.
    Unknown,
}

/// One thread on the path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WaitHop {
    /// How it is waited for.
    pub by: WaitEdge,
    /// Its process.
    pub pid: u32,
    /// The thread; [`WaitHop::SHORT_LIVED`] for threads of the loop's process that live for a moment each.
    pub tid: u32,
}

impl WaitHop {
    /// In place of a thread's number: one of those that live for a moment, as of a pool that is made anew for each batch. No
    /// thread has this number.
    pub const SHORT_LIVED: u32 = 0;

    /// Threads of a process that live for a moment each.
    pub fn short_lived(pid: u32) -> Self {
        Self { by: WaitEdge::Thread, pid, tid: Self::SHORT_LIVED }
    }

    /// It stands for threads that live for a moment each.
    pub fn is_short_lived(&self) -> bool {
        self.tid == Self::SHORT_LIVED
    }
}

/// Whether a path ends at another thread of the loop's own process that sleeps: it is waited for only with a lock in its hands.
pub fn is_at_sleeping_thread(hops: &[WaitHop], end: &WaitEnd) -> bool {
    *end == WaitEnd::Timer && matches!(hops, [hop] if hop.by == WaitEdge::Thread)
}

/// A path from the loop to an end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitPath {
    /// Threads that are waited for, the nearest first; none where it is the loop itself.
    pub hops: Vec<WaitHop>,
    /// What the last of them does.
    pub end: WaitEnd,
    /// Of a lock: which file. Of an unknown end: an address of this machine whose holder was not looked for yet.
    pub name: Option<Arc<str>>,
    /// Seconds of the loop's time.
    pub seconds: f32,
    /// Of them with the device idle; all of them where no device is known.
    pub idle_s: f32,
}

/// A process that something of the job waits for, or was seen beside it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Peer {
    /// PID.
    pub pid: u32,
    /// Part of the job.
    pub inside: bool,
    /// Command line, raw.
    pub command: Arc<str>,
    /// Name, raw.
    pub comm: Arc<str>,
    /// Batches come from it: it is one of torch's workers, or a process of the job that works ahead of the loop.
    #[serde(default)]
    pub loader: bool,
    /// Addresses that it is reached at over connections of this machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Arc<str>>,
}

/// Data workers that share the pipe over which the loop gets their batches: one loader.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitedSet {
    /// The pipe, as the kernel names it.
    pub pipe: Arc<str>,
    /// PIDs of those that can write to it. Workers that were forked later hold the pipes of earlier loaders as well.
    pub workers: Vec<u32>,
    /// Seconds in which the loop waited at it.
    pub seconds: f32,
}

/// Where the chains of one trainer's loop ended in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainRates {
    /// Process of the loop.
    pub process: ProcessId,
    /// Thread of the loop.
    pub tid: u32,
    /// Samples that were followed.
    pub samples: u32,
    /// Seconds that they stand for.
    pub seconds: f64,
    /// Calls and descriptors were seen; else chains rest on kernel functions and open descriptors alone.
    pub exact: bool,
    /// How often a second the loop's thread went on after a wait: was given a CPU anew.
    pub wakes_per_s: Option<f64>,
    /// The paths, the longest time first.
    pub paths: Vec<WaitPath>,
    /// The processes on them.
    pub peers: Vec<Peer>,
    /// Which loaders were waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<WaitedSet>,
    /// Where the waits that were taken for ones for the device may lead instead, until it is known how long it worked.
    #[serde(skip)]
    pub otherwise: Vec<WaitPath>,
}

impl ChainRates {
    /// Bounds the waits for the device by the `seconds` it can have been waited for. The rest goes to what else these waits may be
    /// for, and what is left then, if it is much, to an unknown end. On a device that others use as well (`shared`) it stays
    /// with the device: it may work for them.
    pub(in crate::rates) fn leave_device(&mut self, seconds: f64, shared: bool) {
        let otherwise = std::mem::take(&mut self.otherwise);
        let is_device = |path: &&mut WaitPath| path.end == WaitEnd::Device && path.hops.is_empty();
        let Some(device) = self.paths.iter_mut().find(is_device) else { return };
        let all: f32 = otherwise.iter().map(|path| path.seconds).sum();
        let beyond = (device.seconds - seconds as f32).max(0.0);
        let moved = beyond.min(all);
        let is_told = !shared && f64::from(beyond - moved) >= WORTH_IT * self.seconds;
        let unknown = if is_told { beyond - moved } else { 0.0 };
        if moved + unknown <= 0.0 {
            return;
        }
        device.seconds -= moved + unknown;
        let of_all = |path: WaitPath| WaitPath { seconds: path.seconds * moved / all, ..path };
        let unknown_end =
            WaitPath { hops: Vec::new(), end: WaitEnd::Unknown, name: None, seconds: unknown, idle_s: unknown };
        for path in otherwise.into_iter().map(of_all).chain([unknown_end]).filter(|path| path.seconds > 0.0) {
            let part = path.seconds;
            let same =
                |known: &&mut WaitPath| (&known.hops, &known.end, &known.name) == (&path.hops, &path.end, &path.name);
            match self.paths.iter_mut().find(same) {
                Some(known) => {
                    known.seconds += part;
                    known.idle_s += part;
                }
                None => self.paths.push(WaitPath { seconds: part, idle_s: part, ..path }),
            }
        }
        sort(&mut self.paths);
        cut(&mut self.paths);
    }

    /// Seconds of waits for threads that live for a moment.
    pub(in crate::rates) fn short_lived_s(&self) -> f64 {
        let led = self.paths.iter().filter(|path| path.hops.first().is_some_and(WaitHop::is_short_lived));
        led.map(|path| f64::from(path.seconds)).sum()
    }

    /// Seconds of waits that lead to a loader.
    pub fn loader_s(&self) -> f64 {
        let loader = |pid: u32| self.peers.iter().any(|peer| peer.pid == pid && peer.loader);
        let leads = |path: &&WaitPath| path.end == WaitEnd::Loader || path.hops.iter().any(|hop| loader(hop.pid));
        self.paths.iter().filter(leads).map(|path| f64::from(path.seconds)).sum()
    }
}

/// The longest first; of equal ones the smaller path.
pub(super) fn sort(paths: &mut [WaitPath]) {
    let path = |path: &WaitPath| (path.hops.clone(), path.end.clone(), path.name.clone());
    paths.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| path(a).cmp(&path(b))));
}

/// Puts the shortest together under an unknown end where there are more than [`PATHS`].
pub(super) fn cut(paths: &mut Vec<WaitPath>) {
    if let Some(rest) = paths.get(PATHS..).filter(|rest| !rest.is_empty()) {
        let sum = |of: fn(&WaitPath) -> f32| rest.iter().map(of).sum();
        let (seconds, idle_s) = (sum(|path| path.seconds), sum(|path| path.idle_s));
        paths.truncate(PATHS);
        paths.push(WaitPath { hops: Vec::new(), end: WaitEnd::Unknown, name: None, seconds, idle_s });
    }
}
