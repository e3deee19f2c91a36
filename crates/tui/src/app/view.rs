//! Drawing: the state as cells of a buffer. It decides and changes nothing, and returns what was drawn where.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::popup::Popup;
use super::too_small::{self, MIN_HEIGHT, MIN_WIDTH};
use super::{App, bars, output};
use crate::jobs::{self, view::JobsScene};
use crate::pages::keys::{Action, key_of};
use crate::pages::{Content, Page};
use crate::theme;
use crate::widgets::panel::framed;
use crate::widgets::{Drawn, PopupBox, Scene, card};
use trainmon_base::text::wrap;
use trainmon_views::totals::{self, SummaryLine};

/// Maximum width of the summary of a run.
const SUMMARY: u16 = 100;

/// Draws the whole screen into `buf`, which must be empty.
pub fn draw(buf: &mut Buffer, app: &App) -> Drawn {
    let (area, scene, mut drawn) = (buf.area, app.scene(), Drawn::default());
    if let Some(fleet) = &app.fleet {
        let top = app.scroll.get(app.page.index()).copied().unwrap_or(0);
        fleet.draw(buf, area, &scene, top, &mut drawn);
    } else if app.jobs.is_empty() {
        jobs::view::around(buf, scene.theme);
        popups(buf, app, &scene, &mut drawn);
    } else if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        too_small::draw(buf, area, &scene);
    } else {
        let page = app.pages.get(app.page);
        let [title, answer, body, footer] = parts(area, &scene);
        let body = output::line(buf, body, app);
        bars::header(buf, title, app);
        card::draw(buf, answer, &scene);
        let top = app.scroll.get(app.page.index()).copied().unwrap_or(0);
        // Text next to frames keeps the same distance from the screen's edge as the text inside them.
        let body = if framed(area) && app.page != Page::Overview { body.inner(Margin::new(1, 0)) } else { body };
        if scene.job.is_trace() && app.page.spec().needs_samples {
            let key = key_of(Action::Go(Page::Profile));
            let text = format!("A trace has no samples over time: press {key} for its profile.");
            Span::styled(text, scene.theme.dim()).render(body, buf);
        } else {
            page.draw(buf, body, &scene, top, &mut drawn);
        }
        cursor(buf, &scene, &drawn);
        bars::footer(buf, footer, app, &mut drawn);
        popups(buf, app, &scene, &mut drawn);
    }
    fold_to_ascii(buf, scene.theme.ascii);
    drawn
}

/// The header, the answer, the page, and the footer.
fn parts(area: Rect, scene: &Scene<'_>) -> [Rect; 4] {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(card::rows(area, scene)),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    Layout::vertical(rows).areas(area)
}

/// Marks the selected moment in all timelines of the page: a line through blank cells, and its color on all others.
fn cursor(buf: &mut Buffer, scene: &Scene<'_>, drawn: &Drawn) {
    let style = scene.theme.cursor();
    for chart in drawn.charts() {
        let Some(cell) = scene.cursor_cell(chart.width) else { continue };
        for position in (Rect { x: chart.x + cell, width: 1, ..chart }).intersection(buf.area).positions() {
            let Some(cell) = buf.cell_mut(position) else { continue };
            if [" ", "┈"].contains(&cell.symbol()) {
                cell.set_symbol("│");
            }
            cell.set_style(style);
        }
    }
}

fn popups(buf: &mut Buffer, app: &App, scene: &Scene<'_>, drawn: &mut Drawn) {
    let (area, theme, top) = (buf.area, scene.theme, app.drawn.popup.top);
    if let Some(list) = &app.list {
        let prompt = if let Some(Popup::Prompt(prompt)) = &app.popup { Some(prompt) } else { None };
        let shown = JobsScene {
            list,
            top,
            jobs: &app.jobs,
            shown: app.job().key,
            prompt,
            notice: app.notice.as_deref(),
            theme,
        };
        jobs::view::draw(buf, &shown, drawn);
    }
    match &app.popup {
        None | Some(Popup::Prompt(_)) => {}
        Some(Popup::Detail) => app.pages.get(app.page).detail(buf, scene, top, drawn),
        Some(Popup::Menu(menu)) => menu.draw(buf, area, theme),
        Some(Popup::Confirm(confirm)) => confirm.draw(buf, area, theme),
        Some(Popup::Setup(setup)) => app.draw_setup(buf, area, *setup),
        Some(Popup::Summary) => run_summary(buf, scene),
        Some(Popup::Output) => output::popup(buf, app),
    }
}

/// The summary of the job's run, below the last verdict.
fn run_summary(buf: &mut Buffer, scene: &Scene<'_>) {
    let Some(run) = scene.job.summary() else { return };
    let [.., body, _] = parts(buf.area, scene);
    let width = SUMMARY.min(body.width.saturating_sub(4));
    let lines = totals::lines(run, scene.zone, scene.price).into_iter().flat_map(|(line, text)| {
        let style = if line == SummaryLine::Advice { scene.theme.strong() } else { Style::new() };
        wrap(&text, usize::from(width.saturating_sub(4))).into_iter().map(move |row| (row, style))
    });
    let lines: Vec<_> = lines.collect();
    let below = " Esc close · o other jobs · q quit ";
    let popup = PopupBox { title: " Summary of the run ", below, width };
    popup.text(buf, body, 0, &lines, scene.theme);
}

/// Replaces characters outside ASCII with the nearest ASCII one, if only ASCII is allowed.
pub fn fold_to_ascii(buf: &mut Buffer, ascii: bool) {
    for cell in buf.content.iter_mut().filter(|cell| ascii && !cell.symbol().is_ascii()) {
        let c = cell.symbol().chars().next().map_or(' ', theme::ascii);
        cell.set_char(c);
    }
}
