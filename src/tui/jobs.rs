//! The list of jobs: those attached to, and the processes that may be training.

use super::message::JobKey;

/// A process that may be training, as the list shows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Candidate {
    /// PID.
    pub pid: u32,
    /// Command line, raw.
    pub command: String,
    /// What is known of it: device memory, workers, library, age. Raw.
    pub facts: String,
}

/// One row of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// A job that is attached to.
    Attached(JobKey),
    /// A candidate, by its PID.
    Candidate(u32),
}

/// The open list.
#[derive(Debug, Clone, Default)]
pub struct JobList {
    /// Candidates, best first; none before the first look.
    pub candidates: Option<Vec<Candidate>>,
    /// Selected row.
    pub selected: usize,
}
