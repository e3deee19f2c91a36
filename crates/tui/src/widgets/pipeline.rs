//! The pipeline as a drawing: storage → workers → queue → loop → GPU, with the limit marked. Three rows on screens with
//! frames, one on others.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bars;
use super::card::accent;
use super::panel::framed;
use super::scene::Scene;
use super::text::{cells, write, write_fit};
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
    let mut x = area.x + 3;
    for (place, (stage, width)) in stages.iter().zip(&widths).enumerate() {
        one(buf, Rect { x, width: *width, ..area }, stage, scene);
        x += width + spare.min(ARROW);
        if place + 1 < stages.len() {
            let arrow = if theme.ascii { "-->" } else { "──▶" };
            write(buf, x + 1, area.y + 1, area.right(), arrow, theme.edge());
            x += ARROW;
        }
    }
}

fn one(buf: &mut Buffer, area: Rect, stage: &Stage, scene: &Scene<'_>) {
    let theme = scene.theme;
    let (style, mark) =
        if stage.limit { (accent(scene), mark(theme)) } else { (theme.series(stage.kind.class()), "") };
    let name = if stage.limit { style.patch(theme.strong()) } else { theme.strong() };
    // Above the arrow there is room for the mark.
    let end = area.right() + ARROW - 1;
    let room = end.saturating_sub(area.x + cells(mark)).min(area.width);
    let x = write_fit(buf, Rect { width: room, ..area }, &stage.name, name);
    write(buf, x, area.y, end, mark, style.patch(theme.strong()));
    let middle = Rect { y: area.y + 1, height: 1, ..area };
    match stage.busy {
        Some(busy) => {
            let bar = Rect { width: BAR.min(area.width.saturating_sub(5)), ..middle };
            bars::share(buf, bar, busy, style, Some(("·", theme.edge())));
            let text = format!("{:>3}%", whole_percent(busy));
            write(buf, bar.right() + 1, middle.y, area.right() + 1, &text, style.patch(theme.strong()));
        }
        None => {
            write_fit(buf, middle, &stage.word, style);
            return;
        }
    }
    write_fit(buf, Rect { y: area.y + 2, height: 1, ..area }, &stage.word, theme.dim());
}

fn mark(theme: Theme) -> &'static str {
    if theme.ascii { " <LIMIT" } else { " ◀ LIMIT" }
}

/// All on one row: `storage 3% ─▶ 4 workers 97% ◀ LIMIT ─▶ queue empty ─▶ loop 27% ─▶ GPU 0 19%`.
fn in_line(buf: &mut Buffer, area: Rect, stages: &[Stage], scene: &Scene<'_>) {
    let theme = scene.theme;
    let arrow = if theme.ascii { " -> " } else { " ─▶ " };
    // What to leave out until the rest fits: the words, the queue, all but the last words of long names.
    let line = |step: usize| -> Vec<(String, bool, &Stage)> {
        let shown = stages.iter().filter(|stage| step < 1 || stage.kind != StageKind::Queue);
        let pieces = shown.map(|stage| {
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
            (format!("{name}{value}"), stage.limit, stage)
        });
        pieces.collect()
    };
    let width = |line: &[(String, bool, &Stage)]| {
        let text: u16 =
            line.iter().map(|(text, limit, _)| cells(text) + if *limit { cells(mark(theme)) } else { 0 }).sum();
        text + cells(arrow) * (line.len() as u16).saturating_sub(1)
    };
    let fitting = (0..3).map(line).find(|line| width(line) + 2 <= area.width).unwrap_or_else(|| line(2));
    let mut x = area.x + 1;
    for (place, (text, limit, stage)) in fitting.iter().enumerate() {
        x = if place > 0 { write(buf, x, area.y, area.right(), arrow, theme.edge()) } else { x };
        let style = if *limit { accent(scene).patch(theme.strong()) } else { theme.series(stage.kind.class()) };
        x = write(buf, x, area.y, area.right(), text, style);
        if *limit {
            x = write(buf, x, area.y, area.right(), mark(theme), style);
        }
    }
}
