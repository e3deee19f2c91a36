//! Threads that live for a moment stand for each other: few of them live long enough to be seen, and what the loop waited for
//! over those it waits for over the others too.
//!
//! A thread is listed once a second, and sampled from then on. Of a pool that is made anew for each batch those threads are seen
//! that the listing meets; a round later they are gone, and the loop waits for threads that nobody knows.

use super::graph::Graph;
use super::paths::{WaitEdge, WaitEnd, WaitHop};
use super::ways::{FoundPaths, RoundPath};
use crate::rates::levels::{HALF_LIFE_S, MOSTLY, SEEN_S};
use crate::rates::wait::Wait;

/// Most different ways that are kept.
const KEPT_PATHS: usize = 16;

/// Where the loop's waits for threads that live for a moment led of late.
#[derive(Debug, Default)]
pub(super) struct Passing {
    /// The ways behind such threads; each one's share is in seconds.
    ways: Vec<RoundPath>,
    /// Seconds of waits for them.
    waited_s: f64,
    /// Seconds in which such a thread was there while the loop did something else.
    beside_s: f64,
}

impl Passing {
    /// Takes what was found for one round of so many seconds, in which the loop's thread of a process was in this wait. Ways over
    /// threads that live for a moment are put together; a wait in a futex that leads to nobody may lead where those did.
    pub(super) fn take(&mut self, found: &mut FoundPaths, graph: &Graph<'_>, (pid, wait): (u32, Wait), seconds: f64) {
        let is_new =
            |hop: &WaitHop| hop.by == WaitEdge::Thread && hop.pid == pid && graph.is_new_thread(pid, hop.tid);
        let short_lived = |way: &mut RoundPath| {
            let first = way.hops.first_mut().filter(|hop| is_new(hop))?;
            *first = WaitHop::short_lived(pid);
            Some(way.clone())
        };
        let seen: Vec<RoundPath> = found.ways.iter_mut().filter_map(short_lived).collect();
        found.otherwise.retain(|way| !way.hops.first().is_some_and(is_new));
        self.fade(seconds);
        if !seen.is_empty() {
            seen.into_iter().for_each(|way| self.add(way, seconds));
        } else if graph.has_new_threads(pid) {
            self.beside_s += seconds;
        } else if wait == Wait::Futex && self.speaks() {
            self.fill(found, pid);
        }
    }

    fn fade(&mut self, seconds: f64) {
        let part = 0.5_f64.powf(seconds / HALF_LIFE_S);
        self.ways.iter_mut().for_each(|way| way.share *= part);
        self.waited_s *= part;
        self.beside_s *= part;
    }

    fn add(&mut self, way: RoundPath, seconds: f64) {
        let rest = way.hops.get(1..).unwrap_or_default().to_vec();
        let new = RoundPath { hops: rest, share: way.share * seconds, ..way };
        self.waited_s += new.share;
        let least = |a: &&mut RoundPath, b: &&mut RoundPath| a.share.total_cmp(&b.share);
        if let Some(known) = self.ways.iter_mut().find(|known| known.is_like(&new)) {
            known.share += new.share;
        } else if self.ways.len() < KEPT_PATHS {
            self.ways.push(new);
        } else if let Some(least) = self.ways.iter_mut().min_by(least).filter(|least| least.share < new.share) {
            *least = new;
        }
    }

    /// The loop was seen waiting for enough of them, and they were seldom there while it did not.
    fn speaks(&self) -> bool {
        self.waited_s >= SEEN_S && self.beside_s <= MOSTLY * (self.waited_s + self.beside_s)
    }

    /// So much of a wait, 0–1, led where such waits led of late.
    fn parts(&self, pid: u32, share: f64, idle: f64) -> impl Iterator<Item = RoundPath> + '_ {
        let all: f64 = self.ways.iter().map(|way| way.share).sum();
        let led = self.ways.iter().filter(move |_| all > 0.0 && share > 0.0);
        led.map(move |way| RoundPath { idle, ..way.clone().after(WaitHop::short_lived(pid), share / all) })
    }

    fn fill(&self, found: &mut FoundPaths, pid: u32) {
        let nobody = |way: &RoundPath| way.is_own(&WaitEnd::Unknown) && way.name.is_none();
        if found.ways.iter().all(|way| way.is_own(&WaitEnd::Device)) {
            let known: f64 = found.otherwise.iter().map(|way| way.share).sum();
            found.otherwise.extend(self.parts(pid, 1.0 - known, 1.0));
            return;
        }
        let (unknown, mut ways): (Vec<RoundPath>, Vec<RoundPath>) = found.ways.drain(..).partition(nobody);
        for way in unknown {
            ways.extend(self.parts(pid, way.share, way.idle));
        }
        found.ways = ways;
    }
}
