//! Waits on descriptors and file locks: which processes hold the other end.

use std::sync::Arc;

use super::super::round_paths::RoundPath;
use super::{CANDIDATES, Graph, GraphThread, Trail};
use crate::taxonomy::{Edge, End};
use crate::wait::Wait;
use trainmon_sample::job::is_accelerator;
use trainmon_sample::syscall::{FdUse, fd_use, waits_for_lock};
use trainmon_sample::{Channel, Descriptor, Observation, ProcessRole};

/// The name of every eventfd(2). Threads of one process wake each other with it; ZeroMQ has one for its sockets.
const EVENT: &str = "anon_inode:[eventfd]";

/// Timeouts of a process that answers requests are shorter than this, milliseconds; timeouts for idle connections are
/// longer.
const SOON_MS: i32 = 1000;

impl<'a> Graph<'a> {
    /// How a thread's call uses the descriptors that it names.
    pub(super) fn descriptor_use(&self, seen: &Observation) -> Option<FdUse> {
        seen.call.and_then(|number| fd_use(self.sampler.machine, number))
    }

    pub(super) fn descriptor_paths<'g>(
        &'g self,
        thread: &'g GraphThread<'a>,
        seen: &Observation,
        trail: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let guessed: Vec<Descriptor>;
        let descriptors = if seen.descriptors.is_empty() && !self.exact {
            guessed = self.guessed_descriptors(thread, seen);
            &guessed
        } else {
            &seen.descriptors
        };
        let used = self.descriptor_use(seen);
        match used {
            Some(FdUse::Locks) => return self.lock_paths(thread.pid, descriptors.first(), trail),
            None if seen.call.is_none() && seen.wchan.as_deref().is_some_and(waits_for_lock) => {
                return self.lock_paths(thread.pid, None, trail);
            }
            Some(FdUse::Accepts) => return RoundPath::only(End::Asked),
            _ => {}
        }
        let mut alternatives = Vec::new();
        for descriptor in descriptors.iter().take(CANDIDATES) {
            alternatives.extend(self.paths_over(thread, descriptor, used == Some(FdUse::Reads), trail));
        }
        if alternatives.is_empty() && descriptors.iter().any(|one| one.link.starts_with(EVENT)) {
            alternatives = self.sibling_paths(thread, trail);
        }
        let is_local = || seen.wchan.as_deref().is_some_and(|symbol| symbol.contains("unix_stream_read"));
        if !self.exact && alternatives.is_empty() && is_local() {
            // Not a known socket: a short-lived one, like the one torch's loop makes to take over a worker's memory.
            let partners = self.likeliest(thread.pid, self.pipe_partners(thread.pid)).into_iter();
            alternatives.extend(partners.take(CANDIDATES).map(|pid| self.process_paths(pid, Edge::Reads, trail)));
        }
        let paths = self.best(alternatives);
        // The wait itself shows that it is torch's loader, even if no worker is followed yet.
        let is_unknown = paths.iter().all(|path| path.is_own(End::Unknown));
        if is_unknown && thread.wait == Wait::LoaderPoll { RoundPath::only(End::Loader) } else { paths }
    }

    /// Paths over the other active threads of the same process.
    fn sibling_paths<'g>(&'g self, thread: &'g GraphThread<'a>, trail: &mut Trail<'g, 'a>) -> Vec<Vec<RoundPath>> {
        let active_siblings = self.active_siblings(thread, trail).into_iter().take(CANDIDATES);
        active_siblings.map(|other| self.paths_through(other, Edge::Thread, trail)).collect()
    }

    pub(super) fn lock_paths<'g>(
        &'g self,
        pid: u32,
        file: Option<&Descriptor>,
        trail: &mut Trail<'g, 'a>,
    ) -> Vec<RoundPath> {
        let lock = self.locks.get(&pid);
        let known = file.map(|file| &file.link).or_else(|| lock.and_then(|lock| lock.path.as_ref()));
        let name = known.map_or_else(|| Arc::from(""), Arc::clone);
        let holder = lock.map(|lock| lock.holder).filter(|holder| *holder != 0 && *holder != pid);
        let by = if lock.is_some_and(|lock| lock.sleeps) { Edge::TriesLock } else { Edge::FileLock };
        match holder {
            Some(holder) => {
                let paths = self.process_paths(holder, by, trail);
                paths.into_iter().map(|path| RoundPath { lock: Some(Arc::clone(&name)), ..path }).collect()
            }
            None => vec![RoundPath { name: Some(name), ..RoundPath::end(End::Lock) }],
        }
    }

    /// Paths over one descriptor; empty if it leads nowhere.
    fn paths_over<'g>(
        &'g self,
        thread: &'g GraphThread<'a>,
        descriptor: &Descriptor,
        reads: bool,
        trail: &mut Trail<'g, 'a>,
    ) -> Vec<Vec<RoundPath>> {
        let pid = thread.pid;
        if self.steps.get() == 0 {
            return Vec::new();
        }
        let link = &*descriptor.link;
        if link.starts_with("/dev/nvidia") || is_accelerator(link) {
            return vec![RoundPath::only(End::Gpu)];
        }
        if link.starts_with("/dev/pts/") || link.starts_with("/dev/tty") {
            return vec![RoundPath::only(End::Terminal)];
        }
        let is_pipe = link.starts_with("pipe:");
        if !is_pipe && !link.starts_with("socket:") {
            return Vec::new();
        }
        let channel = self.channels.get(link).copied();
        let mut pids: Vec<u32> = match channel {
            Some(channel) if is_pipe && descriptor.writes => channel.readers.clone(),
            Some(channel) => channel.writers.clone(),
            None => Vec::new(),
        };
        let within = pids.contains(&pid);
        pids.retain(|other| *other != pid);
        let remote = channel.and_then(|channel| channel.remote.as_ref());
        if pids.is_empty() && remote.is_none() && !is_pipe && reads {
            // A short-lived socket for passing a descriptor: it belongs to the processes that share a pipe with this
            // one.
            pids = self.pipe_partners(pid);
        }
        if pids.is_empty() && within {
            return self.sibling_paths(thread, trail);
        }
        if !is_pipe {
            pids = self.without_heirs(pid, pids);
        }
        let followed = pids.iter().any(|pid| self.by_process.contains_key(pid));
        let is_unsought = channel.is_some_and(|channel| channel.unsought) || !pids.is_empty() && !followed;
        let by = match remote {
            _ if descriptor.writes => Edge::Writes,
            Some(_) => Edge::Network,
            None => Edge::Reads,
        };
        let mut holders = self.likeliest(pid, pids);
        holders.truncate(CANDIDATES);
        let found = holders.iter().map(|other| self.process_paths(*other, by, trail)).collect();
        match channel.zip(remote) {
            Some((channel, remote)) => self.or_elsewhere(channel, remote, is_unsought, &holders, found),
            None => found,
        }
    }

    /// The paths `found` to the holders of the other end of a local connection, or the connection's address if they do
    /// not explain the wait.
    fn or_elsewhere(
        &self,
        channel: &Channel,
        remote: &Arc<str>,
        is_unsought: bool,
        holders: &[u32],
        mut found: Vec<Vec<RoundPath>>,
    ) -> Vec<Vec<RoundPath>> {
        // A holder that in turn waits for the thread that asks, itself or through others of its kind, has nothing to
        // do. The exception is one that soon polls again, like a server that needs time to answer: it sleeps.
        let asked = |paths: &Vec<RoundPath>| paths.iter().all(|path| path.end == End::Asked);
        let sleeps = || holders.iter().any(|other| self.looks_again(*other));
        // Ranks wait for each other too; if one of them sleeps, that is not a remote wait.
        let is_rank = |other: &u32| {
            let known = self.processes.get(other).filter(|known| known.role == ProcessRole::Rank);
            known.is_some() && self.inside_pids.contains(other)
        };
        if !found.is_empty() && (holders.iter().all(is_rank) || found.iter().all(asked) && !sleeps()) {
            return found;
        }
        // A local server that computes or reads is the end. One that sleeps, or is not sampled, counts as an address.
        found.retain(|paths| paths.iter().any(|path| path.end.rank() < End::Timer.rank()));
        if found.is_empty() {
            found.push(vec![match is_unsought {
                // The local holder is unknown, or not followed yet; that does not make it remote.
                true => RoundPath { name: Some(Arc::clone(remote)), ..RoundPath::end(End::Unknown) },
                // The side that opened the connection asks; this side answers.
                false if channel.accepted => RoundPath::end(End::Asked),
                false => RoundPath { name: Some(Arc::clone(remote)), ..RoundPath::end(End::Net) },
            }]);
        }
        found
    }

    /// Whether a thread of a process waits in this round for descriptors with a short timeout: its own timer, as set by
    /// asyncio's `sleep`.
    fn looks_again(&self, pid: u32) -> bool {
        let soon = |seen: &Observation| seen.timeout_ms.is_some_and(|ms| (1..=SOON_MS).contains(&ms));
        let polls = |thread: &GraphThread<'_>| thread.wait == Wait::Poll && thread.now.is_some_and(soon);
        self.threads_of(pid).any(polls)
    }

    /// The holders of a socket's other end, without those that inherited it: a rank's forked workers also hold its
    /// sockets to other ranks. The waiting process's own ancestors pass on to their children what these communicate
    /// over.
    fn without_heirs(&self, waits: u32, pids: Vec<u32>) -> Vec<u32> {
        let owns = |pid: &u32| self.moving.contains(pid) && !self.is_child_of(waits, *pid);
        let owners: Vec<u32> = pids.iter().copied().filter(owns).collect();
        let inherited = |pid: &u32| owners.iter().any(|owner| self.is_child_of(*pid, *owner));
        pids.into_iter().filter(|pid| !inherited(pid)).collect()
    }

    /// Among several holders of a pipe's other end: the process's own workers if it has any, and the active ones.
    fn likeliest(&self, pid: u32, pids: Vec<u32>) -> Vec<u32> {
        let of = |wanted: &dyn Fn(u32) -> bool| pids.iter().copied().filter(|pid| wanted(*pid)).collect::<Vec<_>>();
        let is_rank = self.processes.get(&pid).is_some_and(|process| process.role == ProcessRole::Rank);
        let workers = of(&|other| is_rank && self.is_torch_worker(other) && self.is_child_of(other, pid));
        let moving = of(&|pid| self.moving.contains(&pid));
        match () {
            () if !workers.is_empty() => workers,
            () if !moving.is_empty() => moving,
            () => pids,
        }
    }

    fn pipe_partners(&self, pid: u32) -> Vec<u32> {
        let mut partners: Vec<u32> = self
            .channels
            .values()
            .filter(|channel| channel.readers.contains(&pid) || channel.writers.contains(&pid))
            .flat_map(|channel| self.others(channel, pid))
            .filter(|other| self.moving.contains(other))
            .collect();
        partners.sort_unstable();
        partners.dedup();
        partners
    }

    /// What a thread may wait on if its call cannot be read: every open end of its process that fits the kernel
    /// function and whose other end an active process holds.
    fn guessed_descriptors(&self, thread: &GraphThread<'_>, seen: &Observation) -> Vec<Descriptor> {
        let symbol = seen.wchan.as_deref().unwrap_or_default();
        let writes = ["pipe_write", "stream_wait_memory", "sock_alloc_send", "wait_for_wmem"]
            .iter()
            .any(|part| symbol.contains(part));
        let fits = |channel: &&&Channel| {
            let pipe = channel.link.starts_with("pipe:");
            let holds = match (pipe, writes) {
                (true, true) => channel.writers.contains(&thread.pid),
                _ => channel.readers.contains(&thread.pid),
            };
            let kind = match thread.wait {
                Wait::Pipe => pipe,
                Wait::Socket => !pipe,
                _ => true,
            };
            let led =
                channel.remote.is_some() || self.others(channel, thread.pid).any(|pid| self.moving.contains(&pid));
            holds && kind && led
        };
        let found = self.channels.values().filter(fits);
        let mut found: Vec<Descriptor> =
            found.map(|channel| Descriptor { link: Arc::clone(&channel.link), writes }).collect();
        found.sort_unstable_by(|a, b| a.link.cmp(&b.link));
        found
    }
}
