//! How many rows each section of the overview gets, for every size of terminal.
//!
//! The same sections at every size: from the smallest usable screen upwards, spare rows are given out in a fixed order of
//! importance, so a section is there whole or not at all and nothing is squeezed into uselessness.

use ratatui::layout::Rect;

use super::timelines::CHARTS;
use crate::diagnosis::Verdict;
use crate::rates::Frame;
use crate::tui::widgets::{bars, count};

/// Highest timeline worth its rows.
const CHART_MAX: u16 = 8;

/// Heights of the sections; title, strip of verdicts, time axis and footer have a row each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverviewRows {
    /// The verdict.
    pub banner: u16,
    /// What the loop waits for, in one line, if its waits were followed.
    pub chain: u16,
    /// Where the main thread's time goes.
    pub main: u16,
    /// Each of the timelines.
    pub chart: u16,
    /// One bar for each rank, where there are several.
    pub ranks: u16,
    /// One bar for each worker.
    pub workers: u16,
}

impl OverviewRows {
    /// The heights in a terminal of this size.
    pub fn new(area: Rect, frame: Option<&Frame>, verdict: Option<&Verdict>) -> Self {
        let (workers, ranks) = frame.map_or((0, 0), |frame| (frame.workers.len(), frame.trainers.len()));
        let chain = verdict.is_some_and(|verdict| !verdict.chain.is_empty());
        give_out(area.width, area.height, workers, ranks, chain)
    }

    fn total(self) -> u16 {
        let charts = self.chart.saturating_mul(CHARTS);
        [self.banner, self.chain, self.main, charts, self.ranks, self.workers]
            .into_iter()
            .fold(4, u16::saturating_add)
    }
}

/// Gives the rows of the screen to its sections, the most useful first.
fn give_out(width: u16, height: u16, workers: usize, ranks: usize, chain: bool) -> OverviewRows {
    let rows_of = |bars: usize| match count(bars) {
        0 => 0,
        bars => bars.div_ceil(bars::columns(width)).saturating_add(1),
    };
    let workers = rows_of(workers);
    let ranks = if ranks > 1 { rows_of(ranks) } else { 0 };
    let mut rows = OverviewRows { banner: 3, chain: 0, main: 1, chart: 1, ranks: 0, workers: 0 };
    let steps: [&dyn Fn(&mut OverviewRows); 18] = [
        &|rows| rows.banner = 4,
        &|rows| rows.chain = chain.into(),
        &|rows| rows.ranks = ranks.min(5),
        &|rows| rows.workers = workers.min(3),
        &|rows| rows.chart = 2,
        &|rows| rows.main = 3,
        &|rows| rows.workers = workers.min(5),
        // 80×24 ends here.
        &|rows| rows.banner = 5,
        &|rows| rows.chart = 3,
        &|rows| (rows.banner, rows.main) = (6, 4),
        &|rows| rows.ranks = ranks,
        &|rows| rows.workers = workers.min(9),
        &|rows| rows.chart = 4,
        &|rows| rows.main = 6,
        &|rows| rows.banner = 8,
        &|rows| (rows.chart, rows.main) = (5, 8),
        &|rows| rows.workers = workers,
        &|rows| rows.banner = 10,
    ];
    for step in steps {
        let mut grown = rows;
        step(&mut grown);
        if grown.total() <= height {
            rows = grown;
        }
    }
    let spare = height.saturating_sub(rows.total());
    let more = (spare / (CHARTS + 1)).min(CHART_MAX.saturating_sub(rows.chart));
    rows.chart += more;
    rows.main += more;
    let spare = height.saturating_sub(rows.total());
    rows.main += spare.min(4);
    rows
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_smallest_usual_terminal_has_everything_that_matters() {
        let rows = give_out(80, 24, 4, 1, true);
        assert!(rows.banner >= 5 && rows.chain == 1 && rows.chart == 2 && rows.main >= 3 && rows.workers >= 3);
    }

    #[test]
    fn eight_ranks_leave_room_for_the_rest() {
        let rows = give_out(80, 24, 32, 8, true);
        assert_eq!(rows.ranks, 5);
        assert!(rows.workers >= 2 && rows.banner >= 4);
    }

    #[test]
    fn larger_terminals_are_used() {
        assert!(give_out(200, 60, 4, 1, true).chart >= 4);
    }

    proptest! {
        #[test]
        fn sections_fit_the_screen(
            width in 60u16..700, height in 15u16..300, workers in 0usize..100_000, ranks in 0usize..100_000,
            chain in any::<bool>(),
        ) {
            let rows = give_out(width, height, workers, ranks, chain);
            prop_assert!(rows.total() <= height);
            prop_assert_eq!(rows.chain, u16::from(chain));
            prop_assert!(rows.banner >= 3 && rows.main >= 1 && rows.chart >= 1);
            prop_assert!(rows.ranks == 0 || ranks > 1);
        }
    }
}
