//! Rows of processes with a bar each, side by side if the terminal is wide: a number, a bar of parts, the recent use of a CPU, and
//! what it does most.

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::panel;
use super::scene::Scene;
use crate::charts;
use crate::theme::Look;
use trainmon_diagnosis::history::recent_use::Recent;

/// Width of a row with everything in it, and of one with too little room for the recent past.
const ROW_CELLS: u16 = 56;
const NARROW: u16 = 44;
/// Width of the recent past after a bar.
const SPARK_CELLS: u16 = 16;
/// Width of the text at its end.
const TEXT: u16 = 31;

/// How many of `count` rows are side by side in `width` cells.
pub fn columns(width: u16, count: usize) -> u16 {
    (width / ROW_CELLS).min(u16::try_from(count).unwrap_or(u16::MAX)).max(1)
}

/// The positions of a list's rows.
pub fn places(area: Rect, count: usize) -> impl Iterator<Item = Rect> {
    let columns = columns(area.width, count);
    let width = area.width / columns;
    area.rows().flat_map(move |row| (0..columns).map(move |c| Rect { x: row.x + c * width, width, ..row }))
}

/// How many rows fit into a panel that fills `area` on this screen.
pub fn room(area: Rect, screen: Rect, count: usize) -> usize {
    let edges = panel::edges(screen);
    let inside = area.width.saturating_sub(2 * (edges - 1));
    usize::from(area.height.saturating_sub(edges)) * usize::from(columns(inside, count))
}

/// A row of a process.
#[derive(Debug)]
pub struct ProcessBar<'r> {
    /// Its process.
    pub pid: u32,
    /// What is before the bar.
    pub number: Span<'static>,
    /// The parts of the bar.
    pub parts: &'r [(Look, f64)],
    /// What its recent past shows.
    pub recent: Recent,
    /// The color of the recent past.
    pub style: Style,
    /// What it does most.
    pub text: Line<'static>,
}

impl ProcessBar<'_> {
    /// Draws it.
    pub fn draw(self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
        let recent = if area.width >= NARROW { SPARK_CELLS.min(area.width / 6) } else { 0 };
        let lengths = [
            Constraint::Length(self.number.width() as u16),
            Constraint::Fill(1),
            Constraint::Length(recent),
            Constraint::Length(TEXT.min(area.width / 2)),
        ];
        let [number, bar, recent, text] = Layout::horizontal(lengths).spacing(1).areas(area);
        self.number.render(number, buf);
        // Squares keep rows apart.
        let parts: Vec<_> = self
            .parts
            .iter()
            .map(|(look, share)| (scene.theme.key(*look), scene.theme.style(*look), *share))
            .collect();
        Line::from(charts::split_styled(bar.width, &parts, scene.theme)).render(bar, buf);
        // Before the first mean there is a baseline.
        let line = sparkline((self.recent, self.pid), recent.width, scene);
        let known = line.trim_start();
        let blanks = usize::from(recent.width).saturating_sub(known.chars().count());
        let base = if scene.theme.ascii { "_" } else { "▁" };
        let before = Span::styled(base.repeat(blanks), scene.theme.edge());
        Line::from_iter([before, Span::styled(known.to_owned(), self.style)]).render(recent, buf);
        self.text.render(text, buf);
    }
}

/// The recent past of a process as a sparkline of so many cells, up to the moment shown; the newest at the right.
pub fn sparkline((what, pid): (Recent, u32), width: u16, scene: &Scene<'_>) -> String {
    let percents = scene.job.recent.last(what, pid, scene.job.moment_ns(), usize::from(width));
    let levels = if scene.theme.ascii { SPARK_ASCII } else { SPARK_LEVELS };
    let last = levels.len() as u64 - 1;
    let line = percents.iter().map(|percent| levels.get((percent * last).div_ceil(100) as usize).unwrap_or(&' '));
    let line: String = line.collect();
    format!("{line:>width$}", width = usize::from(width))
}

/// The levels of a sparkline, from zero up.
const SPARK_LEVELS: &[char] = &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SPARK_ASCII: &[char] = &['_', '.', ':', '|', '#'];

/// A share, 0–1, as a bar of `width` cells of blocks; `rest` fills the part that is not filled.
pub fn share(width: u16, share: f64, style: Style, (rest, of_rest): (&str, Style)) -> [Span<'static>; 2] {
    let filled = (share.clamp(0.0, 1.0) * f64::from(width)).round() as usize;
    let left = usize::from(width).saturating_sub(filled);
    [Span::styled("█".repeat(filled), style), Span::styled(rest.repeat(left), of_rest)]
}
