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

use super::sheet::{self, Sheet};
use super::{Charts, cells, write};
use crate::history::timeline::Point;
use crate::rates::Frame;
use crate::tui::app::App;
use crate::tui::charts::{self, Columns};
use crate::tui::format;
use crate::tui::layout::{self, Band};
use crate::tui::theme::Series;
use cores::Grid;
use lists::Lists;

/// A timeline of the page.
#[derive(Debug, Clone, Copy)]
enum Shown {
    Cpu,
    Job,
    Queue,
    Pressure,
    PressureIo,
    PressureMemory,
}

/// Timelines with their rows, by the height of the body.
const SMALL: &[(Shown, u16)] = &[(Shown::Cpu, 2), (Shown::Queue, 1), (Shown::Pressure, 1)];
const MEDIUM: &[(Shown, u16)] = &[(Shown::Cpu, 3), (Shown::Job, 2), (Shown::Queue, 2), (Shown::Pressure, 2)];
const LARGE: &[(Shown, u16)] = &[
    (Shown::Cpu, 5),
    (Shown::Job, 3),
    (Shown::Queue, 3),
    (Shown::Pressure, 3),
    (Shown::PressureIo, 2),
    (Shown::PressureMemory, 2),
];

fn timelines(height: u16) -> &'static [(Shown, u16)] {
    match height {
        0..26 => SMALL,
        26..46 => MEDIUM,
        _ => LARGE,
    }
}

/// Lines of the page, from section to section.
struct Plan {
    head: u16,
    charts: &'static [(Shown, u16)],
    grid: Grid,
    lists: Lists,
}

impl Plan {
    fn of(frame: &Frame, app: &App, body: Rect) -> Self {
        Self {
            head: sheet::list_rows(body.width, &facts::pieces(frame, app)),
            charts: timelines(body.height),
            grid: Grid::of(&frame.host.cpus, body),
            lists: Lists::of(frame, body.width),
        }
    }

    /// The timelines that are visible.
    fn bands(&self, sheet: &Sheet) -> impl Iterator<Item = (Shown, Band)> {
        let mut line = usize::from(self.head);
        self.charts.iter().filter_map(move |(shown, rows)| {
            let band = sheet.band(line, *rows);
            line += usize::from(*rows);
            Some((*shown, band?))
        })
    }

    /// The time axis, where it is visible.
    fn ruler(&self, sheet: &Sheet) -> Option<Rect> {
        Some(layout::band(sheet.line(self.ruler_line())?).chart)
    }

    fn ruler_line(&self) -> usize {
        usize::from(self.head) + self.charts.iter().map(|(_, rows)| usize::from(*rows)).sum::<usize>()
    }

    fn cores_line(&self) -> usize {
        self.ruler_line() + 1
    }

    fn lists_line(&self) -> usize {
        self.cores_line() + 1 + self.grid.rows
    }

    fn end(&self) -> usize {
        self.lists_line() + self.lists.rows()
    }
}

/// Rows that the page would like.
pub fn rows(app: &App) -> usize {
    app.frame().map_or(0, |frame| Plan::of(frame, app, app.seen().body).end())
}

/// Draws the page.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let Some(frame) = app.frame() else {
        write(buf, area.x, area.y, area.right(), "waiting for the first sample", app.theme().dim());
        return;
    };
    let sheet = Sheet::new(area, app.top());
    let plan = Plan::of(frame, app, area);
    if app.top() == 0 {
        sheet::list(buf, sheet.rect(0, plan.head), &facts::pieces(frame, app));
    }
    for (shown, band) in plan.bands(&sheet) {
        timeline(buf, band, shown, frame, app);
    }
    if let Some(rect) = plan.ruler(&sheet) {
        super::timelines::ruler(buf, rect, app);
    }
    cores::draw(buf, &sheet, plan.cores_line(), &plan.grid, &frame.host.cpus, app);
    plan.lists.draw(buf, &sheet, plan.lists_line(), frame, app);
}

/// Where its timelines are.
pub fn charts(area: Rect, app: &App) -> Charts {
    let Some(frame) = app.frame() else { return Charts::default() };
    let sheet = Sheet::new(area, app.top());
    let plan = Plan::of(frame, app, area);
    Charts { timelines: plan.bands(&sheet).map(|(_, band)| band.chart).collect(), ruler: plan.ruler(&sheet) }
}

fn timeline(buf: &mut Buffer, band: Band, shown: Shown, frame: &Frame, app: &App) {
    let theme = app.theme();
    let (host, job) = (&frame.host, &frame.job);
    type Value = fn(&Point) -> Option<f32>;
    let (name, now, more, value): (_, _, _, Value) = match shown {
        Shown::Cpu => ("CPU", host.allowed_cpu_pct, "of the allowed CPUs", |p| p.cpu.get()),
        Shown::Job => {
            let share = job.cpu_pct.zip(job.cpus_allowed.filter(|n| *n > 0)).map(|(pct, n)| pct / f64::from(n));
            ("Job", share, "of the allowed CPUs", |p| p.cpu_job.get())
        }
        Shown::Queue => {
            ("Queueing", job.run_delay_share.map(|v| v * 100.0), "of its runnable time", |p| p.run_delay.get())
        }
        Shown::Pressure => ("Pressure", host.psi_cpu_some_pct, "some task waits for CPU", |p| p.psi_cpu.get()),
        Shown::PressureIo => ("  io", host.psi_io_some_pct, "some task waits for I/O", |p| p.psi_io.get()),
        Shown::PressureMemory => {
            ("  memory", host.psi_memory_some_pct, "some task waits for memory", |p| p.psi_memory.get())
        }
    };
    let area = band.text;
    let x = write(buf, area.x, area.y, area.right(), name, theme.series(Series::Cpu).patch(theme.strong()));
    let x = write(buf, (x + 1).max(area.x + 9), area.y, area.right(), &format::percent(now), theme.strong());
    if area.height > 1 {
        write(buf, area.x, area.y + 1, area.right(), more, theme.dim());
    } else if x + 1 + cells(more) <= area.right() {
        write(buf, x + 1, area.y, area.right(), more, theme.dim());
    }
    let columns = Columns::gather(&app.job().history.timeline, app.window(band.chart.width), value);
    let (max, top) = match shown {
        Shown::Cpu | Shown::Job => (100.0, "100%"),
        // A few percent of queueing or pressure are worth seeing.
        _ => top(columns.max()),
    };
    sheet::axis(buf, band, top, theme);
    charts::timeline(buf, band.chart, &columns, max, theme.series(Series::Cpu), theme);
}

/// The top of an axis of percents.
fn top(max: f32) -> (f32, &'static str) {
    let tops = [(5.0, "5%"), (10.0, "10%"), (25.0, "25%"), (50.0, "50%")];
    tops.into_iter().find(|(top, _)| max <= *top).unwrap_or((100.0, "100%"))
}
