//! One bar for each CPU, in columns like in htop: busy, waiting for I/O, taken by the hypervisor.

use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::charts;
use crate::theme::{ColorSlot, Look, Theme};
use crate::widgets::{Scroll, cells};
use trainmon_rates::frame::CpuRates;

/// Widths that a CPU may have, widest first: number, bar and, from [`WITH_PERCENT`] on, percent.
const WIDTHS: [u16; 6] = [40, 26, 20, 16, 12, 9];
/// The widest are for machines whose CPUs need few rows anyway.
const WIDE: u16 = 26;
const WITH_PERCENT: u16 = 14;

/// Where a CPU's time goes.
const PARTS: [Look; 4] = [
    Look::new("busy", ColorSlot::Purple, '█', '#'),
    Look::new("io wait", ColorSlot::Sky, '▒', 'i'),
    Look::new("stolen", ColorSlot::Vermillion, '╳', 's'),
    Look::IDLE,
];

/// Layout of the CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// Lines.
    pub rows: usize,
    columns: usize,
    /// Width of each.
    cell: u16,
    /// Width of its mark and number.
    label: u16,
}

impl Grid {
    /// The widest bars whose lines leave room for the rest of the body.
    pub fn new(cpus: &[CpuRates], body: Rect) -> Self {
        let highest = cpus.iter().map(|cpu| cpu.cpu).max().unwrap_or(0);
        let digits = highest.checked_ilog10().unwrap_or(0) as u16 + 1;
        let with = |cell: u16| {
            let columns = usize::from((body.width / cell).max(1));
            // Leave out columns that would be empty.
            let rows = cpus.len().div_ceil(columns);
            let columns = if rows == 0 { columns } else { cpus.len().div_ceil(rows) };
            Self { rows, columns, cell, label: digits + 2 }
        };
        let fits = |grid: &Self| {
            let share = if grid.cell >= WIDE { 6 } else { 3 };
            grid.rows <= usize::from(body.height / share).max(1)
        };
        let [.., narrowest] = WIDTHS;
        WIDTHS.into_iter().map(with).find(fits).unwrap_or_else(|| with(narrowest))
    }
}

/// Draws a legend and the visible bars.
pub fn draw(page: &mut Scroll<'_>, cpus: &[CpuRates], theme: Theme) {
    let grid = Grid::new(cpus, page.area);
    let row = |row: usize| {
        let cpus = cpus.iter().skip(row).step_by(grid.rows);
        Line::from_iter(cpus.flat_map(|cpu| one(&grid, cpu, theme)))
    };
    page.lines(&[legend(cpus, theme)]);
    page.each(0..grid.rows, row);
}

fn legend(cpus: &[CpuRates], theme: Theme) -> Line<'static> {
    let mut line = Line::from(Span::styled("CPUs", theme.strong()));
    if cpus.is_empty() {
        line.push_span(Span::styled("  not read yet", theme.dim()));
        return line;
    }
    for part in PARTS {
        line.push_span(Span::styled(format!("  {} {}", theme.glyph(part), part.word), theme.style(part)));
    }
    let text = match cpus.iter().filter(|cpu| cpu.allowed).count() {
        allowed if allowed == cpus.len() => "  * the job may run on all of them".to_owned(),
        allowed => format!("  * the job may run on {allowed} of {}", cpus.len()),
    };
    line.push_span(Span::styled(text, theme.dim()));
    line
}

/// Number, bar and percent of a CPU, with a blank that separates it from the next one.
fn one(grid: &Grid, cpu: &CpuRates, theme: Theme) -> Vec<Span<'static>> {
    let digits = usize::from(grid.label - 2);
    let style = if cpu.allowed { theme.strong() } else { theme.dim() };
    let mark = if cpu.allowed { '*' } else { ' ' };
    let sound = |pct: f32| if pct.is_finite() { f64::from(pct).clamp(0.0, 100.0) } else { 0.0 };
    let [busy, io, steal] = [cpu.busy_pct, cpu.iowait_pct, cpu.steal_pct].map(sound);
    let free = (100.0 - busy - io - steal).max(0.0);
    let parts: Vec<_> = PARTS.into_iter().zip([busy, io, steal, free]).collect();
    let percent = match cpu.busy_pct.is_finite() {
        _ if grid.cell < WITH_PERCENT => " ".to_owned(),
        true => format!("{busy:>4.0}% "),
        false => "    – ".to_owned(),
    };
    let mut spans = vec![Span::styled(format!("{mark}{:>digits$} ", cpu.cpu), style)];
    spans.extend(charts::split(grid.cell.saturating_sub(grid.label + cells(&percent)), &parts, theme));
    spans.push(Span::styled(percent, style));
    spans
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cpus(count: u16) -> Vec<CpuRates> {
        (0..count).map(|cpu| CpuRates { cpu, ..CpuRates::default() }).collect()
    }

    #[test]
    fn many_cpus_get_narrow_bars_and_few_get_wide_ones() {
        let at = |count, width, height| Grid::new(&cpus(count), Rect::new(0, 0, width, height));
        assert!(at(8, 80, 19).rows <= 3);
        assert!(at(64, 80, 19).rows <= 8);
        assert!(at(256, 200, 54).rows <= 18);
        assert_eq!(at(0, 80, 19).rows, 0);
    }

    proptest! {
        #[test]
        fn every_cpu_has_a_place(count in 0u16..2000, width in 0u16..600, height in 0u16..200) {
            let grid = Grid::new(&cpus(count), Rect::new(0, 0, width, height));
            prop_assert!(grid.rows * grid.columns >= usize::from(count));
            prop_assert!(grid.columns == 1 || grid.columns * usize::from(grid.cell) <= usize::from(width));
        }
    }
}
