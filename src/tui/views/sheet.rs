//! A page that is longer than its body: lines by their place on the page, drawn where the scrolled body shows them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

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

/// Sets pieces one after the other, a comma between them, into the rows of `area`, as many as fit.
pub fn list(buf: &mut Buffer, area: Rect, pieces: &[(String, Style)]) {
    let mut rows = area.height;
    let mut end = area.x;
    for (i, (piece, (text, style))) in Listed::new(area.width, pieces).zip(pieces).enumerate() {
        if piece.row >= rows {
            rows = 0;
            continue;
        }
        let y = area.y + piece.row;
        let x = area.x + piece.x;
        if i > 0 && piece.x > 0 {
            super::write(buf, end, y, area.right(), ",", *style);
        }
        end = super::write(buf, x, y, area.right(), text, *style);
    }
}

/// Rows that [`list`] needs for `pieces` in `width` cells.
pub fn list_rows(width: u16, pieces: &[(String, Style)]) -> u16 {
    Listed::new(width, pieces).last().map_or(0, |piece| piece.row.saturating_add(1))
}

/// Where a piece stands.
#[derive(Debug, Clone, Copy)]
struct Piece {
    x: u16,
    row: u16,
}

/// Finds a place for each piece: on the row of the one before it, or on the next.
struct Listed<'p> {
    pieces: std::slice::Iter<'p, (String, Style)>,
    width: u16,
    next: Piece,
}

impl<'p> Listed<'p> {
    fn new(width: u16, pieces: &'p [(String, Style)]) -> Self {
        Self { pieces: pieces.iter(), width, next: Piece { x: 0, row: 0 } }
    }
}

impl Iterator for Listed<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let (text, _) = self.pieces.next()?;
        let cells = super::cells(text);
        if self.next.x > 0 && self.next.x.saturating_add(cells) > self.width {
            self.next = Piece { x: 0, row: self.next.row.saturating_add(1) };
        }
        let here = self.next;
        self.next.x = here.x.saturating_add(cells).saturating_add(2);
        Some(here)
    }
}

/// Labels the top and the bottom of a chart's axis.
pub fn axis(buf: &mut Buffer, band: Band, top: &str, theme: Theme) {
    let end = band.axis.right().saturating_sub(1);
    super::write_right(buf, band.axis.x, band.axis.y, end, top, theme.dim());
    if band.axis.height > 1 {
        super::write_right(buf, band.axis.x, band.axis.bottom() - 1, end, "0", theme.dim());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_break_between_pieces_and_say_how_many_rows_they_need() {
        let pieces: Vec<_> = ["one", "two", "three"].map(|text| (text.to_owned(), Style::new())).to_vec();
        assert_eq!([8, 7, 5, 15].map(|width| list_rows(width, &pieces)), [2, 3, 3, 1]);
        let area = Rect::new(0, 0, 8, 2);
        let mut buf = Buffer::empty(area);
        list(&mut buf, area, &pieces);
        assert_eq!(buf, Buffer::with_lines(["one, two", "three   "]));
    }

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
