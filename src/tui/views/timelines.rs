//! The strip of past verdicts and the four timelines, all on one time axis, with their current numbers beside them.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{cells, flow, sheet, write};
use crate::history::timeline::{self, Point};
use crate::rates::Frame;
use crate::rates::frame::GpuRates;
use crate::sample::{SourceState, SourceStatus};
use crate::text::{fit, sanitise};
use crate::tui::app::App;
use crate::tui::charts::{self, Columns};
use crate::tui::format;
use crate::tui::layout::{Band, CHARTS};
use crate::tui::theme::{Series, Theme};

/// The letters of past verdicts.
pub fn strip(buf: &mut Buffer, band: Band, app: &App) {
    let x = write(buf, band.text.x, band.text.y, band.text.right(), "Verdicts", app.theme().strong());
    if band.text.width >= 31 {
        write(buf, x + 1, band.text.y, band.text.right(), "Data Io Cpu Gpu z=idle", app.theme().dim());
    }
    charts::strip(buf, band.chart, &app.job().history.timeline, app.window(band.chart.width), app.theme());
}

/// The time axis: seconds before the newest moment shown, and the clock at the cursor.
pub fn ruler(buf: &mut Buffer, area: Rect, app: &App) {
    let window = app.window(area.width);
    if window.sweep {
        charts::sweep_ruler(buf, area, window, app.theme().dim());
        return;
    }
    // The edge of a picture that stands is a moment of the past.
    let edge = if app.job().is_live() { "now" } else { "0s" };
    charts::ruler(buf, area, app.span_s(), edge, app.theme().dim());
    let (Some(cell), Some(moment)) = (app.cursor_cell(area.width), app.job().cursor()) else { return };
    let text = format!("▲{}", crate::tui::words::clock(moment.frame.unix_ms, &app.options.zone));
    let x = (area.x + cell).min(area.right().saturating_sub(cells(&text)));
    write(buf, x, area.y, area.right(), &text, app.theme().cursor());
}

/// What one timeline shows.
struct Shown {
    series: Series,
    name: &'static str,
    /// The current value.
    value: String,
    /// What follows the value where there is room.
    unit: &'static str,
    /// More numbers, most useful first.
    pieces: Vec<String>,
    /// Stands in the chart's place when there is nothing to draw.
    empty: String,
    /// Trouble of the source.
    trouble: Option<&'static str>,
}

/// GPU, loader, CPU and storage, one below the other.
pub fn draw(buf: &mut Buffer, bands: &[Band; CHARTS], app: &App) {
    let frame = app.frame();
    let shown = [gpu(frame, app), loader(frame), cpu(frame, &app.sources().host), io(frame, &app.sources().storage)];
    for (band, shown) in bands.iter().zip(&shown) {
        let window = app.window(band.chart.width);
        let columns = Columns::gather(&app.job().history.timeline, window, value_of(shown.series));
        let (max, top) = if shown.series == Series::Io {
            let max = charts::nice_bytes(f64::from(columns.max()));
            (max as f32, format::short_bytes(max))
        } else {
            (100.0, "100%".to_owned())
        };
        text(buf, band.text, shown, app.theme());
        if columns.values().all(|v| v.is_none()) {
            let unread = match shown.series {
                // These are there with the first sample, or not at all.
                Series::Gpu | Series::Loader if frame.is_some() => None,
                _ => unread(frame),
            };
            let message = unread.unwrap_or(&shown.empty);
            let message = fit(message, usize::from(band.chart.width));
            write(buf, band.chart.x, band.chart.y, band.chart.right(), &message, app.theme().dim());
            continue;
        }
        sheet::axis(buf, *band, &top, app.theme());
        charts::timeline(buf, band.chart, &columns, max, app.theme().series(shown.series), app.theme());
    }
}

/// What there is to wait for before there can be any rate.
pub fn unread(frame: Option<&Frame>) -> Option<&'static str> {
    match frame {
        None => Some("waiting for the first sample"),
        Some(frame) if frame.seconds <= 0.0 => Some("rates come with the second sample"),
        Some(_) => None,
    }
}

fn value_of(series: Series) -> fn(&Point) -> Option<f32> {
    match series {
        Series::Gpu => |p| p.gpu.get(),
        Series::Cpu => |p| p.cpu.get(),
        Series::Io => |p| p.io.get(),
        Series::Loader => |p| p.loader.get(),
    }
}

/// Name and value on the first row, the other numbers below.
fn text(buf: &mut Buffer, area: Rect, shown: &Shown, theme: Theme) {
    let name = theme.series(shown.series).patch(theme.strong());
    let x = write(buf, area.x, area.y, area.right(), shown.name, name);
    let x = (x + 1).max(area.x + 7);
    let fits = x + cells(&shown.value) + cells(shown.unit) <= area.right();
    let value = if fits { format!("{}{}", shown.value, shown.unit) } else { shown.value.clone() };
    let x = write(buf, x, area.y, area.right(), &value, theme.strong());
    if let Some(trouble) = shown.trouble {
        write(buf, x + 1, area.y, area.right(), trouble, theme.warning());
    }
    let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
    let pieces: Vec<_> = shown.pieces.iter().map(|p| (p.clone(), theme.dim())).collect();
    flow(buf, below, &pieces);
}

/// One word for a source that does not deliver.
fn trouble(status: &SourceStatus) -> Option<&'static str> {
    match status.state {
        SourceState::Pending | SourceState::Fresh | SourceState::Absent => None,
        SourceState::Stale => Some("STALE"),
        SourceState::Hung => Some("HUNG"),
        SourceState::Gone => Some("GONE"),
        SourceState::Denied => Some("DENIED"),
    }
}

/// A piece `word value`, only where the value was measured.
fn piece(pieces: &mut Vec<String>, value: Option<f64>, show: impl FnOnce(Option<f64>) -> String) {
    if value.is_some_and(f64::is_finite) {
        pieces.push(show(value));
    }
}

fn gpu(frame: Option<&Frame>, app: &App) -> Shown {
    let ours: Vec<&GpuRates> = frame.map(|f| f.gpus.iter().filter(|g| g.attached).collect()).unwrap_or_default();
    let utils = || ours.iter().filter_map(|g| g.utilization_pct).filter(|u| u.is_finite());
    let mean = (utils().count() > 0).then(|| utils().sum::<f64>() / utils().count() as f64);
    let mut pieces = Vec::new();
    if ours.len() > 1 {
        let (low, high) = utils().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), u| (l.min(u), h.max(u)));
        // An average hides the one rank that idles.
        pieces.push(format!("{} GPUs", ours.len()));
        piece(&mut pieces, mean.map(|_| low), |_| format!("{low:.0}–{high:.0} %"));
    }
    let sum = |of: fn(&GpuRates) -> Option<u64>| {
        let each: Option<Vec<u64>> = ours.iter().map(|g| of(g)).collect();
        Some(each?.into_iter().fold(0, u64::saturating_add)).filter(|_| !ours.is_empty())
    };
    if let Some(used) = sum(|g| g.memory_used_bytes) {
        let total = sum(|g| g.memory_total_bytes);
        let used = format::bytes(Some(used));
        pieces.push(total.map_or_else(|| used.clone(), |t| join_units(&used, &format::bytes(Some(t)))));
    }
    let watts = ours.iter().map(|g| g.power_w).sum::<Option<f64>>().filter(|_| !ours.is_empty());
    let limit = ours.iter().map(|g| g.power_limit_w).sum::<Option<f64>>();
    piece(&mut pieces, watts, |w| match limit {
        Some(l) => format!("{}/{} W", format::number(w), format::number(Some(l))),
        None => format!("{} W", format::number(w)),
    });
    if let Some(hottest) = ours.iter().filter_map(|g| g.temperature_c).max() {
        pieces.push(format!("{hottest} °C"));
    }
    if ours.len() == 1 {
        let one = ours.first();
        piece(&mut pieces, one.and_then(|g| g.job_utilization_pct), |v| format!("own {}", format::percent(v)));
        pieces.extend(one.and_then(|g| g.name.as_deref()).map(|n| sanitise(n).into_owned()));
    }
    let lost = ours.iter().any(|g| g.lost);
    let simulated = ours.iter().any(|g| g.simulated);
    Shown {
        series: Series::Gpu,
        name: "GPU",
        value: format!("{}{}", format::percent(mean), if simulated { " simulated" } else { "" }),
        unit: "",
        pieces,
        empty: no_gpu(frame, app),
        trouble: if lost { Some("LOST") } else { trouble(&app.sources().gpu) },
    }
}

/// `6.1 GiB` and `22 GiB` as `6.1/22 GiB`.
fn join_units(used: &str, total: &str) -> String {
    match (used.split_once(' '), total.split_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number}/{total}"),
        _ => format!("{used}/{total}"),
    }
}

/// Why there is no GPU chart.
fn no_gpu(frame: Option<&Frame>, app: &App) -> String {
    let seen = frame.map_or(0, |f| f.gpus.len());
    if frame.is_some_and(|f| f.gpus.iter().any(|g| g.attached)) {
        return "the GPU gives no utilisation".to_owned();
    }
    if seen > 0 {
        return format!("this job uses no GPU that can be seen ({seen} on this machine)");
    }
    let told = app.verdict().and_then(|v| {
        v.not_seen.iter().find(|n| {
            let what = n.what.to_ascii_lowercase();
            what.contains("nvml") || what.contains("gpu")
        })
    });
    let reason = app.sources().gpu.reason.as_deref().or(told.map(|n| n.why.as_str()));
    reason.map_or_else(|| "no GPU seen".to_owned(), |r| format!("no GPU seen: {r}"))
}

fn loader(frame: Option<&Frame>) -> Shown {
    let workers = frame.map(|f| f.workers.as_slice()).unwrap_or_default();
    let mean = |of: fn(&crate::rates::frame::WorkerRates) -> Option<f64>| {
        let values = || workers.iter().filter_map(of).filter(|v| v.is_finite());
        (values().count() > 0).then(|| values().sum::<f64>() / values().count() as f64)
    };
    let mut pieces = Vec::new();
    if !workers.is_empty() {
        piece(&mut pieces, mean(|w| w.busy), |v| format!("cpu {}", format::share(v)));
        piece(&mut pieces, mean(|w| w.io_wait), |v| format!("io {}", format::share(v)));
        piece(&mut pieces, mean(|w| w.runnable), |v| format!("queue {}", format::share(v)));
        let batches = workers.iter().map(|w| w.batches_s).sum::<Option<f64>>();
        piece(&mut pieces, batches, |v| format!("{} batches/s", format::number(v)));
    }
    let used = mean(|w| w.idle).map(|idle| 1.0 - idle);
    let value = match workers.len() {
        0 => format::UNMEASURED.to_owned(),
        n => format!("{} of {n}", format::share(used)),
    };
    Shown {
        series: Series::Loader,
        name: "Loader",
        value,
        unit: match workers.len() {
            0 => "",
            1 => " worker",
            _ => " workers",
        },
        pieces,
        empty: if workers.is_empty() { "no loader workers seen" } else { "the workers' time is not known" }
            .to_owned(),
        trouble: None,
    }
}

fn cpu(frame: Option<&Frame>, status: &SourceStatus) -> Shown {
    let mut pieces = Vec::new();
    let used = frame.and_then(|f| f.host.allowed_cpu_pct);
    let mut value = format::percent(used);
    if let Some(f) = frame {
        if let Some(allowed) = f.job.cpus_allowed {
            value = format!("{value} of {allowed}");
        }
        let job = &f.job;
        piece(&mut pieces, job.cpu_pct.map(|v| v / 100.0), |v| format!("job {}", format::number(v)));
        piece(&mut pieces, job.run_delay_share, |v| format!("queue {}", format::share(v)));
        piece(&mut pieces, job.throttled_share.filter(|v| *v > 0.0), |v| format!("throttled {}", format::share(v)));
        piece(&mut pieces, job.cpu_quota_cores, |v| format!("quota {}", format::number(v)));
        piece(&mut pieces, f.host.others_cpu_pct.map(|v| v / 100.0), |v| format!("others {}", format::number(v)));
        piece(&mut pieces, f.host.steal_pct.filter(|v| *v >= 0.5), |v| format!("steal {}", format::percent(v)));
        piece(&mut pieces, f.host.psi_cpu_some_pct, |v| format!("pressure {}", format::percent(v)));
    }
    Shown {
        series: Series::Cpu,
        name: "CPU",
        value,
        unit: if frame.is_some_and(|f| f.job.cpus_allowed.is_some()) { " CPUs" } else { "" },
        pieces,
        empty: "no CPU numbers yet".to_owned(),
        trouble: trouble(status),
    }
}

fn io(frame: Option<&Frame>, status: &SourceStatus) -> Shown {
    let read = frame.and_then(timeline::read_bytes_s);
    let mut pieces = Vec::new();
    if let Some(f) = frame {
        let storage = &f.storage;
        let disk = if storage.data_devices_known { "disk" } else { "disks" };
        piece(&mut pieces, storage.utilization_pct, |v| format!("{disk} {}", format::percent(v)));
        piece(&mut pieces, storage.await_ms, |v| format!("{} ms", format::number(v)));
        let busy_net = f.host.net_rx_bytes_s.filter(|v| *v >= 1_048_576.0);
        piece(&mut pieces, busy_net, |v| format!("net {}", format::rate(v)));
        piece(&mut pieces, f.job.write_bytes_s, |v| format!("write {}", format::rate(v)));
        piece(&mut pieces, f.host.psi_io_some_pct, |v| format!("pressure {}", format::percent(v)));
        pieces
            .extend(storage.mounts.first().map(|m| format!("{} {}", sanitise(&m.fs_type), sanitise(&m.mount_point))));
    }
    Shown {
        series: Series::Io,
        name: "IO",
        value: format::rate(read),
        unit: if read.is_some() { " read" } else { "" },
        pieces,
        empty: "no read rate: the job's I/O counters may not be read".to_owned(),
        trouble: trouble(status),
    }
}
