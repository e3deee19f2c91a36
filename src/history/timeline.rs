//! The few numbers of each frame that the timelines draw, kept small so that a draw walks kilobytes, not frames.
//!
//! A point stands for the time from `end_ns − seconds` to `end_ns`. Time that no point covers, and a value that a point
//! does not have, is a gap and is drawn as one.
//!
//! Beside the points themselves there are ever coarser levels, in which neighbours are merged into runs. A draw walks
//! the coarsest one whose runs are still short against a column, so an hour at ten points a second costs as much as a
//! minute; and since a run takes the place of many points, coarse levels reach further back than the points do.

mod point;
mod runs;
mod window;

pub use point::{Compact, GPUS, TimelinePoint, loop_shares, read_bytes_per_s};
pub use window::TimelineWindow;

use std::collections::VecDeque;

use super::archive::Limits;
use crate::diagnosis::verdict::Class;
use crate::rates::Frame;
use runs::Level;

/// Points kept, and runs of each coarser level, for as much memory as whole moments have by default: twenty minutes at
/// ten a second.
pub const POINTS: usize = 12_000;

/// Most times that, where moments have more memory: a day at one point a second, in some 50 MiB with the coarser levels.
const MOST_TIMES: usize = 8;

/// What ended so much longer ago than whole moments are kept is dropped, nanoseconds: what lies before the left edge of
/// a chart tells whether something was missed there.
const MARGIN_NS: u64 = 600_000_000_000;

/// The longest time scale, nanoseconds: so much is kept at least.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// How much of the past is kept.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Points, and runs of each coarser level.
    points: usize,
    /// Time before the newest, nanoseconds.
    ns: u64,
}

/// Longest runs of the coarser levels, nanoseconds: 0.3, 1, 3, 10 and 30 s with a twentieth of slack, since intervals
/// are never quite as long as they were meant to be. A factor of about three from one to the next lets a draw find one
/// whose runs are between a sixth and a half of its column.
const RUNS_NS: [u64; 5] = [315_000_000, 1_050_000_000, 3_150_000_000, 10_500_000_000, 31_500_000_000];

/// The points of the recent past.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// Oldest first. The newest is in no run yet.
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
    /// A timeline of nothing yet that goes back as far as whole moments do, and for the longest time scale at least. It
    /// may be looked at from its beginning: a recording is read to its end before it is played there.
    pub fn new(limits: Limits) -> Self {
        let ns = u64::try_from(limits.span.as_nanos()).unwrap_or(u64::MAX).max(LONGEST_NS);
        let times = (limits.bytes / Limits::default().bytes).clamp(1, MOST_TIMES);
        Self::within(Bounds { points: times * POINTS, ns: ns.saturating_add(MARGIN_NS) })
    }

    fn within(bounds: Bounds) -> Self {
        Self { points: VecDeque::new(), levels: RUNS_NS.map(Level::new), bounds }
    }

    /// Adds the values of a frame with the class and the steps per second of its verdict, dropping the oldest when full.
    pub fn push(&mut self, frame: &Frame, class: Class, steps_per_s: Option<f64>) {
        let mut point = TimelinePoint::from_frame(frame, class);
        point.steps = Compact::new(steps_per_s);
        if self.points.back().is_some_and(|last| point.end_ns < last.end_ns) {
            // The clock went backwards: what was has no place on this axis any more.
            *self = Self::within(self.bounds);
        }
        if let Some(last) = self.points.back() {
            point.follow(last);
            // What a level is done with goes on to the next coarser one.
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

    /// Whether something was seen before `window` begins: what is missing at its left edge is then a gap.
    pub fn began_before(&self, window: TimelineWindow) -> bool {
        let mut oldest = self.levels.iter().filter_map(Level::first).chain(self.points.front());
        oldest.any(|p| i128::from(p.end_ns) <= window.start_ns())
    }

    /// CLOCK_MONOTONIC nanoseconds at which the oldest time kept begins.
    pub fn first_ns(&self) -> Option<u64> {
        let oldest = self.levels.iter().filter_map(Level::first).chain(self.points.front());
        oldest.map(|point| point.start_ns).min()
    }

    /// Walks what reaches into `window` and calls `visit(column, seconds, point)` for every column that a point, or a
    /// run of points, covers, with the seconds it covers there.
    ///
    /// Runs are no longer than half a column; only where finer ones are not kept any more do longer ones stand in.
    pub fn spread(&self, window: TimelineWindow, mut visit: impl FnMut(usize, f32, &TimelinePoint)) {
        let coarse = RUNS_NS.iter().take_while(|run| **run <= window.column_ns / 2).count();
        // What starts at or after this has been walked.
        let mut walked_ns = u64::MAX;
        if coarse == 0 {
            walk(&self.points, window, &mut walked_ns, &mut visit);
        } else if let Some(latest) = self.points.back() {
            // The newest point and the runs that still grow are in no coarser level yet.
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

/// Adds a point, or a run of them, and drops what is too old or too much.
fn keep(points: &mut VecDeque<TimelinePoint>, newest: TimelinePoint, bounds: Bounds) {
    points.push_back(newest);
    let is_old = |p: &TimelinePoint| p.end_ns < newest.start_ns.saturating_sub(bounds.ns);
    while points.len() > bounds.points || points.front().is_some_and(is_old) {
        points.pop_front();
    }
}

/// Walks the points, which are in order and do not overlap, from the end of the window back to its start.
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
