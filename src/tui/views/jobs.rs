//! The list of jobs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::app::App;
use crate::tui::jobs::JobList;

/// Draws the list.
pub fn draw(buf: &mut Buffer, area: Rect, _list: &JobList, app: &App) {
    let popup = super::popups::place(area, area.width.saturating_sub(4), area.height.saturating_sub(4));
    super::popups::frame(buf, popup, " Jobs ", " Esc closes ", app);
}
