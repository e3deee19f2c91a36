//! The four timelines, with their current numbers beside them: GPU, loader, CPU, storage.

use ratatui::layout::Rect;

use crate::diagnosis::verdict::{Class, Missing, Subject};
use crate::history::timeline;
use crate::rates::frame::{GpuRates, WorkerRates};
use crate::rates::{Frame, mean};
use crate::sample::{SourceState, SourceStatus};
use crate::text::sanitise;
use crate::tui::widgets::{ChartLine, Scene, Scroll, Top, cells, chart, write, write_pieces};
use crate::tui::{format, labels};

/// From the top.
const TIMELINES: [ChartLine; 4] = [
    ChartLine(Class::Gpu, "GPU", |p| p.gpu.get(), Top::Percent),
    ChartLine(Class::DataLoader, "Loader", |p| p.loader.get(), Top::Percent),
    ChartLine(Class::Cpu, "CPU", |p| p.cpu.get(), Top::Percent),
    ChartLine(Class::Io, "IO", |p| p.io.get(), Top::Bytes),
];

/// How many there are.
pub const CHARTS: u16 = TIMELINES.len() as u16;

/// What one timeline says.
struct Numbers {
    /// The current value.
    value: String,
    /// What follows the value where there is room.
    unit: &'static str,
    /// More numbers, most useful first.
    pieces: Vec<String>,
    /// Stands in the chart's place when there is nothing to draw.
    empty: String,
    /// One word for a source that does not deliver.
    trouble: Option<String>,
}

/// Draws each in so many rows: name and value, the other numbers below them, and the chart.
pub fn draw(page: &mut Scroll<'_>, rows: u16, scene: &Scene<'_>) {
    // Nothing is measured in it.
    let nothing = Frame::default();
    let (frame, theme) = (scene.frame().unwrap_or(&nothing), scene.theme);
    let all = [gpu(frame, scene), loader(frame), cpu(frame, scene), io(frame, scene)];
    for (timeline, numbers) in TIMELINES.into_iter().zip(all) {
        let Some(band) = page.band(rows) else { continue };
        let (buf, area) = (&mut *page.buf, band.text);
        let ChartLine(about, name, ..) = timeline;
        let Numbers { mut value, unit, pieces, empty, trouble } = numbers;
        if (cells(name) + 1).max(7) + cells(&value) + cells(unit) <= area.width {
            value.push_str(unit);
        }
        let x = chart::label(buf, area, name, &value, 7, theme.series(about), theme);
        if let Some(trouble) = trouble {
            write(buf, x + 1, area.y, area.right(), &trouble, theme.warning());
        }
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        let pieces: Vec<_> = pieces.into_iter().map(|text| (text, theme.dim())).collect();
        write_pieces(buf, below, " ", &pieces);
        // Devices and workers are there with the first sample, or not at all.
        let at_once = matches!(about, Class::Gpu | Class::DataLoader) && scene.frame().is_some();
        let empty = chart::unread(scene.frame()).filter(|_| !at_once).unwrap_or(&empty);
        timeline.plot(buf, band, empty, scene);
    }
}

fn trouble(status: &SourceStatus) -> Option<String> {
    use SourceState::{Denied, Gone, Hung, Stale};
    matches!(status.state, Stale | Hung | Gone | Denied).then(|| status.state.seen().to_uppercase())
}

/// A number, how it is written, and what stands before and behind it.
type Number<'n> = (&'n str, Option<f64>, fn(Option<f64>) -> String, &'n str);

/// The numbers that were measured.
fn measured<const N: usize>(all: [Number<'_>; N]) -> Vec<String> {
    let measured = all.into_iter().filter(|(_, value, ..)| value.is_some_and(f64::is_finite));
    measured.map(|(before, value, show, behind)| format!("{before}{}{behind}", show(value))).collect()
}

fn gpu(frame: &Frame, scene: &Scene<'_>) -> Numbers {
    let ours: Vec<&GpuRates> = frame.gpus.iter().filter(|gpu| gpu.attached).collect();
    let mean = mean(ours.iter().map(|gpu| gpu.utilization_pct));
    let mut pieces = Vec::new();
    if ours.len() > 1 {
        // An average hides the one rank that idles.
        pieces.push(format!("{} GPUs", ours.len()));
        pieces.extend(range(&ours).map(|(low, high)| format!("{low:.0}–{high:.0}%")));
    }
    let sum = |of: fn(&GpuRates) -> Option<u64>| {
        let each: Option<Vec<u64>> = ours.iter().map(|gpu| of(gpu)).collect();
        Some(each?.into_iter().fold(0, u64::saturating_add)).filter(|_| !ours.is_empty())
    };
    let used = sum(|gpu| gpu.memory_used_bytes);
    pieces.extend(used.map(|_| labels::used_of(used, sum(|gpu| gpu.memory_total_bytes))));
    let watts = ours.iter().map(|gpu| gpu.power_w).sum::<Option<f64>>().filter(|_| !ours.is_empty());
    let limit = ours.iter().map(|gpu| gpu.power_limit_w).sum::<Option<f64>>();
    let limit = limit.map(|limit| format!("/{}", format::number(Some(limit)))).unwrap_or_default();
    pieces.extend(measured([("", watts, format::number, &format!("{limit} W"))]));
    pieces.extend(ours.iter().filter_map(|gpu| gpu.temperature_c).max().map(|hottest| format!("{hottest} °C")));
    if let [one] = ours[..] {
        pieces.extend(measured([("own ", one.job_utilization_pct, format::percent, "")]));
        pieces.extend(one.name.as_deref().map(|name| sanitise(name).into_owned()));
    }
    let simulated = ours.iter().any(|gpu| gpu.simulated);
    let lost = ours.iter().any(|gpu| gpu.lost);
    Numbers {
        value: format!("{}{}", format::percent(mean), if simulated { " simulated" } else { "" }),
        unit: "",
        pieces,
        empty: no_gpu(frame, scene),
        trouble: if lost { Some("LOST".to_owned()) } else { trouble(&scene.job.sources.gpu) },
    }
}

/// Lowest and highest use.
fn range(gpus: &[&GpuRates]) -> Option<(f64, f64)> {
    let known = gpus.iter().filter_map(|gpu| gpu.utilization_pct).filter(|pct| pct.is_finite());
    known.map(|pct| (pct, pct)).reduce(|(low, high), (pct, _)| (low.min(pct), high.max(pct)))
}

/// Why there is no GPU chart.
fn no_gpu(frame: &Frame, scene: &Scene<'_>) -> String {
    if frame.gpus.iter().any(|gpu| gpu.attached) {
        return "the GPU gives no utilisation".to_owned();
    }
    if !frame.gpus.is_empty() {
        return format!("this job uses no GPU that can be seen ({} on this machine)", frame.gpus.len());
    }
    let told = scene.verdict().and_then(|verdict| {
        verdict
            .not_seen
            .iter()
            .find(|missing| matches!(missing.what, Missing::Subject(Subject::Nvml) | Missing::Device(_)))
    });
    let reason = scene.job.sources.gpu.reason.as_deref().or(told.map(|missing| missing.why.as_str()));
    reason.map_or_else(|| "no GPU seen".to_owned(), |reason| format!("no GPU seen: {reason}"))
}

fn loader(frame: &Frame) -> Numbers {
    let workers = &frame.workers;
    let mean = |of: fn(&WorkerRates) -> Option<f64>| mean(workers.iter().map(of));
    let batches = workers.iter().map(|w| w.batches_per_s).sum::<Option<f64>>().filter(|_| !workers.is_empty());
    let used = format::share(mean(|w| w.idle).map(|idle| 1.0 - idle));
    let (value, unit, empty) = match workers.len() {
        0 => (format::UNMEASURED.to_owned(), "", "no loader workers seen"),
        1 => (format!("{used} of 1"), " worker", "the workers' time is not known"),
        n => (format!("{used} of {n}"), " workers", "the workers' time is not known"),
    };
    Numbers {
        value,
        unit,
        pieces: measured([
            ("cpu ", mean(|w| w.busy), format::share, ""),
            ("io ", mean(|w| w.io_wait), format::share, ""),
            ("queue ", mean(|w| w.runnable), format::share, ""),
            ("", batches, format::number, " batches/s"),
        ]),
        empty: empty.to_owned(),
        trouble: None,
    }
}

fn cpu(frame: &Frame, scene: &Scene<'_>) -> Numbers {
    let (job, host) = (&frame.job, &frame.host);
    let cores = |pct: Option<f64>| pct.map(|pct| pct / 100.0);
    let used = format::percent(host.allowed_cpu_pct);
    let (value, unit) = job.cpus_allowed.map_or((used.clone(), ""), |n| (format!("{used} of {n}"), " CPUs"));
    Numbers {
        value,
        unit,
        pieces: measured([
            ("job ", cores(job.cpu_pct), format::number, ""),
            ("queue ", job.run_delay_share, format::share, ""),
            ("throttled ", job.throttled_share.filter(|share| *share > 0.0), format::share, ""),
            ("quota ", job.cpu_quota_cores, format::number, ""),
            ("others ", cores(host.others_cpu_pct), format::number, ""),
            ("steal ", host.steal_pct.filter(|pct| *pct >= 0.5), format::percent, ""),
            ("pressure ", host.psi_cpu_some_pct, format::percent, ""),
        ]),
        empty: "no CPU numbers yet".to_owned(),
        trouble: trouble(&scene.job.sources.host),
    }
}

fn io(frame: &Frame, scene: &Scene<'_>) -> Numbers {
    let (storage, host) = (&frame.storage, &frame.host);
    let read = timeline::read_bytes_per_s(frame);
    let disk = if storage.data_devices_known { "disk " } else { "disks " };
    let busy_net = host.net_rx_bytes_per_s.filter(|bytes_s| *bytes_s >= 1_048_576.0);
    let mut pieces = measured([
        (disk, storage.utilization_pct, format::percent, ""),
        ("", storage.await_ms, format::number, " ms"),
        ("net ", busy_net, format::rate, ""),
        ("write ", frame.job.write_bytes_per_s, format::rate, ""),
        ("pressure ", host.psi_io_some_pct, format::percent, ""),
    ]);
    let mount = storage.mounts.first();
    pieces.extend(mount.map(|m| format!("{} {}", sanitise(&m.fs_type), sanitise(&m.mount_point))));
    Numbers {
        value: format::rate(read),
        unit: if read.is_some() { " read" } else { "" },
        pieces,
        empty: "no read rate: the job's I/O counters may not be read".to_owned(),
        trouble: trouble(&scene.job.sources.storage),
    }
}
