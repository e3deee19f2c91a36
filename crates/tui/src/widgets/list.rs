//! Rows, one of which is selected.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::drawn::Extent;
use crate::theme::Theme;

/// Draws the rows that fit into `area`, starting at `top` or as close to it as possible with the selected row visible,
/// and marks the selected row. Returns which part of the list is visible.
pub fn list<R>(
    buf: &mut Buffer,
    area: Rect,
    rows: &[R],
    top: usize,
    selected: Option<usize>,
    theme: Theme,
    mut draw: impl FnMut(&mut Buffer, Rect, &R),
) -> Extent {
    let extent = Extent { top, visible: usize::from(area.height), total: rows.len() };
    let extent = extent.showing(selected.unwrap_or(0));
    for ((place, row), rect) in rows.iter().enumerate().skip(extent.top).zip(area.rows()) {
        draw(buf, rect, row);
        if Some(place) == selected {
            buf.set_style(rect, theme.selected());
        }
    }
    extent
}
