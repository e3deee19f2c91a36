//! What says how a run will go on: how much memory is its own, and how far it says it has come.

use serde::{Deserialize, Serialize};

use super::ProcessId;
use super::private::Private;

/// The latest readings. They are taken seldom, one process after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutlookSample {
    /// The memory of the job's processes, each as of its last reading.
    pub memory: Vec<ProcessMemory>,
    /// The last progress bar in the file that the training process writes its output to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress: Option<ProgressBar>,
}

impl Private for OutlookSample {}

/// Memory of a process, shared pages divided by the number of processes that share them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMemory {
    /// Which process.
    pub id: ProcessId,
    /// `Pss` of `/proc/PID/smaps_rollup`, bytes (Documentation/filesystems/proc.rst).
    pub pss_bytes: u64,
}

/// How far a loop has come: by a progress bar as tqdm writes it (`45%|████▌     | 450/1000 [10:00<12:13, 1.33s/it]`), or by its own
/// variables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgressBar {
    /// CLOCK_MONOTONIC when it was read, nanoseconds.
    pub read_ns: u64,
    /// Turns done.
    pub done: f64,
    /// Turns in all.
    pub total: f64,
}

impl Eq for ProgressBar {}
