//! Whole numbers among the variables of a process's Python frames at one moment, and how far its `for` loops have come: the loop's
//! own step counter is often one of them. Nothing else of the variables is kept, neither text nor objects.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ProcessId;

/// Most threads kept for one reading.
pub const THREADS: usize = 16;
/// Most frames kept for one thread, the outermost ones: a training loop is below the entry points of its launcher and
/// framework.
pub const FRAMES: usize = 48;
/// Most numbers kept for one frame.
pub const NUMBERS: usize = 64;
/// Longest name of a variable kept, bytes.
pub const NAME: usize = 64;

/// What a `for` loop is called that runs in a frame, the outermost one first; its number says how far it has come. The loop itself
/// counts so, whether or not its code has a variable for that.
pub const LOOPS: [&str; 4] = ["for loop", "second for loop", "third for loop", "fourth for loop"];

/// The number of a loop that runs, if how far it has come is not known.
pub const UNKNOWN_TURNS: i64 = 1_000_000_000;
/// Parts of the names under which code keeps how far its loop has come. Other numbers that rise may count samples, bytes or hits.
pub const COUNTS: [&str; 7] = ["step", "iter", "batch", "update", "yielded", "completed", "request"];
/// What a server's loop counts that begins a thread for each request.
pub const THREADS_BEGUN: &str = "threads begun";
/// The function of code that is not in one: a script's, or a module's.
pub const MODULE: &str = "<module>";

/// One process at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LocalsSample {
    /// Which process.
    pub process: ProcessId,
    /// CLOCK_MONOTONIC when the reading began, nanoseconds.
    pub began_ns: u64,
    /// Threads that have such numbers.
    pub threads: Vec<ThreadLocals>,
}

/// One thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadLocals {
    /// Thread ID, if reported: the inner one for a process in another PID namespace.
    pub tid: Option<u32>,
    /// It is the process's first thread.
    pub is_main: bool,
    /// Outermost first, at most [`FRAMES`].
    pub frames: Vec<FrameLocals>,
}

/// One frame.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameLocals {
    /// Function; raw, may hold anything.
    pub function: Arc<str>,
    /// Path of the file; raw, may hold anything.
    pub file: Arc<str>,
    /// Variables whose value is a whole number, in the frame's order. Those that do not count are removed before a
    /// sample is judged, shown or stored (`waits::counters`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<(Arc<str>, i64)>,
}

impl FrameLocals {
    /// Whether it is a call of the same function.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.function == other.function && self.file == other.file
    }
}
