//! The ways of single samples, and those of an interval's samples added up.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::paths::{ChainRates, End, Hop, Path, Peer, WaitedSet};
use crate::sample::ProcessId;

/// Most different paths kept of one interval; the rest is put together under an unknown end.
pub(super) const PATHS: usize = 24;

/// One way of one sample.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub hops: Vec<Hop>,
    pub end: End,
    pub name: Option<Arc<str>>,
    pub share: f64,
    /// Part of it in which the device idles, 0–1.
    pub idle: f64,
}

/// Threads on a way, its end, and its name.
type Key = (Vec<Hop>, End, Option<Arc<str>>);

/// The ways of many samples, added up.
#[derive(Debug, Default)]
pub(super) struct Ways {
    sums: HashMap<Key, (f64, f64)>,
    sets: BTreeMap<Arc<str>, WaitedSet>,
    samples: u32,
    seconds: f64,
}

impl Ways {
    /// Adds a sample that stands for so many seconds.
    pub(super) fn add(&mut self, ways: Vec<Way>, seconds: f64) {
        self.samples = self.samples.saturating_add(1);
        self.seconds += seconds;
        for way in ways {
            let mut key = (way.hops, way.end, way.name);
            if self.sums.len() >= PATHS * 8 && !self.sums.contains_key(&key) {
                key = (Vec::new(), End::Unknown, None);
            }
            let sum = self.sums.entry(key).or_default();
            sum.0 += way.share * seconds;
            sum.1 += way.share * seconds * way.idle;
        }
    }

    /// Notes the pipe that a sample of so many seconds waited at, and who writes to it.
    pub(super) fn add_set(&mut self, (pipe, workers): &(Arc<str>, Vec<u32>), seconds: f64) {
        if self.sets.len() >= PATHS && !self.sets.contains_key(pipe) {
            return;
        }
        let set = self.sets.entry(Arc::clone(pipe)).or_default();
        (set.pipe, set.workers) = (Arc::clone(pipe), workers.clone());
        set.seconds += seconds as f32;
    }

    /// The interval's chain.
    pub(super) fn finish(
        self,
        (process, tid): (ProcessId, u32),
        exact: bool,
        wakes_s: Option<f64>,
        peer: impl Fn(u32) -> Peer,
    ) -> ChainRates {
        let paths = self.sums.into_iter().map(|((hops, end, name), (seconds, idle_s))| Path {
            hops,
            end,
            name,
            seconds: seconds as f32,
            idle_s: idle_s as f32,
        });
        let mut paths: Vec<Path> = paths.collect();
        let way = |path: &Path| (path.hops.clone(), path.end.clone(), path.name.clone());
        paths.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then_with(|| way(a).cmp(&way(b))));
        if let Some(rest) = paths.get(PATHS..).filter(|rest| !rest.is_empty()) {
            let sum = |of: fn(&Path) -> f32| rest.iter().map(of).sum();
            let (seconds, idle_s) = (sum(|path| path.seconds), sum(|path| path.idle_s));
            paths.truncate(PATHS);
            paths.push(Path { hops: Vec::new(), end: End::Unknown, name: None, seconds, idle_s });
        }
        let mut pids: Vec<u32> = paths.iter().flat_map(|path| path.hops.iter().map(|hop| hop.pid)).collect();
        pids.sort_unstable();
        pids.dedup();
        let peers = pids.into_iter().map(peer).collect();
        let (samples, seconds) = (self.samples, self.seconds);
        let sets = self.sets.into_values().collect();
        ChainRates { process, tid, samples, seconds, exact, wakes_s, paths, peers, sets }
    }
}
