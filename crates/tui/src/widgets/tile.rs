//! Tiles: the sections of a page, each a panel with content, laid out in one column of rules or in a grid of frames.
//!
//! A tile draws into any rectangle; this file places it, depending on the number of tiles and the available room.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::chart::{self, ChartLine};
use super::drawn::{Hit, Hits};
use super::panel::{Panel, edges, framed};
use super::scene::Scene;
use super::text::{count, write_lines};
use crate::charts::{ChartColumns, FilledTimeline, LoopTimeline};
use crate::theme::WithLook;
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
    /// Where the loop's time goes.
    Loop,
    /// Text.
    Lines(Vec<Line<'static>>),
    /// No rows: the edges say it all.
    Nothing,
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

    /// Its part of spare rows.
    fn weight(&self) -> u16 {
        if matches!(self.body, Body::Nothing) { 0 } else { self.weight }
    }

    /// Whether there is a time axis below it.
    fn is_timed(&self) -> bool {
        matches!(self.body, Body::Chart(..) | Body::Gpu(_) | Body::Loop)
    }

    /// Draws it; returns the position of its time axis, if it has one.
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, hits: &mut Hits) -> Option<Rect> {
        let inner = self.panel.draw(buf, area, scene.theme);
        if inner.is_empty() {
            return None;
        }
        match &self.body {
            Body::Chart(line, empty) => {
                let empty = chart::unread(scene.frame()).unwrap_or(empty);
                if let Some(top) = line.plot(buf, inner, empty, scene) {
                    // The top of the axis belongs to the value: draw the edges again with it.
                    let mut panel = self.panel.clone();
                    panel.value.push(top);
                    panel.draw(buf, area, scene.theme);
                }
            }
            Body::Gpu(place) => {
                let window = scene.window(inner.width);
                let value = |point: &TimelinePoint| point.gpus.get(*place).and_then(|percent| percent.get());
                let columns = ChartColumns::gather(&scene.job.history.timeline, window, value);
                let look = |_| Class::Gpu.look();
                FilledTimeline { columns: &columns, max: 100.0, look, theme: scene.theme }.render(inner, buf);
            }
            Body::Loop => {
                let (timeline, window) = (&scene.job.history.timeline, scene.window(inner.width));
                LoopTimeline { timeline, window, verdict: scene.verdict(), theme: scene.theme }.render(inner, buf);
            }
            Body::Lines(lines) => write_lines(buf, inner, lines),
            Body::Nothing => {}
        }
        self.is_timed().then(|| {
            hits.push((inner, Hit::Chart));
            Rect { y: inner.bottom(), height: 1, ..inner }
        })
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
    let rows: Vec<&[Tile]> = tiles.chunks(usize::from(columns.max(1))).collect();
    let is_column = columns == 1;
    let weight = |row: &[Tile]| if is_column { row.iter().map(Tile::weight).sum() } else { 1 };
    // Each row has its edges, and spare rows are shared out by weight.
    let heights = rows.iter().flat_map(|row| [Constraint::Length(edges(buf.area)), Constraint::Fill(weight(row))]);
    let parts = Layout::vertical(heights).split(body);
    for (place, (parts, row)) in (1..).zip(parts.chunks(2).zip(&rows)) {
        let area = parts.iter().copied().reduce(Rect::union).unwrap_or_default();
        draw_row(buf, area, row, place == rows.len(), scene, hits);
    }
    if axis > 0 {
        ruler(buf, below, scene, hits);
    }
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
            ruler(buf, below.inner(Margin::new(1, 0)), scene, hits);
        }
    }
}

/// Draws a time axis.
pub fn ruler(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, hits: &mut Hits) {
    chart::ruler(buf, area, scene);
    hits.push((area, Hit::Ruler));
}
