//! The first page: the pipeline, steps per second, where the loop's time goes, GPU, workers, CPU and storage over time,
//! and a bar for each worker or rank.
//!
//! ```text
//! │ storage ──▶ workers ◀ LIMIT ──▶ queue ──▶ loop ──▶ GPU │
//! │ tiles: one column of rules, or a grid of frames        │
//! │ bars of ranks and workers                              │
//! │ band of verdicts                                       │
//! ```

mod ranks;
mod side;
mod tiles;
mod workers;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::Content;
use crate::charts;
use crate::widgets::{Drawn, Hit, Scene, bars, count, panel, pipeline, tile, write_fit};
use trainmon_waits::Frame;

/// Draws a list of bars.
type Bars = fn(&mut Buffer, Rect, &Frame, &Scene<'_>);

/// Minimum rows of tiles that must remain when bars of workers are shown.
const LEAST_TILES: u16 = 12;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overview;

impl Content for Overview {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, _top: usize, drawn: &mut Drawn) {
        if scene.frame().is_none() && scene.job.replay.is_some() {
            return;
        }
        let columns = tile::columns(buf.area);
        let (pipeline, mut rest) = cut_top(area, pipeline::rows(buf.area).min(area.height));
        pipeline::draw(buf, pipeline, scene);
        let band;
        (rest, band) = cut_bottom(rest, u16::from(rest.height >= 6));
        verdicts(buf, band, scene, drawn);
        if columns == 3 {
            let width = rest.width / 4;
            let side = Rect { x: rest.right() - width, width, ..rest };
            rest.width -= width;
            side::draw(buf, side, scene);
        }
        let frame = scene.frame();
        let (workers, ranks) = frame.map_or((0, 0), |frame| (frame.workers.len(), frame.trainers.len()));
        let lists: [(usize, Bars); 2] = [(if ranks > 1 { ranks } else { 0 }, ranks::draw), (workers, workers::draw)];
        let mut room = rest.height.saturating_sub(LEAST_TILES);
        let wanted = lists.map(|(bars, draw)| {
            let rows = rows(bars, rest.width, buf.area).min(room);
            // An empty frame is not a list.
            let rows = if rows > panel::edges(buf.area) { rows } else { 0 };
            room -= rows;
            (rows, draw)
        });
        for (rows, draw) in wanted.into_iter().rev() {
            let list;
            (rest, list) = cut_bottom(rest, rows);
            if list.height > 0
                && let Some(frame) = frame
            {
                draw(buf, list, frame, scene);
            }
        }
        let mut tiles = tiles::all(scene);
        if rest.height > 8
            && let Some(text) = tiles::no_gpu(scene)
        {
            let line;
            (rest, line) = cut_bottom(rest, 1);
            write_fit(
                buf,
                Rect { x: line.x + 1, width: line.width.saturating_sub(1), ..line },
                &text,
                scene.theme.dim(),
            );
        }
        if columns == 1 {
            tiles = tiles::in_rows(tiles, rest.height, scene);
        }
        tile::draw(buf, rest, &tiles, columns.min(2), scene, &mut drawn.hits);
    }
}

/// Rows of a list of bars, including its edges.
fn rows(bars: usize, width: u16, screen: Rect) -> u16 {
    let edges = panel::edges(screen);
    // A frame takes a cell on each side.
    let inside = width.saturating_sub(2 * (edges - 1));
    if bars == 0 { 0 } else { count(bars).div_ceil(bars::columns(inside)).saturating_add(edges) }
}

/// The band of past verdicts, with the time it covers at its ends.
fn verdicts(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, drawn: &mut Drawn) {
    if area.is_empty() {
        return;
    }
    let inner = if panel::framed(buf.area) { Rect { x: area.x + 1, width: area.width - 2, ..area } } else { area };
    let window = scene.window(inner.width);
    buf.set_style(inner, Style::new());
    charts::band(buf, inner, &scene.job.history.timeline, window, scene.theme);
    drawn.hits.push((inner, Hit::Chart));
}

/// Splits off the first rows of an area.
fn cut_top(area: Rect, rows: u16) -> (Rect, Rect) {
    (Rect { height: rows, ..area }, Rect { y: area.y + rows, height: area.height - rows, ..area })
}

/// Splits off the last rows of an area.
fn cut_bottom(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    let height = area.height - rows;
    (Rect { height, ..area }, Rect { y: area.y + height, height: rows, ..area })
}
