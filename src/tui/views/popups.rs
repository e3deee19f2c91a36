//! Boxes over the page: menus and questions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{cells, write, write_right};
use crate::text::{fit, wrap};
use crate::tui::app::App;
use crate::tui::popup::{Confirm, Menu, Popup};
use crate::tui::theme::Theme;

/// Widest question.
const WIDTH: u16 = 70;
/// Widest summary of a run.
const SUMMARY: u16 = 100;

/// Draws what lies over the page.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    match &app.popup {
        None | Some(Popup::Prompt(_)) => {}
        Some(Popup::Detail) => super::detail::draw(buf, area, app),
        Some(Popup::Menu(popup)) => menu(buf, area, popup, app),
        Some(Popup::Confirm(confirm)) => question(buf, area, confirm, app.theme()),
        Some(Popup::Setup(setup)) => super::setup::draw(buf, area, *setup, app),
        Some(Popup::Jobs(list)) => super::jobs::draw(buf, area, list, app),
        Some(Popup::Summary) => summary(buf, area, app),
    }
}

fn menu(buf: &mut Buffer, area: Rect, menu: &Menu, app: &App) {
    let widest = menu.items.iter().map(|item| cells(&item.text)).max().unwrap_or(0).max(cells(&menu.title));
    let rows = u16::try_from(menu.items.len()).unwrap_or(u16::MAX);
    let popup = place(area, widest.saturating_add(9), rows.saturating_add(2));
    frame(buf, popup, &format!(" {} ", menu.title), " Enter chooses, Esc closes ", app);
    let inner = Rect { x: popup.x + 2, width: popup.width.saturating_sub(4), ..popup };
    let visible = usize::from(popup.height.saturating_sub(2));
    let top = (menu.selected + 1).saturating_sub(visible);
    let items = menu.items.iter().enumerate().skip(top).take(visible);
    for ((place, item), y) in items.zip(popup.y + 1..) {
        let key = item.key.map_or(' ', |key| key);
        let text = fit(&format!("{key}  {}", item.text), usize::from(inner.width));
        write(buf, inner.x, y, inner.right(), &text, Style::new());
        if place == menu.selected {
            buf.set_style(Rect { y, height: 1, ..inner }, app.theme().selected());
        }
    }
}

/// The run of the job, summed up, below the verdict that stood last.
fn summary(buf: &mut Buffer, area: Rect, app: &App) {
    let Some(run) = app.job().summary() else { return };
    let body = crate::tui::layout::body(area);
    let width = SUMMARY.min(area.width.saturating_sub(4));
    let inner = usize::from(width.saturating_sub(4));
    let lines: Vec<(String, Style)> = crate::tui::summary::lines(run, &app.options.zone)
        .iter()
        .flat_map(|line| {
            let style = if line.starts_with('►') { app.theme().advice() } else { Style::new() };
            wrap(line, inner).into_iter().map(move |row| (row, style))
        })
        .collect();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2);
    let popup = place(body, width, height);
    frame(buf, popup, " The run, summed up ", " Esc closes, o lists other jobs, q quits ", app);
    for ((line, style), y) in lines.iter().zip(popup.y + 1..popup.bottom().saturating_sub(1)) {
        write(buf, popup.x + 2, y, popup.right().saturating_sub(2), line, *style);
    }
}

/// Asks a question.
pub fn question(buf: &mut Buffer, area: Rect, confirm: &Confirm, theme: Theme) {
    let width = WIDTH.min(area.width.saturating_sub(4));
    let lines = wrap(&confirm.question, usize::from(width.saturating_sub(4)));
    let popup = place(area, width, u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(4));
    frame_in(buf, popup, " Sure? ", " y does it, n or Esc does not ", theme);
    for (line, y) in lines.iter().zip(popup.y + 2..popup.bottom().saturating_sub(1)) {
        write(buf, popup.x + 2, y, popup.right().saturating_sub(2), line, theme.strong());
    }
}

/// A box of this size in the middle of the screen, as large as fits.
pub fn place(area: Rect, width: u16, height: u16) -> Rect {
    let (width, height) = (width.min(area.width), height.min(area.height));
    Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height }
}

/// Clears the box's cells and draws a border around them.
pub fn frame(buf: &mut Buffer, area: Rect, title: &str, below: &str, app: &App) {
    frame_in(buf, area, title, below, app.theme());
}

/// [`frame`] in a theme: there may be no job, and so no [`App`], yet.
pub fn frame_in(buf: &mut Buffer, area: Rect, title: &str, below: &str, theme: Theme) {
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.reset();
                let sides = (y == area.top(), y + 1 == area.bottom(), x == area.left(), x + 1 == area.right());
                cell.set_char(match sides {
                    (true, _, true, _) => '╭',
                    (true, _, _, true) => '╮',
                    (_, true, true, _) => '╰',
                    (_, true, _, true) => '╯',
                    (true, ..) | (_, true, ..) => '─',
                    (_, _, true, _) | (_, _, _, true) => '│',
                    _ => ' ',
                });
            }
        }
    }
    let end = area.right().saturating_sub(1);
    write(buf, area.x + 2, area.y, end, &fit(title, usize::from(area.width.saturating_sub(4))), theme.strong());
    write_right(buf, area.x + 1, area.bottom().saturating_sub(1), end, below, theme.dim());
}
