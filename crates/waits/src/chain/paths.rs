//! The paths from a training loop to what ends its waits, in the form that frames hold.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::taxonomy::{Edge, End};
use trainmon_rates::levels::WORTH_IT;
use trainmon_sample::ProcessId;

/// Most distinct paths kept for one interval; the rest is merged under an unknown end.
pub(super) const PATHS: usize = 24;

/// One thread on the path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct WaitHop {
    /// How it is waited for.
    pub by: Edge,
    /// Its process.
    pub pid: u32,
    /// The thread; [`WaitHop::SHORT_LIVED`] for short-lived threads of the loop's process.
    pub tid: u32,
}

impl WaitHop {
    /// Instead of a TID: short-lived threads, like a pool made for each batch. No thread has this TID.
    pub const SHORT_LIVED: u32 = 0;

    /// Short-lived threads of a process.
    pub fn short_lived(pid: u32) -> Self {
        Self { by: Edge::Thread, pid, tid: Self::SHORT_LIVED }
    }

    /// Whether this means short-lived threads.
    pub fn is_short_lived(&self) -> bool {
        self.tid == Self::SHORT_LIVED
    }
}

/// Whether a path ends at another thread of the loop's own process that sleeps: it is waited for only if it holds a
/// lock.
pub fn is_at_sleeping_thread(hops: &[WaitHop], end: End) -> bool {
    end == End::Timer && matches!(hops, [hop] if hop.by == Edge::Thread)
}

/// A path from the loop to an end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitPath {
    /// The threads waited for, nearest first; empty for the loop itself.
    pub hops: Vec<WaitHop>,
    /// What the last of them does.
    pub end: End,
    /// Which end it is: an address, or the file of a lock. For an unknown end: a local address whose holder was not searched
    /// for yet.
    pub name: Option<Arc<str>>,
    /// The file of a lock on the way.
    pub lock: Option<Arc<str>>,
    /// Seconds of the loop's time.
    pub seconds: f32,
    /// Of these, seconds with the GPU idle; all of them if no GPU is known.
    pub idle_s: f32,
}

impl WaitPath {
    /// What tells it from other paths.
    fn key(&self) -> (&[WaitHop], End, Option<&str>, Option<&str>) {
        (&self.hops, self.end, self.name.as_deref(), self.lock.as_deref())
    }
}

/// A process that the job waits for or is connected to.
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
    /// Batches come from it: it is a torch worker, or a process of the job that works ahead of the loop.
    #[serde(default)]
    pub loader: bool,
    /// Local addresses at which it is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Arc<str>>,
}

/// Workers that share the pipe over which the loop gets their batches: one loader.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitedSet {
    /// The pipe, as the kernel names it.
    pub pipe: Arc<str>,
    /// PIDs of the workers that can write to it. Workers forked later hold the pipes of earlier loaders as well.
    pub workers: Vec<u32>,
    /// Seconds that the loop waited at it.
    pub seconds: f32,
}

/// Where the chains of one training loop ended in the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainRates {
    /// Process of the loop.
    pub process: ProcessId,
    /// Thread of the loop.
    pub tid: u32,
    /// Number of followed samples.
    pub samples: u32,
    /// Seconds that they represent.
    pub seconds: f64,
    /// Whether calls and descriptors were readable; otherwise chains rest on kernel functions and open descriptors
    /// alone.
    pub exact: bool,
    /// How many times per second the loop's thread got a CPU again after a wait.
    pub wakes_per_s: Option<f64>,
    /// The paths, longest time first.
    pub paths: Vec<WaitPath>,
    /// The processes on them.
    pub peers: Vec<Peer>,
    /// The loaders that were waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<WaitedSet>,
    /// Where the waits attributed to the GPU may lead instead, until it is known how long the GPU worked.
    #[serde(skip)]
    pub otherwise: Vec<WaitPath>,
}

impl ChainRates {
    /// Limits the waits for the GPU to the `seconds` it can have been waited for. The rest goes to what these waits may
    /// otherwise be for, and what is then left, if it is much, to an unknown end. If other processes use the GPU too
    /// (`shared`), the waits stay with the GPU: it may be working for them.
    pub(crate) fn leave_gpu(&mut self, seconds: f64, shared: bool) {
        let otherwise = std::mem::take(&mut self.otherwise);
        let is_device = |path: &&mut WaitPath| path.end == End::Gpu && path.hops.is_empty();
        let Some(gpu) = self.paths.iter_mut().find(is_device) else { return };
        let all: f32 = otherwise.iter().map(|path| path.seconds).sum();
        let beyond = (gpu.seconds - seconds as f32).max(0.0);
        let moved = beyond.min(all);
        let is_told = !shared && f64::from(beyond - moved) >= WORTH_IT * self.seconds;
        let unknown = if is_told { beyond - moved } else { 0.0 };
        if moved + unknown <= 0.0 {
            return;
        }
        gpu.seconds -= moved + unknown;
        let of_all = |path: WaitPath| WaitPath { seconds: path.seconds * moved / all, ..path };
        let unknown_end = WaitPath {
            hops: Vec::new(),
            end: End::Unknown,
            name: None,
            lock: None,
            seconds: unknown,
            idle_s: unknown,
        };
        for path in otherwise.into_iter().map(of_all).chain([unknown_end]).filter(|path| path.seconds > 0.0) {
            let part = path.seconds;
            let same = |known: &&mut WaitPath| known.key() == path.key();
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

    /// Seconds of waits for short-lived threads.
    pub(crate) fn short_lived_s(&self) -> f64 {
        let led = self.paths.iter().filter(|path| path.hops.first().is_some_and(WaitHop::is_short_lived));
        led.map(|path| f64::from(path.seconds)).sum()
    }

    /// Seconds of waits that lead to a loader.
    pub fn loader_s(&self) -> f64 {
        let loader = |pid: u32| self.peers.iter().any(|peer| peer.pid == pid && peer.loader);
        let leads = |path: &&WaitPath| path.end == End::Loader || path.hops.iter().any(|hop| loader(hop.pid));
        self.paths.iter().filter(leads).map(|path| f64::from(path.seconds)).sum()
    }
}

/// Longest first; among equal ones, the smaller path.
pub(super) fn sort(paths: &mut [WaitPath]) {
    paths.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| a.key().cmp(&b.key())));
}

/// If there are more than [`PATHS`], merges the shortest under an unknown end.
pub(super) fn cut(paths: &mut Vec<WaitPath>) {
    if let Some(rest) = paths.get(PATHS..).filter(|rest| !rest.is_empty()) {
        let sum = |of: fn(&WaitPath) -> f32| rest.iter().map(of).sum();
        let (seconds, idle_s) = (sum(|path| path.seconds), sum(|path| path.idle_s));
        paths.truncate(PATHS);
        paths.push(WaitPath { hops: Vec::new(), end: End::Unknown, name: None, lock: None, seconds, idle_s });
    }
}
