//! Threads of a process that run no Python: those of a library's pool. They never hold the interpreter lock, and a
//! thread that waits for them waits for a computation of its own call. Only stacks show this: py-spy lists every thread
//! with Python frames.

use std::collections::{HashMap, HashSet};

use super::graph::Graph;

/// A thread missing from this many windows of stacks runs no Python. A single window may have missed it.
const WINDOWS: u8 = 2;
/// Most thread IDs kept.
const KEPT: usize = 4096;

/// The native threads of one process.
#[derive(Debug, Default)]
pub(super) struct NativeThreads {
    /// Threads that ever had Python frames: callbacks into Python come and go.
    python: HashSet<u32>,
    /// How many windows each of the others was missing from.
    missing: HashMap<u32, u8>,
    /// A window arrived since the last tick.
    is_new: bool,
}

impl NativeThreads {
    /// Takes the threads of a window of stacks; unless every thread has an ID, they show nothing.
    pub(super) fn take(&mut self, tids: Option<Vec<u32>>) {
        let Some(tids) = tids else { return };
        self.is_new = true;
        if self.python.len() + tids.len() > KEPT {
            // Threads come and go: start over.
            self.python.clear();
            self.missing.clear();
        }
        self.python.extend(tids);
    }

    /// Notes which threads of this tick are missing from the newest window. A thread that was not in the previous tick
    /// may have started since. If the first thread is missing, the IDs are from another PID namespace.
    pub(super) fn note(&mut self, pid: u32, graph: &Graph<'_>) {
        if !std::mem::take(&mut self.is_new) || !self.python.contains(&pid) {
            return;
        }
        let there: HashSet<u32> =
            graph.threads_of(pid).filter(|thread| thread.paced).map(|thread| thread.tid).take(KEPT).collect();
        self.missing.retain(|tid, _| there.contains(tid));
        for tid in there.into_iter().filter(|tid| !self.python.contains(tid)) {
            let windows = self.missing.entry(tid).or_default();
            *windows = windows.saturating_add(1);
        }
    }

    /// The threads that run no Python.
    pub(super) fn tids(&self) -> impl Iterator<Item = u32> + '_ {
        let native = self.missing.iter().filter(|(tid, windows)| **windows >= WINDOWS && !self.python.contains(tid));
        native.map(|(tid, _)| *tid)
    }
}
