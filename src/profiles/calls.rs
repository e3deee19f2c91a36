//! What calls of a GPU's runtime do, and what was counted of them.

use serde::{Deserialize, Serialize};

use crate::text::named_enum;

named_enum! {
    /// What a call of a GPU's runtime or driver does.
    pub enum CallKind {
        /// Launches a kernel.
        Launch = "launch",
        /// Launches a CUDA graph: many kernels at once.
        GraphLaunch = "graph-launch",
        /// Waits for the GPU.
        Sync = "sync",
        /// Copies memory.
        Copy = "copy",
        /// Allocates memory or frees it.
        Allocation = "allocation",
    }
}

/// What was counted from outside, without a trace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CountedCalls {
    /// Calls by what they do, name and thread: those that wait by their time first, then by number.
    pub rows: Vec<CallRow>,
    /// Time in which calls were counted, those that wait aside, milliseconds.
    pub counted_ms: f64,
    /// In how many windows.
    pub windows: u32,
    /// Time in which the calls that wait were counted, milliseconds.
    pub waits_counted_ms: f64,
    /// Hits of probes: each costs the job a few microseconds.
    pub hits: u64,
    /// What a hit costs the job at most, microseconds.
    pub hit_us: f64,
    /// Share of the time that the job lost to the hits, at most.
    pub cost: f64,
}

/// Calls of one name by one thread.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallRow {
    /// What it does.
    pub kind: Option<CallKind>,
    /// Its name.
    pub call: String,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Number of calls while they were counted.
    pub count: u64,
    /// Calls per second.
    pub per_s: f64,
    /// Standard error of that by the differences between the windows, as a share of it. `None` of a single window.
    pub error: Option<f64>,
    /// Calls per step, where the steps are known.
    pub per_step: Option<f64>,
    /// Share of the time that the thread was inside the calls that wait.
    pub waits: Option<f64>,
}
