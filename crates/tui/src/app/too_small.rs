//! A terminal too small for the overview still says what holds the run back, and which size shows more.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Widget;

use crate::widgets::{Scene, card, cells};
use trainmon_base::text::{fit, sanitize};
use trainmon_views::labels::advice_line;

/// Minimum width for pages.
pub const MIN_WIDTH: u16 = 60;
/// Minimum height for pages.
pub const MIN_HEIGHT: u16 = 15;

/// Draws class and cause first, then advice, end of the job and required size, as far as there are rows.
pub fn draw(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (heading, style) = card::heading(scene);
    let mut lines = Vec::new();
    // Class and cause go on two rows if they do not fit on one.
    match heading.split_once(" · ") {
        Some((class, cause)) if cells(&heading) > area.width => {
            lines.push((class.to_owned(), style));
            lines.push((cause.to_owned(), theme.strong()));
        }
        _ => lines.push((heading, style)),
    }
    let mut size = format!("needs at least {MIN_WIDTH}x{MIN_HEIGHT}, is {}x{}", area.width, area.height);
    if size.len() > usize::from(area.width) {
        size = format!("needs {MIN_WIDTH}x{MIN_HEIGHT}");
    }
    if let Some(ended) = &scene.job.ended {
        lines.push((format!("ENDED: {}", sanitize(ended)), theme.strong()));
    }
    if let Some(advice) = scene.verdict().and_then(|v| v.advice.first()) {
        lines.push((advice_line("▶ ", advice, usize::MAX), theme.strong()));
    }
    lines.truncate(usize::from(area.height.saturating_sub(1)).max(1));
    lines.push((size, theme.dim()));
    lines.push(("q quits".to_owned(), theme.dim()));
    let lines = lines.into_iter().map(|(text, style)| Span::styled(fit(&text, usize::from(area.width)), style));
    Text::from_iter(lines.map(Line::from)).render(area, buf);
}
