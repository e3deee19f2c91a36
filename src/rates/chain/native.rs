//! Threads of a process that run no Python: those of a library's pool. They never hold the interpreter lock, and a thread that waits
//! for them waits for a computation of its own call. Only stacks know: py-spy shows every thread that has Python frames.

use std::collections::{HashMap, HashSet};

use super::graph::Graph;

/// A thread that was missing in so many windows of stacks runs no Python. One window may have missed it.
const WINDOWS: u8 = 2;
/// Most threads whose numbers are kept.
const KEPT: usize = 4096;

/// The native threads of one process.
#[derive(Debug, Default)]
pub(super) struct NativeThreads {
    /// Threads that ever had Python frames: a callback into Python comes and goes.
    python: HashSet<u32>,
    /// Windows that the others were missing in.
    missing: HashMap<u32, u8>,
    /// A window was taken since the last tick.
    is_new: bool,
}

impl NativeThreads {
    /// Takes the threads of a window of stacks; without numbers for all of them they say nothing.
    pub(super) fn take(&mut self, tids: Option<Vec<u32>>) {
        let Some(tids) = tids else { return };
        self.is_new = true;
        if self.python.len() + tids.len() > KEPT {
            // Threads that come and go: what is known begins anew.
            self.python.clear();
            self.missing.clear();
        }
        self.python.extend(tids);
    }

    /// Notes which threads of this tick the newest window was missing. A thread that was not there in the tick before may
    /// have begun since; and where the main thread is missing, the numbers are those of another PID namespace.
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
