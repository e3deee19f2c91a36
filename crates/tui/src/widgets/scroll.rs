//! A page that may be longer than its body: drawn from its first line to its last, but only visible lines cost
//! anything.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::chart::{self, ChartLine};
use super::drawn::{Drawn, Extent, Hit, Hits};
use super::panel;
use super::scene::Scene;
use super::text::{count, write_lines};
use super::tile::{self, Tile};
use crate::charts::MAX_CELLS;

/// Draws a page with `top` lines scrolled out above the body, or fewer if the page is shorter.
pub fn scrolled(buf: &mut Buffer, area: Rect, top: usize, drawn: &mut Drawn, page: impl Fn(&mut Scroll<'_>)) {
    let hits = drawn.hits.len();
    let draw = |buf: &mut Buffer, hits: &mut Hits, top: usize| {
        let mut scroll = Scroll { buf, area, top, line: 0, hits };
        page(&mut scroll);
        Extent { top, visible: usize::from(area.height), total: scroll.line }
    };
    let mut extent = draw(buf, &mut drawn.hits, top);
    // The length of a page is known once it has been drawn.
    if top > extent.last_top() {
        for position in area.positions() {
            buf.cell_mut(position).map(ratatui::buffer::Cell::reset);
        }
        drawn.hits.truncate(hits);
        extent = draw(buf, &mut drawn.hits, extent.last_top());
    }
    drawn.page = extent;
}

/// The visible part of a page, and how far it has been drawn.
#[derive(Debug)]
pub struct Scroll<'a> {
    /// Where it is drawn.
    pub buf: &'a mut Buffer,
    /// The body.
    pub area: Rect,
    top: usize,
    /// The next line of the page.
    line: usize,
    hits: &'a mut Hits,
}

impl Scroll<'_> {
    /// The part of the next `rows` lines that will be visible; empty if no part of it is.
    pub fn peek(&self, rows: u16) -> Rect {
        let from = self.line.max(self.top) - self.top;
        let to = (self.line + usize::from(rows)).saturating_sub(self.top).min(usize::from(self.area.height));
        let from = from.min(to);
        Rect { y: self.area.y + from as u16, height: (to - from) as u16, ..self.area }
    }

    /// The visible part of the next `rows` lines, which are drawn now.
    pub fn next(&mut self, rows: u16) -> Rect {
        let rect = self.peek(rows);
        self.line += usize::from(rows);
        rect
    }

    /// Draws lines of text.
    pub fn lines(&mut self, lines: &[Line<'_>]) {
        self.each(lines, Line::clone);
    }

    /// Gives each of `rows` a line; only visible ones are made.
    pub fn each<'l, R>(
        &mut self,
        rows: impl IntoIterator<Item = R, IntoIter: ExactSizeIterator>,
        line: impl FnMut(R) -> Line<'l>,
    ) {
        let rows = rows.into_iter();
        let (above, area) = (self.top.saturating_sub(self.line), self.peek(count(rows.len())));
        self.line += rows.len();
        let lines: Vec<_> = rows.skip(above).take(usize::from(area.height)).map(line).collect();
        write_lines(self.buf, area, &lines);
    }

    /// Draws timelines as tiles with their time axis, each with a text to show if there is nothing to draw: in `spare`
    /// rows if there are that many, none higher than `highest`.
    pub fn timelines(&mut self, timelines: &[(ChartLine, &str)], spare: u16, highest: u16, scene: &Scene<'_>) {
        let tiles: Vec<Tile> = timelines.iter().map(|(line, empty)| Tile::chart(*line, empty, scene)).collect();
        self.tiles(&tiles, spare, highest, scene);
    }

    /// Draws tiles over the width of the page, in `spare` rows if there are that many, none higher than `highest` and
    /// its edges.
    pub fn tiles(&mut self, tiles: &[Tile], spare: u16, highest: u16, scene: &Scene<'_>) {
        // Tiles of one width share a time axis.
        let columns = match (tile::columns(self.buf.area), tiles.len()) {
            (1, _) => 1,
            (_, 3) => 3,
            _ => 2,
        };
        let (rows, edges) = (tile::rows(tiles.len(), columns), panel::edges(self.buf.area));
        let axis = u16::from(!panel::framed(self.buf.area));
        let height = (spare.saturating_sub(axis) / rows.max(1)).saturating_sub(edges).clamp(1, highest);
        for (place, row) in (1..).zip(tiles.chunks(usize::from(columns))) {
            let area = self.next(height + edges);
            tile::draw_row(self.buf, area, row, place == rows, scene, self.hits);
        }
        let area = self.next(axis);
        if area.height > 0 {
            tile::ruler(self.buf, tile::plot(area), scene, self.hits);
        }
    }

    /// Notes that there is a timeline here.
    pub fn chart(&mut self, area: Rect) {
        self.hits.push((area, Hit::Chart));
    }

    /// Draws the time axis on the next line, below charts that begin at `x`.
    pub fn ruler(&mut self, x: u16, scene: &Scene<'_>) {
        let rect = self.next(1);
        if rect.height > 0 {
            let area = beside(rect, x);
            chart::ruler(self.buf, area, scene);
            self.hits.push((area, Hit::Ruler));
        }
    }
}

/// The part of some rows that has timelines beside text, from column `x` on.
pub fn beside(rows: Rect, x: u16) -> Rect {
    Rect { x, width: rows.right().saturating_sub(x).min(MAX_CELLS as u16), ..rows }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_visible_lies_in_the_body(
            y in 0u16..50, height in 0u16..100, top in 0usize..1000, parts in proptest::collection::vec((0u16..50, any::<bool>()), 0..50),
        ) {
            let area = Rect::new(0, y, 4, height);
            let mut buf = Buffer::empty(Rect::new(0, 0, 4, 200));
            let mut drawn = Drawn::default();
            scrolled(&mut buf, area, top, &mut drawn, |scroll| {
                for (rows, one_by_one) in &parts {
                    let line = scroll.line;
                    if *one_by_one {
                        scroll.lines(&vec![Line::default(); usize::from(*rows)]);
                    } else {
                        let rect = scroll.next(*rows);
                        assert!(rect.height == 0 || rect.y >= area.y);
                        assert!(rect.bottom() <= area.bottom());
                    }
                    assert_eq!(scroll.line, line + usize::from(*rows));
                }
            });
            let total: usize = parts.iter().map(|(rows, _)| usize::from(*rows)).sum();
            prop_assert_eq!(drawn.page, Extent { top: top.min(total.saturating_sub(usize::from(height))), visible: usize::from(height), total });
        }
    }
}
