//! A page that is longer than its body: lines by their place on the page, drawn where the scrolled body shows them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::charts::{self, Columns};
use crate::tui::layout::{self, Band};
use crate::tui::theme::Theme;

/// The part of a page that is visible.
#[derive(Debug, Clone, Copy)]
pub struct Sheet {
    /// The body.
    pub area: Rect,
    /// First line of the page that is visible.
    top: usize,
}

impl Sheet {
    /// A page of which `top` lines are above the body.
    pub fn new(area: Rect, top: usize) -> Self {
        Self { area, top }
    }

    /// What is visible of `rows` lines from `line` on; empty where nothing is.
    pub fn rect(&self, line: usize, rows: u16) -> Rect {
        let height = usize::from(self.area.height);
        let from = line.max(self.top) - self.top;
        let to = (line + usize::from(rows)).saturating_sub(self.top).min(height);
        let from = from.min(to);
        Rect { y: self.area.y + from as u16, height: (to - from) as u16, ..self.area }
    }

    /// One line; none where it is not visible.
    pub fn line(&self, line: usize) -> Option<Rect> {
        Some(self.rect(line, 1)).filter(|rect| rect.height > 0)
    }

    /// Which of `count` lines from `line` on are visible, with their rows.
    pub fn visible(&self, line: usize, count: usize) -> impl Iterator<Item = (usize, Rect)> + use<> {
        let sheet = *self;
        let first = self.top.saturating_sub(line).min(count);
        let past = (self.top + usize::from(self.area.height)).saturating_sub(line).min(count);
        (first..past).filter_map(move |i| Some((i, sheet.line(line + i)?)))
    }

    /// Name, value axis and chart of `rows` lines from `line` on, in the overview's columns. What is only partly visible
    /// is drawn smaller, not cut.
    pub fn band(&self, line: usize, rows: u16) -> Option<Band> {
        let rect = self.rect(line, rows);
        (rect.height > 0).then(|| layout::band(rect))
    }
}

/// Draws a timeline with the top and the bottom of its axis; `top` names the value at the top.
pub fn chart(buf: &mut Buffer, band: Band, columns: &Columns, (max, top): (f32, &str), style: ratatui::style::Style, theme: Theme) {
    let end = band.axis.right().saturating_sub(1);
    super::write_right(buf, band.axis.x, band.axis.y, end, top, theme.dim());
    if band.axis.height > 1 {
        super::write_right(buf, band.axis.x, band.axis.bottom() - 1, end, "0", theme.dim());
    }
    charts::timeline(buf, band.chart, columns, max, style, theme);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_visible_lies_in_the_body(
            y in 0u16..50, height in 0u16..100, top in 0usize..1000, line in 0usize..1000, rows in 0u16..50, count in 0usize..500,
        ) {
            let area = Rect::new(0, y, 80, height);
            let sheet = Sheet::new(area, top);
            let rect = sheet.rect(line, rows);
            prop_assert!(rect.height == 0 || rect.y >= area.y);
            prop_assert!(rect.bottom() <= area.bottom());
            let mut last = None;
            for (i, rect) in sheet.visible(line, count) {
                prop_assert_eq!(usize::from(rect.y - area.y) + top, line + i);
                prop_assert!(i < count && last < Some(i));
                last = Some(i);
            }
        }
    }
}
