//! The page of CPUs: what uses them, what queues for them, what limits them, and every single one.
//!
//! ```text
//! │ facts: use, quota, queues, pressure                │
//! │ timelines: use, job, queueing, pressure; ruler     │
//! │ CPUs: one bar each, in columns                     │
//! └ threads by role │ busiest threads │ processes ─────┘
//! ```

mod cores;
mod lists;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Widget;

use super::Content;
use crate::widgets::tile::Tile;
use crate::widgets::{ChartLine, Drawn, Scene, Text, Top, scrolled};
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_views::cpu_facts;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu;

impl Content for Cpu {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let theme = scene.theme;
        let Some(frame) = scene.frame() else {
            Span::styled("waiting for the first sample", theme.dim()).render(area, buf);
            return;
        };
        let mut facts = Text::new(area.width, theme);
        let style = |limits| if limits { theme.warning() } else { Style::new() };
        let told = cpu_facts::facts(frame).into_iter().map(|(text, limits)| (text, style(limits)));
        facts.pieces(" · ", &told.collect::<Vec<_>>());
        scrolled(buf, area, top, drawn, |page| {
            page.lines(&facts.lines);
            let (shown, rows) = shown(area);
            let tiles: Vec<Tile> = TIMELINES.iter().take(shown).map(|timeline| tile(timeline, scene)).collect();
            page.tiles(&tiles, rows, rows, scene);
            cores::draw(page, &frame.host.cpus, theme);
            lists::draw(page, frame, theme);
        });
    }
}

/// Each with the whole that its value is a share of.
const TIMELINES: [(ChartLine, &str); 6] = [
    (ChartLine(Class::Cpu, "All processes", |p| p.cpu.get(), Top::Percent), "of the allowed CPUs"),
    (ChartLine(Class::Cpu, "This job", |p| p.cpu_job.get(), Top::Percent), "of the allowed CPUs"),
    (ChartLine(Class::Cpu, "Waits for a CPU", |p| p.run_delay.get(), Top::Fine), "of the job's time"),
    (ChartLine(Class::Cpu, "Any task waits for a CPU", |p| p.psi_cpu.get(), Top::Fine), "of the time"),
    (ChartLine(Class::Cpu, "Any task waits for I/O", |p| p.psi_io.get(), Top::Fine), "of the time"),
    (ChartLine(Class::Cpu, "Any task waits for memory", |p| p.psi_memory.get(), Top::Fine), "of the time"),
];

/// The number of timelines, and the rows for all of them.
fn shown(area: Rect) -> (usize, u16) {
    match area.height {
        0..20 => (2, 7),
        20..30 => (4, 13),
        30..46 => (4, 16),
        _ => (6, 24),
    }
}

fn tile((line, of): &(ChartLine, &str), scene: &Scene<'_>) -> Tile {
    let mut tile = Tile::chart(*line, "", scene);
    tile.panel.value.push(((*of).to_owned(), scene.theme.dim()));
    tile
}
