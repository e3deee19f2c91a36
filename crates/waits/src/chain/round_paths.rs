//! The paths of one sample's wait, and those of an interval added up to its [`ChainRates`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::paths::{ChainRates, PATHS, Peer, WaitHop, WaitPath, WaitedSet, cut, sort};
use crate::taxonomy::End;

/// One path of one sample.
#[derive(Debug, Clone)]
pub(super) struct RoundPath {
    pub hops: Vec<WaitHop>,
    pub end: End,
    /// Which end it is, as in [`WaitPath`].
    pub name: Option<Arc<str>>,
    /// The file of a lock on the way.
    pub lock: Option<Arc<str>>,
    pub share: f64,
    /// The part of it with the GPU idle, 0–1.
    pub idle: f64,
}

impl RoundPath {
    /// The thread itself is at this end.
    pub(super) fn end(end: End) -> Self {
        Self { hops: Vec::new(), end, name: None, lock: None, share: 1.0, idle: 1.0 }
    }

    /// [`RoundPath::end`] as the only path.
    pub(super) fn only(end: End) -> Vec<Self> {
        vec![Self::end(end)]
    }

    /// A fraction of it, 0–1.
    pub(super) fn part(self, part: f64) -> Self {
        Self { share: self.share * part, ..self }
    }

    /// Whether it has this end without leading to another thread.
    pub(super) fn is_own(&self, end: End) -> bool {
        self.hops.is_empty() && self.end == end
    }

    /// Whether it leads over the same threads to the same end.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.end, &self.name, &self.lock, &self.hops) == (other.end, &other.name, &other.lock, &other.hops)
    }

    /// The same path with one more thread in front.
    pub(super) fn after(mut self, hop: WaitHop) -> Self {
        self.hops.insert(0, hop);
        self
    }
}

/// Where one sample's wait leads; the shares add up to 1.
#[derive(Debug, Clone)]
pub(super) struct FoundPaths {
    pub paths: Vec<RoundPath>,
    /// For a wait attributed to the GPU: where else it may lead, if the GPU worked for less time than the wait.
    pub otherwise: Vec<RoundPath>,
}

impl From<Vec<RoundPath>> for FoundPaths {
    fn from(paths: Vec<RoundPath>) -> Self {
        Self { paths, otherwise: Vec::new() }
    }
}

/// The threads on a path, its end with its name, and the lock on the way.
type PathKey = (Vec<WaitHop>, End, Option<Arc<str>>, Option<Arc<str>>);

/// The paths of many samples, added up.
#[derive(Debug, Default)]
pub(super) struct PathSums {
    sums: HashMap<PathKey, (f64, f64)>,
    /// Seconds attributed to the GPU that may have been these instead.
    otherwise: HashMap<PathKey, f64>,
    sets: BTreeMap<Arc<str>, WaitedSet>,
    samples: u32,
    seconds: f64,
}

impl PathSums {
    /// Adds a sample that represents this many seconds.
    pub(super) fn add(&mut self, found: FoundPaths, seconds: f64) {
        self.samples = self.samples.saturating_add(1);
        self.seconds += seconds;
        for path in found.otherwise {
            let key = (path.hops, path.end, path.name, path.lock);
            if self.otherwise.len() < PATHS || self.otherwise.contains_key(&key) {
                *self.otherwise.entry(key).or_default() += path.share * seconds;
            }
        }
        for path in found.paths {
            let mut key = (path.hops, path.end, path.name, path.lock);
            if self.sums.len() >= PATHS * 8 && !self.sums.contains_key(&key) {
                key = (Vec::new(), End::Unknown, None, None);
            }
            let sum = self.sums.entry(key).or_default();
            sum.0 += path.share * seconds;
            sum.1 += path.share * seconds * path.idle;
        }
    }

    /// Adds the pipe at which a sample of this many seconds waited, and the PIDs that write to it.
    pub(super) fn add_set(&mut self, (pipe, workers): &(Arc<str>, Vec<u32>), seconds: f64) {
        if self.sets.len() >= PATHS && !self.sets.contains_key(pipe) {
            return;
        }
        let set = self.sets.entry(Arc::clone(pipe)).or_default();
        (set.pipe, set.workers) = (Arc::clone(pipe), workers.clone());
        set.seconds += seconds as f32;
    }

    /// The interval's chain, as far as the paths show it.
    pub(super) fn finish(self, peer: impl Fn(u32) -> Peer) -> ChainRates {
        let path = |(hops, end, name, lock), (seconds, idle_s): (f64, f64)| WaitPath {
            hops,
            end,
            name,
            lock,
            seconds: seconds as f32,
            idle_s: idle_s as f32,
        };
        let mut paths: Vec<WaitPath> = self.sums.into_iter().map(|(key, sums)| path(key, sums)).collect();
        sort(&mut paths);
        // The GPU has its own part of the time.
        let otherwise = self.otherwise.into_iter().map(|(key, seconds)| path(key, (seconds, seconds)));
        let mut otherwise: Vec<WaitPath> = otherwise.collect();
        sort(&mut otherwise);
        cut(&mut paths);
        let hops = paths.iter().chain(&otherwise).flat_map(|path| &path.hops);
        let mut pids: Vec<u32> = hops.map(|hop| hop.pid).collect();
        pids.sort_unstable();
        pids.dedup();
        let peers = pids.into_iter().map(peer).collect();
        let (samples, seconds) = (self.samples, self.seconds);
        let sets = self.sets.into_values().collect();
        ChainRates { samples, seconds, paths, peers, sets, otherwise, ..ChainRates::default() }
    }
}
