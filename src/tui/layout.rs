//! Where everything stands on the overview, for every size of terminal.
//!
//! The same sections at every size: from the smallest usable screen upwards, spare rows are given out in a fixed order of
//! importance, so a section is there whole or not at all and nothing is squeezed into uselessness.

use ratatui::layout::Rect;

use super::charts::MAX_CELLS;

/// Smallest terminal that shows the whole overview.
pub const MIN_WIDTH: u16 = 60;
/// Smallest terminal that shows the whole overview.
pub const MIN_HEIGHT: u16 = 15;

/// Timelines drawn one below the other: GPU, loader, CPU, storage.
pub const CHARTS: usize = 4;

/// What the sections of the overview would like to show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// Workers of the job.
    pub workers: usize,
    /// Ranks: trainers under the target.
    pub ranks: usize,
}

/// The sections of the overview.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Name of the program, the target, step rate.
    pub title: Rect,
    /// The verdict.
    pub banner: Rect,
    /// Past verdicts.
    pub strip: Band,
    /// Where the main thread's time goes.
    pub main: Band,
    /// The timelines.
    pub charts: [Band; CHARTS],
    /// The time axis of all bands above.
    pub ruler: Rect,
    /// One bar for each rank, where there are several.
    pub ranks: Option<Rect>,
    /// One bar for each worker.
    pub workers: Option<Rect>,
    /// Pages and keys.
    pub footer: Rect,
}

/// A stretch of the shared time axis: text on the left, axis labels, the chart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Band {
    /// Name and numbers.
    pub text: Rect,
    /// Labels of the value axis.
    pub axis: Rect,
    /// The chart.
    pub chart: Rect,
}

/// Width of the axis labels, one blank included.
const AXIS: u16 = 5;

/// Highest timeline worth its rows.
const CHART_MAX: u16 = 8;

/// Heights of the sections while rows are given out.
#[derive(Debug, Clone, Copy)]
struct Rows {
    banner: u16,
    main: u16,
    chart: u16,
    ranks: u16,
    workers: u16,
}

impl Rows {
    /// Title, strip, ruler and footer take one row each.
    fn total(self) -> u16 {
        let charts = self.chart.saturating_mul(CHARTS as u16);
        [self.banner, self.main, charts, self.ranks, self.workers].into_iter().fold(4, u16::saturating_add)
    }
}

/// Rows of the verdict banner in a terminal of `height` rows on every page but the overview.
#[must_use]
pub fn banner_rows(height: u16) -> u16 {
    match height {
        0..20 => 2,
        20..40 => 3,
        _ => 4,
    }
}

/// Where a page other than the overview is drawn: between the banner and the footer.
#[must_use]
pub fn body(area: Rect) -> Rect {
    let above = 1 + banner_rows(area.height);
    Rect { y: area.y + above.min(area.height), height: area.height.saturating_sub(above + 1), ..area }
}

/// The parts of the list of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobsPlan {
    /// Border included.
    pub frame: Rect,
    /// Names of the columns.
    pub heading: Rect,
    /// The rows.
    pub rows: Rect,
    /// What is being typed, or a note.
    pub prompt: Rect,
    /// The selected row in full.
    pub preview: Rect,
    /// The preview stands right of the rows, not below them.
    pub beside: bool,
}

impl JobsPlan {
    /// Rows that are visible.
    #[must_use]
    pub fn visible(&self) -> u16 {
        self.rows.height
    }
}

/// Where the list of jobs stands in a terminal: over everything but title and footer, with the preview beside the rows
/// where the terminal is wide, else below them. In tiny terminals parts are empty.
#[must_use]
pub fn jobs(area: Rect) -> JobsPlan {
    let rows = area.height.saturating_sub(2);
    let frame = Rect { x: area.x, y: area.y + area.height.min(1), width: area.width, height: rows };
    let inner = Rect {
        x: frame.x + frame.width.min(2),
        y: frame.y + frame.height.min(1),
        width: frame.width.saturating_sub(4),
        height: frame.height.saturating_sub(2),
    };
    let beside = inner.width >= 150;
    let (list, preview) = if beside {
        let width = inner.width * 3 / 5;
        let preview = Rect { x: inner.x + width + 2, width: inner.width - width - 2, ..inner };
        (Rect { width, ..inner }, preview)
    } else {
        let below = inner.height * 11 / 20;
        let list = Rect { height: inner.height - below, ..inner };
        // A line between the two.
        (list, Rect { y: list.bottom() + below.min(1), height: below.saturating_sub(1), ..inner })
    };
    let heading = Rect { height: list.height.min(1), ..list };
    let prompt = Rect { y: list.bottom().saturating_sub(1).max(list.y), height: list.height.min(1), ..list };
    let rows = Rect { y: heading.bottom(), height: list.height.saturating_sub(2), ..list };
    JobsPlan { frame, heading, rows, prompt, preview, beside }
}

/// How many bars of workers or ranks stand side by side in `width` cells.
#[must_use]
pub fn bar_columns(width: u16) -> u16 {
    (width / 40).max(1)
}

/// Lays the overview out, or nothing where the terminal is too small for it.
#[must_use]
pub fn plan(area: Rect, wants: Wants) -> Option<Plan> {
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        return None;
    }
    let rows = give_out(area.width, area.height, wants);
    let mut y = area.y;
    let mut take = |height: u16| {
        let rect = Rect::new(area.x, y, area.width, height);
        y += height;
        rect
    };
    let mut plan = Plan {
        title: take(1),
        banner: take(rows.banner),
        strip: band(take(1)),
        main: band(take(rows.main)),
        charts: std::array::from_fn(|_| band(take(rows.chart))),
        ruler: band(take(1)).chart,
        ranks: Some(take(rows.ranks)).filter(|r| r.height > 0),
        workers: Some(take(rows.workers)).filter(|r| r.height > 0),
        footer: Rect::default(),
    };
    plan.footer = Rect { y: area.bottom() - 1, height: 1, ..area };
    Some(plan)
}

/// Gives the rows of the screen to its sections, the most useful first.
fn give_out(width: u16, height: u16, wants: Wants) -> Rows {
    let bars = |count: usize| {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        if count == 0 { 0 } else { count.div_ceil(bar_columns(width)).saturating_add(1) }
    };
    let workers = bars(wants.workers);
    let ranks = if wants.ranks > 1 { bars(wants.ranks) } else { 0 };
    let mut rows = Rows { banner: 3, main: 1, chart: 1, ranks: 0, workers: 0 };
    let steps = [
        Rows { banner: 4, ..rows },
        Rows { ranks: ranks.min(5), ..rows },
        Rows { workers: workers.min(3), ..rows },
        Rows { chart: 2, ..rows },
        Rows { main: 3, ..rows },
        Rows { workers: workers.min(5), ..rows },
        // 80×24 ends here.
        Rows { banner: 5, ..rows },
        Rows { chart: 3, ..rows },
        Rows { banner: 6, main: 4, ..rows },
        Rows { ranks, ..rows },
        Rows { workers: workers.min(9), ..rows },
        Rows { chart: 4, ..rows },
        Rows { main: 6, ..rows },
        Rows { banner: 8, ..rows },
        Rows { chart: 5, main: 8, ..rows },
        Rows { workers, ..rows },
        Rows { banner: 10, ..rows },
    ];
    for step in steps {
        let grown = Rows {
            banner: rows.banner.max(step.banner),
            main: rows.main.max(step.main),
            chart: rows.chart.max(step.chart),
            ranks: rows.ranks.max(step.ranks),
            workers: rows.workers.max(step.workers),
        };
        if grown.total() <= height {
            rows = grown;
        }
    }
    let spare = height.saturating_sub(rows.total());
    let more = (spare / (CHARTS as u16 + 1)).min(CHART_MAX.saturating_sub(rows.chart));
    rows.chart += more;
    rows.main += more;
    let spare = height.saturating_sub(rows.total());
    rows.main += spare.min(4);
    rows
}

/// Width of the text left of the charts.
#[must_use]
fn text_width(width: u16) -> u16 {
    match width {
        0..100 => 20,
        100..160 => 27,
        _ => 34,
    }
}

/// Cuts a full-width row range into text, axis and chart, in the overview's columns.
#[must_use]
pub fn band(rect: Rect) -> Band {
    let text = text_width(rect.width).min(rect.width);
    let axis = AXIS.min(rect.width - text);
    let chart = (rect.width - text - axis).min(MAX_CELLS as u16);
    Band {
        // A blank keeps the text off the axis labels.
        text: Rect { width: text.saturating_sub(1), ..rect },
        axis: Rect { x: rect.x + text, width: axis, ..rect },
        chart: Rect { x: rect.x + text + axis, width: chart, ..rect },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(width: u16, height: u16) -> Plan {
        plan(Rect::new(0, 0, width, height), Wants { workers: 4, ranks: 1 }).unwrap()
    }

    #[test]
    fn the_smallest_usual_terminal_has_everything_that_matters() {
        let p = at(80, 24);
        assert!(p.banner.height >= 5);
        assert!(p.charts.iter().all(|c| c.chart.height == 2));
        assert!(p.main.chart.height >= 3);
        assert!(p.workers.unwrap().height >= 3);
        assert_eq!(p.footer.bottom(), 24);
    }

    #[test]
    fn eight_ranks_leave_room_for_the_rest() {
        let p = plan(Rect::new(0, 0, 80, 24), Wants { workers: 32, ranks: 8 }).unwrap();
        assert_eq!(p.ranks.unwrap().height, 5);
        assert!(p.workers.unwrap().height >= 2 && p.banner.height >= 4);
    }

    #[test]
    fn larger_terminals_are_used() {
        assert!(at(200, 60).charts.iter().all(|c| c.chart.height >= 4));
        assert!(plan(Rect::new(0, 0, 20, 5), Wants::default()).is_none());
    }

    proptest! {
        #[test]
        fn sections_tile_the_screen(
            width in 0u16..700, height in 0u16..300, workers in 0usize..100_000, ranks in 0usize..100_000,
        ) {
            let area = Rect::new(0, 0, width, height);
            if let Some(p) = plan(area, Wants { workers, ranks }) {
                let mut y = 0;
                let bands = [p.strip.chart, p.main.chart].into_iter().chain(p.charts.map(|c| c.chart));
                let below = p.ranks.into_iter().chain(p.workers);
                for r in [p.title, p.banner].into_iter().chain(bands).chain([p.ruler]).chain(below) {
                    prop_assert_eq!(r.y, y);
                    y = r.bottom();
                    prop_assert!(r.right() <= width);
                }
                prop_assert!(y < height && p.footer.y + 1 == height);
                prop_assert!(p.ruler.width >= 30);
            }
            let body = body(area);
            prop_assert!(body.bottom() <= height);
        }
    }
}
