//! The page of devices: each one in full where there is room, one line each where there are many, their use over time,
//! and the processes on them.
//!
//! ```text
//! │ facts: how many, how far apart, what is wrong                    │
//! │ devices: some lines or one line each   │ timeline, if wide       │
//! │ timelines below each other, if not; memory and power for few     │
//! │ ruler                                                            │
//! └ processes, ours marked ──────────────────────────────────────────┘
//! ```

mod absent;
mod device;
mod facts;
mod plan;
mod processes;
mod words;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::sheet::{self, Sheet};
use super::{Charts, write};
use crate::diagnosis::verdict::Class;
use crate::history::timeline::{GPUS, Point};
use crate::rates::Frame;
use crate::rates::frame::GpuRates;
use crate::tui::app::App;
use crate::tui::charts::{self, Columns};
use crate::tui::format;
use crate::tui::layout::{self, Band};
use crate::tui::theme::Series;
use plan::Plan;

/// What is drawn as a mean of the job's devices.
const MEANS: [&str; 2] = ["Memory", "Power"];

/// Rows that the page would like.
pub fn rows(app: &App) -> usize {
    let body = app.seen().body;
    match devices(app) {
        Some(frame) => Plan::of(frame, app, body).end(),
        None => absent::lines(app, body.width).len(),
    }
}

/// Draws the page.
pub fn draw(buf: &mut Buffer, area: Rect, app: &App) {
    let sheet = Sheet::new(area, app.top());
    let Some(frame) = devices(app) else {
        let lines = absent::lines(app, area.width);
        for (i, rect) in sheet.visible(0, lines.len()) {
            if let Some((text, style)) = lines.get(i) {
                write(buf, rect.x, rect.y, rect.right(), text, *style);
            }
        }
        return;
    };
    let plan = Plan::of(frame, app, area);
    let head = sheet.rect(0, plan.head);
    if app.top() == 0 {
        sheet::list(buf, head, &facts::pieces(frame, app));
    }
    if let Some(rect) = plan.heading_line().and_then(|line| sheet.line(line)) {
        device::heading(buf, Rect { width: plan.text_width, ..rect }, app.theme());
    }
    let beside = plan.side_x.map(|x| {
        let chart = beside(area, x);
        (chart, Past::of(app, chart.width))
    });
    for (i, gpu) in frame.gpus.iter().enumerate() {
        let line = plan.device_line(i);
        let whole = sheet.rect(line, plan.device_rows);
        if whole.height == 0 {
            continue;
        }
        let text = |row: usize, rows: u16| Rect { width: plan.text_width, ..sheet.rect(line + row, rows) };
        if plan.device_rows == 1 {
            device::line(buf, text(0, 1), gpu, frame, app);
        } else {
            device::dense(buf, [text(0, 1), text(1, 1), text(2, plan.device_rows - 2)], gpu, frame, app);
        }
        if let Some((chart, past)) = &beside {
            let chart = Rect { y: whole.y, height: whole.height, ..*chart };
            past.draw(buf, chart, i, gpu, app);
        }
    }
    if plan.side_x.is_none() {
        timelines(buf, &sheet, &plan, frame, app);
    }
    if let Some(rect) = ruler(&sheet, &plan) {
        super::timelines::ruler(buf, rect, app);
    }
    processes::draw(buf, &sheet, plan.processes_line(), frame, app);
}

/// The frame, where there are devices in it.
fn devices(app: &App) -> Option<&Frame> {
    app.frame().filter(|frame| !frame.gpus.is_empty())
}

/// Where its timelines are.
pub fn charts(area: Rect, app: &App) -> Charts {
    let Some(frame) = devices(app) else { return Charts::default() };
    let sheet = Sheet::new(area, app.top());
    let plan = Plan::of(frame, app, area);
    let count = frame.gpus.len();
    let timelines = match plan.side_x {
        Some(x) => {
            let rows = (0..count).map(|i| sheet.rect(plan.device_line(i), plan.device_rows));
            rows.filter(|rect| rect.height > 0).map(|rect| beside(rect, x)).collect()
        }
        None => {
            let own = (0..count).map(|i| (plan.chart_line(i), plan.chart_rows));
            let means = (0..MEANS.len()).map(|i| (plan.mean_line(i), plan.mean_rows));
            own.chain(means).filter_map(|(line, rows)| Some(sheet.band(line, rows)?.chart)).collect()
        }
    };
    Charts { timelines, ruler: ruler(&sheet, &plan) }
}

/// The part of some rows where timelines stand beside the text, from this column on.
fn beside(rows: Rect, x: u16) -> Rect {
    Rect { x, width: rows.right().saturating_sub(x).min(charts::MAX_CELLS as u16), ..rows }
}

/// The time axis, where it is visible.
fn ruler(sheet: &Sheet, plan: &Plan) -> Option<Rect> {
    let rect = sheet.line(plan.ruler_line())?;
    Some(plan.side_x.map_or_else(|| layout::band(rect).chart, |x| beside(rect, x)))
}

/// Each device's use over time.
struct Past([Columns; GPUS]);

impl Past {
    fn of(app: &App, width: u16) -> Self {
        let values = |point: &Point| point.gpus.map(|percent| percent.get());
        Self(Columns::gather_each(&app.job().history.timeline, app.window(width), values))
    }

    /// Draws that of a device by its position in the frame. One device too many for the points has no past.
    fn draw(&self, buf: &mut Buffer, chart: Rect, position: usize, gpu: &GpuRates, app: &App) {
        let theme = app.theme();
        let style = if gpu.attached { theme.series(Series::Gpu) } else { theme.dim() };
        match self.0.get(position) {
            Some(columns) => charts::timeline(buf, chart, columns, 100.0, style, theme),
            None => {
                write(buf, chart.x, chart.y, chart.right(), "no past is kept of so many devices", theme.dim());
            }
        }
    }
}

/// The timelines below the devices, and the means of memory and power where there is room.
fn timelines(buf: &mut Buffer, sheet: &Sheet, plan: &Plan, frame: &Frame, app: &App) {
    let theme = app.theme();
    let width = layout::band(sheet.area).chart.width;
    let past = Past::of(app, width);
    for (i, gpu) in frame.gpus.iter().enumerate() {
        let Some(band) = sheet.band(plan.chart_line(i), plan.chart_rows) else { continue };
        let name = format!("GPU {}{}", gpu.index, if gpu.attached { "*" } else { "" });
        let own = format!("own {}", format::percent(gpu.job_utilization_pct));
        label(buf, band, &name, &format::percent(gpu.utilization_pct), &own, app);
        sheet::axis(buf, band, top(band), theme);
        past.draw(buf, band.chart, i, gpu, app);
    }
    let ours = frame.gpus.iter().filter(|gpu| gpu.attached).count();
    let values = |point: &Point| [point.gpu_memory.get(), point.gpu_power.get()];
    let means = Columns::gather_each::<2>(&app.job().history.timeline, app.window(width), values);
    // The charts may go on behind the moment shown, or have ended before it.
    let now = values(&Point::of(frame, Class::default()));
    for (i, ((name, columns), now)) in MEANS.into_iter().zip(&means).zip(now).enumerate() {
        let Some(band) = sheet.band(plan.mean_line(i), plan.mean_rows) else { continue };
        let now = now.map(f64::from);
        let of = if i == 0 { "of what is fitted" } else { "of the limit" };
        let of = if ours > 1 { format!("mean, {of}") } else { of.to_owned() };
        label(buf, band, name, &format::percent(now), &of, app);
        sheet::axis(buf, band, top(band), theme);
        charts::timeline(buf, band.chart, columns, 100.0, theme.series(Series::Gpu), theme);
    }
}

/// The top of an axis that has room for it.
fn top(band: Band) -> &'static str {
    if band.chart.height > 1 { "100%" } else { "" }
}

/// Name and value; what more there is below them, where the band has a second row.
fn label(buf: &mut Buffer, band: Band, name: &str, value: &str, more: &str, app: &App) {
    let theme = app.theme();
    let area = band.text;
    let x = write(buf, area.x, area.y, area.right(), name, theme.series(Series::Gpu).patch(theme.strong()));
    write(buf, (x + 1).max(area.x + 8), area.y, area.right(), value, theme.strong());
    if area.height > 1 {
        write(buf, area.x, area.y + 1, area.right(), more, theme.dim());
    }
}
