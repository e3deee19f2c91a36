//! Waits for children that live for a moment, so that nobody can be followed: known by the CPU time that they leave behind.

use std::collections::HashMap;

use super::super::paths::End;
use super::super::ways::Way;
use super::{Graph, Thread};
use crate::rates::children::{WAITS, explained};
use crate::rates::wait::Wait;
use crate::sample::{Observation, ProcessSample};

/// wait4 names the child first; waitid after the kind of what is named, from P_ALL, 0, to P_PIDFD (linux/wait.h).
const KINDS: u32 = 3;

/// The part of a thread's waits that its process's children explain; `waits` are those of all its samples.
pub(super) fn part_of(pid: u32, children: &HashMap<u32, f64>, waits: impl Iterator<Item = Wait>) -> f64 {
    let Some(cores) = children.get(&pid) else { return 0.0 };
    let (mut all, mut may_be) = (0_u32, 0_u32);
    for wait in waits {
        all += 1;
        may_be += u32::from(WAITS.contains(&wait));
    }
    explained(*cores, f64::from(may_be) / f64::from(all.max(1)))
}

impl Graph<'_> {
    /// The children that a process waits for the end of: the one that it names, or all; none where that one is not known.
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

    /// The same ways; where they lead to nobody, they lead to the process's own short-lived children as far as those explain
    /// the wait.
    pub(super) fn or_children(&self, thread: &Thread<'_>, ways: Vec<Way>) -> Vec<Way> {
        let is_gone = |way: &Way| match way.hops.as_slice() {
            [] => true,
            [hop] => !self.by_process.contains_key(&hop.pid),
            _ => false,
        };
        let nobody = |way: &Way| way.end == End::Unknown && way.name.is_none() && is_gone(way);
        let part = thread.for_children;
        if part <= 0.0 || !WAITS.contains(&thread.wait) || !ways.iter().all(nobody) {
            return ways;
        }
        let children = Way { share: part, ..Way::end(End::Children) };
        let rest = ways.into_iter().map(|way| Way { share: way.share * (1.0 - part), ..way });
        [children].into_iter().chain(rest).filter(|way| way.share > 0.0).collect()
    }
}
