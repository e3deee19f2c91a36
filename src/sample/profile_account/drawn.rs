//! One step of a profile as it is drawn: threads of the host and streams of the GPUs as lanes on one time axis.

use crate::text::named_enum;

named_enum! {
    /// What a slice of a lane is. Its word is the name of its color.
    pub enum SliceKind {
        /// The loop waits for a batch.
        Data = "data",
        /// A call waits for the GPU.
        Sync = "sync",
        /// Another call of the GPU's runtime.
        Launch = "launch",
        /// An operator on the host.
        Operator = "operator",
        /// Python, or nothing recorded.
        Python = "python",
        /// A kernel that is no collective.
        Compute = "compute",
        /// A collective.
        Collective = "collective",
        /// A copy, or memory set.
        Copy = "copy",
        /// An annotation of the program or of a library.
        Annotation = "annotation",
    }
}

impl SliceKind {
    /// What happens there, as a person reads it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Data => "waiting for data",
            Self::Sync => "in calls that wait for the GPU",
            Self::Launch => "launching",
            Self::Operator => "in operators on the host",
            Self::Python => "in Python or nothing recorded",
            Self::Compute => "computing",
            Self::Collective => "collectives",
            Self::Copy => "copies",
            Self::Annotation => "annotations",
        }
    }
}

/// A step, or the whole window where there are no steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawnStep {
    /// Its number, counted from 1, and how many there are; `None` for the whole window.
    pub step: Option<(usize, usize)>,
    /// Its length, milliseconds.
    pub length_ms: f64,
    /// Threads first, then each GPU's streams and what the host did while that GPU was idle.
    pub lanes: Vec<DrawnLane>,
    /// Threads and streams that there is no room for.
    pub left_out: usize,
}

/// A thread, a stream, or a GPU's idleness.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DrawnLane {
    /// `loop, thread 1234`, `GPU 0, stream 7`.
    pub name: String,
    /// In order, none over another.
    pub slices: Vec<DrawnSlice>,
}

/// Something that took time, or several short things next to each other.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawnSlice {
    /// Its begin, 0–1 of the step.
    pub begin: f64,
    /// Its end, 0–1 of the step.
    pub end: f64,
    /// What it is; of several the kind that took most time.
    pub kind: SliceKind,
    /// Share of its time in which something ran: less than 1 where there are gaps between several.
    pub filled: f64,
    /// How many things it is.
    pub count: u64,
    /// What it was, the longest of several; empty for slices that are too short to point at.
    pub name: String,
}
