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
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::Content;
use crate::charts::VerdictBand;
use crate::widgets::{Drawn, Hit, Scene, bars, count, panel, pipeline, tile};
use trainmon_base::text::fit;
use trainmon_waits::Frame;

/// Minimum rows of tiles that must remain when bars of workers are shown.
const LEAST_TILES: u16 = 12;
/// Fewest rows below the pipeline with a band of verdicts, and fewest rows of tiles with a line of text.
const LEAST_WITH_BAND: u16 = 6;
const LEAST_WITH_TEXT: u16 = 8;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overview;

impl Content for Overview {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, _top: usize, drawn: &mut Drawn) {
        if scene.frame().is_none() && scene.job.replay.is_some() {
            return;
        }
        let columns = tile::columns(buf.area);
        let of_pipeline = pipeline::rows(buf.area);
        let of_band = u16::from(area.height.saturating_sub(of_pipeline) >= LEAST_WITH_BAND);
        let [pipeline, rest, band] =
            Layout::vertical([Constraint::Length(of_pipeline), Constraint::Fill(1), Constraint::Length(of_band)])
                .areas(area);
        pipeline::draw(buf, pipeline, scene);
        verdicts(buf, band, scene, drawn);
        let of_side = if columns == 3 { rest.width / 4 } else { 0 };
        let [rest, side] = Layout::horizontal([Constraint::Fill(1), Constraint::Length(of_side)]).areas(rest);
        if columns == 3 {
            side::draw(buf, side, scene);
        }
        let nothing = Frame::default();
        let frame = scene.frame().unwrap_or(&nothing);
        let ranks = if frame.ranks.len() > 1 { frame.ranks.len() } else { 0 };
        let mut room = rest.height.saturating_sub(LEAST_TILES);
        let [of_ranks, of_workers] = [ranks, frame.workers.len()].map(|bars| {
            let rows = rows(bars, rest.width, buf.area).min(room);
            // An empty frame is not a list.
            let rows = if rows > panel::edges(buf.area) { rows } else { 0 };
            room -= rows;
            rows
        });
        let no_gpu = tiles::no_gpu(scene);
        let of_text = u16::from(no_gpu.is_some() && rest.height > of_ranks + of_workers + LEAST_WITH_TEXT);
        let heights = [of_text, of_ranks, of_workers].map(Constraint::Length);
        let [rest, text, ranks, workers] =
            Layout::vertical([Constraint::Fill(1)].into_iter().chain(heights)).areas(rest);
        if of_ranks > 0 {
            ranks::draw(buf, ranks, frame, scene);
        }
        if of_workers > 0 {
            workers::draw(buf, workers, frame, scene);
        }
        let no_gpu = format!(" {}", no_gpu.unwrap_or_default());
        Span::styled(fit(&no_gpu, usize::from(text.width)), scene.theme.dim()).render(text, buf);
        let mut tiles = tiles::all(scene);
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
    let inner = if panel::framed(buf.area) { area.inner(Margin::new(1, 0)) } else { area };
    let window = scene.window(inner.width);
    VerdictBand { timeline: &scene.job.history.timeline, window, theme: scene.theme }.render(inner, buf);
    drawn.hits.push((inner, Hit::Chart));
}
