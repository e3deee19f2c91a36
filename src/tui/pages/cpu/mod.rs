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

use crate::history::timeline::Point;
use crate::rates::Frame;
use crate::tui::charts::Columns;
use crate::tui::format;
use crate::tui::theme::Series;
use crate::tui::widgets::chart::{self, Band, Top};
use crate::tui::widgets::drawn::Drawn;
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::scroll::scrolled;
use crate::tui::widgets::text::{Text, cells, write};

/// Draws the page.
pub fn draw(buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
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

/// A timeline of the page: its name, what its value is a share of, the value at the moment shown and over time, and the
/// top of its axis.
struct Timeline(&'static str, &'static str, fn(&Frame) -> Option<f64>, fn(&Point) -> Option<f32>, Top);

const TIMELINES: [Timeline; 6] = [
    Timeline("CPU", "of the allowed CPUs", |f| f.host.allowed_cpu_pct, |p| p.cpu.get(), Top::Percent),
    Timeline("Job", "of the allowed CPUs", of_allowed, |p| p.cpu_job.get(), Top::Percent),
    Timeline("Queueing", "of its runnable time", queueing, |p| p.run_delay.get(), Top::Fine),
    Timeline("Pressure", "some task waits for CPU", |f| f.host.psi_cpu_some_pct, |p| p.psi_cpu.get(), Top::Fine),
    Timeline("  io", "some task waits for I/O", |f| f.host.psi_io_some_pct, |p| p.psi_io.get(), Top::Fine),
    Timeline(
        "  memory",
        "some task waits for memory",
        |f| f.host.psi_memory_some_pct,
        |p| p.psi_memory.get(),
        Top::Fine,
    ),
];

fn of_allowed(frame: &Frame) -> Option<f64> {
    Some(frame.job.cpu_pct? / f64::from(frame.job.cpus_allowed.filter(|n| *n > 0)?))
}

fn queueing(frame: &Frame) -> Option<f64> {
    Some(frame.job.run_delay_share? * 100.0)
}

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
        let Self(name, of, now, over_time, top) = self;
        let x = chart::label(buf, area, name, &format::percent(now(frame)), 9, theme.series(Series::Cpu), theme) + 1;
        if area.height > 1 {
            write(buf, area.x, area.y + 1, area.right(), of, theme.dim());
        } else if x + cells(of) <= area.right() {
            write(buf, x, area.y, area.right(), of, theme.dim());
        }
        let columns = Columns::gather(&scene.job.history.timeline, scene.window(band.chart.width), *over_time);
        chart::plot(buf, band, &columns, *top, Series::Cpu, "", theme);
    }
}
