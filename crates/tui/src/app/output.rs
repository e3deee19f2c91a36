//! Output of the program that `trainmon run` started: its last line above the footer, and a popup with the last
//! screenful.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::App;
use crate::pages::keys::{Action, key_of};
use crate::widgets::PopupBox;
use trainmon_base::text::fit;

/// With fewer rows for the page than this, the line is left out.
const ROWS_LEAST: u16 = 12;

/// Draws the program's last line into the last row of `area`, if there is one and it fits; returns the rest of the
/// area.
pub(super) fn line(buf: &mut Buffer, area: Rect, app: &App) -> Rect {
    let output = if area.height > ROWS_LEAST { app.output() } else { None };
    let line = output.and_then(|output| output.last_line());
    let Some(line) = line else { return area };
    let [rest, row] = Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(area);
    let text = fit(&format!(" {} output · {line}", key_of(Action::Output)), usize::from(row.width));
    Span::styled(text, app.scene().theme.dim()).render(row, buf);
    rest
}

/// Draws the program's last lines, as many as fit.
pub(super) fn popup(buf: &mut Buffer, app: &App) {
    let lines = app.output().map(|output| output.lines()).unwrap_or_default();
    let area = buf.area;
    let (width, rows) = (area.width.saturating_sub(4), usize::from(area.height.saturating_sub(6)));
    let shown = lines.iter().skip(lines.len().saturating_sub(rows));
    let shown: Vec<_> = shown.map(|line| (fit(line, usize::from(width.saturating_sub(4))), Style::new())).collect();
    let popup = PopupBox { title: " Output of the program ", below: " Esc close ", width };
    popup.text(buf, area, 0, &shown, app.scene().theme);
}
