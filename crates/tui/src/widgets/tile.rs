//! Tiles: the sections of a page, each a panel with content, laid out in one column of rules or in a grid of frames.
//!
//! A tile draws into any rectangle; this file places it, depending on the number of tiles and the available room.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::chart::{self, ChartLine};
use super::drawn::{Hit, Hits};
use super::panel::{Panel, edges, framed};
use super::scene::Scene;
use super::text::{count, write_lines};
use crate::charts::{self, ChartColumns};
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
                charts::timeline(buf, inner, &columns, 100.0, |_| Class::Gpu.look(), scene.theme);
            }
            Body::Loop => {
                let timeline = &scene.job.history.timeline;
                charts::stacked(buf, inner, timeline, scene.window(inner.width), scene.verdict(), scene.theme);
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
    let body = Rect { height: area.height.saturating_sub(axis), ..area };
    if columns > 1 {
        let rows = rows(tiles.len(), columns);
        let mut y = body.y;
        for (place, row) in (0..).zip(tiles.chunks(usize::from(columns))) {
            let height = body.height / rows + u16::from(place < body.height % rows);
            draw_row(buf, Rect { y, height, ..body }, row, place + 1 == rows, scene, hits);
            y += height;
        }
    } else {
        for (place, tile) in column(body, tiles, edges(buf.area)).into_iter().zip(tiles) {
            let is_last = place.bottom() == body.bottom();
            draw_row(buf, place, std::slice::from_ref(tile), is_last, scene, hits);
        }
    }
    if axis > 0 {
        ruler(buf, Rect { y: body.bottom(), height: 1, ..body }, scene, hits);
    }
}

/// Draws tiles side by side over all of `area`, with the time axis in their lower edges if it is the last row of
/// frames.
pub fn draw_row(buf: &mut Buffer, area: Rect, tiles: &[Tile], is_last: bool, scene: &Scene<'_>, hits: &mut Hits) {
    let count = count(tiles.len()).max(1);
    let mut x = area.x;
    for (place, tile) in (0..).zip(tiles) {
        let width = area.width / count + u16::from(place < area.width % count);
        let below = tile.draw(buf, Rect { x, width, ..area }, scene, hits);
        if is_last
            && framed(buf.area)
            && let Some(below) = below
        {
            ruler(buf, Rect { x: below.x + 1, width: below.width.saturating_sub(2), ..below }, scene, hits);
        }
        x += width;
    }
}

/// Draws a time axis.
pub fn ruler(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, hits: &mut Hits) {
    chart::ruler(buf, area, scene);
    hits.push((area, Hit::Ruler));
}

/// Stacks tiles: each has its edges, and spare rows are shared out by weight.
fn column(area: Rect, tiles: &[Tile], edges: u16) -> Vec<Rect> {
    let weight = |tile: &Tile| if matches!(tile.body, Body::Nothing) { 0 } else { tile.weight };
    let all: u16 = tiles.iter().map(weight).sum();
    let spare = area.height.saturating_sub(edges * count(tiles.len()));
    let (mut y, mut given, mut passed) = (area.y, 0, 0);
    let mut places = Vec::new();
    for tile in tiles {
        passed += weight(tile);
        let until = if all > 0 { (u32::from(spare) * u32::from(passed) / u32::from(all)) as u16 } else { 0 };
        let height = (edges + until - given).min(area.bottom().saturating_sub(y));
        places.push(Rect { y, height, ..area });
        (y, given) = (y + height, until);
    }
    places
}
