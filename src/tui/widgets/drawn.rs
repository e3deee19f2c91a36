//! What a frame leaves for later events: what a click hits, and how far lists can be scrolled.

use ratatui::layout::Rect;

/// Where a click hits what.
pub type Hits = Vec<(Rect, Hit)>;

/// What a click hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hit {
    /// The tab of the page at this index.
    Tab(usize),
    /// A timeline: its columns are moments.
    Chart,
    /// The time axis of timelines.
    Ruler,
    /// A row of the topmost list.
    Row(usize),
    /// The heading of this column of the list.
    Heading(usize),
    /// The gap at this place in the drawn step of a profile.
    Gap(usize),
}

/// The visible part of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extent {
    /// First visible row.
    pub top: usize,
    /// Number of visible rows.
    pub visible: usize,
    /// Number of rows in total.
    pub total: usize,
}

impl Extent {
    /// The largest possible first visible row: the last row is then visible too.
    pub fn last_top(self) -> usize {
        self.total.saturating_sub(self.visible)
    }

    /// The first visible row after scrolling by so many.
    pub fn scrolled(self, by: isize) -> usize {
        self.top.saturating_add_signed(by).min(self.last_top())
    }

    /// Moves the visible part just far enough to include `row`.
    pub fn showing(self, row: usize) -> Self {
        let visible = self.visible.max(1);
        let top = self.top.min(self.total.saturating_sub(visible));
        Self { top: top.clamp((row + 1).saturating_sub(visible), row), ..self }
    }
}

/// What was drawn where.
#[derive(Debug, Clone, Default)]
pub struct Drawn {
    /// Later ones are on top.
    pub hits: Hits,
    /// How far the page can be scrolled.
    pub page: Extent,
    /// The same for whatever covers the page.
    pub popup: Extent,
}

impl Drawn {
    /// What is at this cell, and the area that it is part of.
    pub fn at(&self, column: u16, row: u16) -> Option<(Rect, Hit)> {
        let (area, hit) = self.hits.iter().rev().find(|(area, _)| area.contains((column, row).into()))?;
        Some(match hit {
            // The rows of a list are one area.
            Hit::Row(first) => (*area, Hit::Row(first + usize::from(row - area.y))),
            hit => (*area, *hit),
        })
    }

    /// The timelines.
    pub fn charts(&self) -> impl Iterator<Item = Rect> {
        self.hits.iter().filter(|(_, hit)| *hit == Hit::Chart).map(|(area, _)| *area)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrolling_keeps_the_selected_row_in_view() {
        let mut extent = Extent { top: 0, visible: 10, total: 50 };
        for (selected, visible, top) in [(30, 10, 21), (22, 10, 21), (49, 100, 0)] {
            extent = Extent { visible, ..extent }.showing(selected);
            assert_eq!(extent.top, top);
        }
    }

    #[test]
    fn what_lies_on_top_is_hit_and_rows_are_counted() {
        let mut drawn = Drawn::default();
        drawn.hits.push((Rect::new(0, 0, 10, 10), Hit::Chart));
        drawn.hits.push((Rect::new(2, 2, 4, 4), Hit::Row(7)));
        assert_eq!(drawn.at(1, 1), Some((Rect::new(0, 0, 10, 10), Hit::Chart)));
        assert_eq!(drawn.at(5, 4).map(|(_, hit)| hit), Some(Hit::Row(9)));
        assert_eq!(drawn.at(10, 0), None);
        assert_eq!(drawn.charts().count(), 1);
    }
}
