//! The first page: the pipeline, where each step's time went with the band of verdicts, a row for each rank and worker, and charts
//! of the resources, what limits the run first.
//!
//! ```text
//! │ storage ──▶ workers ◀ LIMIT ──▶ queue ──▶ loop ──▶ GPU │
//! │ where each step's time went, over the full width       │
//! │ ranks and workers                                      │
//! │ charts of GPU, CPU and storage                         │
//! │ what has nothing to show, on one line                  │
//! ```

mod ranks;
mod side;
mod tiles;
mod workers;

pub use tiles::the_loop;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::Content;
use crate::format;
use crate::widgets::tile::Tile;
use crate::widgets::{Drawn, Piece, Scene, bars, cells, count, panel, pipeline, tile};
use trainmon_waits::Frame;

/// Fewest rows of a chart below the loop's time, without its edges.
const LEAST_CHART: u16 = 2;
/// Fewest rows of the loop's time, with its edges.
const LEAST_LOOP: u16 = 5;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overview;

impl Content for Overview {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, _top: usize, drawn: &mut Drawn) {
        if scene.frame().is_none() && scene.job.replay.is_some() {
            return;
        }
        let screen = buf.area;
        let of_pipeline = pipeline::rows(screen);
        let of_loop = (screen.height * 2 / 5).max(LEAST_LOOP);
        let [pipeline, the_loop, rest] =
            Layout::vertical([Constraint::Length(of_pipeline), Constraint::Length(of_loop), Constraint::Fill(1)])
                .areas(area);
        pipeline::draw(buf, pipeline, scene);
        let loop_tile = [tiles::the_loop(scene, the_loop.width)];
        tile::draw_row(buf, the_loop, &loop_tile, true, scene, &mut drawn.hits);
        let of_side = if tile::columns(screen) == 3 { rest.width / 3 } else { 0 };
        let [rest, side] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(of_side)]).areas(rest);
        if of_side > 0 {
            side::draw(buf, side, scene);
        }
        below(buf, rest, scene, drawn);
    }
}

/// The rows of ranks and workers, and the charts of the resources.
fn below(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, drawn: &mut Drawn) {
    let screen = buf.area;
    let edges = panel::edges(screen);
    let nothing = Frame::default();
    let frame = scene.frame().unwrap_or(&nothing);
    let (mut tiles, mut folded) = tiles::resources(scene);
    let ranks = if frame.ranks.len() > 1 { frame.ranks.len() } else { 0 };
    // A chart of what limits the run has its place before long lists.
    let mut room = area.height.saturating_sub(edges + LEAST_CHART + 1);
    let [of_ranks, of_workers] = [ranks, frame.workers.len()].map(|bars| {
        let rows = rows(bars, area.width, screen).min(room);
        // An empty frame is not a list.
        let rows = if rows > edges { rows } else { 0 };
        room -= rows;
        rows
    });
    if of_workers == 0 && !frame.workers.is_empty() {
        let name = format::counted(frame.workers.len(), "worker", "workers");
        let does = workers::summary(frame, scene).unwrap_or_default();
        folded.insert(0, (format!("{name} {does}"), scene.theme.dim()));
    }
    // Without frames the time axis has a line of its own.
    let of_axis = u16::from(!panel::framed(screen) && area.height > 0);
    let for_charts = area.height.saturating_sub(of_ranks + of_workers + of_axis);
    let columns = if panel::framed(screen) { tiles.len() } else { 1 };
    let has_text = u16::from(tiles::no_gpu(scene).is_some());
    fold(&mut tiles, &mut folded, for_charts.saturating_sub(has_text), columns, edges, scene);
    folded.splice(0..0, tiles::no_gpu(scene).map(|text| (text, scene.theme.dim())));
    let of_text = u16::from(!folded.is_empty() && for_charts > 0);
    let heights = [of_ranks, of_workers].map(Constraint::Length);
    let below = [Constraint::Fill(1), Constraint::Length(of_axis), Constraint::Length(of_text)];
    let [ranks, workers, charts, axis, text] = Layout::vertical(heights.into_iter().chain(below)).areas(area);
    if of_ranks > 0 {
        ranks::draw(buf, ranks, frame, scene);
    }
    if of_workers > 0 {
        workers::draw(buf, workers, frame, scene);
    }
    tile::draw_rows(buf, charts, &tiles, columns as u16, scene, &mut drawn.hits);
    if of_axis > 0 {
        tile::ruler(buf, tile::plot(axis), scene, &mut drawn.hits);
    }
    words(text.width, &folded).render(text, buf);
}

/// Puts charts for which there is no room among what is told in words, the least important first.
fn fold(tiles: &mut Vec<Tile>, folded: &mut Vec<Piece>, rows: u16, columns: usize, edges: u16, scene: &Scene<'_>) {
    let height = |tiles: usize| tile::rows(tiles, columns.max(1) as u16) * (edges + LEAST_CHART);
    while !tiles.is_empty() && height(tiles.len()) + u16::from(!folded.is_empty()) > rows {
        folded.splice(0..0, tiles.pop().map(|tile| tiles::in_words(&tile, scene.theme.dim())));
    }
}

/// As many pieces as fit on a line.
fn words(width: u16, pieces: &[Piece]) -> Line<'static> {
    let mut line = Line::from(" ");
    for (text, style) in pieces {
        if line.width() as u16 + cells(text) + 3 > width && line.spans.len() > 1 {
            break;
        }
        line.push_span(Span::styled(format!("{text}   "), *style));
    }
    line
}

/// Rows of a list of bars, including its edges.
fn rows(bars: usize, width: u16, screen: Rect) -> u16 {
    let edges = panel::edges(screen);
    // A frame takes a cell on each side.
    let inside = width.saturating_sub(2 * (edges - 1));
    if bars == 0 { 0 } else { count(bars).div_ceil(bars::columns(inside, bars)).saturating_add(edges) }
}
