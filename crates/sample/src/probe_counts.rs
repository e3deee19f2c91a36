//! What probes on the calls of a job counted: raw numbers, in windows whose lengths are told.

use trainmon_base::text::named_enum;

named_enum! {
    /// What a call of a GPU's runtime or driver does.
    pub enum GpuCallKind {
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

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProbeCounts {
    /// From the first window to the end, seconds.
    pub elapsed_s: f64,
    /// Windows in which calls were counted.
    pub calls: Vec<ProbeWindow>,
    /// Windows in which calls that wait were counted.
    pub waits: Vec<ProbeWindow>,
    /// By thread and call.
    pub rows: Vec<ProbeRow>,
    /// Time that hits took from each thread in each window of calls, as measured on trainmon itself, seconds.
    pub lost_s: Vec<(u32, Vec<f64>)>,
    /// Hits of probes, outside of the windows too.
    pub hits: u64,
    /// Cost of one at most, seconds.
    pub hit_s: f64,
    /// Calls that found no room in the table.
    pub lost: u64,
}

/// A window.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ProbeWindow {
    /// Its length, seconds.
    pub length_s: f64,
}

/// Calls of one name by one thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRow {
    /// What the call does.
    pub kind: GpuCallKind,
    /// Its name.
    pub call: &'static str,
    /// The thread.
    pub tid: u32,
    /// Its name; empty if it has ended.
    pub thread: String,
    /// Calls in all windows.
    pub count: u64,
    /// Calls in each window.
    pub by_window: Vec<u64>,
    /// Time inside the calls that began in the windows, nanoseconds.
    pub waited_ns: u64,
}
