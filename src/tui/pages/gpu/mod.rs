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
mod labels;
mod plan;
mod processes;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::Content;
use crate::diagnosis::verdict::Class;
use crate::history::timeline::{GPUS, TimelinePoint};
use crate::rates::Frame;
use crate::rates::frame::GpuRates;
use crate::tui::charts::{self, ChartColumns};
use crate::tui::format;
use crate::tui::widgets::{Band, ChartLine, Drawn, Scene, Scroll, Text, Top, chart, scrolled, write};
use plan::GpuPlan;

/// The means of the job's devices, each with what its value is a share of.
const MEANS: [(ChartLine, &str); 2] = [
    (ChartLine(Class::Gpu, "Memory", |p| p.gpu_memory.get(), Top::Percent), "of what is fitted"),
    (ChartLine(Class::Gpu, "Power", |p| p.gpu_power.get(), Top::Percent), "of the limit"),
];

/// It remembers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gpu;

impl Content for Gpu {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        scrolled(buf, area, top, drawn, |page| match scene.frame().filter(|frame| !frame.gpus.is_empty()) {
            Some(frame) => devices(page, frame, scene),
            None => page.lines(&absent::text(scene, area.width).lines),
        });
    }
}

fn devices(page: &mut Scroll<'_>, frame: &Frame, scene: &Scene<'_>) {
    let (area, theme) = (page.area, scene.theme);
    let mut facts = Text::new(area.width, theme);
    facts.pieces(", ", &facts::pieces(frame, scene, area.width));
    let plan = GpuPlan::new(frame, area, facts.lines.len(), processes::rows(frame));
    page.lines(&facts.lines);
    let text = |rect: Rect| Rect { width: plan.text_width, ..rect };
    if plan.device_rows == 1 {
        page.each([theme], |buf, rect, theme| device::heading(buf, text(rect), theme));
    }
    let beside = plan.side_x.map(|x| (x, Past::gather(scene, chart::beside(area, x).width)));
    for (i, gpu) in frame.gpus.iter().enumerate() {
        let whole = page.peek(plan.device_rows);
        if plan.device_rows == 1 {
            page.each([gpu], |buf, rect, gpu| device::line(buf, text(rect), gpu, frame, theme));
        } else {
            let rows = [1, 1, plan.device_rows - 2].map(|rows| text(page.next(rows)));
            device::dense(page.buf, rows, gpu, frame, theme);
        }
        if let Some((x, past)) = beside.as_ref().filter(|_| whole.height > 0) {
            let chart = chart::beside(whole, *x);
            past.draw(page.buf, chart, i, gpu, scene);
            page.chart(chart);
        }
    }
    if beside.is_none() {
        timelines(page, &plan, frame, scene);
    }
    page.ruler(plan.side_x, scene);
    processes::draw(page, frame, theme);
}

/// Each device's use over time.
struct Past([ChartColumns; GPUS]);

impl Past {
    fn gather(scene: &Scene<'_>, width: u16) -> Self {
        let values = |point: &TimelinePoint| point.gpus.map(|percent| percent.get());
        Self(ChartColumns::gather_each(&scene.job.history.timeline, scene.window(width), values))
    }

    /// Draws that of a device by its position in the frame. One device too many for the points has no past.
    fn draw(&self, buf: &mut Buffer, chart: Rect, position: usize, gpu: &GpuRates, scene: &Scene<'_>) {
        let theme = scene.theme;
        let style = if gpu.attached { theme.series(Class::Gpu) } else { theme.dim() };
        match self.0.get(position) {
            Some(columns) => charts::timeline(buf, chart, columns, 100.0, style, theme),
            None => {
                write(buf, chart.x, chart.y, chart.right(), "no past is kept of so many devices", theme.dim());
            }
        }
    }
}

/// The timelines below the devices, and the means of memory and power where there is room.
fn timelines(page: &mut Scroll<'_>, plan: &GpuPlan, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let width = Band::new(page.area).chart.width;
    let past = Past::gather(scene, width);
    for (i, gpu) in frame.gpus.iter().enumerate() {
        let Some(band) = page.band(plan.chart_rows) else { continue };
        let name = format!("GPU {}{}", gpu.index, if gpu.attached { "*" } else { "" });
        let own = format!("own {}", format::percent(gpu.job_utilization_pct));
        label(page.buf, band, &name, &format::percent(gpu.utilization_pct), &own, scene);
        past.draw(page.buf, band.chart, i, gpu, scene);
    }
    let mean = if frame.gpus.iter().filter(|gpu| gpu.attached).count() > 1 { "mean, " } else { "" };
    for (timeline, of) in MEANS {
        let Some(band) = page.band(plan.mean_rows) else { continue };
        let (columns, ChartLine(about, name, ..)) = (timeline.columns(width, scene), timeline);
        label(page.buf, band, name, &timeline.now(scene), &format!("{mean}{of}"), scene);
        charts::timeline(page.buf, band.chart, &columns, 100.0, theme.series(about), theme);
    }
}

/// Name and percent; what more there is below them, where the band has a second row; the axis.
fn label(buf: &mut Buffer, band: Band, name: &str, percent: &str, more: &str, scene: &Scene<'_>) {
    let (area, theme) = (band.text, scene.theme);
    chart::label(buf, area, name, percent, 8, theme.series(Class::Gpu), theme);
    if area.height > 1 {
        write(buf, area.x, area.y + 1, area.right(), more, theme.dim());
    }
    chart::axis(buf, band, if area.height > 1 { "100%" } else { "" }, theme);
}
