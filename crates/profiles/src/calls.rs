//! Calls of a GPU's runtime that were counted from outside.

use serde::{Deserialize, Serialize};

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
    /// What it does: `launch`, `graph-launch`, `sync`, `copy` or `allocation`.
    pub kind: String,
    /// Its name.
    pub call: String,
    /// The thread.
    pub tid: u32,
    /// Its name.
    pub thread: String,
    /// Number of calls while they were counted.
    pub count: u64,
    /// Calls per second.
    pub calls_per_s: f64,
    /// Standard error of that by the differences between the windows, as a share of it. `None` of a single window.
    pub error: Option<f64>,
    /// Calls per step, where the steps are known.
    pub per_step: Option<f64>,
    /// Share of the time that the thread was inside the calls that wait.
    pub waits: Option<f64>,
}
