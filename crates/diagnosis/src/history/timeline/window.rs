//! The stretch of time that a chart shows, and in which of its columns a moment falls.

use super::TimelinePoint;

/// A stretch of time cut into equal columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineWindow {
    /// End of the last column, CLOCK_MONOTONIC nanoseconds.
    pub edge_ns: u64,
    /// Points that end after this are not shown (while paused).
    pub end_ns: u64,
    /// Length of a column, nanoseconds, at least 1.
    pub column_ns: u64,
    /// Number of columns.
    pub columns: usize,
    /// Columns have fixed places and time wraps around: the newest replaces the oldest. Only new columns change on the
    /// terminal.
    pub sweep: bool,
}

/// Longest time that a sweep waits in order to draw each column only once, nanoseconds.
const HELD_BACK_NS: u64 = 5_000_000_000;

/// Longest column that is drawn together with others, nanoseconds.
const SHORT_NS: u64 = 1_500_000_000;
/// Fewest columns that are drawn together, and for how long they wait: nanoseconds, and a share of the window.
const TOGETHER: u64 = 2;
const TOGETHER_NS: u64 = 2_000_000_000;
const TOGETHER_SHARE: u64 = 5;

impl TimelineWindow {
    /// The window of `span_s` seconds that ends at `now_ns`, in `cells` terminal cells.
    ///
    /// Its right edge lies on whole cells of absolute time, so that a point stays in its cell from draw to draw and the picture
    /// moves by whole cells: fewer bytes over ssh, and no flicker from resampling. Short cells are drawn when a few are
    /// complete: every row of a chart costs a cursor movement and a color, for one new cell as for three.
    pub fn of_cells(now_ns: u64, span_s: f64, cells: u16) -> Self {
        let cells = cells.max(1);
        let column_ns = ((span_s * 1e9) as u64 / u64::from(cells)).max(2) & !1;
        let window = |edge_ns, end_ns| Self { edge_ns, end_ns, column_ns, columns: usize::from(cells), sweep: false };
        let edge_ns = now_ns.div_ceil(column_ns).saturating_mul(column_ns);
        if column_ns > SHORT_NS {
            return window(edge_ns, now_ns);
        }
        let wait_ns = TOGETHER_NS.min(column_ns * u64::from(cells) / TOGETHER_SHARE);
        let together_ns = wait_ns.div_ceil(column_ns).max(TOGETHER) * column_ns;
        let edge_ns = now_ns / together_ns * together_ns;
        window(edge_ns, edge_ns)
    }

    /// The same window with its columns at fixed places. A column is drawn once complete, if that is soon.
    pub fn sweeping(self) -> Self {
        if self.column_ns > HELD_BACK_NS || self.end_ns == self.edge_ns || self.edge_ns < self.column_ns {
            return Self { sweep: true, ..self };
        }
        let edge_ns = self.edge_ns - self.column_ns;
        Self { edge_ns, end_ns: edge_ns, sweep: true, ..self }
    }

    /// The place of a column in its chart, counted from the left; `None` for the oldest of a sweep, which leaves a gap
    /// between the newest and the oldest.
    pub fn place(self, column: usize) -> Option<usize> {
        if self.sweep {
            return (column > 0).then(|| self.swept(column));
        }
        Some(column)
    }

    fn swept(self, column: usize) -> usize {
        let columns = self.columns.max(1);
        let first = (self.start_ns() / i128::from(self.column_ns.max(1))).rem_euclid(columns as i128);
        (first as usize + column) % columns
    }

    /// Whether a column lies after the newest moment shown: nothing is missing there.
    pub fn is_ahead(self, column: usize) -> bool {
        self.start_ns() + i128::from(self.column_ns) * column as i128 >= i128::from(self.end_ns)
    }

    /// The same window with two columns in each cell, as braille has.
    pub fn halved(self) -> Self {
        Self { column_ns: self.column_ns / 2, columns: self.columns * 2, ..self }
    }

    /// Start of the first column; before the clock's zero on a machine that has just booted.
    pub(super) fn start_ns(self) -> i128 {
        i128::from(self.edge_ns) - i128::from(self.column_ns) * self.columns as i128
    }

    /// The place that shows the time up to `ns`, which is where a point that ends then is drawn; `None` outside the
    /// window.
    pub fn cell_of(self, ns: u64) -> Option<u16> {
        let into = u64::try_from(i128::from(ns) - self.start_ns() - 1).ok()?;
        let column = into / self.column_ns.max(1);
        let column = usize::try_from(column).ok().filter(|column| *column < self.columns)?;
        u16::try_from(if self.sweep { self.swept(column) } else { column }).ok()
    }

    /// Start and end of the time shown at a place, nanoseconds; the clock's zero for anything before it.
    pub fn ns_of(self, place: u16) -> (u64, u64) {
        let place = usize::from(place);
        let columns = self.columns.max(1);
        let column = if self.sweep { (place + columns - self.swept(0)) % columns } else { place };
        let start = self.start_ns() + i128::from(self.column_ns) * column as i128;
        let clamp = |ns: i128| u64::try_from(ns.max(0)).unwrap_or(u64::MAX);
        (clamp(start), clamp(start + i128::from(self.column_ns)))
    }

    /// Calls `visit` for every column covered by the part of `point` before `before_ns`. False once the point is before
    /// the window, because all older ones then are too.
    pub(super) fn cover(
        self,
        point: &TimelinePoint,
        before_ns: u64,
        visit: &mut impl FnMut(usize, f32, &TimelinePoint),
    ) -> bool {
        let start = self.start_ns();
        let end = point.end_ns.min(before_ns).min(self.end_ns);
        let Ok(to) = u64::try_from(i128::from(end) - start) else { return false };
        // From here on everything is inside the window, which is far shorter than 2⁶⁴ ns.
        let from = u64::try_from(i128::from(point.start_ns) - start).unwrap_or(0);
        if from >= to {
            return to > 0;
        }
        let width = self.column_ns;
        for column in (from / width) as usize..self.columns {
            let left = width.saturating_mul(column as u64);
            if left >= to {
                break;
            }
            let covered = to.min(left.saturating_add(width)).saturating_sub(from.max(left));
            visit(column, covered as f32 / 1e9, point);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_keeps_every_moment_where_it_is() {
        let at = |now_s: u64| TimelineWindow::of_cells(now_s * 1_000_000_000, 60.0, 30).sweeping();
        let (a, b) = (at(1_000), at(1_009));
        let moment = 990_500_000_000;
        assert_eq!(a.cell_of(moment), b.cell_of(moment));
        for window in [a, b] {
            let mut places: Vec<_> = (0..30).filter_map(|column| window.place(column)).collect();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), 29, "one place is the gap");
            let cell = window.cell_of(moment).unwrap();
            let (start, end) = window.ns_of(cell);
            assert!(start < moment && moment <= end);
        }
        // The newest stands just before the gap.
        let newest = b.place(29).unwrap();
        assert_eq!((newest + 1) % 30, b.swept(0));
        assert_eq!(b.edge_ns, 1_008_000_000_000, "an incomplete column waits");
    }
}
