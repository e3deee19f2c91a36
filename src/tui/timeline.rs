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

pub use point::{GPUS, Percent, Point, Small, parts, read_bytes_s};
pub use window::Window;

use std::collections::VecDeque;

use crate::diagnosis::verdict::Class;
use crate::rates::Frame;
use runs::Level;

/// Points kept, and runs of each coarser level: twenty minutes at ten a second, more than three hours at one.
pub const POINTS: usize = 12_000;

/// Longest runs of the coarser levels, nanoseconds: 1, 3, 10 and 30 s with a twentieth of slack, since intervals are
/// never quite as long as they were meant to be. A factor of about three from one to the next lets a draw find one
/// whose runs are between a sixth and a half of its column.
const RUNS_NS: [u64; 4] = [1_050_000_000, 3_150_000_000, 10_500_000_000, 31_500_000_000];

/// The points of the recent past.
#[derive(Debug, Clone)]
pub struct Timeline {
    /// As they came, oldest first. The newest is in no run yet: its class may be still to come.
    points: VecDeque<Point>,
    /// Coarser and coarser.
    levels: [Level; RUNS_NS.len()],
}

impl Default for Timeline {
    fn default() -> Self {
        Self { points: VecDeque::new(), levels: RUNS_NS.map(Level::new) }
    }
}

impl Timeline {
    /// Adds the values of a frame, dropping the oldest when full.
    pub fn push(&mut self, frame: &Frame) {
        let mut point = Point::of(frame);
        if let Some(last) = self.points.back() {
            if point.end_ns < last.end_ns {
                // The clock went backwards: what was has no place on this axis any more.
                *self = Self::default();
            }
        }
        if let Some(last) = self.points.back() {
            point.follow(last);
            // What a level is done with goes on to the next coarser one.
            let mut done = Some(*last);
            for level in &mut self.levels {
                done = done.and_then(|point| level.push(&point));
            }
        }
        if self.points.len() >= POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Notes the class that stands at the latest frame.
    pub fn mark(&mut self, class: Class) {
        if let Some(last) = self.points.back_mut() {
            last.class = Some(class);
        }
    }

    /// The newest point.
    #[must_use]
    pub fn latest(&self) -> Option<&Point> {
        self.points.back()
    }

    /// Start of the oldest time that is kept and end of the newest, CLOCK_MONOTONIC nanoseconds.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        let newest = self.points.back()?.end_ns;
        let oldest = self.levels.iter().filter_map(Level::first).chain(self.points.front());
        Some((oldest.map(|p| p.start_ns).min()?.min(newest), newest))
    }

    /// Whether something was seen before `window` begins: what is missing at its left edge is then a gap.
    #[must_use]
    pub fn began_before(&self, window: Window) -> bool {
        let mut oldest = self.levels.iter().filter_map(Level::first).chain(self.points.front());
        oldest.any(|p| i128::from(p.end_ns) <= window.start_ns())
    }

    /// Walks what reaches into `window` and calls `visit(column, seconds, point)` for every column that a point, or a
    /// run of points, covers, with the seconds it covers there.
    ///
    /// Runs are no longer than half a column; only where finer ones are not kept any more do longer ones stand in.
    pub fn spread(&self, window: Window, mut visit: impl FnMut(usize, f32, &Point)) {
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
                walk(level.closed(), window, &mut walked_ns, &mut visit);
            }
        }
    }
}

/// Walks the points, which are in order and do not overlap, from the end of the window back to its start.
fn walk(points: &VecDeque<Point>, window: Window, walked_ns: &mut u64, visit: &mut impl FnMut(usize, f32, &Point)) {
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
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn timeline(points: &[(f64, f64)]) -> Timeline {
        let mut t = Timeline::default();
        for (end_s, seconds) in points {
            t.push(&Frame { monotonic_ns: (end_s * 1e9) as u64, seconds: *seconds, ..Frame::default() });
        }
        t
    }

    #[test]
    fn a_point_covers_its_whole_interval() {
        let t = timeline(&[(1000.0, 2.0)]);
        let window = Window::of_cells(1_000_000_000_000, 10.0, 10);
        let mut seen = Vec::new();
        t.spread(window, |c, s, _| seen.push((c, s)));
        assert_eq!(seen, [(8, 1.0), (9, 1.0)]);
    }

    #[test]
    fn uncovered_time_is_left_out() {
        let t = timeline(&[(995.0, 1.0), (1000.0, 1.0)]);
        let mut seen = Vec::new();
        t.spread(Window::of_cells(1_000_000_000_000, 10.0, 10), |c, _, _| seen.push(c));
        seen.sort_unstable();
        assert_eq!(seen, [4, 9]);
    }

    #[test]
    fn the_edge_stays_while_time_runs_inside_one_cell() {
        let a = Window::of_cells(1_000_100_000_000, 60.0, 60);
        let b = Window::of_cells(1_000_900_000_000, 60.0, 60);
        assert_eq!(a.edge_ns, b.edge_ns);
    }

    #[test]
    fn a_mean_of_nothing_is_nothing() {
        assert_eq!(point::mean([None, Some(f64::NAN)].into_iter()).get(), None);
        assert_eq!(point::mean([None, Some(4.0), Some(6.0)].into_iter()).get(), Some(5.0));
    }

    proptest! {
        #[test]
        fn spreading_never_leaves_the_window(
            points in prop::collection::vec((0u64..2_000_000_000_000, 0.0f64..100.0), 0..40),
            now in any::<u64>(), span in 0.0f64..1000.0, cells in 0u16..500,
        ) {
            let mut t = Timeline::default();
            for (end_ns, seconds) in points {
                t.push(&Frame { monotonic_ns: end_ns, seconds, ..Frame::default() });
            }
            for now in [now, now % 2_000_000_000_000] {
                let window = Window::of_cells(now, span, cells);
                let mut visits = 0u32;
                t.spread(window.halved(), |c, s, _| {
                    assert!(c < window.columns * 2 && s >= 0.0);
                    visits += 1;
                });
                prop_assert!(visits <= 40 * 1000);
            }
        }
    }
}
