//! Short-lived threads represent each other: few of them live long enough to be sampled, and the waits for the others
//! lead to the same places.
//!
//! Threads are listed once a second, and sampled from then on. If a pool is made for each batch, only the threads
//! present at a listing are sampled; a round later they are gone, and the loop waits for threads that were never
//! listed.

use super::graph::Graph;
use super::paths::WaitHop;
use super::round_paths::{FoundPaths, RoundPath};
use crate::taxonomy::{Edge, End};
use crate::wait::Wait;
use trainmon_rates::levels::{MOSTLY, SEEN_S, faded};

/// Most distinct paths kept.
const KEPT_PATHS: usize = 16;

/// Where the loop's waits for short-lived threads led recently.
#[derive(Debug, Default)]
pub(super) struct ShortLivedPaths {
    /// The paths behind such threads; each one's share is in seconds.
    paths: Vec<RoundPath>,
    /// Seconds of waits for them.
    waited_s: f64,
    /// Seconds in which such a thread existed while the loop did something else.
    beside_s: f64,
}

impl ShortLivedPaths {
    /// Takes the result for one round of this many seconds, in which the process's loop thread was in this wait. Paths
    /// over short-lived threads are collected; a futex wait that leads nowhere may lead where those did.
    pub(super) fn take(&mut self, found: &mut FoundPaths, graph: &Graph<'_>, (pid, wait): (u32, Wait), seconds: f64) {
        let is_new = |hop: &WaitHop| hop.by == Edge::Thread && hop.pid == pid && graph.is_new_thread(pid, hop.tid);
        let short_lived = |path: &mut RoundPath| {
            let first = path.hops.first_mut().filter(|hop| is_new(hop))?;
            *first = WaitHop::short_lived(pid);
            Some(path.clone())
        };
        let seen: Vec<RoundPath> = found.paths.iter_mut().filter_map(short_lived).collect();
        found.otherwise.retain(|path| !path.hops.first().is_some_and(is_new));
        self.fade(seconds);
        if !seen.is_empty() {
            seen.into_iter().for_each(|path| self.add(path, seconds));
        } else if graph.has_new_threads(pid) {
            self.beside_s += seconds;
        } else if wait == Wait::Futex && self.speaks() {
            self.fill(found, pid);
        }
    }

    fn fade(&mut self, seconds: f64) {
        let part = faded(seconds);
        self.paths.iter_mut().for_each(|path| path.share *= part);
        self.waited_s *= part;
        self.beside_s *= part;
    }

    fn add(&mut self, path: RoundPath, seconds: f64) {
        let rest = path.hops.get(1..).unwrap_or_default().to_vec();
        let new = RoundPath { hops: rest, share: path.share * seconds, ..path };
        self.waited_s += new.share;
        let least = |a: &&mut RoundPath, b: &&mut RoundPath| a.share.total_cmp(&b.share);
        if let Some(known) = self.paths.iter_mut().find(|known| known.is_like(&new)) {
            known.share += new.share;
        } else if self.paths.len() < KEPT_PATHS {
            self.paths.push(new);
        } else if let Some(least) = self.paths.iter_mut().min_by(least).filter(|least| least.share < new.share) {
            *least = new;
        }
    }

    /// Whether the loop waited for enough of them, and they rarely existed while it did not.
    fn speaks(&self) -> bool {
        self.waited_s >= SEEN_S && self.beside_s <= MOSTLY * (self.waited_s + self.beside_s)
    }

    /// The part of a wait, 0–1, that leads where such waits led recently.
    fn parts(&self, pid: u32, share: f64, idle: f64) -> impl Iterator<Item = RoundPath> + '_ {
        let all: f64 = self.paths.iter().map(|path| path.share).sum();
        let led = self.paths.iter().filter(move |_| all > 0.0 && share > 0.0);
        led.map(move |path| RoundPath { idle, ..path.clone().after(WaitHop::short_lived(pid)).part(share / all) })
    }

    fn fill(&self, found: &mut FoundPaths, pid: u32) {
        let is_unknown = |path: &RoundPath| path.is_own(End::Unknown) && path.name.is_none();
        if found.paths.iter().all(|path| path.is_own(End::Gpu)) {
            let known: f64 = found.otherwise.iter().map(|path| path.share).sum();
            found.otherwise.extend(self.parts(pid, 1.0 - known, 1.0));
            return;
        }
        let (unknown, mut paths): (Vec<RoundPath>, Vec<RoundPath>) = found.paths.drain(..).partition(is_unknown);
        for path in unknown {
            paths.extend(self.parts(pid, path.share, path.idle));
        }
        found.paths = paths;
    }
}
