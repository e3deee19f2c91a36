//! Waits for short-lived children and threads, which are gone before they can be followed: known by the CPU time they
//! leave behind.

use super::super::paths::{WaitHop, is_at_sleeping_thread};
use super::super::round_paths::RoundPath;
use super::{Graph, GraphThread};
use crate::short_lived::{FOR_CHILDREN, FOR_THREADS, explained};
use crate::taxonomy::{Edge, End};
use crate::wait::Wait;
use trainmon_rates::short_lived::ShortLived;
use trainmon_sample::{Observation, ProcessSample};

/// wait4 names the child first; waitid after the kind of the name, P_ALL (0) to P_PIDFD (linux/wait.h).
const KINDS: u32 = 3;

/// The parts of a thread's waits that short-lived children and threads explain, 0–1, among those that may be for them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Explained {
    /// Short-lived children of its process.
    children: f64,
    /// Short-lived threads of its process.
    threads: f64,
}

impl Explained {
    /// `waits` are those of all the thread's samples.
    pub fn new(pid: u32, lived: &ShortLived, waits: impl Iterator<Item = Wait>) -> Self {
        let (children, threads) = (lived.children.get(&pid), lived.threads.get(&pid));
        if children.is_none() && threads.is_none() {
            return Self::default();
        }
        let (mut all, mut for_children, mut for_threads) = (0_u32, 0_u32, 0_u32);
        for wait in waits {
            all += 1;
            for_children += u32::from(FOR_CHILDREN.contains(&wait));
            for_threads += u32::from(FOR_THREADS.contains(&wait));
        }
        let part = |cores: Option<&f64>, waits: u32| {
            cores.map_or(0.0, |cores| explained(*cores, f64::from(waits) / f64::from(all.max(1))))
        };
        Self { children: part(children, for_children), threads: part(threads, for_threads) }
    }
}

impl Graph<'_> {
    /// The children whose end a process waits for: the one it names, or all; empty if the named one is unknown.
    pub(super) fn waited_children(&self, pid: u32, seen: &Observation) -> Vec<u32> {
        let named = seen.argument.and_then(|named| u32::try_from(named).ok()).filter(|named| *named > KINDS);
        let is_named = |one: &ProcessSample| {
            named.is_none_or(|named| named == one.id.pid || one.inner_pid.is_some_and(|inner| inner == named))
        };
        let children = self.processes.values().filter(|one| one.parent == pid && is_named(one));
        let mut pids: Vec<u32> = children.map(|one| one.id.pid).collect();
        pids.sort_unstable();
        pids
    }

    /// The same paths. If they lead nowhere, they lead to the process's own short-lived children or threads, as far as
    /// those explain the wait.
    pub(super) fn or_short_lived(&self, thread: &GraphThread<'_>, paths: Vec<RoundPath>) -> Vec<RoundPath> {
        let is_gone = |path: &RoundPath| match path.hops.as_slice() {
            [] => true,
            [hop] => !self.by_process.contains_key(&hop.pid),
            _ => false,
        };
        let leads_nowhere = |path: &RoundPath| path.end == End::Unknown && path.name.is_none() && is_gone(path);
        let explained = thread.explained;
        let for_threads = FOR_THREADS.contains(&thread.wait);
        let path = match thread.wait {
            wait if FOR_CHILDREN.contains(&wait) => RoundPath::end(End::Children).part(explained.children),
            _ if for_threads => {
                RoundPath::end(End::Cpu).after(WaitHop::short_lived(thread.pid)).part(explained.threads)
            }
            _ => return paths,
        };
        // A sleeping thread is waited for only if it holds a lock. A thread that itself answers other processes
        // (torch's, which hands out descriptors) hardly ever is.
        let rests = |path: &RoundPath| {
            is_at_sleeping_thread(&path.hops, path.end)
                || path.end == End::Asked && matches!(path.hops.as_slice(), [hop] if hop.by == Edge::Thread)
        };
        let may_be = |path: &RoundPath| leads_nowhere(path) || for_threads && rests(path);
        if path.share <= 0.0 || !paths.iter().all(may_be) {
            return paths;
        }
        let left = 1.0 - path.share;
        let rest = paths.into_iter().map(|path| path.part(left));
        [path].into_iter().chain(rest).filter(|path| path.share > 0.0).collect()
    }
}
