//! Python stacks of the job's processes, as the sampler gave them: what each thread was seen in, and how often.
//!
//! A window is some seconds of one process, sampled at random moments. Which frames mean waiting, decoding or a backward
//! pass is judged downstream.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ProcessId;

/// Most frames kept of one stack, the leaf's side: deeper ones begin in a framework's entry points.
pub const DEPTH: usize = 96;
/// Most different frames kept of one window.
pub const FRAMES: usize = 4096;
/// Most different stacks kept of one thread.
pub const STACKS: usize = 256;
/// Most threads kept of one window.
pub const THREADS: usize = 64;
/// Longest name or path kept, bytes.
pub const NAME: usize = 256;

/// What the sampler gave since the last tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StacksSample {
    /// Windows that ended since the last tick, oldest first.
    pub windows: Vec<StackWindow>,
}

/// Some seconds of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackWindow {
    /// Which process.
    pub process: ProcessId,
    /// CLOCK_MONOTONIC when the sampler was started, nanoseconds.
    pub began_ns: u64,
    /// CLOCK_MONOTONIC when it had ended, nanoseconds.
    pub ended_ns: u64,
    /// Samples a second that were asked for.
    pub rate_hz: u32,
    /// Frames that the stacks point into.
    pub frames: Vec<StackFrame>,
    /// Threads, in the sampler's order.
    pub threads: Vec<ThreadStacks>,
}

/// One place in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StackFrame {
    /// Function, qualified where the sampler does that (`Queue.get`); raw, may hold anything.
    pub function: Arc<str>,
    /// Path of the file as the interpreter names it; raw, may hold anything, empty where unknown.
    pub file: Arc<str>,
    /// Line, from 1; 0 where unknown.
    pub line: u32,
    /// That line of the source, trimmed, where the file could be read: only for innermost frames of the user's own code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
}

/// One thread's stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStacks {
    /// Python's name (`MainThread`, `QueueFeederThread`), raw.
    pub name: Arc<str>,
    /// Thread ID where the sampler told it: the inner one for a process in another PID namespace.
    pub tid: Option<u32>,
    /// Different stacks, the most frequent first.
    pub stacks: Vec<StackCount>,
}

/// One stack and how often it was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackCount {
    /// Indices into the window's frames, leaf first.
    pub frames: Vec<u32>,
    /// Samples.
    pub samples: u32,
}

/// Whether a file is the user's own code: no installed package, no standard library, nothing built in.
#[must_use]
pub fn is_user_code(file: &str) -> bool {
    if file.is_empty() || file.starts_with('<') {
        return false;
    }
    if ["/site-packages/", "/dist-packages/"].iter().any(|packages| file.contains(packages)) {
        return false;
    }
    // The standard library: `/usr/lib/python3.11/threading.py`.
    !file.match_indices("/lib/python").any(|(at, found)| {
        file.get(at + found.len()..).and_then(|rest| rest.chars().next()).is_some_and(|next| next.is_ascii_digit())
    })
}
