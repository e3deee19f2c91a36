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

use super::{Content, FOOTER, NOTHING, Spec};
use crate::history::timeline::Point;
use crate::jobs::Needs;
use crate::rates::Frame;
use crate::tui::charts::Columns;
use crate::tui::format;
use crate::tui::theme::Series;
use crate::tui::widgets::chart::{self, Band, Top};
use crate::tui::widgets::drawn::Drawn;
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::scroll::scrolled;
use crate::tui::widgets::text::{Text, cells, write};

pub const SPEC: Spec = Spec {
    word: "cpu",
    name: "CPU",
    short: "CPU",
    keys: "3",
    help: "CPU: cores, queues, quota, pressure, threads, neighbours",
    footer: FOOTER,
    needs: Needs { neighbours: true, ..NOTHING },
};

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
            for (timeline, rows) in TIMELINES.iter().zip(rows(area.height)).filter(|(_, rows)| *rows > 0) {
                if let Some(band) = page.band(rows) {
                    timeline.draw(page.buf, band, frame, scene);
                }
            }
            page.ruler(None, scene);
            cores::draw(page, &frame.host.cpus, theme);
            lists::draw(page, frame, theme);
        });
    }
}

/// A timeline of the page.
struct Timeline {
    name: &'static str,
    /// What the value is a share of.
    of: &'static str,
    now: fn(&Frame) -> Option<f64>,
    value: fn(&Point) -> Option<f32>,
    top: Top,
}

const TIMELINES: [Timeline; 6] = [
    Timeline {
        name: "CPU",
        of: "of the allowed CPUs",
        now: |f| f.host.allowed_cpu_pct,
        value: |p| p.cpu.get(),
        top: Top::Percent,
    },
    Timeline {
        name: "Job",
        of: "of the allowed CPUs",
        now: |f| f.job.cpu_pct.zip(f.job.cpus_allowed.filter(|n| *n > 0)).map(|(pct, n)| pct / f64::from(n)),
        value: |p| p.cpu_job.get(),
        top: Top::Percent,
    },
    Timeline {
        name: "Queueing",
        of: "of its runnable time",
        now: |f| f.job.run_delay_share.map(|share| share * 100.0),
        value: |p| p.run_delay.get(),
        top: Top::Fine,
    },
    Timeline {
        name: "Pressure",
        of: "some task waits for CPU",
        now: |f| f.host.psi_cpu_some_pct,
        value: |p| p.psi_cpu.get(),
        top: Top::Fine,
    },
    Timeline {
        name: "  io",
        of: "some task waits for I/O",
        now: |f| f.host.psi_io_some_pct,
        value: |p| p.psi_io.get(),
        top: Top::Fine,
    },
    Timeline {
        name: "  memory",
        of: "some task waits for memory",
        now: |f| f.host.psi_memory_some_pct,
        value: |p| p.psi_memory.get(),
        top: Top::Fine,
    },
];

/// Rows of the timelines, by the height of the body.
fn rows(height: u16) -> [u16; TIMELINES.len()] {
    match height {
        0..26 => [2, 0, 1, 1, 0, 0],
        26..46 => [3, 2, 2, 2, 0, 0],
        _ => [5, 3, 3, 3, 2, 2],
    }
}

impl Timeline {
    fn draw(&self, buf: &mut Buffer, band: Band, frame: &Frame, scene: &Scene<'_>) {
        let (area, theme) = (band.text, scene.theme);
        let value = format::percent((self.now)(frame));
        let x = chart::label(buf, area, self.name, &value, 9, theme.series(Series::Cpu), theme) + 1;
        if area.height > 1 {
            write(buf, area.x, area.y + 1, area.right(), self.of, theme.dim());
        } else if x + cells(self.of) <= area.right() {
            write(buf, x, area.y, area.right(), self.of, theme.dim());
        }
        let columns = Columns::gather(&scene.job.history.timeline, scene.window(band.chart.width), self.value);
        chart::plot(buf, band, &columns, self.top, Series::Cpu, "", theme);
    }
}
