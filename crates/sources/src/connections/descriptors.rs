//! What the descriptors of processes point to, looked up again only where it may have changed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, readlinkat_raw};

use crate::fields::keyed_number;
use crate::files::read_once;

/// Most descriptors looked up in one round of the sampler, over all threads; each takes about 2 µs.
pub(super) const MOST_LOOKUPS: usize = 512;
/// A descriptor that had the same target this many times in a row …
pub(super) const STEADY: u8 = 3;
/// … is looked up again only after this long, microseconds. A pipe made for each step is closed sooner.
pub(super) const TRUSTED_US: u64 = 500_000;
/// Most distinct targets remembered.
pub(super) const MOST_LINKS: usize = 4096;

/// The targets of descriptors.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// One text per target, shared by everything that points there.
    pub(super) links: BTreeSet<Arc<str>>,
    /// What was looked up last, by process and descriptor.
    pub(super) recent: HashMap<(u32, u32), RecentDescriptors>,
    /// Lookups in this round.
    pub(super) lookups: usize,
    /// Start of this round, microseconds.
    now_us: u64,
}

/// What a descriptor points to.
#[derive(Debug)]
pub(super) struct RecentDescriptors {
    link: Arc<str>,
    /// How many times in a row it had this target.
    pub(super) times: u8,
    /// When it was last looked up, microseconds.
    read_us: u64,
}

impl Descriptors {
    /// Starts a round of the sampler.
    pub(super) fn begin_round(&mut self, now_us: u64) {
        self.lookups = 0;
        self.now_us = now_us;
    }

    /// Whether this round has used up its lookups.
    pub(super) fn is_spent(&self) -> bool {
        self.lookups >= MOST_LOOKUPS
    }

    /// What a descriptor points to.
    pub(super) fn target(&mut self, proc_root: &Path, pid: u32, fd: u32) -> Option<Arc<str>> {
        let now_us = self.now_us;
        let is_trusted =
            |known: &&RecentDescriptors| known.times >= STEADY && now_us.saturating_sub(known.read_us) < TRUSTED_US;
        if let Some(known) = self.recent.get(&(pid, fd)).filter(is_trusted) {
            return Some(Arc::clone(&known.link));
        }
        if self.is_spent() {
            return None;
        }
        self.lookups += 1;
        let link = self.read(&proc_root.join(format!("{pid}/fd/{fd}")))?;
        if self.recent.len() >= MOST_LINKS {
            self.recent.clear();
        }
        let before = self.recent.get(&(pid, fd)).filter(|known| known.link == link);
        let times = before.map_or(1, |known| known.times.saturating_add(1));
        self.recent.insert((pid, fd), RecentDescriptors { link: Arc::clone(&link), times, read_us: now_us });
        Some(link)
    }

    /// The target of a symbolic link in `/proc`, as one text shared by everything that points there; `None` if there is
    /// no target, or if it is longer than any channel's name.
    fn read(&mut self, path: &Path) -> Option<Arc<str>> {
        let mut room = [std::mem::MaybeUninit::uninit(); 1024];
        let (target, rest) = readlinkat_raw(CWD, path, &mut room).ok()?;
        let target = if rest.is_empty() { return None } else { std::str::from_utf8(target).ok()? };
        if let Some(known) = self.links.get(target) {
            return Some(Arc::clone(known));
        }
        let link: Arc<str> = trainmon_base::text::secrets::prose(target).into();
        if self.links.len() < MOST_LINKS {
            self.links.insert(Arc::clone(&link));
        }
        Some(link)
    }

    /// Makes room for new targets.
    pub(super) fn forget_old(&mut self) {
        if self.links.len() >= MOST_LINKS {
            self.links.clear();
        }
    }
}

/// The content of a descriptor's `fdinfo`.
pub(super) fn fdinfo(process: &Path, fd: u32) -> Option<Vec<u8>> {
    read_once(process.join(format!("fdinfo/{fd}")), 4096).ok()
}

/// The inode behind a descriptor, from its `fdinfo` (since Linux 5.14). The file itself is not touched: it may be on a
/// mount that does not answer.
pub(super) fn inode(fdinfo: &[u8]) -> Option<u64> {
    keyed_number(fdinfo, b"ino:")
}
