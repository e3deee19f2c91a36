//! The settings: one row each with its value, and the columns of the process table.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::popups::{frame, place};
use super::{cells, write};
use crate::text::fit;
use crate::tui::app::App;
use crate::tui::setup::{Setting, Setup};

/// Width of the box, borders included.
const WIDTH: u16 = 78;
/// Cells from the name to the value, and from there to the words.
const VALUE: u16 = 26;
const WORDS: u16 = 14;

/// Draws the list that is open.
pub fn draw(buf: &mut Buffer, area: Rect, setup: Setup, app: &App) {
    if setup.columns { columns(buf, area, setup, app) } else { settings(buf, area, setup, app) }
}

fn settings(buf: &mut Buffer, area: Rect, setup: Setup, app: &App) {
    let height = Setting::ALL.len() as u16 + 2;
    let popup = place(area, WIDTH, height);
    frame(buf, popup, " Settings ", " Enter, Left, Right change, Esc closes ", app);
    let inner = Rect { x: popup.x + 2, width: popup.width.saturating_sub(4), ..popup };
    for (y, place) in visible(popup, setup.row, Setting::ALL.len()) {
        let Some(setting) = Setting::ALL.get(place).copied() else { continue };
        let (value, words) = app.setting(setting);
        write(buf, inner.x, y, inner.right(), setting.name(), Style::new());
        let x = inner.x + VALUE;
        let value = fit(&value, usize::from(inner.right().saturating_sub(x)));
        let end = write(buf, x, y, inner.right(), &value, app.theme().strong());
        let x = (x + WORDS).max(end + 1);
        // Half a hint is none.
        if x + cells(words) <= inner.right() {
            write(buf, x, y, inner.right(), words, app.theme().dim());
        }
        if place == setup.row {
            buf.set_style(Rect { y, height: 1, ..inner }, app.theme().selected());
        }
    }
}

fn columns(buf: &mut Buffer, area: Rect, setup: Setup, app: &App) {
    let choices = app.column_choices();
    let height = u16::try_from(choices.len()).unwrap_or(u16::MAX).saturating_add(2);
    let popup = place(area, WIDTH, height);
    frame(buf, popup, " Columns of the processes ", " Enter shows or hides, - and + move, Esc goes back ", app);
    let inner = Rect { x: popup.x + 2, width: popup.width.saturating_sub(4), ..popup };
    for (y, place) in visible(popup, setup.column, choices.len()) {
        let Some((column, shown)) = choices.get(place).copied() else { continue };
        let text = format!("[{}] {:<12} {}", if shown { 'x' } else { ' ' }, column.to_string(), column.meaning());
        write(buf, inner.x, y, inner.right(), &fit(&text, usize::from(inner.width)), Style::new());
        if place == setup.column {
            buf.set_style(Rect { y, height: 1, ..inner }, app.theme().selected());
        }
    }
}

/// The rows of a box and the places in a list that stand on them, so that the selected one is seen.
fn visible(popup: Rect, selected: usize, count: usize) -> impl Iterator<Item = (u16, usize)> {
    let rows = usize::from(popup.height.saturating_sub(2));
    let top = (selected + 1).saturating_sub(rows);
    (popup.y + 1..popup.bottom().saturating_sub(1)).zip(top..count)
}
