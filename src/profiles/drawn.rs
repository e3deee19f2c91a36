//! One step of a profile as it is drawn: threads of the host and streams of the GPUs as lanes on one time axis.

use serde::{Deserialize, Serialize};

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

named_enum! {
    /// What a lane is of.
    #[derive(Default)]
    pub enum LaneKind {
        /// The loop's annotations.
        Annotations = "annotations",
        /// A thread of the host.
        #[default]
        Thread = "thread",
        /// A stream of a GPU.
        Stream = "stream",
        /// What the host did while a GPU was idle.
        Idle = "idle",
    }
}

/// A step, or the whole window where there are no steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrawnStep {
    /// Its number, counted from 1, and how many there are; `None` for the whole window.
    pub step: Option<(usize, usize)>,
    /// Its length, milliseconds.
    pub length_ms: f64,
    /// Threads first, then each GPU's streams and what the host did while that GPU was idle.
    pub lanes: Vec<DrawnLane>,
    /// Threads and streams that there is no room for.
    pub left_out: usize,
    /// The longest idle times of each GPU; without a GPU, the loop's waits. In the order of their begins.
    pub gaps: Vec<DrawnGap>,
}

/// A thread, a stream, or a GPU's idleness.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrawnLane {
    /// What it is of.
    pub kind: LaneKind,
    /// The GPU's number, of a stream or of idleness.
    pub gpu: Option<i64>,
    /// It is the thread that runs the loop.
    pub of_loop: bool,
    /// `loop, thread 1234`, `GPU 0, stream 7`.
    pub name: String,
    /// In order, none over another.
    pub slices: Vec<DrawnSlice>,
}

/// Something that took time, or several short things next to each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "RecordedSlice", into = "RecordedSlice")]
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

/// Begin, length, kind, share filled, number and name.
type RecordedSlice = (f64, f64, SliceKind, f64, u64, String);

impl From<DrawnSlice> for RecordedSlice {
    fn from(slice: DrawnSlice) -> Self {
        let DrawnSlice { begin, end, kind, filled, count, name } = slice;
        // Of a step of a second, ten nanoseconds: begins and lengths are told to each other by them.
        let [begin, end] = [begin, end].map(|at| (at * 1e8).round());
        (begin / 1e8, (end - begin) / 1e8, kind, (filled * 100.0).ceil() / 100.0, count, name)
    }
}

impl From<RecordedSlice> for DrawnSlice {
    fn from((begin, length, kind, filled, count, name): RecordedSlice) -> Self {
        Self { begin, end: begin + length, kind, filled, count, name }
    }
}

impl DrawnStep {
    /// All texts that are a program's: names of lanes and of what happened.
    pub fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let lanes = self.lanes.iter_mut().flat_map(|lane| {
            std::iter::once(&mut lane.name).chain(lane.slices.iter_mut().map(|slice| &mut slice.name))
        });
        let gaps = self.gaps.iter_mut().flat_map(|gap| {
            let works = gap.work.iter_mut().chain(&mut gap.call).flat_map(|work| [&mut work.place, &mut work.name]);
            std::iter::once(&mut gap.host).chain(works)
        });
        lanes.chain(gaps).filter(|text| !text.is_empty())
    }
}

/// A time in which a GPU was idle, or in which the loop waited where there is no GPU.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrawnGap {
    /// The GPU's number; `None` for a wait of the loop.
    pub gpu: Option<i64>,
    /// Its begin, 0–1 of the step.
    pub begin: f64,
    /// Its end, 0–1 of the step.
    pub end: f64,
    /// Its length within the step, milliseconds.
    pub ms: f64,
    /// It lasts beyond the end of the step.
    pub goes_on: bool,
    /// What the host did meanwhile, by how much of it, milliseconds; the largest part first.
    pub by: Vec<(SliceKind, f64)>,
    /// The thing that the host did longest in the largest part; empty if nothing is recorded.
    pub host: String,
    /// The lane of the thread that did it, if that is drawn.
    pub host_lane: Option<usize>,
    /// What ran on the GPU next.
    pub work: Option<DrawnWork>,
    /// The call that launched it.
    pub call: Option<DrawnWork>,
}

/// What ended a gap, or the call that launched it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DrawnWork {
    /// Its lane among those of the step, if it is drawn.
    pub lane: Option<usize>,
    /// The name of its lane: `stream 7`, `thread 1234`.
    pub place: String,
    /// What it is: a kernel as a person reads it; a call with its operator, and where it is in the code.
    pub name: String,
    /// What kind of thing.
    pub kind: Option<SliceKind>,
    /// Its begin, in steps from the begin of the one that is drawn: it may be outside.
    pub begin: f64,
    /// Its end, the same.
    pub end: f64,
}
