//! The box over a page.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::{Block, BorderType, Clear, Widget};

use super::drawn::{Drawn, Extent};
use super::list::list;
use super::text::{Piece, count, write, write_fit, write_right};
use crate::theme::Theme;

/// A box over the page.
#[derive(Debug, Clone, Copy)]
pub struct PopupBox<'t> {
    /// On the upper border.
    pub title: &'t str,
    /// On the lower border.
    pub below: &'t str,
    /// Width, including borders.
    pub width: u16,
}

impl PopupBox<'_> {
    /// Draws the box in the middle of `area`, as large as fits, for so many rows; returns the inner area.
    pub fn frame(self, buf: &mut Buffer, area: Rect, rows: u16, theme: Theme) -> Rect {
        let (width, height) = (self.width.min(area.width), rows.saturating_add(2).min(area.height));
        let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 2);
        self.frame_at(buf, Rect { x, y, width, height }, theme)
    }

    /// Clears the cells of `area`, draws a border around them and returns the inner area.
    pub fn frame_at(self, buf: &mut Buffer, area: Rect, theme: Theme) -> Rect {
        Clear.render(area, buf);
        Block::bordered().border_type(BorderType::Rounded).render(area, buf);
        let title = Rect { x: area.x + 2, width: area.width.saturating_sub(4), ..area };
        write_fit(buf, title, self.title, theme.strong());
        let end = area.right().saturating_sub(1);
        write_right(buf, area.x + 1, area.bottom().saturating_sub(1), end, self.below, theme.dim());
        Rect {
            x: area.x + area.width.min(2),
            y: area.y + area.height.min(1),
            width: area.width.saturating_sub(4),
            height: area.height.saturating_sub(2),
        }
    }

    /// Draws the box with lines of text, `margin` rows above and below them.
    pub fn text(self, buf: &mut Buffer, area: Rect, margin: u16, lines: &[Piece], theme: Theme) {
        let inner = self.frame(buf, area, count(lines.len()).saturating_add(2 * margin), theme);
        for ((line, style), row) in lines.iter().zip(inner.rows().skip(usize::from(margin))) {
            write(buf, row.x, row.y, row.right(), line, *style);
        }
    }

    /// Draws the box with as many lines as fit, from line `top` on, and notes how far they can be scrolled; `below` says how.
    pub fn scrolled(self, buf: &mut Buffer, lines: &[Piece], top: usize, drawn: &mut Drawn, theme: Theme) {
        let area = buf.area;
        let rows = count(lines.len()).min(area.height.saturating_sub(4));
        let extent = Extent { top, visible: usize::from(rows), total: lines.len() };
        drawn.popup = Extent { top: top.min(extent.last_top()), ..extent };
        let Extent { top, visible, total } = drawn.popup;
        let below = match total > visible {
            true => format!(" ↑ ↓ {}/{total}, Esc closes ", top + visible),
            false => " Esc closes ".to_owned(),
        };
        let shown = lines.get(top..top + visible).unwrap_or_default();
        PopupBox { below: &below, ..self }.text(buf, area, 0, shown, theme);
    }

    /// Draws the box with a list, scrolled so that the selected row is visible.
    pub fn list<R>(
        self,
        buf: &mut Buffer,
        area: Rect,
        rows: &[R],
        selected: usize,
        theme: Theme,
        draw: impl FnMut(&mut Buffer, Rect, &R),
    ) {
        let inner = self.frame(buf, area, count(rows.len()), theme);
        list(buf, inner, rows, 0, Some(selected), theme, draw);
    }
}
