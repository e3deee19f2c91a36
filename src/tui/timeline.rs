//! The few numbers of each frame that the timelines draw, kept small so that a draw walks kilobytes, not frames.
//!
//! A point stands for the time from `end_ns − seconds` to `end_ns`. Time that no point covers, and a value that a point
//! does not have, is a gap and is drawn as one.

use std::collections::VecDeque;

use crate::diagnosis::verdict::Class;
use crate::rates::Frame;

/// Points kept: ten minutes at ten a second.
pub const POINTS: usize = 6000;

/// The drawn values of one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// Sequence of the frame.
    pub sequence: u64,
    /// CLOCK_MONOTONIC at the end of the interval, nanoseconds.
    pub end_ns: u64,
    /// Length of the interval, seconds.
    pub seconds: f32,
    /// Mean utilisation of the job's devices, percent.
    pub gpu: Option<f32>,
    /// Use of the allowed CPUs, percent.
    pub cpu: Option<f32>,
    /// Bytes per second fetched from storage.
    pub io: Option<f32>,
    /// Mean share of time in which the workers had something to do, percent.
    pub loader: Option<f32>,
    /// Shares of the main threads' time: wait, sync, host, checkpoint, other.
    pub parts: Option<[f32; 5]>,
    /// The class that stood at this frame.
    pub class: Option<Class>,
}

impl Point {
    /// Takes the drawn values out of a frame.
    #[must_use]
    pub fn of(frame: &Frame) -> Self {
        Self {
            sequence: frame.sequence,
            end_ns: frame.monotonic_ns,
            seconds: frame.seconds as f32,
            gpu: mean(frame.gpus.iter().filter(|g| g.attached && !g.lost).map(|g| g.utilization_pct)),
            cpu: finite(frame.host.allowed_cpu_pct),
            io: finite(read_bytes_s(frame)),
            loader: mean(frame.workers.iter().map(|w| w.idle.map(|idle| (1.0 - idle) * 100.0))),
            parts: parts(frame).map(|p| p.map(|v| v as f32)),
            class: None,
        }
    }
}

/// Bytes per second that the job fetches from storage: its own counters, else those of the devices its data lies on.
#[must_use]
pub fn read_bytes_s(frame: &Frame) -> Option<f64> {
    let devices = frame.storage.read_bytes_s.filter(|_| frame.storage.data_devices_known);
    frame.job.read_bytes_s.or(devices)
}

/// Shares of the main threads' time over all trainers: wait, sync, host, checkpoint, other; 0–1 each.
#[must_use]
pub fn parts(frame: &Frame) -> Option<[f64; 5]> {
    let mut sums = [0.0; 5];
    for t in &frame.trainers {
        let values = [t.input_wait_s, t.device_sync_s, t.host_busy_s, t.checkpoint_s, t.other_s];
        for (sum, value) in sums.iter_mut().zip(values) {
            *sum += if value.is_finite() { value.max(0.0) } else { 0.0 };
        }
    }
    let total: f64 = sums.iter().sum();
    (total > 0.0).then(|| sums.map(|s| s / total))
}

fn finite(value: Option<f64>) -> Option<f32> {
    value.map(|v| v as f32).filter(|v| v.is_finite())
}

/// Mean of the values that are there; nothing when none is.
fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f32> {
    let (mut sum, mut count) = (0.0, 0u32);
    for v in values.flatten().filter(|v| v.is_finite()) {
        sum += v;
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)) as f32)
}

/// The points of the recent past, oldest first.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    points: VecDeque<Point>,
}

impl Timeline {
    /// Adds the values of a frame, dropping the oldest when full.
    pub fn push(&mut self, frame: &Frame) {
        if self.points.len() >= POINTS {
            self.points.pop_front();
        }
        self.points.push_back(Point::of(frame));
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

    /// Whether something was seen before `window` begins: what is missing at its left edge is then a gap.
    #[must_use]
    pub fn began_before(&self, window: Window) -> bool {
        self.points.front().is_some_and(|p| i128::from(p.end_ns) <= window.start_ns())
    }

    /// Walks the points that reach into `window` and calls `visit(column, seconds, point)` for every column that one
    /// of them covers, with the seconds it covers there.
    pub fn spread(&self, window: Window, mut visit: impl FnMut(usize, f32, &Point)) {
        let start = window.start_ns();
        for point in self.points.iter().rev() {
            if point.end_ns > window.end_ns {
                continue;
            }
            let to = i128::from(point.end_ns) - start;
            if to <= 0 {
                break;
            }
            // From here on everything lies inside the window, which is far shorter than 2⁶⁴ ns.
            let Ok(to) = u64::try_from(to) else { continue };
            let length = (f64::from(point.seconds.max(0.0)) * 1e9) as u64;
            let from = to.saturating_sub(length);
            let width = window.column_ns;
            for column in (from / width) as usize..window.columns {
                let left = width.saturating_mul(column as u64);
                if left >= to {
                    break;
                }
                let covered = to.min(left.saturating_add(width)) - from.max(left);
                visit(column, covered as f32 / 1e9, point);
            }
        }
    }
}

/// A stretch of time cut into equal columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// End of the last column, CLOCK_MONOTONIC nanoseconds.
    pub edge_ns: u64,
    /// Points that end after this are not shown (a pause keeps them back).
    pub end_ns: u64,
    /// Length of a column, nanoseconds, at least 1.
    pub column_ns: u64,
    /// Number of columns.
    pub columns: usize,
}

impl Window {
    /// The window of `span_s` seconds that ends at `now_ns`, in `cells` terminal cells.
    ///
    /// Its right edge lies on a whole cell of absolute time, so that a point stays in its cell from draw to draw
    /// and the picture moves by whole cells: fewer bytes over ssh, and no flicker from resampling.
    #[must_use]
    pub fn of_cells(now_ns: u64, span_s: f64, cells: u16) -> Self {
        let cells = cells.max(1);
        let column_ns = ((span_s * 1e9) as u64 / u64::from(cells)).max(2) & !1;
        let edge_ns = now_ns.div_ceil(column_ns).saturating_mul(column_ns);
        Self { edge_ns, end_ns: now_ns, column_ns, columns: usize::from(cells) }
    }

    /// The same window with two columns in each cell, as braille has.
    #[must_use]
    pub fn halved(self) -> Self {
        Self { column_ns: self.column_ns / 2, columns: self.columns * 2, ..self }
    }

    /// Start of the first column; before the clock's zero on a machine that has just been started.
    fn start_ns(self) -> i128 {
        i128::from(self.edge_ns) - i128::from(self.column_ns) * self.columns as i128
    }
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
        assert_eq!(mean([None, Some(f64::NAN)].into_iter()), None);
        assert_eq!(mean([None, Some(4.0), Some(6.0)].into_iter()), Some(5.0));
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
