//! The pipeline as a drawing: storage → workers → queue → loop → GPU, with the limit marked. Three rows on screens with
//! frames, one on others.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Widget;

use super::bars;
use super::card::accent;
use super::panel::framed;
use super::scene::Scene;
use super::text::cells;
use crate::theme::Theme;
use trainmon_base::text::fit;
use trainmon_base::text::format::whole_percent;
use trainmon_views::stages::{Stage, StageKind, stages};

/// Cells of an arrow between two stages, blanks included.
const ARROW: u16 = 6;
/// Minimum and maximum width of a stage's column.
const LEAST: u16 = 8;
const MOST: u16 = 30;
/// Maximum length of a bar.
const BAR: u16 = 12;

/// Rows that it takes on a screen of this size.
pub fn rows(screen: Rect) -> u16 {
    if framed(screen) { 3 } else { 1 }
}

/// Draws the stages at the moment shown; nothing if no loop is known.
pub fn draw(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let Some(verdict) = scene.verdict() else { return };
    let stages = stages(verdict, scene.frame());
    if stages.is_empty() || area.is_empty() {
        return;
    }
    if area.height >= 3 { in_columns(buf, area, stages, scene) } else { in_line(buf, area, &stages, scene) }
}

/// Name, bar and word of each stage, one below the other; the stages side by side, each as wide as needed.
fn in_columns(buf: &mut Buffer, area: Rect, mut stages: Vec<Stage>, scene: &Scene<'_>) {
    let theme = scene.theme;
    let wanted = |stage: &Stage| {
        let bar = if stage.busy.is_some() { BAR + 5 } else { 0 };
        let name = cells(&stage.name) + if stage.limit { cells(mark(theme)).saturating_sub(ARROW - 2) } else { 0 };
        name.max(cells(&stage.word)).max(bar).clamp(LEAST, MOST)
    };
    let room = |count: usize| area.width.saturating_sub(4 + (count as u16).saturating_sub(1) * ARROW);
    if stages.iter().map(wanted).sum::<u16>() > room(stages.len()) {
        stages.retain(|stage| stage.kind != StageKind::Queue);
    }
    let mut widths: Vec<u16> = stages.iter().map(wanted).collect();
    // If they do not fit, shrink the widest.
    while widths.iter().sum::<u16>() > room(widths.len()) {
        let Some(widest) = widths.iter_mut().max().filter(|width| **width > 1) else { return };
        *widest -= 1;
    }
    let spare = (room(widths.len()) - widths.iter().sum::<u16>()) / (widths.len() as u16).max(1);
    let arrow = if theme.ascii { " -->  " } else { " ──▶  " };
    let columns = widths.iter().flat_map(|width| [*width, spare.min(ARROW), ARROW]).map(Constraint::Length);
    let columns = Layout::horizontal([Constraint::Length(3)].into_iter().chain(columns)).split(area);
    let columns: Vec<_> = columns.iter().copied().skip(1).collect();
    for (place, (column, stage)) in (1..).zip(columns.chunks(3).zip(&stages)) {
        let [text, _, to_next] = column else { return };
        one(buf, *text, stage, scene);
        if place < stages.len() {
            let middle = Rect { y: to_next.y + 1, height: 1, ..*to_next };
            Span::styled(arrow, theme.edge()).render(middle, buf);
        }
    }
}

/// Three lines; the mark is above the arrow, where there is room for it.
fn one(buf: &mut Buffer, area: Rect, stage: &Stage, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (style, mark) =
        if stage.limit { (accent(scene), mark(theme)) } else { (theme.series(stage.kind.class()), "") };
    let strong = style.patch(theme.strong());
    let room = (area.width + ARROW - 1).saturating_sub(cells(mark)).min(area.width);
    let name = Span::styled(fit(&stage.name, usize::from(room)), if stage.limit { strong } else { theme.strong() });
    let mut lines = vec![Line::from_iter([name, Span::styled(mark, strong)])];
    let word = fit(&stage.word, usize::from(area.width));
    if let Some(busy) = stage.busy {
        let mut bar =
            Line::from_iter(bars::share(BAR.min(area.width.saturating_sub(5)), busy, style, ("·", theme.edge())));
        bar.push_span(Span::styled(format!(" {:>3}%", whole_percent(busy)), strong));
        lines.extend([bar, Line::styled(word, theme.dim())]);
    } else {
        lines.push(Line::styled(word, style));
    }
    Text::from(lines).render(Rect { width: area.width + ARROW, ..area }, buf);
}

fn mark(theme: Theme) -> &'static str {
    if theme.ascii { " <LIMIT" } else { " ◀ LIMIT" }
}

/// All on one row: `storage 3% ─▶ 4 workers 97% ◀ LIMIT ─▶ queue empty ─▶ loop 27% ─▶ GPU 0 19%`.
fn in_line(buf: &mut Buffer, area: Rect, stages: &[Stage], scene: &Scene<'_>) {
    let theme = scene.theme;
    let arrow = if theme.ascii { " -> " } else { " ─▶ " };
    // What to leave out until the rest fits: the words, the queue, all but the last words of long names.
    let line = |step: usize| {
        let mut line = Line::from(" ");
        for stage in stages.iter().filter(|stage| step < 1 || stage.kind != StageKind::Queue) {
            let name = match stage.kind {
                StageKind::Loop if stage.name == "training loop" => "loop".to_owned(),
                _ if step >= 2 => fit(&stage.name, 12),
                _ => fit(&stage.name, 24),
            };
            let value = match (stage.busy, stage.kind) {
                (Some(busy), _) => format!(" {}%", whole_percent(busy)),
                (None, StageKind::Queue) => format!(" {}", stage.word),
                (None, _) => String::new(),
            };
            if line.spans.len() > 1 {
                line.push_span(Span::styled(arrow, theme.edge()));
            }
            let (style, mark) = if stage.limit {
                (accent(scene).patch(theme.strong()), mark(theme))
            } else {
                (theme.series(stage.kind.class()), "")
            };
            line.push_span(Span::styled(format!("{name}{value}{mark}"), style));
        }
        line
    };
    let fitting = (0..3).map(line).find(|line| line.width() < usize::from(area.width)).unwrap_or_else(|| line(2));
    fitting.render(area, buf);
}
