//! The few numbers of each frame that the timelines draw, kept small so that drawing reads kilobytes, not frames.
//!
//! A point covers the time from `end_ns − seconds` to `end_ns`. Time without a point, and a value that a point lacks,
//! is a gap and is drawn as one.
//!
//! Besides the points there are coarser and coarser levels, in which adjacent points are merged into runs. Drawing uses
//! the coarsest level whose runs are still short compared to a column, so an hour at ten points a second costs as much
//! as a minute. And because a run replaces many points, coarse levels reach further back than the points do.

mod point;
mod runs;
mod window;

pub use point::{Compact, GPUS, Percent, TimelinePoint, read_bytes_per_s};
pub use window::TimelineWindow;

use std::collections::VecDeque;

use super::archive::Limits;
use runs::Level;

/// Points kept, and runs of each coarser level, for the default memory of complete moments: twenty minutes at ten a
/// second.
pub const POINTS: usize = 12_000;

/// Upper limit of the factor if moments have more memory: a day at one point a second, in about 50 MiB with the coarser
/// levels.
const MOST_TIMES: usize = 8;

/// What ended this much longer ago than complete moments are kept is dropped, nanoseconds. What is before the left edge
/// of a chart shows whether something was missed there.
const MARGIN_NS: u64 = 600_000_000_000;

/// The longest time scale, nanoseconds: at least this much is kept.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// How much of the past is kept.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Points, and runs of each coarser level.
    points: usize,
    /// Time before the newest, nanoseconds.
    ns: u64,
}

/// Longest runs of the coarser levels, nanoseconds: 0.3, 1, 3, 10 and 30 s plus a twentieth of slack, because intervals
/// never have exactly the intended length. With a factor of about three between levels, drawing finds one whose runs
/// are between a sixth and a half of its column.
const RUNS_NS: [u64; 5] = [315_000_000, 1_050_000_000, 3_150_000_000, 10_500_000_000, 31_500_000_000];

/// The points of the recent past.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Oldest first. The newest is not yet in a run.
    points: VecDeque<TimelinePoint>,
    /// Coarser and coarser.
    levels: [Level; RUNS_NS.len()],
    bounds: Bounds,
}

impl Default for Timeline {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Timeline {
    /// An empty timeline that goes back as far as the archive, and at least as far as the longest time scale.
    /// It may be shown from its beginning: a recording is read to its end before it is played.
    pub fn new(limits: Limits) -> Self {
        let ns = u64::try_from(limits.span.as_nanos()).unwrap_or(u64::MAX).max(LONGEST_NS);
        let times = (limits.bytes / Limits::default().bytes).clamp(1, MOST_TIMES);
        Self::within(Bounds { points: times * POINTS, ns: ns.saturating_add(MARGIN_NS) })
    }

    fn within(bounds: Bounds) -> Self {
        Self { points: VecDeque::new(), levels: RUNS_NS.map(Level::new), bounds }
    }

    /// Adds a point, dropping the oldest when full.
    pub fn add(&mut self, mut point: TimelinePoint) {
        if self.points.back().is_some_and(|last| point.end_ns < last.end_ns) {
            // The clock went backwards: what was there has no place on this axis any more.
            *self = Self::within(self.bounds);
        }
        if let Some(last) = self.points.back() {
            point.follow(last);
            // What a level has finished is passed to the next coarser one.
            let mut done = Some(*last);
            for level in &mut self.levels {
                done = done.and_then(|point| level.push(&point, self.bounds));
            }
        }
        keep(&mut self.points, point, self.bounds);
    }

    /// The newest point.
    pub fn latest(&self) -> Option<&TimelinePoint> {
        self.points.back()
    }

    /// Whether there are points before `window` begins: whatever is missing at its left edge is then a gap.
    pub fn began_before(&self, window: TimelineWindow) -> bool {
        let mut oldest = self.levels.iter().filter_map(Level::first).chain(self.points.front());
        oldest.any(|p| i128::from(p.end_ns) <= window.start_ns())
    }

    /// CLOCK_MONOTONIC nanoseconds at which the oldest time kept begins.
    pub fn first_ns(&self) -> Option<u64> {
        let oldest = self.levels.iter().filter_map(Level::first).chain(self.points.front());
        oldest.map(|point| point.start_ns).min()
    }

    /// Visits what overlaps `window`: calls `visit(column, seconds, point)` for every column covered by a point or a
    /// run of points, with the seconds covered.
    ///
    /// Runs are at most half a column long, unless finer ones are no longer kept.
    pub fn spread(&self, window: TimelineWindow, mut visit: impl FnMut(usize, f32, &TimelinePoint)) {
        let coarse = RUNS_NS.iter().take_while(|run| **run <= window.column_ns / 2).count();
        // Everything that starts at or after this has been visited.
        let mut walked_ns = u64::MAX;
        if coarse == 0 {
            walk(&self.points, window, &mut walked_ns, &mut visit);
        } else if let Some(latest) = self.points.back() {
            // The newest point and the growing runs are in no coarser level yet.
            window.cover(latest, walked_ns, &mut visit);
            walked_ns = latest.start_ns;
        }
        for (i, level) in self.levels.iter().enumerate() {
            if let Some(open) = level.open() {
                window.cover(open, walked_ns, &mut visit);
                walked_ns = walked_ns.min(open.start_ns);
            }
            if i + 1 >= coarse {
                walk(&level.closed, window, &mut walked_ns, &mut visit);
            }
        }
    }
}

/// Adds a point, or a run of points, and drops what is too old or too much.
fn keep(points: &mut VecDeque<TimelinePoint>, newest: TimelinePoint, bounds: Bounds) {
    points.push_back(newest);
    let is_old = |p: &TimelinePoint| p.end_ns < newest.start_ns.saturating_sub(bounds.ns);
    while points.len() > bounds.points || points.front().is_some_and(is_old) {
        points.pop_front();
    }
}

/// Visits the points, which are in order and do not overlap, from the end of the window back to its start.
fn walk(
    points: &VecDeque<TimelinePoint>,
    window: TimelineWindow,
    walked_ns: &mut u64,
    visit: &mut impl FnMut(usize, f32, &TimelinePoint),
) {
    let Some(first) = points.front() else { return };
    let end_ns = window.end_ns.min(*walked_ns);
    // The first one past the end may begin before it.
    let shown = (points.partition_point(|p| p.end_ns <= end_ns) + 1).min(points.len());
    for point in points.range(..shown).rev() {
        if !window.cover(point, *walked_ns, visit) {
            break;
        }
    }
    *walked_ns = first.start_ns.min(*walked_ns);
}

#[cfg(test)]
#[path = "timeline/tests.rs"]
mod tests;
