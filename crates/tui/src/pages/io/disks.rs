//! The disks, one line each: first those with the job's data, marked, then the others by how busy they are.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Detail;
use crate::format;
use crate::widgets::table::{self, Column};
use crate::widgets::{Scene, Text, bars, cells};
use trainmon_base::text::fit;
use trainmon_diagnosis::diagnosis::verdict::{Class, Subject};
use trainmon_rates::frame::DeviceRates;
use trainmon_sample::SourceState;
use trainmon_waits::Frame;

/// Width of the name.
const NAME: usize = 16;
/// Minimum width at which the times of reads and writes have their own columns.
const WIDE: usize = 110;
const BROAD: [Column; 9] = [
    ("read MiB/s", 11),
    ("write MiB/s", 12),
    ("reads/s", 9),
    ("writes/s", 9),
    ("ms each", 8),
    ("ms a read", 10),
    ("ms a write", 11),
    ("queue", 6),
    ("busy", 6),
];
const NARROW: [Column; 7] =
    [("read", 6), ("written", 8), ("reads/s", 8), ("writes/s", 9), ("ms each", 8), ("queue", 6), ("busy", 6)];
/// Maximum number of disks listed: the job's and the busiest ones first.
const DISKS: usize = 32;
/// Maximum width of a bar.
const BAR: usize = 40;
/// Shorter bars are left out.
const LEAST_BAR: usize = 4;

fn columns(width: usize) -> &'static [Column] {
    if width >= WIDE { &BROAD } else { &NARROW }
}

/// Adds heading and lines.
pub fn add(text: &mut Text, frame: &Frame, scene: &Scene<'_>, detail: Detail) {
    let (storage, theme) = (&frame.storage, text.theme);
    let status = if scene.job.is_live() { Some(&scene.job.sources.storage) } else { None };
    if storage.devices.is_empty() {
        let told = scene.not_seen(Subject::Disks);
        let why = status.and_then(|s| s.reason.as_deref()).or(told.map(|missing| missing.why.as_str()));
        let fix = status.and_then(|s| s.fix.as_deref()).or(told.and_then(|missing| missing.fix.as_deref()));
        let unsaid = if frame.seconds > 0.0 { "/proc/diskstats lists none" } else { "rates need a second sample" };
        text.missing(&format!("No disk found: {}.", why.unwrap_or(unsaid)), fix);
        return;
    }
    let old = status.filter(|status| matches!(status.state, SourceState::Stale | SourceState::Hung));
    let old = old.map_or_else(String::new, |status| format!("  {}", status.state.seen().to_uppercase()));
    let unit = if text.width >= WIDE { "DISK" } else { "DISK, MiB/s:" };
    text.table_heading(&format!("{unit:<NAME$}{}{old}", table::headings(columns(text.width))));
    let mut devices: Vec<&DeviceRates> = storage.devices.iter().collect();
    let order = |d: &DeviceRates| {
        (
            d.data,
            [d.utilization_pct, d.read_bytes_per_s + d.write_bytes_per_s]
                .map(|v| if v.is_finite() { v } else { 0.0 }),
        )
    };
    devices.sort_by(|a, b| order(b).partial_cmp(&order(a)).unwrap_or(std::cmp::Ordering::Equal));
    let mut idle = Vec::new();
    let more = devices.len().saturating_sub(DISKS);
    for device in devices.into_iter().take(DISKS) {
        if !detail.idle && !device.data && is_idle(device) {
            idle.push(fit(&device.name, NAME));
            continue;
        }
        line(text, device);
    }
    if !idle.is_empty() {
        let all = format!("{} idle: {}", idle.len(), idle.join(" "));
        text.line(&fit(&all, text.width), theme.dim());
    }
    if more > 0 {
        text.line(&format!("{more} more disks"), theme.dim());
    }
    let told = scene.not_seen(Subject::Fd);
    if !storage.data_devices_known && (told.is_none() || !storage.mounts.is_empty()) {
        let why = told.map_or("", |_| ": cannot read its open files");
        text.wrapped("", 0, &format!("Cannot tell which disks hold the job's data{why}."), theme.dim());
    }
}

fn is_idle(device: &DeviceRates) -> bool {
    device.utilization_pct < 0.5 && device.reads_per_s + device.writes_per_s < 0.5
}

fn line(text: &mut Text, device: &DeviceRates) {
    let (mark, style) = if device.data { (" *data", text.theme.strong()) } else { ("", Style::new()) };
    let name = fit(&device.name, NAME - mark.len().max(1)) + mark;
    let pad = " ".repeat(NAME.saturating_sub(usize::from(cells(&name))));
    let some = |v: f64| format::number(Some(v));
    let mut values = vec![
        format::mib_s(Some(device.read_bytes_per_s)),
        format::mib_s(Some(device.write_bytes_per_s)),
        some(device.reads_per_s),
        some(device.writes_per_s),
        format::number(device.await_ms),
    ];
    if text.width >= WIDE {
        values.extend([format::number(device.read_await_ms), format::number(device.write_await_ms)]);
    }
    values.extend([some(device.queue), format::percent(Some(device.utilization_pct))]);
    let numbers = table::row(columns(text.width), values);
    let mut line = Line::from_iter([Span::styled(name, style), Span::raw(pad + &numbers + " ")]);
    let room = text.width.saturating_sub(line.width()).min(BAR);
    if room >= LEAST_BAR && device.utilization_pct.is_finite() {
        let (share, rest) = (device.utilization_pct / 100.0, ("·", text.theme.dim()));
        line.extend(bars::share(room as u16, share, text.theme.series(Class::Io), rest));
    }
    text.lines.push(line);
}
