//! Bars of parts, and lists of bars, one for each worker or rank, side by side if the terminal is wide.

use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;

use super::panel;

/// How many bars fit side by side in `width` cells.
pub fn columns(width: u16) -> u16 {
    (width / 40).max(1)
}

/// The positions of a list's bars.
pub fn places(area: Rect) -> impl Iterator<Item = Rect> {
    let columns = columns(area.width);
    let width = area.width / columns;
    area.rows().flat_map(move |row| (0..columns).map(move |c| Rect { x: row.x + c * width, width, ..row }))
}

/// How many bars fit into a panel that fills `area` on this screen.
pub fn room(area: Rect, screen: Rect) -> usize {
    let edges = panel::edges(screen);
    usize::from(area.height.saturating_sub(edges)) * usize::from(columns(area.width.saturating_sub(2 * (edges - 1))))
}

/// A share, 0–1, as a bar of `width` cells of blocks; `rest` fills the part that is not filled.
pub fn share(width: u16, share: f64, style: Style, (rest, of_rest): (&str, Style)) -> [Span<'static>; 2] {
    let filled = (share.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let left = usize::from(width).saturating_sub(filled);
    [Span::styled("█".repeat(filled), style), Span::styled(rest.repeat(left), of_rest)]
}
