//! Tiles: the sections of a page, each a panel with content, laid out in one column of rules or in a grid of frames.
//!
//! A tile draws into any rectangle; this file places it, depending on the number of tiles and the available room.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::chart::{self, ChartLine};
use super::drawn::{Hit, Hits};
use super::ghost_line::GhostLine;
use super::loop_area::{LoopArea, LoopColumns};
use super::panel::{Panel, edges, framed};
use super::scene::Scene;
use super::text::{count, write_lines};
use crate::charts::{ChartColumns, FilledTimeline, VerdictBand};
use crate::format;
use crate::theme::WithLook;
use trainmon_base::stats;
use trainmon_base::text::fit;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::loop_parts::LoopPart;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::timeline::TimelinePoint;

/// Minimum width for a third column of tiles.
const THREE_COLUMNS: u16 = 160;

/// The content of a tile.
#[derive(Clone)]
pub enum Body {
    /// A timeline, and the text if nothing of it was measured.
    Chart(ChartLine, String),
    /// The use of the GPU at this index in the frame, dim if it is not the job's.
    Gpu(usize),
    /// Where each step's time went, with the band of verdicts beneath it; and the parts of the verdict's window.
    Loop(Vec<(LoopPart, f64)>),
    /// Text.
    Lines(Vec<Line<'static>>),
}

/// A section of a page.
#[derive(Clone)]
pub struct Tile {
    /// Its edges.
    pub panel: Panel,
    /// Its content.
    pub body: Body,
    /// Its weight when spare rows of a column are shared out.
    pub weight: u16,
}

impl Tile {
    /// A tile with a timeline, its name and its value.
    pub fn chart(line: ChartLine, empty: &str, scene: &Scene<'_>) -> Self {
        Self { panel: line.panel(scene), body: Body::Chart(line, empty.to_owned()), weight: 1 }
    }

    /// Whether there is a time axis below it.
    fn is_timed(&self) -> bool {
        matches!(self.body, Body::Chart(..) | Body::Gpu(_) | Body::Loop(_))
    }

    /// Draws it; returns the position of its time axis, if it has one.
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, hits: &mut Hits) -> Option<Rect> {
        let inner = self.panel.draw(buf, area, scene.theme);
        if inner.is_empty() {
            return None;
        }
        if let Body::Lines(lines) = &self.body {
            write_lines(buf, inner, lines);
        }
        if !self.is_timed() {
            return None;
        }
        let [axis, plot] = Layout::horizontal([Constraint::Length(VALUE_AXIS), Constraint::Fill(1)]).areas(inner);
        let (timeline, theme) = (&scene.job.history.timeline, scene.theme);
        let window = scene.window(plot.width);
        match &self.body {
            Body::Chart(line, empty) => {
                let empty = chart::unread(scene.frame()).unwrap_or(empty);
                let top = line.plot(buf, plot, empty, scene);
                value_axis(buf, axis, top, scene);
            }
            Body::Gpu(place) => {
                let value = |point: &TimelinePoint| point.gpus.get(*place).and_then(|percent| percent.get());
                let columns = ChartColumns::gather(timeline, window, value);
                let look = |_| Class::Gpu.look();
                FilledTimeline { columns: &columns, max: 100.0, look, theme }.render(plot, buf);
                value_axis(buf, axis, Some("100%".to_owned()), scene);
            }
            Body::Loop(parts) => {
                let band = u16::from(plot.height >= LEAST_WITH_BAND);
                let [stack, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(band)]).areas(plot);
                let mut columns = LoopColumns::gather(timeline, window);
                columns.begin_with(parts);
                let before_ms = scene.job.before.as_ref().and_then(|before| before.run.step_ms());
                let longest = columns.longest_ms().map(f64::from);
                let top_ms = longest.map(|ms| stats::nice_number(ms.max(before_ms.unwrap_or(0.0))));
                let (verdict, top) = (scene.verdict(), top_ms.map(|ms| ms as f32));
                LoopArea { columns: &columns, verdict, top_ms: top, theme }.render(stack, buf);
                if let (Some(step_ms), Some(top_ms)) = (before_ms, top_ms) {
                    GhostLine { step_ms, top_ms, theme }.render(stack, buf);
                }
                VerdictBand { timeline, window, theme }.render(below, buf);
                if parts.is_empty()
                    && timeline.latest().is_none_or(|latest| latest.shares.is_none())
                    && scene.verdict().is_none_or(Verdict::is_pending)
                {
                    let text = "  measuring where the time goes";
                    Span::styled(fit(text, usize::from(stack.width)), theme.dim()).render(stack, buf);
                }
                let top = top_ms.map_or_else(|| "100%".to_owned(), format::step_time);
                value_axis(buf, Rect { height: stack.height, ..axis }, Some(top), scene);
            }
            Body::Lines(_) => {}
        }
        hits.push((plot, Hit::Chart));
        Some(Rect { y: plot.bottom(), height: 1, ..plot })
    }
}

/// Cells of the value axis left of each timeline: with one width, all timelines of a column begin at the same time.
const VALUE_AXIS: u16 = 7;
/// Fewest rows of the loop's time with a band of verdicts beneath it.
const LEAST_WITH_BAND: u16 = 4;

/// The top of a value axis, and zero at its bottom where there is room for both.
fn value_axis(buf: &mut Buffer, area: Rect, top: Option<String>, scene: &Scene<'_>) {
    let Some(top) = top else { return };
    let width = usize::from(area.width.saturating_sub(1));
    let mut label = |text: &str, y: u16| {
        let row = Rect { y, height: 1, ..area };
        Span::styled(format!("{text:>width$}"), scene.theme.dim()).render(row.intersection(area), buf);
    };
    label(&top, area.y);
    if area.height > 1 {
        label("0", area.bottom() - 1);
    }
}

/// Columns of tiles on a screen of this size.
pub fn columns(screen: Rect) -> u16 {
    match framed(screen) {
        false => 1,
        true if screen.width < THREE_COLUMNS => 2,
        true => 3,
    }
}

/// Rows of tiles in a grid of so many columns.
pub fn rows(tiles: usize, columns: u16) -> u16 {
    count(tiles).div_ceil(columns.max(1))
}

/// Draws tiles over all of `area`, in rows of `columns`. With frames, the time axis is in the lower edge of the last
/// row; without them, on its own line below.
pub fn draw(buf: &mut Buffer, area: Rect, tiles: &[Tile], columns: u16, scene: &Scene<'_>, hits: &mut Hits) {
    let axis = u16::from(!framed(buf.area) && tiles.iter().any(Tile::is_timed));
    let [body, below] = Layout::vertical([Constraint::Fill(1), Constraint::Length(axis)]).areas(area);
    draw_rows(buf, body, tiles, columns, scene, hits);
    if axis > 0 {
        ruler(buf, plot(below), scene, hits);
    }
}

/// The same without a line for the time axis.
pub fn draw_rows(buf: &mut Buffer, body: Rect, tiles: &[Tile], columns: u16, scene: &Scene<'_>, hits: &mut Hits) {
    let rows: Vec<&[Tile]> = tiles.chunks(usize::from(columns.max(1))).collect();
    let is_column = columns == 1;
    let weight = |row: &[Tile]| if is_column { row.iter().map(|tile| tile.weight).sum() } else { 1 };
    // Each row has its edges, and spare rows are shared out by weight.
    let heights = rows.iter().flat_map(|row| [Constraint::Length(edges(buf.area)), Constraint::Fill(weight(row))]);
    let parts = Layout::vertical(heights).split(body);
    for (place, (parts, row)) in (1..).zip(parts.chunks(2).zip(&rows)) {
        let area = parts.iter().copied().reduce(Rect::union).unwrap_or_default();
        draw_row(buf, area, row, place == rows.len(), scene, hits);
    }
}

/// The part of a row without frames in which timelines are drawn.
pub fn plot(area: Rect) -> Rect {
    let axis = VALUE_AXIS.min(area.width);
    Rect { x: area.x + axis, width: area.width - axis, ..area }
}

/// Draws tiles side by side over all of `area`, with the time axis in their lower edges if it is the last row of
/// frames.
pub fn draw_row(buf: &mut Buffer, area: Rect, tiles: &[Tile], is_last: bool, scene: &Scene<'_>, hits: &mut Hits) {
    let places = Layout::horizontal(tiles.iter().map(|_| Constraint::Fill(1))).split(area);
    for (place, tile) in places.iter().zip(tiles) {
        let below = tile.draw(buf, *place, scene, hits);
        if is_last
            && framed(buf.area)
            && let Some(below) = below
        {
            ruler(buf, below, scene, hits);
        }
    }
}

/// Draws a time axis.
pub fn ruler(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, hits: &mut Hits) {
    chart::ruler(buf, area, scene);
    hits.push((area, Hit::Ruler));
}
