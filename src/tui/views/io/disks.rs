//! The disks, one line each: those with the job's data first and marked, the others by how busy they are.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{Detail, Text, missing};
use crate::rates::Frame;
use crate::rates::frame::DeviceRates;
use crate::sample::SourceState;
use crate::text::fit;
use crate::tui::app::App;
use crate::tui::format;
use crate::tui::theme::Theme;
use crate::tui::views::{cells, write};

/// Cells of the name.
const NAME: usize = 16;
/// Width from which reads and writes have a column of their own for their times.
const WIDE: u16 = 110;
/// Most disks listed, the job's and the busiest ones first.
const DISKS: usize = 32;
/// Widest bar.
const BAR: u16 = 40;

/// Cells of a column, and of the last two; cells in front of the bar.
fn columns(width: u16) -> (usize, usize, u16) {
    if width >= WIDE { (9, 7, NAME as u16 + 7 * 9 + 2 * 7) } else { (8, 6, NAME as u16 + 5 * 8 + 2 * 6) }
}

/// Adds heading and lines.
pub fn add(text: &mut Text, frame: &Frame, app: &App, width: u16, detail: Detail) {
    let (storage, theme) = (&frame.storage, app.theme());
    let status = &app.sources().storage;
    if storage.devices.is_empty() {
        let told = super::not_seen(app, "disks");
        let live = app.job().is_live().then_some(status);
        let why = live.and_then(|s| s.reason.as_deref()).or(told.map(|missing| missing.why.as_str()));
        let mend = live.and_then(|s| s.mend.as_deref()).or(told.and_then(|missing| missing.mend.as_deref()));
        let why = why.unwrap_or(if frame.seconds > 0.0 {
            "there is none in /proc/diskstats"
        } else {
            "rates come with the second sample"
        });
        text.lines.extend(missing(&format!("No disk is seen: {why}."), mend, width, theme));
        return;
    }
    let (broad, narrow, _) = columns(width);
    let mut heading = format!("{:<NAME$}", "DISK");
    for column in ["rMiB/s", "wMiB/s", "r/s", "w/s", if width >= WIDE { "await ms" } else { "ms each" }] {
        let _ = write!(heading, "{column:>broad$}");
    }
    if width >= WIDE {
        let _ = write!(heading, "{:>broad$}{:>broad$}", "read ms", "write ms");
    }
    let _ = write!(heading, "{:>narrow$}{:>narrow$}", "queue", "busy");
    let stale = match status.state {
        SourceState::Stale | SourceState::Hung if app.job().is_live() => {
            format!("  {}", status.state.seen().to_uppercase())
        }
        _ => String::new(),
    };
    let wide = format!("{:<1$}", heading + &stale, usize::from(width));
    text.lines.push(Line::from(Span::styled(wide, theme.heading())));
    let mut devices: Vec<&DeviceRates> = storage.devices.iter().collect();
    let order = |d: &DeviceRates| {
        (d.data, [d.utilization_pct, d.read_bytes_s + d.write_bytes_s].map(|v| if v.is_finite() { v } else { 0.0 }))
    };
    devices.sort_by(|a, b| {
        let ((data_a, a), (data_b, b)) = (order(a), order(b));
        data_b.cmp(&data_a).then_with(|| b.partial_cmp(&a).unwrap_or(std::cmp::Ordering::Equal))
    });
    let mut idle = Vec::new();
    let more = devices.len().saturating_sub(DISKS);
    for device in devices.into_iter().take(DISKS) {
        if !detail.idle && !device.data && is_idle(device) {
            idle.push(fit(&device.name, NAME));
            continue;
        }
        text.bars.push((text.lines.len(), device.utilization_pct));
        text.lines.push(line(device, width, theme));
    }
    if !idle.is_empty() {
        let all = format!("{} idle: {}", idle.len(), idle.join(" "));
        text.lines.push(Line::from(Span::styled(fit(&all, usize::from(width)), theme.dim())));
    }
    if more > 0 {
        text.lines.push(Line::from(Span::styled(format!("{more} more disks"), theme.dim())));
    }
    let told = super::not_seen(app, "fd");
    if !storage.data_devices_known && (told.is_none() || !storage.mounts.is_empty()) {
        let why = told.map_or("", |_| ": its open files may not be looked at");
        let note = format!("Which disks hold the job's data is not known{why}.");
        text.lines.extend(super::wrapped("", &note, width, theme.dim()));
    }
}

fn is_idle(device: &DeviceRates) -> bool {
    device.utilization_pct < 0.5 && device.reads_s + device.writes_s < 0.5
}

fn line(device: &DeviceRates, width: u16, theme: Theme) -> Line<'static> {
    let room = if device.data { NAME - 6 } else { NAME - 1 };
    let name = fit(&device.name, room);
    let mark = if device.data { " *data" } else { "" };
    let name = format!("{name}{mark}");
    let pad = " ".repeat(NAME.saturating_sub(usize::from(cells(&name))));
    let mut numbers = pad;
    let (broad, narrow, _) = columns(width);
    let mut column = |text: String, cells: usize| {
        let _ = write!(numbers, "{text:>cells$}");
    };
    column(format::mib_s(Some(device.read_bytes_s)), broad);
    column(format::mib_s(Some(device.write_bytes_s)), broad);
    column(format::number(Some(device.reads_s)), broad);
    column(format::number(Some(device.writes_s)), broad);
    column(format::number(device.await_ms), broad);
    if width >= WIDE {
        column(format::number(device.read_await_ms), broad);
        column(format::number(device.write_await_ms), broad);
    }
    column(format::number(Some(device.queue)), narrow);
    column(format::percent(Some(device.utilization_pct)), narrow);
    let style = if device.data { theme.strong() } else { ratatui::style::Style::new() };
    Line::from(vec![Span::styled(name, style), Span::raw(numbers)])
}

/// The bar behind a line; none where there is no room for one.
pub fn bar(buf: &mut Buffer, area: Rect, percent: f64, theme: Theme) {
    let from = area.x + columns(area.width).2 + 1;
    let width = area.right().saturating_sub(from).min(BAR);
    if width < 4 || !percent.is_finite() {
        return;
    }
    let filled = (percent.clamp(0.0, 100.0) / 100.0 * f64::from(width)).round() as u16;
    let style = theme.series(crate::tui::theme::Series::Io);
    for cell in 0..width {
        let (glyph, style) = if cell < filled { ("█", style) } else { ("·", theme.dim()) };
        write(buf, from + cell, area.y, area.right(), glyph, style);
    }
}
