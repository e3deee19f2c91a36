//! The page of GPUs: each one in full if there is room, one line each if there are many; their use over time, and the
//! processes on them.
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
mod plan;
mod processes;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::Content;
use crate::charts::{ChartColumns, FilledTimeline};
use crate::format;
use crate::theme::{Look, WithLook};
use crate::widgets::panel::Panel;
use crate::widgets::tile::{Body, Tile};
use crate::widgets::{ChartLine, Drawn, Piece, Scene, Scroll, Text, Top, beside, count, scrolled};
use plan::GpuPlan;
use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::history::timeline::{GPUS, TimelinePoint};
use trainmon_rates::frame::GpuRates;
use trainmon_views::gpu_words;
use trainmon_waits::Frame;

/// The means of the job's GPUs, each with the whole that its value is a share of.
const MEANS: [(ChartLine, &str); 2] = [
    (ChartLine(Class::Gpu, "Memory", |p| p.gpu_memory.get(), Top::Percent), "of its memory"),
    (ChartLine(Class::Gpu, "Power", |p| p.gpu_power.get(), Top::Percent), "of the limit"),
];

/// It keeps no state.
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
    let mut text = Text::new(area.width, theme);
    text.pieces(" · ", &facts(frame, scene, area.width));
    let plan = GpuPlan::new(frame, area, text.lines.len(), processes::rows(frame));
    page.lines(&text.lines);
    if plan.gpu_rows == 1 {
        page.lines(&[device::heading(plan.text_width, theme)]);
    }
    let side = plan.side_x.map(|x| (x, Past::gather(scene, beside(area, x).width)));
    for (i, gpu) in frame.gpus.iter().enumerate() {
        let whole = page.peek(plan.gpu_rows);
        // Only visible ones cost anything.
        let lines = match plan.gpu_rows {
            rows if whole.height == 0 => vec![Line::default(); usize::from(rows)],
            1 => vec![device::line(plan.text_width, gpu, frame, theme)],
            rows => device::dense(plan.text_width, rows, gpu, frame, theme),
        };
        page.lines(&lines);
        if whole.height > 0
            && let Some((x, past)) = side.as_ref()
        {
            let chart = beside(whole, *x);
            past.draw(page.buf, chart, i, gpu, scene);
            page.chart(chart);
        }
    }
    match plan.side_x {
        Some(x) => page.ruler(x, scene),
        None => timelines(page, &plan, frame, scene),
    }
    processes::draw(page, frame, theme);
}

/// The facts about all GPUs, problems first.
fn facts(frame: &Frame, scene: &Scene<'_>, width: u16) -> Vec<Piece> {
    let theme = scene.theme;
    let style = |is_problem| if is_problem { theme.warning() } else { theme.dim() };
    let told = gpu_words::facts(frame, &scene.job.sources.gpu);
    // Narrow lists of many GPUs have it in their heading.
    let [own, others, _] = device::PARTS.map(|part| theme.key(part));
    let legend = (frame.gpus.len() <= 2 || width >= 100).then(|| format!("{own} this job {others} others"));
    let legend = legend.map(|text| (text, theme.dim()));
    told.into_iter().map(|(text, is_problem)| (text, style(is_problem))).chain(legend).collect()
}

/// Use of each GPU over time.
struct Past([ChartColumns; GPUS]);

impl Past {
    fn gather(scene: &Scene<'_>, width: u16) -> Self {
        let values = |point: &TimelinePoint| point.gpus.map(|percent| percent.get());
        Self(ChartColumns::gather_each(&scene.job.history.timeline, scene.window(width), values))
    }

    /// Draws the timeline of the GPU at this index in the frame. GPUs beyond the recorded points have no past.
    fn draw(&self, buf: &mut Buffer, chart: Rect, position: usize, gpu: &GpuRates, scene: &Scene<'_>) {
        let theme = scene.theme;
        let look = if gpu.attached { Class::Gpu.look() } else { Look::IDLE };
        match self.0.get(position) {
            Some(columns) => {
                FilledTimeline { columns, max: 100.0, look: |_| look, theme }.render(chart, buf);
            }
            None => {
                Span::styled("no history is kept for this many GPUs", theme.dim()).render(chart, buf);
            }
        }
    }
}

/// The timelines below the GPUs, and the means of memory and power if there is room.
fn timelines(page: &mut Scroll<'_>, plan: &GpuPlan, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    let mut tiles: Vec<Tile> = Vec::new();
    for (place, gpu) in frame.gpus.iter().enumerate() {
        let style = if gpu.attached { theme.series(Class::Gpu).patch(theme.strong()) } else { theme.dim() };
        let panel = Panel::new(format!("GPU {} use", gpu.index), style)
            .with(format!("{} this second", format::percent(gpu.utilization_pct)), theme.strong())
            .with(format!("this job {}", format::percent(gpu.job_utilization_pct)), theme.dim());
        tiles.push(Tile { panel, body: Body::Gpu(place), weight: 1 });
    }
    let mean = if frame.gpus.iter().filter(|gpu| gpu.attached).count() > 1 { "mean, " } else { "" };
    for (line, of) in if plan.mean_rows > 0 { MEANS.as_slice() } else { &[] } {
        let mut tile = Tile::chart(*line, "", scene);
        tile.panel.value.push((format!("{mean}{of}"), theme.dim()));
        tiles.push(tile);
    }
    let rows = plan.chart_rows * count(frame.gpus.len()) + 2 * plan.mean_rows + 1;
    page.tiles(&tiles, rows, rows, scene);
}
