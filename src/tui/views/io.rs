//! The page of storage and network: what the job reads and what of it comes from storage, each disk, the mounts that its
//! data lies on, the interfaces, and all of it over time.
//!
//! ```text
//! │ facts: page cache against storage, faults, memory, limits, pressure │
//! │ disks: those with the job's data first; idle ones in a count        │
//! │ mounts with data of the job, with some of the files                 │
//! │ network: one line                                                   │
//! │ timelines: job, disks, network, and the time axis                   │
//! └─────────────────────────────────────────────────────────────────────┘
//! ```

mod charts;
mod disks;
mod facts;
mod mounts;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Charts;
use crate::diagnosis::verdict::NotSeen;
use crate::text::wrap;
use crate::tui::app::App;
use crate::tui::theme::Theme;

/// Rows that the page would like.
pub fn rows(app: &App) -> usize {
    let body = app.seen().body;
    let text = Text::of(app, body);
    text.lines.len() + usize::from(charts::rows(text.spare(body)))
}

/// Draws the page.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let text = Text::of(app, area);
    let (count, top) = (text.lines.len(), app.top());
    for (line, y) in text.lines.iter().skip(top).zip(area.top()..area.bottom()) {
        buf.set_line(area.x, y, line, area.width);
    }
    for (place, util) in &text.bars {
        if let Some(y) = place.checked_sub(top).filter(|y| *y < usize::from(area.height)) {
            disks::bar(buf, Rect { y: area.y + y as u16, height: 1, ..area }, *util, app.theme());
        }
    }
    charts::draw(buf, area, count as isize - top as isize, text.spare(area), app);
}

/// Where its timelines are.
pub fn charts(area: Rect, app: &App) -> Charts {
    let text = Text::of(app, area);
    charts::places(area, text.lines.len() as isize - app.top() as isize, text.spare(area))
}

/// Everything above the timelines.
struct Text {
    lines: Vec<Line<'static>>,
    /// Lines with a bar at their end: place and percent.
    bars: Vec<(usize, f64)>,
}

/// How much is left out where rows are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Detail {
    /// Disks without I/O one by one, instead of a count.
    idle: bool,
    /// Most files named for each mount.
    examples: usize,
}

impl Text {
    /// As much detail as leaves room for the timelines.
    fn of(app: &App, body: Rect) -> Self {
        let mut text = Self { lines: Vec::new(), bars: Vec::new() };
        let Some(frame) = app.frame() else {
            text.lines.push(Line::from("Waiting for the first sample."));
            return text;
        };
        let width = body.width;
        let facts = facts::lines(frame, app, width);
        let network = facts::network(frame, app, width);
        for (idle, examples) in [(true, 3), (true, 1), (false, 1), (false, 0)] {
            let detail = Detail { idle, examples };
            text = Self { lines: facts.clone(), bars: Vec::new() };
            disks::add(&mut text, frame, app, width, detail);
            mounts::add(&mut text, frame, app, width, detail);
            text.lines.push(network.clone());
            if text.lines.len() + usize::from(charts::LEAST) <= usize::from(body.height) {
                break;
            }
        }
        text
    }

    /// Rows of the body that are left for the timelines.
    fn spare(&self, body: Rect) -> u16 {
        body.height.saturating_sub(u16::try_from(self.lines.len()).unwrap_or(u16::MAX))
    }
}

/// What could not be seen of this name, by the verdict of the moment shown.
fn not_seen<'a>(app: &'a App, what: &str) -> Option<&'a NotSeen> {
    app.verdict()?.not_seen.iter().find(|missing| missing.what == what)
}

/// Text in rows behind a lead.
fn wrapped(lead: &str, text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let indent = usize::from(super::cells(lead));
    let rows = wrap(text, usize::from(width).saturating_sub(indent).max(8));
    let leads = std::iter::once(lead.to_owned()).chain(std::iter::repeat(" ".repeat(indent)));
    rows.into_iter().zip(leads).map(|(row, lead)| Line::from(Span::styled(format!("{lead}{row}"), style))).collect()
}

/// What is missing, why, and the command that mends it.
fn missing(what: &str, mend: Option<&str>, width: u16, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = wrapped("", what, width, Style::new());
    if let Some(mend) = mend {
        lines.extend(wrapped("  → ", mend, width, theme.advice()));
    }
    lines
}
