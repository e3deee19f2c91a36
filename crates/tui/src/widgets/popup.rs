//! The box over a page.

use ratatui::buffer::Buffer;
use ratatui::layout::{Margin, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Block, BorderType, Clear, List, ListState, Padding, StatefulWidget, Widget};

use super::drawn::{Drawn, Extent};
use super::text::{Piece, count};
use crate::theme::Theme;
use trainmon_base::text::fit;

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
        let title = fit(self.title, usize::from(area.width.saturating_sub(4)));
        let block = Block::bordered()
            .border_type(BorderType::Rounded)
            .title_top(Line::from_iter([Span::raw("─"), Span::styled(title, theme.strong())]))
            .title_bottom(Line::styled(self.below, theme.dim()).right_aligned())
            .padding(Padding::horizontal(1));
        Clear.render(area, buf);
        (&block).render(area, buf);
        block.inner(area)
    }

    /// Draws the box with lines of text, `margin` rows above and below them.
    pub fn text(self, buf: &mut Buffer, area: Rect, margin: u16, lines: &[Piece], theme: Theme) {
        let inner = self.frame(buf, area, count(lines.len()).saturating_add(2 * margin), theme);
        let lines = lines.iter().map(|(line, style)| Line::styled(line, *style));
        Text::from_iter(lines).render(inner.inner(Margin::new(0, margin)), buf);
    }

    /// Draws the box with as many lines as fit, from line `top` on, and notes how far they can be scrolled; `below` says how.
    pub fn scrolled(self, buf: &mut Buffer, lines: &[Piece], top: usize, drawn: &mut Drawn, theme: Theme) {
        let area = buf.area;
        let rows = count(lines.len()).min(area.height.saturating_sub(4));
        let extent = Extent { top, visible: usize::from(rows), total: lines.len() };
        drawn.popup = Extent { top: top.min(extent.last_top()), ..extent };
        let Extent { top, visible, total } = drawn.popup;
        let below = if total > visible {
            format!(" ↑ ↓ {}/{total}, Esc closes ", top + visible)
        } else {
            " Esc closes ".to_owned()
        };
        let shown = lines.get(top..top + visible).unwrap_or_default();
        PopupBox { below: &below, ..self }.text(buf, area, 0, shown, theme);
    }

    /// Draws the box with a list, scrolled so that the selected row is visible.
    pub fn list<'l>(
        self,
        buf: &mut Buffer,
        area: Rect,
        rows: impl IntoIterator<Item = Line<'l>>,
        selected: usize,
        theme: Theme,
    ) {
        let list = List::new(rows).highlight_style(theme.selected());
        let inner = self.frame(buf, area, count(list.len()), theme);
        StatefulWidget::render(list, inner, buf, &mut ListState::default().with_selected(Some(selected)));
    }
}
