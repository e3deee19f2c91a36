//! The page of storage.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::app::App;

/// Rows that the page would like.
pub fn rows(_app: &App) -> usize {
    0
}

/// Draws the page.
pub fn draw(_buf: &mut Buffer, _area: Rect, _app: &App) {}
