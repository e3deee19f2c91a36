//! The host's processes outside the job that used the most CPU time, if they are shown.
//!
//! A host has thousands of processes: instead of their counters, only how far those of the busiest moved is kept.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ProcessId;
use super::private::{Private, TextKind, Visit};

/// Most processes kept.
pub const MOST_OTHER_PROCESSES: usize = 32;

/// One scan of the processes of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcessesSample {
    /// CLOCK_MONOTONIC when the scan began, nanoseconds.
    pub monotonic_ns: u64,
    /// Time since the previous scan, nanoseconds.
    pub window_ns: u64,
    /// Clock ticks per second, the unit of `cpu_ticks`.
    pub ticks_per_second: u32,
    /// Those that used CPU time or that were asked for, most CPU time first, at most [`MOST_OTHER_PROCESSES`].
    pub processes: Vec<OtherProcessProcess>,
    /// How many other processes there are, not counting the job's.
    pub others: u32,
}

impl Private for OtherProcessesSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        for process in &mut self.processes {
            let kind = if process.own { TextKind::OwnCommand } else { TextKind::Command };
            visit(kind, &mut process.command);
            visit(TextKind::Name, &mut process.comm);
        }
    }

    /// Keeps how much of the machine other people's work takes, but not what it is.
    fn leave_out(&mut self) {
        for process in self.processes.iter_mut().filter(|process| !process.own) {
            (process.comm, process.command, process.uid) = ("process".into(), "".into(), None);
        }
    }
}

/// One process outside the job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProcessProcess {
    /// Identity.
    pub id: ProcessId,
    /// `comm`, raw (may contain anything; sanitize before showing).
    pub comm: Arc<str>,
    /// Command line, arguments joined by spaces, cut at 4 KiB, raw except that secrets are masked; empty for kernel
    /// threads.
    pub command: Arc<str>,
    /// Owner.
    pub uid: Option<u32>,
    /// CPU time in user and kernel mode in the window, clock ticks, all threads.
    pub cpu_ticks: u64,
    /// Resident set, bytes.
    pub rss_bytes: u64,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// Whether it is trainmon itself.
    pub own: bool,
    /// Whether it may run on none of the job's CPUs.
    #[serde(default)]
    pub elsewhere: bool,
}
