//! What joins processes: who holds which end of the pipes and sockets that threads are seen waiting on, where a socket
//! leads, and who holds a file lock.
//!
//! A descriptor may live for milliseconds only, so what it points to, and where a socket leads, is looked up when a thread is
//! seen waiting on it. Who else holds it is read rarely: when a new one is waited on, and every so many ticks. Nothing here
//! opens what a descriptor points to.

mod outside;
mod sockets;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, readlinkat_raw, statat};

use super::fields::{Fields, lines, number, text};
use super::files::read_once;
use crate::sample::{Channel, Descriptor, LockWait};
use outside::HostScan;
use sockets::{Far, Sockets};

/// The open ends of a process are listed anew after this many ticks; earlier where something is waited on whose other end
/// is not known.
const LIST_EVERY: u64 = 10;
/// Most processes whose ends are listed in one tick; the rest follow in the next.
const MOST_LISTS: usize = 48;
/// Most descriptors of one process that are listed.
const MOST_DESCRIPTORS: usize = 4096;
/// Most channels waited on that are remembered in one tick; more are of descriptors that live for a moment.
const MOST_WAITED: usize = 512;
/// Most descriptors of one epoll set.
const MOST_POLLED: usize = 64;
/// Most different links remembered.
const MOST_LINKS: usize = 4096;
/// `/proc/locks` is read up to here, bytes.
const LOCKS_LIMIT: usize = 256 << 10;

/// One open end of a pipe or a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    link: Arc<str>,
    reads: bool,
    writes: bool,
}

#[derive(Debug, Default)]
struct Ends {
    ends: Vec<End>,
    listed: u64,
}

/// Knows the connections of the processes that are sampled.
#[derive(Debug, Default)]
pub struct Connections {
    proc_root: PathBuf,
    links: BTreeSet<Arc<str>>,
    ends: BTreeMap<u32, Ends>,
    sockets: Sockets,
    host: HostScan,
    /// What was waited on since the last tick.
    waited: BTreeSet<Arc<str>>,
    locks: Vec<LockWait>,
    /// Who held a lock that was waited for, and when it was seen last.
    holders: BTreeMap<u32, u64>,
    tick: u64,
}

impl Connections {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(proc_root: &Path) -> Self {
        Self { proc_root: proc_root.to_path_buf(), ..Self::default() }
    }

    /// What a descriptor points to at this moment; the thread that is blocked on it waits to write, or to read.
    pub fn descriptor(&mut self, pid: u32, fd: u32, writes: bool) -> Option<Descriptor> {
        let link = read_link(&self.proc_root.join(format!("{pid}/fd/{fd}")), &mut self.links)?;
        if link.starts_with("socket:") {
            self.sockets.find(&self.proc_root, pid, &link);
        }
        if is_channel(&link) && self.waited.len() < MOST_WAITED {
            self.waited.insert(Arc::clone(&link));
        }
        Some(Descriptor { link, writes })
    }

    /// What an epoll instance waits for, at most [`MOST_POLLED`] descriptors (proc(5), `fdinfo`).
    pub fn polled(&mut self, pid: u32, fd: u32) -> Vec<Descriptor> {
        const EPOLLOUT: u64 = 4;
        let path = self.proc_root.join(format!("{pid}/fdinfo/{fd}"));
        let listed = read_once(&path, 64 << 10).unwrap_or_default();
        let targets: Vec<(u32, bool)> = lines(&listed)
            .filter_map(|line| {
                let mut fields = Fields::of(line.strip_prefix(b"tfd:")?);
                let fd = u32::try_from(fields.number()?).ok()?;
                let events =
                    fields.nth(1).and_then(|hex| u64::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
                Some((fd, events.is_some_and(|events| events & EPOLLOUT != 0 && events & 1 == 0)))
            })
            .take(MOST_POLLED)
            .collect();
        targets.into_iter().filter_map(|(fd, writes)| self.descriptor(pid, fd, writes)).collect()
    }

    /// Notes who holds the locks that a process waits for.
    pub fn lock(&mut self, pid: u32) {
        let known = |lock: &LockWait| lock.waiter == pid && lock.holder != 0;
        if self.locks.iter().any(known) || self.locks.len() >= MOST_POLLED {
            return;
        }
        let path = self.proc_root.join("locks");
        let locks = read_once(&path, LOCKS_LIMIT).unwrap_or_default();
        for (mut lock, inode) in waits_for_locks(&locks).filter(|(lock, _)| lock.waiter == pid).take(4) {
            lock.path = inode.and_then(|inode| open_file(&self.proc_root, pid, inode));
            if lock.holder != 0 && self.holders.len() < MOST_POLLED {
                self.holders.insert(lock.holder, self.tick);
            }
            self.locks.push(lock);
        }
    }

    /// The channels that were waited on since the last call, and the locks; `processes` are those that are sampled, and
    /// `all` asks for every channel that joins two of them: where descriptors of a wait may not be seen.
    pub fn take(&mut self, processes: &[u32], all: bool) -> (Vec<Channel>, Vec<LockWait>) {
        self.tick += 1;
        self.ends.retain(|pid, _| processes.contains(pid));
        self.list(processes);
        let mut joined: BTreeMap<Arc<str>, BTreeSet<u32>> = BTreeMap::new();
        if all {
            for (pid, ends) in &self.ends {
                for end in &ends.ends {
                    joined.entry(Arc::clone(&end.link)).or_default().insert(*pid);
                    if end.link.starts_with("socket:") && self.sockets.get(&end.link).is_none() {
                        self.sockets.find(&self.proc_root, *pid, &end.link);
                    }
                }
            }
            let leads = |link: &Arc<str>| matches!(self.sockets.get(link), Some(Far::Inet { .. } | Far::Unix(_)));
            // A pipe with one known holder has its other end outside of the job: the reader of its output, perhaps.
            let lonely = |link: &Arc<str>| link.starts_with("pipe:");
            let wanted = joined.iter().filter(|(link, pids)| pids.len() > 1 || lonely(link) || leads(link));
            self.waited.extend(wanted.map(|(link, _)| Arc::clone(link)).take(MOST_WAITED));
        }
        let waited = std::mem::take(&mut self.waited);
        let channels: Vec<Channel> = waited.iter().map(|link| self.channel(link)).collect();
        let lonely: Vec<Arc<str>> = channels.iter().filter_map(|channel| self.lonely(channel)).collect();
        self.host.look_for(lonely, self.tick);
        self.host.go_on(&self.proc_root, processes);
        let tick = self.tick;
        self.holders.retain(|_, seen| tick.saturating_sub(*seen) < LIST_EVERY);
        self.sockets.forget_old();
        if self.links.len() > MOST_LINKS {
            self.links.clear();
        }
        (channels, std::mem::take(&mut self.locks))
    }

    /// Processes that were not asked for and hold the other end of something that was waited on, or a lock.
    #[must_use]
    pub fn outside(&self) -> Vec<u32> {
        let mut pids = self.host.found();
        pids.extend(self.holders.keys());
        pids
    }

    /// Lists the open ends of processes: new ones, those listed long ago, and all where a wait leads to nobody.
    fn list(&mut self, processes: &[u32]) {
        let known = |link: &Arc<str>, ends: &BTreeMap<u32, Ends>| {
            ends.values().filter(|ends| ends.ends.iter().any(|end| end.link == *link)).count() > 0
        };
        let unknown = self.waited.iter().any(|link| link.starts_with("pipe:") && !known(link, &self.ends));
        let mut left = MOST_LISTS;
        for pid in processes {
            let due = self.ends.get(pid).is_none_or(|ends| {
                self.tick.saturating_sub(ends.listed) >= LIST_EVERY || unknown && ends.listed + 1 < self.tick
            });
            if due && left > 0 {
                left -= 1;
                let ends = open_ends(&self.proc_root, *pid, &mut self.links);
                self.ends.insert(*pid, Ends { ends, listed: self.tick });
            }
        }
    }

    fn holders(&self, link: &str, wanted: impl Fn(&End) -> bool) -> Vec<u32> {
        let holds = |ends: &Ends| ends.ends.iter().any(|end| *end.link == *link && wanted(end));
        let inside = self.ends.iter().filter(|(_, ends)| holds(ends)).map(|(pid, _)| *pid);
        let mut pids: Vec<u32> =
            inside.chain(self.host.holders(link).filter(|(_, end)| wanted(end)).map(|(pid, _)| pid)).collect();
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    fn channel(&self, link: &Arc<str>) -> Channel {
        let mut channel = Channel { link: Arc::clone(link), ..Channel::default() };
        match self.sockets.get(link) {
            None if link.starts_with("pipe:") => {
                channel.readers = self.holders(link, |end| end.reads);
                channel.writers = self.holders(link, |end| end.writes);
            }
            far => {
                channel.readers = self.holders(link, |_| true);
                if let Some(peer) = far.and_then(Far::peer) {
                    channel.writers = self.holders(peer, |_| true);
                }
                channel.remote = far.and_then(Far::remote);
            }
        }
        channel
    }

    /// The link whose holder is to be looked for on the whole host: only one side of the channel is known.
    fn lonely(&self, channel: &Channel) -> Option<Arc<str>> {
        match self.sockets.get(&channel.link) {
            None if channel.link.starts_with("pipe:") => {
                let pids = channel.readers.iter().chain(&channel.writers).collect::<BTreeSet<_>>();
                (pids.len() < 2 || channel.readers.is_empty() || channel.writers.is_empty())
                    .then(|| Arc::clone(&channel.link))
            }
            Some(far) if channel.writers.is_empty() => far.peer().cloned(),
            _ => None,
        }
    }
}

fn is_channel(link: &str) -> bool {
    link.starts_with("pipe:[") || link.starts_with("socket:[")
}

/// The target of a symbolic link of `/proc`, `None` where there is none or it is longer than any name of a channel.
fn read_link(path: &Path, links: &mut BTreeSet<Arc<str>>) -> Option<Arc<str>> {
    let mut room = [std::mem::MaybeUninit::uninit(); 512];
    let (target, _) = readlinkat_raw(CWD, path, &mut room).ok()?;
    let target = std::str::from_utf8(target).ok()?;
    Some(intern(target, links))
}

fn intern(link: &str, links: &mut BTreeSet<Arc<str>>) -> Arc<str> {
    if let Some(known) = links.get(link) {
        return Arc::clone(known);
    }
    let link: Arc<str> = link.into();
    links.insert(Arc::clone(&link));
    link
}

/// The name of a file that a process has open.
fn open_file(proc_root: &Path, pid: u32, inode: u64) -> Option<Arc<str>> {
    let path = proc_root.join(format!("{pid}/fd"));
    let entries = std::fs::read_dir(&path).ok()?.filter_map(Result::ok).take(MOST_DESCRIPTORS);
    let found = entries.map(|entry| entry.path()).find(|link| {
        let is_file = |target: &Path| target.is_absolute();
        std::fs::read_link(link).is_ok_and(|target| is_file(&target))
            && rustix::fs::stat(link).is_ok_and(|stat| stat.st_ino == inode)
    })?;
    read_link(&found, &mut BTreeSet::new())
}

/// The pipes and sockets that a process holds open. The permissions of the links say which way they are open (proc(5)).
fn open_ends(proc_root: &Path, pid: u32, links: &mut BTreeSet<Arc<str>>) -> Vec<End> {
    let path = proc_root.join(format!("{pid}/fd"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(folder) = openat(CWD, &path, flags, Mode::empty()) else { return Vec::new() };
    let Ok(entries) = Dir::read_from(&folder) else { return Vec::new() };
    let mut ends: HashMap<Arc<str>, (bool, bool)> = HashMap::new();
    for entry in entries.filter_map(Result::ok).take(MOST_DESCRIPTORS) {
        let mut room = [std::mem::MaybeUninit::uninit(); 128];
        let Ok((target, _)) = readlinkat_raw(&folder, entry.file_name(), &mut room) else { continue };
        let Some(target) = std::str::from_utf8(target).ok().filter(|link| is_channel(link)) else { continue };
        let link = intern(target, links);
        let (reads, writes) = if target.starts_with("pipe:") {
            let mode = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            mode.map_or((true, true), |stat| (stat.st_mode & 0o400 != 0, stat.st_mode & 0o200 != 0))
        } else {
            (true, true)
        };
        let end = ends.entry(link).or_default();
        *end = (end.0 | reads, end.1 | writes);
    }
    ends.into_iter().map(|(link, (reads, writes))| End { link, reads, writes }).collect()
}

/// Who waits for a lock that whom holds (`/proc/locks`; fs/locks.c, `lock_get_status`): the lines of the waiters come after
/// the holder's, under the same number and with an arrow.
fn waits_for_locks(locks: &[u8]) -> impl Iterator<Item = (LockWait, Option<u64>)> + '_ {
    let mut holder = None;
    lines(locks).filter_map(move |line| {
        let fields: Vec<&[u8]> = Fields::of(line).collect();
        let waits = fields.get(1) == Some(&b"->".as_slice());
        // NUMBER: [->] POSIX ADVISORY WRITE PID DEVICE:INODE START END
        let pid =
            fields.get(if waits { 5 } else { 4 }).copied().and_then(number).and_then(|pid| u32::try_from(pid).ok());
        if !waits {
            holder = pid;
            return None;
        }
        // DEVICE:INODE is MAJOR:MINOR:INODE.
        let inode = fields.get(6).and_then(|field| number(field.rsplit(|byte| *byte == b':').next()?));
        Some((LockWait { waiter: pid?, holder: holder.unwrap_or(0), path: None }, inode))
    })
}

/// A name of the kernel's as text, for the submodules.
fn named(kind: &str, inode: u64) -> Arc<str> {
    text(format!("{kind}:[{inode}]").as_bytes())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests;
