//! The four timelines, with their current numbers beside them: GPU, loader, CPU, storage.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::history::timeline::{self, Point};
use crate::rates::frame::{GpuRates, WorkerRates};
use crate::rates::{Frame, mean};
use crate::sample::{SourceState, SourceStatus};
use crate::text::sanitise;
use crate::tui::charts::Columns;
use crate::tui::theme::Series;
use crate::tui::widgets::chart::{self, Band, Top};
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::text::{cells, write, write_pieces};
use crate::tui::{format, labels};

/// How many there are.
pub const CHARTS: u16 = 4;

/// What one timeline shows.
pub struct Timeline {
    series: Series,
    name: &'static str,
    of: fn(&Point) -> Option<f32>,
    top: Top,
    /// The current value.
    value: String,
    /// What follows the value where there is room.
    unit: &'static str,
    /// More numbers, most useful first.
    pieces: Vec<String>,
    /// Stands in the chart's place when there is nothing to draw.
    empty: String,
    /// One word for a source that does not deliver.
    trouble: Option<&'static str>,
}

/// The timelines, from the top.
pub fn all(scene: &Scene<'_>) -> [Timeline; CHARTS as usize] {
    // Nothing is measured in it.
    let nothing = Frame::default();
    let frame = scene.frame().unwrap_or(&nothing);
    let mut all = [gpu(frame, scene), loader(frame), cpu(frame, scene), io(frame, scene)];
    for timeline in &mut all {
        // Devices and workers are there with the first sample, or not at all.
        let at_once = matches!(timeline.series, Series::Gpu | Series::Loader) && scene.frame().is_some();
        if let Some(unread) = chart::unread(scene.frame()).filter(|_| !at_once) {
            unread.clone_into(&mut timeline.empty);
        }
    }
    all
}

impl Timeline {
    /// Draws name and value, the other numbers below them, and the chart.
    pub fn draw(&self, buf: &mut Buffer, band: Band, scene: &Scene<'_>) {
        let (area, theme) = (band.text, scene.theme);
        let x = (cells(self.name) + 1).max(7);
        let fits = x + cells(&self.value) + cells(self.unit) <= area.width;
        let value = if fits { format!("{}{}", self.value, self.unit) } else { self.value.clone() };
        let x = chart::label(buf, area, self.name, &value, 7, theme.series(self.series), theme);
        if let Some(trouble) = self.trouble {
            write(buf, x + 1, area.y, area.right(), trouble, theme.warning());
        }
        let below = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        let pieces: Vec<_> = self.pieces.iter().map(|text| (text.clone(), theme.dim())).collect();
        write_pieces(buf, below, " ", &pieces);
        let columns = Columns::gather(&scene.job.history.timeline, scene.window(band.chart.width), self.of);
        chart::plot(buf, band, &columns, self.top, self.series, &self.empty, theme);
    }
}

fn trouble(status: &SourceStatus) -> Option<&'static str> {
    match status.state {
        SourceState::Pending | SourceState::Fresh | SourceState::Absent => None,
        SourceState::Stale => Some("STALE"),
        SourceState::Hung => Some("HUNG"),
        SourceState::Gone => Some("GONE"),
        SourceState::Denied => Some("DENIED"),
    }
}

/// A number, how it is written, and what stands before and behind it.
type Number<'n> = (&'n str, Option<f64>, fn(Option<f64>) -> String, &'n str);

/// The numbers that were measured.
fn measured<const N: usize>(all: [Number<'_>; N]) -> Vec<String> {
    let measured = all.into_iter().filter(|(_, value, ..)| value.is_some_and(f64::is_finite));
    measured.map(|(before, value, show, behind)| format!("{before}{}{behind}", show(value))).collect()
}

fn gpu(frame: &Frame, scene: &Scene<'_>) -> Timeline {
    let ours: Vec<&GpuRates> = frame.gpus.iter().filter(|gpu| gpu.attached).collect();
    let mean = mean(ours.iter().map(|gpu| gpu.utilization_pct));
    let mut pieces = Vec::new();
    if ours.len() > 1 {
        // An average hides the one rank that idles.
        pieces.push(format!("{} GPUs", ours.len()));
        pieces.extend(range(&ours).map(|(low, high)| format!("{low:.0}–{high:.0} %")));
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
    Timeline {
        series: Series::Gpu,
        name: "GPU",
        of: |p| p.gpu.get(),
        top: Top::Percent,
        value: format!("{}{}", format::percent(mean), if simulated { " simulated" } else { "" }),
        unit: "",
        pieces,
        empty: no_gpu(frame, scene),
        trouble: if ours.iter().any(|gpu| gpu.lost) { Some("LOST") } else { trouble(&scene.sources().gpu) },
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
        verdict.not_seen.iter().find(|missing| {
            let what = missing.what.to_ascii_lowercase();
            what.contains("nvml") || what.contains("gpu")
        })
    });
    let reason = scene.sources().gpu.reason.as_deref().or(told.map(|missing| missing.why.as_str()));
    reason.map_or_else(|| "no GPU seen".to_owned(), |reason| format!("no GPU seen: {reason}"))
}

fn loader(frame: &Frame) -> Timeline {
    let workers = &frame.workers;
    let mean = |of: fn(&WorkerRates) -> Option<f64>| mean(workers.iter().map(of));
    let batches = workers.iter().map(|w| w.batches_s).sum::<Option<f64>>().filter(|_| !workers.is_empty());
    let used = format::share(mean(|w| w.idle).map(|idle| 1.0 - idle));
    let (value, unit, empty) = match workers.len() {
        0 => (format::UNMEASURED.to_owned(), "", "no loader workers seen"),
        1 => (format!("{used} of 1"), " worker", "the workers' time is not known"),
        n => (format!("{used} of {n}"), " workers", "the workers' time is not known"),
    };
    Timeline {
        series: Series::Loader,
        name: "Loader",
        of: |p| p.loader.get(),
        top: Top::Percent,
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

fn cpu(frame: &Frame, scene: &Scene<'_>) -> Timeline {
    let (job, host) = (&frame.job, &frame.host);
    let cores = |pct: Option<f64>| pct.map(|pct| pct / 100.0);
    let used = format::percent(host.allowed_cpu_pct);
    let (value, unit) = job.cpus_allowed.map_or((used.clone(), ""), |n| (format!("{used} of {n}"), " CPUs"));
    Timeline {
        series: Series::Cpu,
        name: "CPU",
        of: |p| p.cpu.get(),
        top: Top::Percent,
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
        trouble: trouble(&scene.sources().host),
    }
}

fn io(frame: &Frame, scene: &Scene<'_>) -> Timeline {
    let (storage, host) = (&frame.storage, &frame.host);
    let read = timeline::read_bytes_s(frame);
    let disk = if storage.data_devices_known { "disk " } else { "disks " };
    let busy_net = host.net_rx_bytes_s.filter(|bytes_s| *bytes_s >= 1_048_576.0);
    let mut pieces = measured([
        (disk, storage.utilization_pct, format::percent, ""),
        ("", storage.await_ms, format::number, " ms"),
        ("net ", busy_net, format::rate, ""),
        ("write ", frame.job.write_bytes_s, format::rate, ""),
        ("pressure ", host.psi_io_some_pct, format::percent, ""),
    ]);
    let mount = storage.mounts.first();
    pieces.extend(mount.map(|m| format!("{} {}", sanitise(&m.fs_type), sanitise(&m.mount_point))));
    Timeline {
        series: Series::Io,
        name: "IO",
        of: |p| p.io.get(),
        top: Top::Bytes,
        value: format::rate(read),
        unit: if read.is_some() { " read" } else { "" },
        pieces,
        empty: "no read rate: the job's I/O counters may not be read".to_owned(),
        trouble: trouble(&scene.sources().storage),
    }
}
