//! Who outside of the job holds the other end: a scan of the whole host, some processes at each tick.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::{End, open_ends};
use crate::sources::fields::number;

/// Processes looked into at one tick: 200 with 40 descriptors each take 12 ms.
const AT_ONCE: usize = 200;
/// The same link is looked for again after this many ticks.
const AGAIN: u64 = 15;
/// Most links that are looked for.
const MOST: usize = 64;

/// The scan, and what it has found.
#[derive(Debug, Default)]
pub(super) struct HostScan {
    /// Links that are looked for, with the tick in which they were last waited on.
    wanted: BTreeMap<Arc<str>, u64>,
    /// PIDs that this scan has still to look into.
    left: Vec<u32>,
    holders: BTreeMap<Arc<str>, BTreeMap<u32, End>>,
    /// When the last scan was begun.
    begun: Option<u64>,
}

impl HostScan {
    /// Looks for the holders of these links from now on.
    pub(super) fn look_for(&mut self, links: Vec<Arc<str>>, tick: u64) {
        let new = links.iter().any(|link| !self.wanted.contains_key(link));
        self.wanted.extend(links.into_iter().map(|link| (link, tick)));
        self.wanted.retain(|_, last| tick.saturating_sub(*last) < AGAIN);
        while self.wanted.len() > MOST {
            self.wanted.pop_first();
        }
        self.holders.retain(|link, _| self.wanted.contains_key(link));
        let nobody = self.wanted.keys().any(|link| !self.holders.contains_key(link));
        let rested = self.begun.is_none_or(|begun| tick.saturating_sub(begun) >= AGAIN);
        if self.left.is_empty() && !self.wanted.is_empty() && (rested || new && nobody && self.may_hurry(tick)) {
            self.begun = Some(tick);
            self.left = Vec::from([u32::MAX]);
        }
    }

    /// New links come with each step of a program that connects anew: a scan for them every third tick at most.
    fn may_hurry(&self, tick: u64) -> bool {
        self.begun.is_none_or(|begun| tick.saturating_sub(begun) >= 3)
    }

    /// Looks into some more processes.
    pub(super) fn go_on(&mut self, proc_root: &Path, inside: &[u32]) {
        if self.left.first() == Some(&u32::MAX) {
            let entries = std::fs::read_dir(proc_root).into_iter().flatten().filter_map(Result::ok);
            let pids = entries.filter_map(|entry| number(entry.file_name().as_encoded_bytes()));
            self.left = pids.filter_map(|pid| u32::try_from(pid).ok()).filter(|pid| !inside.contains(pid)).collect();
        }
        for _ in 0..AT_ONCE {
            let Some(pid) = self.left.pop() else { break };
            for end in open_ends(proc_root, pid, &mut BTreeSet::new()) {
                if let Some((link, _)) =
                    self.wanted.get_key_value(&end.link).map(|(link, tick)| (Arc::clone(link), tick))
                {
                    self.holders.entry(link).or_default().insert(pid, end);
                }
            }
        }
    }

    /// PIDs that hold a link, and which way.
    pub(super) fn holders(&self, link: &str) -> impl Iterator<Item = (u32, &End)> + '_ {
        self.holders.get(link).into_iter().flatten().map(|(pid, end)| (*pid, end))
    }

    /// All that were found.
    pub(super) fn found(&self) -> Vec<u32> {
        let all: BTreeSet<u32> = self.holders.values().flat_map(BTreeMap::keys).copied().collect();
        all.into_iter().collect()
    }
}
