//! What connects processes: which process holds which end of the pipes and sockets that threads wait on, where a socket
//! leads, and which process holds a file lock.
//!
//! A descriptor may live only for milliseconds, so its target, and where a socket leads, is looked up while a thread
//! waits on it. Its other holders are looked up rarely: when a new descriptor is waited on, and every few ticks.
//! Nothing here opens what a descriptor points to. Everything read is bounded per round or per tick; what exceeds the
//! bound stays unknown or is learned later.

mod channels;
mod descriptors;
mod ends;
mod locks;
mod outside;
mod sock_diag;
mod sockets;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fields::{Fields, hexadecimal, lines, text};
use super::files::read_once;
use descriptors::Descriptors;
use ends::{Fifos, open_ends};
use locks::{held_for_writing, locked_by_another, open_file, waits_for_locks};
use outside::HostScan;
use sockets::Sockets;
use trainmon_sample::{Channel, ConnectionsSample, Descriptor, LockWait};

/// A process's open ends are listed again after this many ticks, or earlier if a thread waits on something whose other
/// end is unknown.
const LIST_EVERY: u64 = 10;
/// … and after this many in sparing mode.
const LIST_SELDOM: u64 = 30;
/// Most processes whose ends are listed in one tick; the rest follow in the next.
const MOST_LISTS: usize = 48;
/// Listing stops for a tick after this many descriptors; each takes about 2 µs.
const MOST_LISTED: usize = 8192;
/// Most descriptors listed for one process.
const MOST_DESCRIPTORS: usize = 4096;
/// Most ends remembered over all processes.
const MOST_ENDS: usize = 1 << 16;
/// Most waited-on channels remembered in one tick; beyond that, most belong to short-lived descriptors.
const MOST_WAITED: usize = 512;
/// Most descriptors looked up in one poll, select or epoll set.
pub(super) const MOST_POLLED: usize = 64;
/// Most shared pipes reported on account of short-lived sockets.
const MOST_SHARED: usize = 32;
/// A connection waited on in this many samples of a tick is not short-lived. A scan of the host would find the holder
/// of a short-lived one too late.
const LASTING: u32 = 3;
/// Most bytes read from `/proc/locks` …
const LOCKS_LIMIT: usize = 256 << 10;
/// … and how many times per tick.
const MOST_LOCK_READS: usize = 8;
/// How many of the waiter's descriptors are searched for the locked file.
const MOST_FILES: usize = 512;
/// Most lock waits, and their holders, remembered.
const MOST_LOCKS: usize = 64;

/// One open end of a pipe or a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SocketEnd {
    link: Arc<str>,
    reads: bool,
    writes: bool,
}

#[derive(Debug, Default)]
struct Ends {
    ends: Vec<SocketEnd>,
    listed: u64,
    /// Its descriptors cannot be read.
    denied: bool,
}

/// The holders of each end, and which end it is.
type Holders = HashMap<Arc<str>, Vec<(u32, bool, bool)>>;

/// The connections of the sampled processes.
#[derive(Debug, Default)]
pub struct Connections {
    proc_root: PathBuf,
    descriptors: Descriptors,
    ends: BTreeMap<u32, Ends>,
    /// Channels that connect processes or lead elsewhere, as of the last listing.
    joined: Vec<Arc<str>>,
    sockets: Sockets,
    fifos: Fifos,
    host: HostScan,
    /// What was waited on since the last tick, and in how many samples.
    waited: BTreeMap<Arc<str>, u32>,
    /// Processes that wait to read from an unknown pipe: their syscalls cannot be read.
    pipe_readers: BTreeSet<u32>,
    locks: Vec<LockWait>,
    lock_reads: usize,
    /// Processes found asleep since the last tick.
    asleep: BTreeSet<u32>,
    /// Locks held by others when a sleeping process turned out to have none of the locked files open, and when that
    /// was.
    unconcerned: BTreeMap<u32, (u64, Vec<(u32, u64)>)>,
    /// The holders of locks that were waited for, and when each was last seen.
    holders: BTreeMap<u32, u64>,
    tick: u64,
    sparing: bool,
}

impl Connections {
    /// Starts with nothing known.
    pub fn new(proc_root: &Path) -> Self {
        Self { proc_root: proc_root.to_path_buf(), sockets: Sockets::new(proc_root), ..Self::default() }
    }

    /// Turns sparing mode on or off: in it, descriptors are listed less often.
    pub fn set_sparing(&mut self, sparing: bool) {
        self.sparing = sparing;
    }

    /// Starts a round of the sampler at this time, microseconds.
    pub(crate) fn begin_round(&mut self, now_us: u64) {
        self.descriptors.begin_round(now_us);
    }

    /// What a descriptor points to right now. `writes` says whether the blocked thread waits to write or to read.
    pub fn descriptor(&mut self, pid: u32, fd: u32, writes: bool) -> Option<Descriptor> {
        let link = self.descriptors.target(&self.proc_root, pid, fd)?;
        if link.starts_with("socket:") {
            self.sockets.find(pid, &link, Some(fd));
        }
        self.note_wait(&link);
        Some(Descriptor { link, writes })
    }

    /// Marks a looked-up descriptor as a pipe, because the kernel's wait function says so. If it shows a path, it is a
    /// named pipe.
    pub(crate) fn name_pipe(&mut self, pid: u32, fd: u32, descriptor: &mut Descriptor) {
        if descriptor.link.starts_with('/')
            && let Some(link) = self.fifos.name(&self.proc_root, pid, fd, &descriptor.link)
        {
            self.note_wait(&link);
            descriptor.link = link;
        }
    }

    fn note_wait(&mut self, link: &Arc<str>) {
        if let Some(times) = self.waited.get_mut(link) {
            *times = times.saturating_add(1);
        } else if is_channel(link) && self.waited.len() < MOST_WAITED {
            self.waited.insert(Arc::clone(link), 1);
        }
    }

    /// The descriptors that an epoll instance waits for, at most [`MOST_POLLED`].
    pub fn polled(&mut self, pid: u32, fd: u32) -> Vec<Descriptor> {
        if self.descriptors.is_spent() {
            return Vec::new();
        }
        let path = self.proc_root.join(format!("{pid}/fdinfo/{fd}"));
        let listed = read_once(&path, 64 << 10).unwrap_or_default();
        let targets = epoll_targets(&listed).take(MOST_POLLED);
        targets.filter_map(|(fd, writes)| self.descriptor(pid, fd, writes)).collect()
    }

    /// Notes that a process waits to read from a pipe where its syscall cannot be read.
    pub(crate) fn reads_a_pipe(&mut self, pid: u32) {
        self.pipe_readers.insert(pid);
    }

    /// Notes which processes hold the locks that a process waits for.
    pub fn lock(&mut self, pid: u32) {
        if self.locks.iter().any(|lock| lock.waiter == pid) || self.locks.len() >= MOST_LOCKS {
            return;
        }
        let Some(locks) = self.read_locks() else { return };
        for (mut lock, inode) in waits_for_locks(&locks).filter(|(lock, _)| lock.waiter == pid).take(4) {
            lock.path = inode.and_then(|inode| open_file(&self.proc_root, pid, inode));
            self.note_holder(lock.holder);
            self.locks.push(lock);
        }
    }

    /// Notes that a process sleeps, and which process holds a lock on a file that it has open. SQLite, portalocker and
    /// others do not wait for a lock: they sleep and try again.
    pub fn sleeps(&mut self, pid: u32) {
        if !self.asleep.insert(pid) {
            return;
        }
        let Some(locks) = self.read_locks() else { return };
        let held: Vec<(u32, u64)> =
            held_for_writing(&locks).filter(|(holder, _)| *holder != pid).take(MOST_LOCKS).collect();
        let known = self.unconcerned.get(&pid).filter(|(seen, of)| {
            self.tick.saturating_sub(*seen) < LIST_EVERY && held.iter().all(|lock| of.contains(lock))
        });
        if held.is_empty() || known.is_some() {
            return;
        }
        let Some((holder, path)) = locked_by_another(&self.proc_root, pid, &held) else {
            self.unconcerned.insert(pid, (self.tick, held));
            return;
        };
        if self.locks.len() < MOST_LOCKS {
            self.note_holder(holder);
            self.locks.push(LockWait { waiter: pid, holder, path: Some(path), sleeps: true });
        }
    }

    /// The kernel's table of locks; `None` once this tick's reads are used up.
    fn read_locks(&mut self) -> Option<Vec<u8>> {
        if self.lock_reads >= MOST_LOCK_READS {
            return None;
        }
        self.lock_reads += 1;
        Some(read_once(self.proc_root.join("locks"), LOCKS_LIMIT).unwrap_or_default())
    }

    /// Follows the holder of a lock too.
    fn note_holder(&mut self, holder: u32) {
        if holder != 0 && (self.holders.len() < MOST_LOCKS || self.holders.contains_key(&holder)) {
            self.holders.insert(holder, self.tick);
        }
    }

    /// The channels and locks that were waited on since the last call. `processes` are the sampled ones. `all` asks for
    /// every channel that connects two of them, for when the descriptors of a wait cannot be read.
    pub fn take(&mut self, processes: &[u32], all: bool) -> ConnectionsSample {
        self.tick += 1;
        let inside: HashSet<u32> = processes.iter().copied().collect();
        self.ends.retain(|pid, _| inside.contains(pid));
        let listed = self.list(processes);
        if all {
            if listed || !self.sockets.is_settled() {
                self.join();
            }
            let room = MOST_WAITED.saturating_sub(self.waited.len());
            self.waited.extend(self.joined.iter().take(room).map(|link| (Arc::clone(link), LASTING)));
        }
        let mut waited = std::mem::take(&mut self.waited);
        let far = |link: &Arc<str>| self.sockets.links(link);
        let mut held = self.held(waited.keys().chain(waited.keys().flat_map(far)).map(|link| &**link).collect());
        // The peer of a short-lived socket is unknown, or no process is found to hold it.
        let is_held = |link: &Arc<str>| held.contains_key(link);
        let elsewhere = |link: &str| self.sockets.get(link).is_some_and(|far| far.remote.is_some());
        let momentary = |link: &Arc<str>| {
            link.starts_with("socket:") && !elsewhere(link) && !self.sockets.links(link).any(is_held)
        };
        if !all && waited.keys().any(momentary) {
            let pipes = self.shared_pipes();
            held.extend(self.held(pipes.iter().map(|link| &**link).collect()));
            for link in pipes {
                waited.entry(link).or_insert(LASTING);
            }
        }
        let listeners = waited.keys().filter_map(|link| self.sockets.get(link)?.listener.as_ref());
        let accept: Vec<u32> = listeners.filter_map(|link| held.get(link)).flatten().map(|(pid, ..)| *pid).collect();
        accept.into_iter().for_each(|pid| self.sockets.accepts(pid));
        let mut channels: Vec<Channel> = waited.keys().map(|link| self.channel(link, &held)).collect();
        let lasts = |channel: &&Channel| waited.get(&channel.link).is_some_and(|times| *times >= LASTING);
        let mut lonely: Vec<Arc<str>> =
            channels.iter().filter(lasts).filter_map(|channel| self.lonely(channel)).collect();
        lonely.extend(self.lonely_listeners(&channels, &waited));
        let denied = self.ends.values().any(|ends| ends.denied);
        let hidden =
            lonely.iter().filter(|link| self.host.looked_for(link) && (denied || self.host.denied())).count();
        // A link whose holder was found is still wanted: otherwise it would be forgotten and found again.
        let found = |link: &&Arc<str>| self.host.holders(link).next().is_some();
        let far = |link: &Arc<str>| self.sockets.links(link);
        lonely.extend(waited.keys().chain(waited.keys().flat_map(far)).filter(found).cloned());
        self.host.look_for(lonely, self.tick);
        for channel in channels.iter_mut().filter(|channel| channel.remote.is_some() && channel.writers.is_empty()) {
            let mut links = self.sockets.links(&channel.link);
            channel.unsought = links.any(|link| self.host.is_due(link));
        }
        self.host.go_on(&self.proc_root, &inside, &self.fifos);
        let tick = self.tick;
        self.holders.retain(|_, seen| tick.saturating_sub(*seen) < LIST_EVERY);
        self.sockets.forget_old();
        self.descriptors.forget_old();
        self.lock_reads = 0;
        self.asleep.clear();
        self.unconcerned.retain(|pid, _| inside.contains(pid));
        let hidden = u32::try_from(hidden).unwrap_or(u32::MAX);
        ConnectionsSample { channels, locks: std::mem::take(&mut self.locks), hidden, outside: Vec::new() }
    }

    /// Processes outside the request that hold a waited-on lock, or the other end of something waited on.
    pub fn outside(&self) -> Vec<u32> {
        let mut pids = self.host.found();
        pids.extend(self.holders.keys());
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Lists the open ends of processes: new ones, those listed long ago, and all of them if a wait leads to no
    /// process. Returns whether any was listed.
    fn list(&mut self, processes: &[u32]) -> bool {
        let mut alone: HashSet<&str> =
            self.waited.keys().filter(|link| link.starts_with("pipe:")).map(|link| &**link).collect();
        if !alone.is_empty() {
            let held: HashSet<&str> = self.ends.values().flat_map(|ends| &ends.ends).map(|end| &*end.link).collect();
            alone.retain(|link| !held.contains(link));
        }
        let unknown = !alone.is_empty();
        // If no known pipe has a writer, the reader waits on a pipe made since the last listing.
        let mut readers = std::mem::take(&mut self.pipe_readers);
        readers.retain(|pid| !self.reads_from_another(*pid));
        let every = if self.sparing { LIST_SELDOM } else { LIST_EVERY };
        let mut due: Vec<(u64, u32)> = processes
            .iter()
            .map(|pid| (self.ends.get(pid).map_or(0, |ends| ends.listed), *pid))
            .filter(|(listed, pid)| {
                let unknown = unknown || readers.contains(pid);
                *listed == 0 || self.tick.saturating_sub(*listed) >= every || unknown && listed + 1 < self.tick
            })
            .collect();
        // The longest unlisted first, so that every process gets its turn.
        due.sort_unstable();
        let mut kept: usize = self.ends.values().map(|ends| ends.ends.len()).sum();
        let mut looked = 0;
        for (_, pid) in due.iter().copied().take(MOST_LISTS) {
            if looked >= MOST_LISTED {
                break;
            }
            kept -= self.ends.get(&pid).map_or(0, |before| before.ends.len());
            let (mut ends, count, denied) = open_ends(&self.proc_root, pid, &self.fifos);
            ends.truncate(MOST_ENDS.saturating_sub(kept));
            kept += ends.len();
            looked += count;
            self.ends.insert(pid, Ends { ends, listed: self.tick, denied });
        }
        !due.is_empty()
    }

    /// Finds the channels that connect processes or lead elsewhere.
    fn join(&mut self) {
        // The first holder, whether there are others, and whether the channel can be read and written.
        let mut joined: BTreeMap<Arc<str>, (u32, bool, bool, bool)> = BTreeMap::new();
        for (pid, ends) in &self.ends {
            for end in &ends.ends {
                let (first, several, reads, writes) =
                    joined.entry(Arc::clone(&end.link)).or_insert((*pid, false, false, false));
                *several |= first != pid;
                *reads |= end.reads;
                *writes |= end.writes;
            }
        }
        for (link, (pid, ..)) in joined.iter().filter(|(link, _)| link.starts_with("socket:")) {
            self.sockets.find(*pid, link, None);
        }
        // If only one end of a pipe is known, the other is outside the job: a reader of its output, perhaps.
        let leads = |link: &str, is_whole: bool| {
            if link.starts_with("pipe:") { !is_whole } else { self.sockets.get(link).is_some() }
        };
        let wanted = joined
            .into_iter()
            .filter(|(link, (_, several, reads, writes))| *several || leads(link, *reads && *writes));
        self.joined = wanted.map(|(link, _)| link).take(MOST_WAITED).collect();
    }

    /// Pipes held by several of the processes, at most [`MOST_SHARED`]. A socket made only to pass on a descriptor
    /// leads to one of the processes that share a pipe with its holder.
    fn shared_pipes(&self) -> Vec<Arc<str>> {
        let mut holders: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for end in self.ends.values().flat_map(|ends| &ends.ends).filter(|end| end.link.starts_with("pipe:")) {
            *holders.entry(&end.link).or_default() += 1;
        }
        let shared = holders.into_iter().filter(|(_, count)| *count > 1);
        shared.map(|(link, _)| Arc::clone(link)).take(MOST_SHARED).collect()
    }
}

fn is_channel(link: &str) -> bool {
    link.starts_with("pipe:[") || link.starts_with("socket:[")
}

/// The descriptors of an epoll set, and whether each is waited on for writing (proc(5), `fdinfo`): `tfd: FD events: HEX
/// data: …`.
fn epoll_targets(listed: &[u8]) -> impl Iterator<Item = (u32, bool)> + '_ {
    const EPOLLIN: u64 = 1;
    const EPOLLOUT: u64 = 4;
    lines(listed).filter_map(|line| {
        let mut fields = Fields::new(line.strip_prefix(b"tfd:")?);
        let fd = fields.number()?;
        let events = fields.nth(1).and_then(hexadecimal);
        Some((fd, events.is_some_and(|events| events & EPOLLOUT != 0 && events & EPOLLIN == 0)))
    })
}

/// A kernel name as text, for the submodules.
fn named(kind: &str, inode: u64) -> Arc<str> {
    text(format!("{kind}:[{inode}]").as_bytes())
}

#[cfg(test)]
mod tests;
