//! The busiest processes outside the job, as rates.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::delta::copied;
use trainmon_sample::{OtherProcessesSample, ProcessId};

/// The busiest processes of the host outside the job, over their own window: scans are seconds apart, so several frames
/// may show the same one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherProcesses {
    /// Length of the window, seconds.
    pub seconds: f64,
    /// Those that used CPU time, most first, at most 32.
    pub processes: Vec<OtherProcessRates>,
}

/// One process outside the job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OtherProcessRates {
    /// Which process.
    pub id: ProcessId,
    /// `comm`, raw: sanitize before showing.
    pub comm: Arc<str>,
    /// Command line, raw: sanitize before showing; empty for kernel threads.
    pub command: Arc<str>,
    /// Owner.
    pub uid: Option<u32>,
    /// CPU use, percent of one CPU, all threads.
    pub cpu_pct: f64,
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

/// `None` if they are not shown, and until there were two scans.
pub(super) fn fold(sample: Option<&OtherProcessesSample>) -> Option<OtherProcesses> {
    let sample = sample.filter(|sample| sample.window_ns > 0 && sample.ticks_per_second > 0)?;
    let seconds = sample.window_ns as f64 / 1e9;
    let per_s = f64::from(sample.ticks_per_second);
    let processes = sample.processes.iter().map(|process| OtherProcessRates {
        cpu_pct: process.cpu_ticks as f64 / per_s / seconds * 100.0,
        ..copied!(process => OtherProcessRates: id comm command uid rss_bytes kernel own elsewhere)
    });
    Some(OtherProcesses { seconds, processes: processes.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::OtherProcessProcess;

    #[test]
    fn ticks_over_their_own_window() {
        let process = OtherProcessProcess { cpu_ticks: 300, kernel: true, ..OtherProcessProcess::default() };
        let sample = OtherProcessesSample {
            window_ns: 2_000_000_000,
            ticks_per_second: 100,
            processes: vec![process],
            ..OtherProcessesSample::default()
        };
        let other_processes = fold(Some(&sample)).unwrap();
        assert_eq!(other_processes.seconds, 2.0);
        assert_eq!((other_processes.processes[0].cpu_pct, other_processes.processes[0].kernel), (150.0, true));
        assert_eq!(fold(Some(&OtherProcessesSample { window_ns: 0, ..sample.clone() })), None);
        assert_eq!(fold(Some(&OtherProcessesSample { ticks_per_second: 0, ..sample })), None);
        assert_eq!(fold(None), None);
    }
}
