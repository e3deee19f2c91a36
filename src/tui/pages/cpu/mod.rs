//! The page of CPUs: who uses them, who queues for them, what limits them, and every single one.
//!
//! ```text
//! │ facts: use, quota, queues, pressure                │
//! │ timelines: use, job, queueing, pressure; ruler     │
//! │ cores: one bar each, in columns                    │
//! └ threads by role │ busiest threads │ neighbours ────┘
//! ```

mod cores;
mod facts;
mod lists;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Content;
use crate::diagnosis::verdict::Class;
use crate::tui::widgets::{Band, ChartLine, Drawn, Scene, Text, Top, cells, chart, scrolled, write};

/// It remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpu;

impl Content for Cpu {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let theme = scene.theme;
        let Some(frame) = scene.frame() else {
            write(buf, area.x, area.y, area.right(), "waiting for the first sample", theme.dim());
            return;
        };
        let mut facts = Text::new(area.width, theme);
        facts.pieces(", ", &facts::pieces(frame, theme));
        scrolled(buf, area, top, drawn, |page| {
            page.lines(&facts.lines);
            for ((timeline, of), rows) in TIMELINES.iter().zip(rows(area.height)).filter(|(_, rows)| *rows > 0) {
                if let Some(band) = page.band(rows) {
                    draw_timeline(page.buf, band, timeline, of, scene);
                }
            }
            page.ruler(None, scene);
            cores::draw(page, &frame.host.cpus, theme);
            lists::draw(page, frame, theme);
        });
    }
}

/// Each with what its value is a share of.
const TIMELINES: [(ChartLine, &str); 6] = [
    (ChartLine(Class::Cpu, "CPU", |p| p.cpu.get(), Top::Percent), "of the allowed CPUs"),
    (ChartLine(Class::Cpu, "Job", |p| p.cpu_job.get(), Top::Percent), "of the allowed CPUs"),
    (ChartLine(Class::Cpu, "Queueing", |p| p.run_delay.get(), Top::Fine), "of its runnable time"),
    (ChartLine(Class::Cpu, "Pressure", |p| p.psi_cpu.get(), Top::Fine), "some task waits for CPU"),
    (ChartLine(Class::Cpu, "  io", |p| p.psi_io.get(), Top::Fine), "some task waits for I/O"),
    (ChartLine(Class::Cpu, "  memory", |p| p.psi_memory.get(), Top::Fine), "some task waits for memory"),
];

/// Rows of the timelines, by the height of the body.
fn rows(height: u16) -> [u16; TIMELINES.len()] {
    match height {
        0..26 => [2, 0, 1, 1, 0, 0],
        26..46 => [3, 2, 2, 2, 0, 0],
        _ => [5, 3, 3, 3, 2, 2],
    }
}

fn draw_timeline(buf: &mut Buffer, band: Band, timeline: &ChartLine, of: &str, scene: &Scene<'_>) {
    let (area, theme, ChartLine(about, name, ..)) = (band.text, scene.theme, *timeline);
    let x = chart::label(buf, area, name, &timeline.now(scene), 9, theme.series(about), theme) + 1;
    if area.height > 1 {
        write(buf, area.x, area.y + 1, area.right(), of, theme.dim());
    } else if x + cells(of) <= area.right() {
        write(buf, x, area.y, area.right(), of, theme.dim());
    }
    timeline.plot(buf, band, "", scene);
}
