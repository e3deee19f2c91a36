//! One GPU: one line if there are many; otherwise a name, two bars and a row or two of numbers.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::theme::{ColorSlot, Look, Theme};
use crate::widgets::{Piece, cells, count, piece_lines};
use crate::{charts, format};
use trainmon_base::text::{fit, sanitize};
use trainmon_rates::frame::GpuRates;
use trainmon_views::gpu_words;
use trainmon_views::labels::{number as shown, used_of};
use trainmon_waits::Frame;

/// Width of number and mark at the start.
const NUMBER: u16 = 5;
/// Width of a line's bar.
const BAR: u16 = 12;
/// Minimum width at which the numbers include the GPU's UUID.
const WITH_UUID: u16 = 100;

/// Names the columns of [`line`].
pub fn heading(width: u16, theme: Theme) -> Line<'static> {
    let [own, other, _] = PARTS.map(|part| theme.glyph(part));
    let text = format!("GPU  {own}own {other}other   use   own       memory      power   temp   MHz  state");
    Line::styled(format!("{text:<0$}", usize::from(width)), theme.heading())
}

/// A GPU in one line of `width` cells.
pub fn line(width: u16, gpu: &GpuRates, frame: &Frame, theme: Theme) -> Line<'static> {
    let style = if gpu.attached { Style::new() } else { theme.dim() };
    let text = format!(
        "{:>6}{:>6} {:>12} {:>10} {:>6} {:>5}  ",
        format::percent(gpu.utilization_pct),
        format::percent(gpu.job_utilization_pct),
        used_of(gpu.memory_used_bytes, gpu.memory_total_bytes),
        gpu_words::watts(gpu),
        gpu_words::celsius(gpu),
        shown(gpu.sm_clock_mhz),
    );
    let mut line = Line::from(number(gpu, theme));
    line.extend(parts_bar(BAR, shares_of_use(gpu), gpu, theme));
    line.push_span(Span::styled(text, style));
    let idle_or_worse = gpu.lost || gpu_words::is_idle(gpu) && gpu.attached;
    let style = if idle_or_worse { theme.warning() } else { theme.dim() };
    let room = usize::from(width).saturating_sub(line.width());
    line.push_span(Span::styled(fit(&gpu_words::state(gpu, frame), room), style));
    line
}

/// A GPU in so many lines of `width` cells: its name and state, two bars, and as many numbers as fit.
pub fn dense(width: u16, lines: u16, gpu: &GpuRates, frame: &Frame, theme: Theme) -> Vec<Line<'static>> {
    let state = gpu_words::state(gpu, frame);
    let alarm = gpu.lost || gpu.attached && (gpu_words::is_idle(gpu) || gpu_words::throttled(gpu).next().is_some());
    // The state matters more than the name, which keeps a third.
    let room = usize::from(width.saturating_sub(NUMBER));
    let state = fit(&state, room.saturating_sub(usize::from(width / 3)));
    let of_name = room.saturating_sub(usize::from(cells(&state)));
    let name = fit(gpu.name.as_deref().unwrap_or("unknown GPU"), of_name.saturating_sub(1));
    let blanks = of_name.saturating_sub(usize::from(cells(&name)));
    let first = Line::from_iter([
        number(gpu, theme),
        Span::styled(format!("{name}{:blanks$}", ""), theme.strong()),
        Span::styled(state, if alarm { theme.warning() } else { theme.dim() }),
    ]);
    let style = if gpu.attached { Style::new() } else { theme.dim() };
    let width_of_numbers = width.saturating_sub(NUMBER);
    let numbers = piece_lines(width_of_numbers, " · ", &numbers(gpu, width_of_numbers, style));
    let numbers = numbers.into_iter().map(|mut line| {
        line.spans.insert(0, Span::raw(" ".repeat(usize::from(NUMBER))));
        line
    });
    let mut all: Vec<_> = [first, two_bars(width, gpu, theme)].into_iter().chain(numbers).collect();
    all.resize(usize::from(lines), Line::default());
    all
}

/// Rows that a GPU needs to show all its numbers in `width` cells.
pub fn rows(gpu: &GpuRates, width: u16) -> u16 {
    let width = width.saturating_sub(NUMBER);
    count(piece_lines(width, " · ", &numbers(gpu, width, Style::new())).len()).saturating_add(2)
}

fn number(gpu: &GpuRates, theme: Theme) -> Span<'static> {
    let text = format!("{:>3}{} ", gpu.index, if gpu.attached { '*' } else { ' ' });
    Span::styled(text, if gpu.attached { theme.strong() } else { theme.dim() })
}

/// The numbers of a GPU, the most useful first.
fn numbers(gpu: &GpuRates, width: u16, style: Style) -> Vec<Piece> {
    let uuid = gpu.uuid.as_deref().filter(|_| width >= WITH_UUID).map(|uuid| sanitize(uuid).into_owned());
    gpu_words::numbers(gpu).into_iter().chain(uuid).map(|text| (text, style)).collect()
}

/// Use on the left half of a row, memory on the right half.
fn two_bars(width: u16, gpu: &GpuRates, theme: Theme) -> Line<'static> {
    let half = width.saturating_sub(NUMBER) / 2;
    let (all, ours) = (format::percent(gpu.utilization_pct), format::percent(gpu.job_utilization_pct));
    let texts = [format!(" {all} this second, this job {ours}"), format!(" {all} this second")];
    let mut line = Line::from(" ".repeat(usize::from(NUMBER)));
    line.extend(barred(half.saturating_sub(1), "use    ", &texts, |room| {
        parts_bar(room, shares_of_use(gpu), gpu, theme)
    }));
    let used = used_of(gpu.memory_used_bytes, gpu.memory_total_bytes);
    let texts = [format!(" {used}, this job {}", format::bytes(gpu.job_memory_bytes)), format!(" {used}")];
    line.extend(barred(half, "   memory ", &texts, |room| parts_bar(room, shares_of_memory(gpu), gpu, theme)));
    line
}

/// A name, a bar, and after it the longest text that leaves the bar at least eight cells.
fn barred(
    width: u16,
    name: &'static str,
    texts: &[String],
    bar: impl Fn(u16) -> Vec<Span<'static>>,
) -> Vec<Span<'static>> {
    let room = width.saturating_sub(cells(name));
    let text = texts.iter().find(|text| cells(text) + 8 <= room).cloned().unwrap_or_default();
    let bar = bar(room.saturating_sub(cells(&text)));
    [Span::raw(name)].into_iter().chain(bar).chain([Span::raw(text)]).collect()
}

/// The job's part of a GPU, the part of others, and what is left.
pub const PARTS: [Look; 3] = [
    Look::new("own", ColorSlot::Blue, '█', '#'),
    Look::new("others", ColorSlot::Sky, '▒', '+'),
    Look::new("free", ColorSlot::Dim, '·', '.'),
];

/// The GPU's use, and the job's part of it.
fn shares_of_use(gpu: &GpuRates) -> [Option<f64>; 2] {
    [gpu.utilization_pct, gpu.job_utilization_pct].map(|pct| pct.map(|pct| pct / 100.0))
}

fn shares_of_memory(gpu: &GpuRates) -> [Option<f64>; 2] {
    let total = gpu.memory_total_bytes.filter(|total| *total > 0).map(|total| total as f64);
    [gpu.memory_used_bytes, gpu.job_memory_bytes].map(|bytes| Some(bytes? as f64 / total?))
}

/// The job's part, what others use, and what is left. On the job's own GPUs, an unknown part counts as the job's.
fn parts_bar(width: u16, shares: [Option<f64>; 2], gpu: &GpuRates, theme: Theme) -> Vec<Span<'static>> {
    let [used, own] = shares.map(|share| share.filter(|share| share.is_finite()));
    let Some(used) = used.map(|used| used.clamp(0.0, 1.0)) else {
        return charts::split(width, &[], theme);
    };
    let own = own.unwrap_or(if gpu.attached { used } else { 0.0 }).clamp(0.0, used);
    let [ours, others, free] = PARTS;
    charts::split(width, &[(ours, own), (others, used - own), (free, 1.0 - used)], theme)
}
