//! The third column of a wide screen: the wait chain, the hottest functions, and the processes that use the CPUs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::format;
use crate::widgets::panel::Panel;
use crate::widgets::tile::{self, Body, Tile};
use crate::widgets::{Scene, cells, count};
use trainmon_base::text::{fit, sanitize, wrap};
use trainmon_diagnosis::diagnosis::verdict::Hottest;
use trainmon_views::chain::rows;
use trainmon_views::labels;
use trainmon_waits::Frame;

/// Maximum number of functions of the loop and of the workers.
const FUNCTIONS: usize = 8;
/// Maximum rows of the wait chain.
const CHAIN_ROWS: usize = 12;
/// Maximum number of processes.
const PROCESS_ROWS: usize = 40;

/// Draws the parts that have content, one below the other.
pub fn draw(buf: &mut Buffer, area: Rect, scene: &Scene<'_>) {
    let width = usize::from(area.width.saturating_sub(4));
    let parts =
        [chain(width, scene), functions(width, scene), scene.frame().map(|frame| processes(frame, width, scene))];
    let tiles: Vec<Tile> = parts.into_iter().flatten().collect();
    tile::draw(buf, area, &tiles, 1, scene, &mut Vec::new());
}

fn list(name: &str, keys: &str, lines: Vec<Line<'static>>, scene: &Scene<'_>) -> Tile {
    let panel = Panel { keys: keys.to_owned(), ..Panel::new(name, scene.theme.strong()) };
    let weight = count(lines.len()).saturating_add(1);
    Tile { panel, body: Body::Lines(lines), weight }
}

/// The wait chain.
fn chain(width: usize, scene: &Scene<'_>) -> Option<Tile> {
    let rows = rows(&scene.verdict()?.chain);
    let lines = rows.iter().take(CHAIN_ROWS).flat_map(|row| {
        let share = format!("{:>4} ", format::share(Some(row.node.share)));
        let indent = share.len() + usize::from(cells(&row.branch));
        let mut texts = wrap(&row.text, width.saturating_sub(indent).max(1)).into_iter();
        let first = Line::from_iter([
            Span::styled(share, scene.theme.strong()),
            Span::styled(row.branch.clone(), scene.theme.edge()),
            Span::raw(texts.next().unwrap_or_default()),
        ]);
        [first].into_iter().chain(texts.map(move |text| Line::from(format!("{:indent$}{text}", ""))))
    });
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| list("wait chain", "2 chain", lines, scene))
}

/// Where the loop and the workers spend their time, according to stacks.
fn functions(width: usize, scene: &Scene<'_>) -> Option<Tile> {
    let verdict = scene.verdict()?;
    let theme = scene.theme;
    let line = |place: &Hottest| {
        let share = format!("{:>4} ", format::share(Some(place.share)));
        let at = place.at();
        let room = width.saturating_sub(share.len() + at.len() + 1);
        let function = sanitize(&place.function).into_owned();
        Line::from_iter([
            Span::styled(share, theme.strong()),
            Span::raw(format!("{:<room$} ", fit(&function, room))),
            Span::styled(sanitize(&at).into_owned(), theme.dim()),
        ])
    };
    let mut lines = Vec::new();
    if let Some(main) = verdict.main_thread.as_ref().filter(|main| !main.hottest.is_empty()) {
        lines.push(Line::styled("loop", theme.dim()));
        lines.extend(main.hottest.iter().take(FUNCTIONS).map(line));
    }
    let hottest = verdict.workers.iter().filter_map(|worker| worker.hottest.as_ref());
    let mut of_workers: Vec<&Hottest> = Vec::new();
    for place in hottest {
        if !of_workers.iter().any(|known| (&known.function, &known.file) == (&place.function, &place.file)) {
            of_workers.push(place);
        }
    }
    if !of_workers.is_empty() {
        lines.push(Line::styled("workers", theme.dim()));
        lines.extend(of_workers.into_iter().take(FUNCTIONS).map(line));
    }
    (!lines.is_empty()).then(|| list("hottest functions", "7 stacks", lines, scene))
}

/// The job's processes, the busiest first.
fn processes(frame: &Frame, width: usize, scene: &Scene<'_>) -> Tile {
    let mut processes: Vec<_> = frame.processes.iter().collect();
    processes.sort_by(|a, b| b.cpu_pct.unwrap_or(-1.0).total_cmp(&a.cpu_pct.unwrap_or(-1.0)));
    let lines = processes.into_iter().take(PROCESS_ROWS).map(|process| {
        let head = format!("{:>8} {:>5} ", process.id.pid, format::percent(process.cpu_pct));
        let command = sanitize(&labels::short_command(&process.command)).into_owned();
        let room = width.saturating_sub(head.len());
        Line::from_iter([Span::styled(head, scene.theme.dim()), Span::styled(fit(&command, room), Style::new())])
    });
    list("processes", "6 processes", lines.collect(), scene)
}
