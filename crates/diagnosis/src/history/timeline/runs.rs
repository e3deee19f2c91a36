//! One coarser level of a timeline: adjacent points merged into runs.

use std::collections::VecDeque;

use super::Bounds;
use super::point::{GPUS, TimelinePoint};

/// Runs of points, oldest first.
#[derive(Debug, Clone)]
pub(super) struct Level {
    longest_ns: u64,
    /// Finished runs.
    pub(super) closed: VecDeque<TimelinePoint>,
    open: Option<VerdictRun>,
}

/// A growing run.
#[derive(Debug, Clone)]
struct VerdictRun {
    mean: TimelinePoint,
    /// The means of [`TimelinePoint::gpus`], which have too few digits for summing.
    gpus: [f32; GPUS],
}

impl Level {
    /// A level whose runs are at most this long, except for single points that are longer.
    pub(super) fn new(longest_ns: u64) -> Self {
        Self { longest_ns, closed: VecDeque::new(), open: None }
    }

    /// Adds the next point, and returns the run that ends before it, if any.
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

    /// The growing run.
    pub(super) fn open(&self) -> Option<&TimelinePoint> {
        self.open.as_ref().map(|run| &run.mean)
    }

    /// The oldest run.
    pub(super) fn first(&self) -> Option<&TimelinePoint> {
        self.closed.front().or(self.open())
    }
}
