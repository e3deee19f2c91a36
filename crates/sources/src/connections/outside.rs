//! Which process outside the job holds the other end: a scan of the whole host, a few processes per tick.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::ends::{Fifos, each_end, ways};
use crate::fields::number;

/// Processes searched in one tick …
const AT_ONCE: usize = 200;
/// … and their descriptors, not counting the last process's; each takes about 2 µs.
const DESCRIPTORS_AT_ONCE: usize = 4000;
/// A scan for a socket never searched for before runs this many times faster: until it is done, what the loop waits for
/// is unknown.
const HURRIED: usize = 4;
/// Most processes in one scan: no PID exceeds PID_MAX_LIMIT, but a table of that size is not worth it.
const MOST_PROCESSES_OUTSIDE: usize = 1 << 16;
/// A link not waited on for this many ticks is no longer searched for.
const FORGET: u64 = 15;
/// The same links are searched for again after this many ticks. The interval doubles, up to the second number, each
/// time a scan finds nothing new.
const AGAIN: (u64, u64) = (15, 120);
/// A program that connects anew at each step makes new links all the time. They are scanned for every third tick at
/// most, with the interval growing in the same way.
const HURRY: (u64, u64) = (3, 24);
/// Most links searched for.
const MOST_ADDRESSES: usize = 64;
/// Most holders remembered for one link: a system log socket has hundreds.
const MOST_HOLDERS: usize = 64;

type Found = BTreeMap<Arc<str>, BTreeMap<u32, (bool, bool)>>;

/// The scan, and what it has found.
#[derive(Debug, Default)]
pub(super) struct HostScan {
    /// The links searched for, with the tick in which each was last waited on.
    wanted: BTreeMap<Arc<str>, u64>,
    /// What the last finished scan searched for.
    looked_for: BTreeSet<Arc<str>>,
    /// What the running scan searches for, and the PIDs still to search.
    scan: Option<(BTreeSet<Arc<str>>, Vec<u32>)>,
    holders: Found,
    /// What the running scan has found so far; processes that have let go are not in it.
    finding: Found,
    /// Whether some process's descriptors could not be read: in the last scan, and in the running one.
    denied: (bool, bool),
    /// When the last scan started.
    begun: Option<u64>,
    /// How many scans in a row found nothing new.
    fruitless: u32,
    /// Whether the running scan has found something new.
    news: bool,
}

impl HostScan {
    /// Searches for the holders of these links from now on.
    pub(super) fn look_for(&mut self, links: Vec<Arc<str>>, tick: u64) {
        let new = links.iter().any(|link| !self.looked_for.contains(link));
        self.wanted.extend(links.into_iter().map(|link| (link, tick)));
        self.wanted.retain(|_, last| tick.saturating_sub(*last) < FORGET);
        if self.wanted.len() > MOST_ADDRESSES {
            let mut lasts: Vec<(u64, Arc<str>)> =
                self.wanted.iter().map(|(link, last)| (*last, Arc::clone(link))).collect();
            lasts.sort_unstable();
            for (_, link) in lasts.into_iter().take(self.wanted.len() - MOST_ADDRESSES) {
                self.wanted.remove(&link);
            }
        }
        self.holders.retain(|link, _| self.wanted.contains_key(link));
        self.looked_for.retain(|link| self.wanted.contains_key(link));
        let rested = |(first, most): (u64, u64)| {
            let ticks = first.saturating_mul(1 << self.fruitless.min(6)).min(most);
            self.begun.is_none_or(|begun| tick.saturating_sub(begun) >= ticks)
        };
        if self.scan.is_none() && !self.wanted.is_empty() && (rested(AGAIN) || new && rested(HURRY)) {
            self.begun = Some(tick);
            (self.denied.1, self.news) = (false, false);
            self.scan = Some((self.wanted.keys().cloned().collect(), vec![u32::MAX]));
        }
    }

    /// Searches some more processes.
    pub(super) fn go_on(&mut self, proc_root: &Path, inside: &HashSet<u32>, fifos: &Fifos) {
        let Some((links, left)) = &mut self.scan else { return };
        if left.first() == Some(&u32::MAX) {
            let entries = std::fs::read_dir(proc_root).into_iter().flatten().filter_map(Result::ok);
            let pids = entries.filter_map(|entry| number(entry.file_name().as_encoded_bytes()));
            // A holder that was found is sampled by now, and may have let go since.
            let found: HashSet<u32> = self.holders.values().flat_map(BTreeMap::keys).copied().collect();
            let is_due = |pid: &u32| !inside.contains(pid) || found.contains(pid);
            let pids = pids.filter(is_due);
            *left = pids.take(MOST_PROCESSES_OUTSIDE).collect();
        }
        let is_new = |link: &Arc<str>| link.starts_with("socket:") && !self.looked_for.contains(link);
        let times = if links.iter().any(is_new) { HURRIED } else { 1 };
        let mut looked = 0;
        for _ in 0..AT_ONCE * times {
            if looked >= DESCRIPTORS_AT_ONCE * times {
                break;
            }
            let Some(pid) = left.pop() else { break };
            let (count, denied) = each_end(proc_root, pid, fifos, |name, link| {
                let Some(name) = links.get(name) else { return };
                let (reads, writes) = ways(name, link);
                self.news |= self.holders.get(name).is_none_or(|known| !known.contains_key(&pid));
                for into in [&mut self.finding, &mut self.holders] {
                    let of_link = into.entry(Arc::clone(name)).or_default();
                    if of_link.len() < MOST_HOLDERS || of_link.contains_key(&pid) {
                        let end = of_link.entry(pid).or_default();
                        *end = (end.0 | reads, end.1 | writes);
                    }
                }
            });
            looked += count;
            self.denied.1 |= denied;
        }
        if left.is_empty() {
            self.looked_for = std::mem::take(links);
            let found = std::mem::take(&mut self.finding);
            let same = !self.news && found == self.holders;
            self.fruitless = if same { self.fruitless.saturating_add(1) } else { 0 };
            self.holders = found;
            self.denied.0 = self.denied.1;
            self.scan = None;
        }
    }

    /// PIDs that hold a link, and the direction: read, write.
    pub(super) fn holders(&self, link: &str) -> impl Iterator<Item = (u32, (bool, bool))> + '_ {
        self.holders.get(link).into_iter().flatten().map(|(pid, end)| (*pid, *end))
    }

    /// All holders found.
    pub(super) fn found(&self) -> Vec<u32> {
        let all: BTreeSet<u32> = self.holders.values().flat_map(BTreeMap::keys).copied().collect();
        all.into_iter().collect()
    }

    /// Whether a link is wanted and no complete scan has covered it yet.
    pub(super) fn is_due(&self, link: &str) -> bool {
        self.wanted.contains_key(link) && !self.looked_for(link)
    }

    /// Whether a complete scan has covered this link.
    pub(super) fn looked_for(&self, link: &str) -> bool {
        self.looked_for.contains(link)
    }

    /// Whether the last scan met processes whose descriptors it could not read.
    pub(super) fn denied(&self) -> bool {
        self.denied.0
    }
}
