//! One GPU: one line if there are many; otherwise a name, two bars and a row or two of numbers.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::labels;
use crate::labels::{number as shown, used_of};
use crate::theme::{ColorSlot, Look, Theme};
use crate::widgets::{Piece, behind, cells, piece_rows, write, write_fit, write_pieces, write_right};
use crate::{charts, format};
use trainmon_base::text::{fit, sanitise};
use trainmon_rates::frame::GpuRates;
use trainmon_waits::Frame;

const GIB: f64 = 1_073_741_824.0;

/// Width of number and mark at the start.
const NUMBER: u16 = 5;
/// Width of a line's bar.
const BAR: u16 = 12;
/// Minimum width at which the numbers include the GPU's UUID.
const WITH_UUID: u16 = 100;

/// Names the columns of [`line`].
pub fn heading(buf: &mut Buffer, area: Rect, theme: Theme) {
    buf.set_style(area, theme.heading());
    let [own, other, _] = PARTS.map(|part| theme.glyph(part));
    let text = format!("GPU  {own}own {other}other   use   own       memory      power   temp   MHz  state");
    write(buf, area.x, area.y, area.right(), &text, theme.heading());
}

/// A GPU in one line.
pub fn line(buf: &mut Buffer, area: Rect, gpu: &GpuRates, frame: &Frame, theme: Theme) {
    let style = if gpu.attached { Style::new() } else { theme.dim() };
    number(buf, area, gpu, theme);
    let bar = Rect { x: area.x + NUMBER, width: BAR, ..area }.intersection(area);
    parts_bar(buf, bar, shares_of_use(gpu), gpu, theme);
    let text = format!(
        "{:>6}{:>6} {:>12} {:>10} {:>6} {:>5}",
        format::percent(gpu.utilization_pct),
        format::percent(gpu.job_utilization_pct),
        used_of(gpu.memory_used_bytes, gpu.memory_total_bytes),
        watts(gpu),
        celsius(gpu),
        shown(gpu.sm_clock_mhz),
    );
    let x = write(buf, bar.right(), area.y, area.right(), &text, style) + 2;
    let idle_or_worse = gpu.lost || labels::is_idle(gpu) && gpu.attached;
    let style = if idle_or_worse { theme.warning() } else { theme.dim() };
    write_fit(buf, behind(area, x), &labels::state(gpu, frame), style);
}

/// A GPU in three rows or more: its name and state, two bars, and as many numbers as fit.
pub fn dense(buf: &mut Buffer, [first, bars, rest]: [Rect; 3], gpu: &GpuRates, frame: &Frame, theme: Theme) {
    if first.height > 0 {
        number(buf, first, gpu, theme);
        let state = labels::state(gpu, frame);
        let alarm = gpu.lost || gpu.attached && (labels::is_idle(gpu) || labels::throttled(gpu).next().is_some());
        let style = if alarm { theme.warning() } else { theme.dim() };
        let name = gpu.name.as_deref().unwrap_or("unknown GPU");
        // The state matters more than the name, which keeps a third.
        let start = first.x + NUMBER + first.width / 3;
        let end = write_right(buf, start, first.y, first.right(), &state, style);
        let room = usize::from(end.saturating_sub(first.x + NUMBER + 1));
        write(buf, first.x + NUMBER, first.y, end, &fit(name, room), theme.strong());
    }
    if bars.height > 0 {
        two_bars(buf, bars, gpu, theme);
    }
    if rest.height > 0 {
        let rest = Rect { x: rest.x + NUMBER, width: rest.width.saturating_sub(NUMBER), ..rest };
        let style = if gpu.attached { Style::new() } else { theme.dim() };
        write_pieces(buf, rest, ", ", &numbers(gpu, rest.width, style));
    }
}

/// Rows that a GPU needs to show all its numbers in `width` cells.
pub fn rows(gpu: &GpuRates, width: u16) -> u16 {
    let width = width.saturating_sub(NUMBER);
    piece_rows(width, ", ", &numbers(gpu, width, Style::new())).saturating_add(2)
}

fn number(buf: &mut Buffer, area: Rect, gpu: &GpuRates, theme: Theme) {
    let text = format!("{:>3}{}", gpu.index, if gpu.attached { '*' } else { ' ' });
    write(buf, area.x, area.y, area.right(), &text, if gpu.attached { theme.strong() } else { theme.dim() });
}

/// Use on the left half of a row, memory on the right half.
fn two_bars(buf: &mut Buffer, area: Rect, gpu: &GpuRates, theme: Theme) {
    let half = area.width.saturating_sub(NUMBER) / 2;
    let left = Rect { x: area.x + NUMBER, width: half.saturating_sub(1), ..area };
    let right = Rect { x: area.x + NUMBER + half, width: half, ..area };
    let effective = format::percent(effective(gpu));
    let short = format!(" {} own {}", format::percent(gpu.utilization_pct), format::percent(gpu.job_utilization_pct));
    let texts = [format!("{short} effective {effective}"), format!("{short} eff. {effective}"), short];
    barred(buf, left, "use", &texts, |buf, rect| parts_bar(buf, rect, shares_of_use(gpu), gpu, theme));
    let used = used_of(gpu.memory_used_bytes, gpu.memory_total_bytes);
    let texts = [format!(" {used} own {}", format::bytes(gpu.job_memory_bytes)), format!(" {used}")];
    barred(buf, right, "mem", &texts, |buf, rect| parts_bar(buf, rect, shares_of_memory(gpu), gpu, theme));
}

/// A name, a bar, and after it the longest text that leaves the bar at least eight cells.
fn barred(buf: &mut Buffer, area: Rect, name: &str, texts: &[String], bar: impl Fn(&mut Buffer, Rect)) {
    let x = write(buf, area.x, area.y, area.right(), name, Style::new()) + 1;
    let room = area.right().saturating_sub(x);
    let text = texts.iter().find(|text| cells(text) + 8 <= room).map_or("", String::as_str);
    let end = area.right().saturating_sub(cells(text));
    bar(buf, Rect { x, width: end.saturating_sub(x), ..area });
    write(buf, end, area.y, area.right(), text, Style::new());
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
fn parts_bar(buf: &mut Buffer, area: Rect, shares: [Option<f64>; 2], gpu: &GpuRates, theme: Theme) {
    let [used, own] = shares.map(|share| share.filter(|share| share.is_finite()));
    let Some(used) = used.map(|used| used.clamp(0.0, 1.0)) else {
        return charts::split(buf, area, &[], theme);
    };
    let own = own.unwrap_or(if gpu.attached { used } else { 0.0 }).clamp(0.0, used);
    let [ours, others, free] = PARTS;
    charts::split(buf, area, &[(ours, own), (others, used - own), (free, 1.0 - used)], theme);
}

/// Use times power over its limit, as in nvtop: close to the use if the GPU works hard while it is busy.
fn effective(gpu: &GpuRates) -> Option<f64> {
    let limit = gpu.power_limit_w.filter(|limit| *limit > 0.0)?;
    Some(gpu.utilization_pct? * (gpu.power_w? / limit).clamp(0.0, 1.0))
}

/// The numbers of a GPU, the most useful first. Values that were not measured are dashes; rare ones are left out.
fn numbers(gpu: &GpuRates, width: u16, style: Style) -> Vec<Piece> {
    let mut numbers = vec![
        if gpu.power_w.is_none() && gpu.power_limit_w.is_none() { "– W".to_owned() } else { watts(gpu) },
        celsius(gpu),
        format!("SM {}/{} MHz", shown(gpu.sm_clock_mhz), shown(gpu.sm_clock_max_mhz)),
        pcie(gpu),
    ];
    if gpu.sm_active_pct.or(gpu.tensor_active_pct).or(gpu.dram_active_pct).is_some() {
        numbers.push(format!(
            "active: SM {} tensor {} DRAM {}",
            format::percent(gpu.sm_active_pct),
            format::percent(gpu.tensor_active_pct),
            format::percent(gpu.dram_active_pct)
        ));
    } else {
        numbers.push(format!("memory busy {}", format::percent(gpu.memory_utilization_pct)));
    }
    numbers.push(format!("memory clock {}/{} MHz", shown(gpu.memory_clock_mhz), shown(gpu.memory_clock_max_mhz)));
    numbers.push(match gpu.clock_event_reasons {
        None => "throttling –".to_owned(),
        Some(0) => "no throttling".to_owned(),
        Some(_) => format!("clocks: {}", labels::throttled(gpu).collect::<Vec<_>>().join(", ")),
    });
    for (name, pct) in [("encoder", gpu.encoder_pct), ("decoder", gpu.decoder_pct)] {
        numbers.extend(pct.filter(|pct| *pct > 0).map(|pct| format!("{name} {pct}%")));
    }
    if gpu.sm_active_pct.is_some() {
        numbers.push(format!("memory busy {}", format::percent(gpu.memory_utilization_pct)));
    }
    numbers.extend(gpu.uuid.as_deref().filter(|_| width >= WITH_UUID).map(|uuid| sanitise(uuid).into_owned()));
    numbers.into_iter().map(|text| (text, style)).collect()
}

/// `PCIe 4×16 rx 1.2 tx 0.11 of 25 GiB/s`. If the link is below what GPU and slot support, as on an idle GPU, the
/// maximum is in parentheses: `PCIe 1×16 (4×16)`.
fn pcie(gpu: &GpuRates) -> String {
    let link = |generation: Option<u32>, width: Option<u32>| match (generation, width) {
        (None, None) => None,
        (generation, width) => Some(format!("{}×{}", shown(generation), shown(width))),
    };
    let now = link(gpu.pcie_generation, gpu.pcie_width);
    let most = link(gpu.pcie_generation_max, gpu.pcie_width_max);
    let trained = match (now, most) {
        (Some(now), Some(most)) if now != most => format!("{now} ({most}) "),
        (Some(link), _) | (None, Some(link)) => format!("{link} "),
        (None, None) => String::new(),
    };
    let gib = |bytes: Option<f64>| format::number(bytes.map(|bytes| bytes / GIB));
    let (rx, tx) = (gib(gpu.pcie_rx_bytes_per_s), gib(gpu.pcie_tx_bytes_per_s));
    match gpu.pcie_capacity_bytes_per_s {
        Some(_) => format!("PCIe {trained}rx {rx} tx {tx} of {} GiB/s", gib(gpu.pcie_capacity_bytes_per_s)),
        None => format!("PCIe {trained}rx {rx} tx {tx} GiB/s"),
    }
}

fn watts(gpu: &GpuRates) -> String {
    match gpu.power_limit_w {
        Some(limit) => format!("{}/{} W", format::number(gpu.power_w), format::number(Some(limit))),
        None if gpu.power_w.is_some() => format!("{} W", format::number(gpu.power_w)),
        None => format::UNMEASURED.to_owned(),
    }
}

fn celsius(gpu: &GpuRates) -> String {
    gpu.temperature_c.map_or_else(|| "– °C".to_owned(), |celsius| format!("{celsius} °C"))
}
