//! One coarser level of a timeline: neighbouring points merged into runs.

use std::collections::VecDeque;

use super::Bounds;
use super::point::{GPUS, TimelinePoint};

/// Runs of points, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Level {
    longest_ns: u64,
    /// Those that do not grow any more.
    pub(super) closed: VecDeque<TimelinePoint>,
    open: Option<VerdictRun>,
}

/// A run that still grows.
#[derive(Debug, Clone)]
struct VerdictRun {
    mean: TimelinePoint,
    /// The means of [`TimelinePoint::gpus`], which have too few digits to be added up.
    gpus: [f32; GPUS],
}

impl Level {
    /// A level whose runs are no longer than this, but for single points that are.
    pub(super) fn new(longest_ns: u64) -> Self {
        Self { longest_ns, closed: VecDeque::new(), open: None }
    }

    /// Takes in the next point and gives back the run that ends before it, if one does.
    pub(super) fn push(&mut self, point: &TimelinePoint, bounds: Bounds) -> Option<TimelinePoint> {
        if let Some(run) = &mut self.open
            && run.mean.goes_on_as(point)
            && point.end_ns - run.mean.start_ns <= self.longest_ns
        {
            run.mean.extend(point, &mut run.gpus);
            return None;
        }
        let gpus = point.gpus.map(|p| p.get().unwrap_or(0.0));
        let done = self.open.replace(VerdictRun { mean: *point, gpus })?.mean;
        super::keep(&mut self.closed, done, bounds);
        Some(done)
    }

    /// The run that still grows.
    pub(super) fn open(&self) -> Option<&TimelinePoint> {
        self.open.as_ref().map(|run| &run.mean)
    }

    /// The oldest run.
    pub(super) fn first(&self) -> Option<&TimelinePoint> {
        self.closed.front().or(self.open())
    }
}
