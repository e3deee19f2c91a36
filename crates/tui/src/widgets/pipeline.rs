//! The pipeline as a drawing: storage → workers → queue → loop → GPU, with the limit marked. Three rows on screens with
//! frames, one on others.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Flex, Layout, Margin, Rect};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::Widget;

use super::bars;
use super::card::accent;
use super::panel::framed;
use super::scene::Scene;
use super::text::cells;
use crate::charts;
use crate::theme::{Look, Theme, ascii};
use trainmon_base::text::fit;
use trainmon_base::text::format::whole_percent;
use trainmon_views::stages::{Stage, StageKind, stages, told};

/// Fewest cells of an arrow between two stages, blanks included.
const ARROW: u16 = 6;
/// Minimum and maximum width of a stage's column.
const LEAST: u16 = 8;
const MOST: u16 = 44;
/// Longest bar.
const BAR: u16 = 16;

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

/// Name, bar and word of each stage, one below the other; the stages side by side over the full width, with arrows in between.
fn in_columns(buf: &mut Buffer, area: Rect, mut stages: Vec<Stage>, scene: &Scene<'_>) {
    let area = area.inner(Margin::new(2, 0));
    let wanted = |stage: &Stage| {
        let bar = if stage.busy.is_some() { BAR + 5 } else { 0 };
        let mark = if stage.limit { cells(mark(scene.theme)) } else { 0 };
        (cells(&stage.name) + mark).max(cells(&stage.word)).max(bar).clamp(LEAST, MOST)
    };
    let arrows = |count: usize| (count as u16).saturating_sub(1) * ARROW;
    let needed = |stages: &[Stage]| stages.iter().map(wanted).sum::<u16>() + arrows(stages.len());
    if needed(&stages) > area.width {
        stages.retain(|stage| stage.kind != StageKind::Queue);
    }
    let columns = stages.iter().enumerate().flat_map(|(place, stage)| {
        let arrow = (place > 0).then_some(Constraint::Min(ARROW));
        arrow.into_iter().chain([Constraint::Max(wanted(stage))])
    });
    let columns = Layout::horizontal(columns).flex(Flex::SpaceBetween).split(area);
    for (column, stage) in columns.iter().step_by(2).zip(&stages) {
        one(buf, *column, stage, scene);
    }
    for (nth, column) in columns.iter().skip(1).step_by(2).enumerate() {
        let middle = Rect { y: column.y + 1, height: 1, ..*column };
        flow(nth, middle.width, scene).render(middle, buf);
    }
}

/// An arrow as thick as the flow: a heavy line with a batch that moves on with every other sample while the loop steps, a thin one where
/// hardly anything arrives, a dashed one where nothing is known to.
fn flow(nth: usize, width: u16, scene: &Scene<'_>) -> Span<'static> {
    let theme = scene.theme;
    let cells = usize::from(width.saturating_sub(3));
    let per_s = scene.verdict().and_then(|verdict| verdict.steps.per_s);
    let line = match per_s {
        Some(per_s) if per_s >= 1.0 => '━',
        Some(per_s) if per_s > 0.0 => '─',
        _ => '╌',
    };
    let tick = scene.frame().map_or(0, |frame| frame.sequence as usize / 2);
    let at =
        if per_s.is_some_and(|per_s| per_s > 0.0) { tick.wrapping_add(nth * 3).checked_rem(cells) } else { None };
    let arrow = (0..cells).map(|cell| if at == Some(cell) { '●' } else { line });
    let arrow = arrow.chain(['▶']).map(|c| if theme.ascii { ascii(c) } else { c });
    Span::styled(format!(" {} ", arrow.collect::<String>()), theme.edge())
}

/// Three lines.
fn one(buf: &mut Buffer, area: Rect, stage: &Stage, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (style, mark) =
        if stage.limit { (accent(scene), mark(theme)) } else { (theme.series(stage.kind.class()), "") };
    let strong = style.patch(theme.strong());
    let room = area.width.saturating_sub(cells(mark));
    let name = Span::styled(fit(&stage.name, usize::from(room)), if stage.limit { strong } else { theme.strong() });
    let mut lines = vec![Line::from_iter([name, Span::styled(mark, strong)])];
    let word = fit(&stage.word, usize::from(area.width));
    let bar = BAR.min(area.width.saturating_sub(5));
    match stage.busy {
        // The loop has parts; no single number says how busy it is.
        _ if !stage.parts.is_empty() => {
            let verdict = scene.verdict();
            let parts = stage.parts.iter().map(|(part, share)| (Look::of_part(*part, verdict), *share));
            let parts: Vec<_> = parts.collect();
            let told = verdict.and_then(|verdict| told(&stage.parts, verdict));
            let style = told.map_or(style, |(part, _)| theme.style(Look::of_part(part, verdict)));
            lines.extend([Line::from(charts::split(BAR.min(area.width), &parts, theme)), Line::styled(word, style)]);
        }
        Some(busy) => {
            let mut bar = Line::from_iter(bars::share(bar, busy, style, ("·", theme.edge())));
            let style = if stage.is_quiet() { theme.dim() } else { strong };
            bar.push_span(Span::styled(format!(" {:>3}%", whole_percent(busy)), style));
            lines.extend([bar, Line::styled(word, theme.dim())]);
        }
        None if stage.is_quiet() => lines.push(Line::styled(word, theme.dim())),
        None => lines.push(Line::styled(word, style)),
    }
    Text::from(lines).render(area, buf);
}

fn mark(theme: Theme) -> &'static str {
    if theme.ascii { " <LIMIT" } else { " ◀ LIMIT" }
}

/// All on one row: `storage 3% ─▶ 4 workers 97% ◀ LIMIT ─▶ queue empty ─▶ loop waits 68% ─▶ GPU 0 19%`.
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
            let told = scene.verdict().and_then(|verdict| told(&stage.parts, verdict));
            let value = match (told, stage.busy, stage.kind) {
                (Some((part, share)), ..) => format!(" {} {}%", first_word(&part.verb()), whole_percent(share)),
                (None, Some(busy), _) => format!(" {}%", whole_percent(busy)),
                (None, None, StageKind::Queue) => format!(" {}", stage.word),
                (None, None, _) => String::new(),
            };
            if line.spans.len() > 1 {
                line.push_span(Span::styled(arrow, theme.edge()));
            }
            let (style, mark) = if stage.limit {
                (accent(scene).patch(theme.strong()), mark(theme))
            } else if let Some((part, _)) = told {
                (theme.style(Look::of_part(part, scene.verdict())), "")
            } else if stage.is_quiet() {
                (theme.dim(), "")
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

/// The verb of what the loop does.
fn first_word(verb: &str) -> &str {
    verb.split(' ').next().unwrap_or_default()
}
