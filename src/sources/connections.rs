//! What joins processes: who holds which end of the pipes and sockets that threads are seen waiting on, where a socket
//! leads, and who holds a file lock.
//!
//! A descriptor may live for milliseconds only, so what it points to, and where a socket leads, is looked up when a thread is
//! seen waiting on it. Who else holds it is read rarely: when a new one is waited on, and every so many ticks. Nothing here
//! opens what a descriptor points to. Everything that is read is bounded, for each round or each tick: what is left over is
//! not known, or known later.

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
use crate::sample::{Channel, ConnectionsSample, Descriptor, LockWait};
use descriptors::Descriptors;
use ends::{Fifos, open_ends};
use locks::{held_for_writing, locked_by_another, open_file, waits_for_locks};
use outside::HostScan;
use sockets::Sockets;

/// The open ends of a process are listed anew after this many ticks; earlier where something is waited on whose other end
/// is not known.
const LIST_EVERY: u64 = 10;
/// … and after so many where little is asked for.
const LIST_SELDOM: u64 = 30;
/// Most processes whose ends are listed in one tick; the rest follow in the next.
const MOST_LISTS: usize = 48;
/// No more processes are listed in a tick once so many descriptors were looked at: some 2 µs each.
const MOST_LISTED: usize = 8192;
/// Most descriptors of one process that are listed.
const MOST_DESCRIPTORS: usize = 4096;
/// Most ends of all processes that are remembered.
const MOST_ENDS: usize = 1 << 16;
/// Most channels waited on that are remembered in one tick; more are of descriptors that live for a moment.
const MOST_WAITED: usize = 512;
/// Most descriptors of one poll, select or epoll set that are looked up.
pub(super) const MOST_POLLED: usize = 64;
/// Most pipes that are told because of sockets made for a moment.
const MOST_SHARED: usize = 32;
/// What is waited on in so many samples of a tick is no connection for a moment, whose holder a scan of the host comes too
/// late to find.
const LASTING: u32 = 3;
/// `/proc/locks` is read up to here, bytes …
const LOCKS_LIMIT: usize = 256 << 10;
/// … and so often in a tick.
const MOST_LOCK_READS: usize = 8;
/// So many descriptors of the waiter are looked at for the file that is locked.
const MOST_FILES: usize = 512;
/// Most waits for locks, and their holders, that are remembered.
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
    /// They may not be read.
    denied: bool,
}

/// Who holds an end, and which.
type Holders = HashMap<Arc<str>, Vec<(u32, bool, bool)>>;

/// Knows the connections of the processes that are sampled.
#[derive(Debug, Default)]
pub struct Connections {
    proc_root: PathBuf,
    descriptors: Descriptors,
    ends: BTreeMap<u32, Ends>,
    /// Channels that join processes or lead elsewhere, as of the last listing.
    joined: Vec<Arc<str>>,
    sockets: Sockets,
    fifos: Fifos,
    host: HostScan,
    /// What was waited on since the last tick, and in how many samples.
    waited: BTreeMap<Arc<str>, u32>,
    /// Processes that wait to read a pipe that is not known: their calls may not be seen.
    pipe_readers: BTreeSet<u32>,
    locks: Vec<LockWait>,
    lock_reads: usize,
    /// Processes that were seen asleep since the last tick.
    asleep: BTreeSet<u32>,
    /// What others had locked when the open files of a sleeping process were looked at without finding one of it, and when.
    unconcerned: BTreeMap<u32, (u64, Vec<(u32, u64)>)>,
    /// Who held a lock that was waited for, and when it was seen last.
    holders: BTreeMap<u32, u64>,
    tick: u64,
    sparing: bool,
}

impl Connections {
    /// Nothing is known yet.
    pub fn new(proc_root: &Path) -> Self {
        Self { proc_root: proc_root.to_path_buf(), sockets: Sockets::new(proc_root), ..Self::default() }
    }

    /// Whether little is asked for: descriptors are then listed more seldom.
    pub fn set_sparing(&mut self, sparing: bool) {
        self.sparing = sparing;
    }

    /// A round of the sampler begins, at this time in microseconds.
    pub fn begin_round(&mut self, now_us: u64) {
        self.descriptors.begin_round(now_us);
    }

    /// What a descriptor points to at this moment; the thread that is blocked on it waits to write, or to read.
    pub fn descriptor(&mut self, pid: u32, fd: u32, writes: bool) -> Option<Descriptor> {
        let link = self.descriptors.target(&self.proc_root, pid, fd)?;
        if link.starts_with("socket:") {
            self.sockets.find(pid, &link, Some(fd));
        }
        self.note_wait(&link);
        Some(Descriptor { link, writes })
    }

    /// The kernel's function says that a descriptor which was looked up is a pipe: where it shows a path, a named one.
    pub fn name_pipe(&mut self, pid: u32, fd: u32, descriptor: &mut Descriptor) {
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

    /// What an epoll instance waits for, at most [`MOST_POLLED`] descriptors.
    pub fn polled(&mut self, pid: u32, fd: u32) -> Vec<Descriptor> {
        if self.descriptors.is_spent() {
            return Vec::new();
        }
        let path = self.proc_root.join(format!("{pid}/fdinfo/{fd}"));
        let listed = read_once(&path, 64 << 10).unwrap_or_default();
        let targets = epoll_targets(&listed).take(MOST_POLLED);
        targets.filter_map(|(fd, writes)| self.descriptor(pid, fd, writes)).collect()
    }

    /// Notes that a process waits to read a pipe, where its call may not be seen.
    pub fn reads_a_pipe(&mut self, pid: u32) {
        self.pipe_readers.insert(pid);
    }

    /// Notes who holds the locks that a process waits for.
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

    /// Notes that a process sleeps, and who holds a lock on a file that it has open: SQLite, portalocker and others do not wait
    /// for a lock, but sleep and try again.
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

    /// The kernel's table of locks, as often as a tick may ask for it.
    fn read_locks(&mut self) -> Option<Vec<u8>> {
        if self.lock_reads >= MOST_LOCK_READS {
            return None;
        }
        self.lock_reads += 1;
        Some(read_once(self.proc_root.join("locks"), LOCKS_LIMIT).unwrap_or_default())
    }

    /// Whoever holds a lock is followed too.
    fn note_holder(&mut self, holder: u32) {
        if holder != 0 && (self.holders.len() < MOST_LOCKS || self.holders.contains_key(&holder)) {
            self.holders.insert(holder, self.tick);
        }
    }

    /// The channels that were waited on since the last call, and the locks; `processes` are those that are sampled, and
    /// `all` asks for every channel that joins two of them: where descriptors of a wait may not be seen.
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
        // Of a socket that was made for a moment the peer is not known, or nobody is found to hold that.
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
        // Whose holder was found is still wanted: without that it is forgotten, and found anew.
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

    /// Processes that were not asked for and hold the other end of something that was waited on, or a lock.
    pub fn outside(&self) -> Vec<u32> {
        let mut pids = self.host.found();
        pids.extend(self.holders.keys());
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// Lists the open ends of processes: new ones, those listed long ago, and all where a wait leads to nobody. True if any
    /// was listed.
    fn list(&mut self, processes: &[u32]) -> bool {
        let mut alone: HashSet<&str> =
            self.waited.keys().filter(|link| link.starts_with("pipe:")).map(|link| &**link).collect();
        if !alone.is_empty() {
            let held: HashSet<&str> = self.ends.values().flat_map(|ends| &ends.ends).map(|end| &*end.link).collect();
            alone.retain(|link| !held.contains(link));
        }
        let unknown = !alone.is_empty();
        // A pipe that was made since the last listing, where nobody writes into those that are known.
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
        // Those that were listed longest ago first, so that each has its turn.
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

    /// Finds the channels that join processes, or lead elsewhere.
    fn join(&mut self) {
        // The first holder, whether there are others, and whether it can read and write.
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
        // A pipe of which only one end is known has the other outside of the job: the reader of its output, perhaps.
        let leads = |link: &str, is_whole: bool| match link.starts_with("pipe:") {
            true => !is_whole,
            false => self.sockets.get(link).is_some(),
        };
        let wanted = joined
            .into_iter()
            .filter(|(link, (_, several, reads, writes))| *several || leads(link, *reads && *writes));
        self.joined = wanted.map(|(link, _)| link).take(MOST_WAITED).collect();
    }

    /// Pipes that several of the processes hold, at most [`MOST_SHARED`]: a socket that was made for a moment, to pass a
    /// descriptor on, leads to one of those that share a pipe with its holder.
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

/// The descriptors of an epoll set with whether they are waited for to be written (proc(5), `fdinfo`):
/// `tfd: FD events: HEX data: …`.
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

/// A name of the kernel's as text, for the submodules.
fn named(kind: &str, inode: u64) -> Arc<str> {
    text(format!("{kind}:[{inode}]").as_bytes())
}

#[cfg(test)]
mod tests;
