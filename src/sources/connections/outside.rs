//! Who outside of the job holds the other end: a scan of the whole host, some processes at each tick.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::ends::{Fifos, each_end, ways};
use crate::sources::fields::number;

/// Processes looked into at one tick …
const AT_ONCE: usize = 200;
/// … and descriptors of theirs, but for the last one's: some 2 µs each.
const DESCRIPTORS_AT_ONCE: usize = 4000;
/// A scan for a socket that was never looked for goes so many times faster: whom the loop waits for is not known before.
const HURRIED: usize = 4;
/// Most processes of one scan: beyond PID_MAX_LIMIT there are none, but a table of that size is not worth it.
const MOST_PROCESSES_OUTSIDE: usize = 1 << 16;
/// What is not waited on any more for so many ticks is not looked for.
const FORGET: u64 = 15;
/// The same links are looked for again after so many ticks; twice as many, and so on up to the second number, once a scan
/// has found what the one before it had found.
const AGAIN: (u64, u64) = (15, 120);
/// New links come with each step of a program that connects anew: a scan for them every third tick at most, and more seldom
/// in the same way.
const HURRY: (u64, u64) = (3, 24);
/// Most links that are looked for.
const MOST_ADDRESSES: usize = 64;
/// Most holders of one link that are remembered: a socket of the system's log is held by hundreds.
const MOST_HOLDERS: usize = 64;

type Found = BTreeMap<Arc<str>, BTreeMap<u32, (bool, bool)>>;

/// The scan, and what it has found.
#[derive(Debug, Default)]
pub(super) struct HostScan {
    /// Links that are looked for, with the tick in which they were last waited on.
    wanted: BTreeMap<Arc<str>, u64>,
    /// What a scan that has ended was for.
    looked_for: BTreeSet<Arc<str>>,
    /// What the scan that goes on is for, and the PIDs that it has still to look into.
    scan: Option<(BTreeSet<Arc<str>>, Vec<u32>)>,
    holders: Found,
    /// What the scan that goes on has found so far: whoever does not hold it any more is not in it.
    finding: Found,
    /// Descriptors of some process may not be read: in the last scan, and in the one that goes on.
    denied: (bool, bool),
    /// When the last scan was begun.
    begun: Option<u64>,
    /// So many scans in a row have found nothing new.
    fruitless: u32,
    /// The scan that goes on has found somebody new.
    news: bool,
}

impl HostScan {
    /// Looks for the holders of these links from now on.
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

    /// Looks into some more processes.
    pub(super) fn go_on(&mut self, proc_root: &Path, inside: &HashSet<u32>, fifos: &Fifos) {
        let Some((links, left)) = &mut self.scan else { return };
        if left.first() == Some(&u32::MAX) {
            let entries = std::fs::read_dir(proc_root).into_iter().flatten().filter_map(Result::ok);
            let pids = entries.filter_map(|entry| number(entry.file_name().as_encoded_bytes()));
            // Whoever was found is sampled by now; it may have let go meanwhile.
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

    /// PIDs that hold a link, and which way: to read, to write.
    pub(super) fn holders(&self, link: &str) -> impl Iterator<Item = (u32, (bool, bool))> + '_ {
        self.holders.get(link).into_iter().flatten().map(|(pid, end)| (*pid, *end))
    }

    /// All that were found.
    pub(super) fn found(&self) -> Vec<u32> {
        let all: BTreeSet<u32> = self.holders.values().flat_map(BTreeMap::keys).copied().collect();
        all.into_iter().collect()
    }

    /// It is to be looked for, and no whole scan was for it yet.
    pub(super) fn is_due(&self, link: &str) -> bool {
        self.wanted.contains_key(link) && !self.looked_for(link)
    }

    /// A whole scan was for this link too.
    pub(super) fn looked_for(&self, link: &str) -> bool {
        self.looked_for.contains(link)
    }

    /// The last scan met processes whose descriptors may not be read.
    pub(super) fn denied(&self) -> bool {
        self.denied.0
    }
}
