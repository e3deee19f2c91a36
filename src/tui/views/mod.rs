//! Drawing: free functions from the state to cells of a buffer. They decide nothing and change nothing.

mod banner;
mod bars;
mod cpu;
mod detail;
mod findings;
mod gpu;
mod help;
mod io;
mod jobs;
mod main_thread;
mod popups;
mod preview;
mod ranks;
mod setup;
mod sheet;
mod small;
mod stacks;
mod table;
mod timelines;
mod workers;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use super::app::App;
use super::layout::{self, Plan};
use super::message::Export;
use super::page::Page;
use super::picker::Picker;
use super::theme;
use super::words::bound;
use crate::diagnosis::verdict::{Advice, Verdict};
use crate::jobs::Target;
use crate::outputs::{json, markdown};

/// Draws the whole screen into `buf`, which must be empty.
pub fn draw(buf: &mut Buffer, app: &App) {
    let area = buf.area;
    match layout::plan(area, app.wants()) {
        None => small::draw(buf, area, app),
        Some(plan) if app.page == Page::Overview => overview(buf, &plan, app),
        Some(_) => other_page(buf, area, app),
    }
    if app.theme().ascii {
        fold_to_ascii(buf);
    }
}

/// Draws the first screen of a session without a PID into `buf`, which must be empty.
pub fn draw_picker(buf: &mut Buffer, picker: &Picker) {
    jobs::picker(buf, picker);
    if picker.theme.ascii {
        fold_to_ascii(buf);
    }
}

fn overview(buf: &mut Buffer, plan: &Plan, app: &App) {
    bars::title(buf, plan.title, app);
    banner::draw(buf, plan.banner, app);
    timelines::strip(buf, plan.strip, app);
    main_thread::draw(buf, plan.main, app);
    timelines::draw(buf, &plan.charts, app);
    timelines::ruler(buf, plan.ruler, app);
    cursor(buf, app);
    if let Some(area) = plan.ranks {
        ranks::draw(buf, area, app);
    }
    if let Some(area) = plan.workers {
        workers::draw(buf, area, app);
    }
    bars::footer(buf, plan.footer, app);
    popups::draw(buf, buf.area, app);
}

/// Where a page has its timelines: what is marked at the moment looked at, and where a click looks at one.
#[derive(Debug, Default)]
struct Charts {
    /// The timelines as far as they are visible.
    timelines: Vec<Rect>,
    /// The time axis, which names the moment instead of being marked.
    ruler: Option<Rect>,
}

/// The timelines of the page that is up.
fn charts_of(app: &App, area: Rect) -> Charts {
    let Some(plan) = layout::plan(area, app.wants()) else { return Charts::default() };
    let body = layout::body(area);
    match app.page {
        Page::Overview => Charts {
            timelines: [plan.strip, plan.main].into_iter().chain(plan.charts).map(|band| band.chart).collect(),
            ruler: Some(plan.ruler),
        },
        Page::Gpu => gpu::charts(body, app),
        Page::Cpu => cpu::charts(body, app),
        Page::Io => io::charts(body, app),
        Page::Processes | Page::Stacks | Page::Findings | Page::Help => Charts::default(),
    }
}

/// Marks the moment that is looked at in all timelines of the page.
fn cursor(buf: &mut Buffer, app: &App) {
    if app.job().is_live() {
        return;
    }
    let style = app.theme().cursor().add_modifier(Modifier::REVERSED);
    for chart in charts_of(app, buf.area).timelines {
        if let Some(cell) = app.cursor_cell(chart.width) {
            buf.set_style(Rect { x: chart.x + cell, width: 1, ..chart }.intersection(buf.area), style);
        }
    }
}

/// Every page but the overview: the verdict on top, the page's body, the footer.
fn other_page(buf: &mut Buffer, area: Rect, app: &App) {
    bars::title(buf, Rect { height: 1, ..area }, app);
    let banner = layout::banner_rows(area.height);
    banner::draw(buf, Rect { y: area.y + 1, height: banner, ..area }, app);
    let body = layout::body(area);
    match app.page {
        Page::Overview => {}
        Page::Gpu => gpu::draw(buf, body, app),
        Page::Cpu => cpu::draw(buf, body, app),
        Page::Io => io::draw(buf, body, app),
        Page::Processes => table::draw(buf, body, app),
        Page::Stacks => stacks::draw(buf, body, app),
        Page::Findings | Page::Help => {
            for (line, y) in text_lines(app, body.width).iter().skip(app.top()).zip(body.top()..body.bottom()) {
                buf.set_line(body.x, y, line, body.width);
            }
        }
    }
    cursor(buf, app);
    bars::footer(buf, Rect { y: area.bottom() - 1, height: 1, ..area }, app);
    popups::draw(buf, area, app);
}

/// Rows that the page that is up would like: what it scrolls through.
pub(super) fn content_rows(app: &App) -> usize {
    match app.page {
        Page::Overview | Page::Processes => 0,
        Page::Gpu => gpu::rows(app),
        Page::Cpu => cpu::rows(app),
        Page::Io => io::rows(app),
        Page::Stacks => stacks::rows(app),
        Page::Findings | Page::Help => text_lines(app, app.seen().body.width).len(),
    }
}

/// The lines of the page that is up, where it is a page of text.
fn text_lines(app: &App, width: u16) -> Vec<Line<'static>> {
    match app.page {
        Page::Findings => findings::lines(app, width),
        Page::Help => help::lines(app, width),
        _ => Vec::new(),
    }
}

/// Lines by which the process in full can be scrolled.
pub(super) fn detail_rows(app: &App, area: Rect) -> usize {
    detail::hidden_rows(app, area)
}

/// The page whose tab is at this column of the footer.
pub(super) fn tab_at(app: &App, width: u16, column: u16) -> Option<Page> {
    bars::tab_at(app, width, column)
}

/// The chart at this cell.
pub(super) fn chart_at(app: &App, area: Rect, column: u16, row: u16) -> Option<Rect> {
    let charts = charts_of(app, area);
    charts.timelines.into_iter().chain(charts.ruler).find(|chart| chart.contains((column, row).into()))
}

/// What is saved, where there is something to save.
pub(super) fn export(app: &App, export: Export, area: Rect) -> Option<String> {
    Some(match export {
        Export::Markdown => markdown::markdown(app.verdict()?),
        Export::Json => {
            let mut bytes = Vec::new();
            json::pretty(&mut bytes, app.verdict()?).ok()?;
            String::from_utf8(bytes).ok()?
        }
        Export::Svg => {
            let mut buf = Buffer::empty(area);
            draw(&mut buf, app);
            super::svg::svg(&buf, &app.theme().palette)
        }
    })
}

/// The verdict as a few lines for a message to a colleague.
pub(super) fn verdict_text(verdict: &Verdict, target: &Target) -> String {
    use crate::text::sanitise;

    let mut lines = vec![format!("trainmon: PID {} {}", target.pid, sanitise(&target.command))];
    let cause = verdict.cause.as_deref().map(|c| format!(" / {}", sanitise(c))).unwrap_or_default();
    lines.push(format!(
        "{}{cause} (confidence {})",
        verdict.class.word(),
        super::format::share(Some(verdict.confidence))
    ));
    if !verdict.summary.is_empty() {
        lines.push(sanitise(&verdict.summary).into_owned());
    }
    lines.extend(verdict.advice.iter().map(|advice| format!("- {}{}", sanitise(&advice.title), bound(advice))));
    lines.extend(verdict.evidence.iter().map(|e| format!("  {}", sanitise(&e.text))));
    lines.extend(verdict.not_seen.iter().map(|n| format!("  not seen: {}: {}", sanitise(&n.what), sanitise(&n.why))));
    lines.join("\n")
}

/// An advice on one line with its bound: as much of the bound as fits into `width` cells behind the title.
pub(super) fn advice_line(lead: &str, advice: &Advice, width: usize) -> String {
    let title = format!("{lead}{}", crate::text::sanitise(&advice.title));
    let short = advice.speedup_at_most.filter(|s| s.is_finite()).map(|s| format!(" (at most {s:.1}× faster)"));
    let long = format!("{title}{}", bound(advice));
    if usize::from(cells(&long)) <= width { long } else { format!("{title}{}", short.unwrap_or_default()) }
}

/// Writes `text` from `x` to before `end` on row `y` and returns where it stopped.
fn write(buf: &mut Buffer, x: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
    let end = end.min(buf.area.right());
    if x >= end || y < buf.area.top() || y >= buf.area.bottom() {
        return x;
    }
    buf.set_stringn(x, y, text, usize::from(end - x), style).0
}

/// Writes `text` so that it ends before `end`, cutting it at `start`; returns where it begins.
fn write_right(buf: &mut Buffer, start: u16, y: u16, end: u16, text: &str, style: Style) -> u16 {
    let text = crate::text::fit(text, usize::from(end.saturating_sub(start)));
    let x = end.saturating_sub(cells(&text)).max(start);
    write(buf, x, y, end, &text, style);
    x
}

/// Width of a text in cells.
fn cells(text: &str) -> u16 {
    u16::try_from(unicode_width::UnicodeWidthStr::width(text)).unwrap_or(u16::MAX)
}

/// Sets pieces one after the other into the rows of `area`, a blank between them, as many as fit whole.
fn flow(buf: &mut Buffer, area: Rect, pieces: &[(String, Style)]) {
    let (mut x, mut y) = (area.left(), area.top());
    for (text, style) in pieces {
        let width = cells(text);
        if x > area.left() && x.saturating_add(width) > area.right() {
            (x, y) = (area.left(), y + 1);
        }
        if y >= area.bottom() {
            return;
        }
        x = write(buf, x, y, area.right(), text, *style).saturating_add(1);
    }
}

/// Rows that [`flow`] needs for `pieces` in `width` cells.
fn flow_rows(width: u16, pieces: &[(String, Style)]) -> u16 {
    let (mut x, mut rows) = (0u16, 1u16);
    for (text, _) in pieces {
        let piece = cells(text);
        if x > 0 && x.saturating_add(piece) > width {
            x = 0;
            rows = rows.saturating_add(1);
        }
        x = x.saturating_add(piece).saturating_add(1);
    }
    rows
}

/// Replaces whatever is not ASCII by its nearest stand-in.
fn fold_to_ascii(buf: &mut Buffer) {
    for cell in &mut buf.content {
        if !cell.symbol().is_ascii() {
            let c = cell.symbol().chars().next().map_or(' ', theme::ascii);
            cell.set_char(c);
        }
    }
}
