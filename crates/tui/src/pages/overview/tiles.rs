//! The charts of the overview: the loop's time, GPU, CPU, storage. What has nothing to show is told in words.

use ratatui::style::Style;

use crate::format;
use crate::theme::Look;
use crate::widgets::loop_area::LoopColumns;
use crate::widgets::panel::Panel;
use crate::widgets::tile::{Body, Tile};
use crate::widgets::{ChartLine, Piece, Scene, Top};
use trainmon_base::stats::mean;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::loop_parts::{LoopPart, parts};
use trainmon_diagnosis::diagnosis::verdict::{Class, Missing, Subject, Verdict};
use trainmon_diagnosis::history::timeline;
use trainmon_rates::frame::GpuRates;
use trainmon_sample::{SourceState, SourceStatus};
use trainmon_views::labels;
use trainmon_views::{cpu_facts, earlier_run, ranks, stages};
use trainmon_waits::Frame;

const GPU: ChartLine = ChartLine(Class::Gpu, "GPU", |p| p.gpu.get(), Top::Percent);
const CPU: ChartLine = ChartLine(Class::Cpu, "CPU", |p| p.cpu.get(), Top::Percent);
const STORAGE: ChartLine = ChartLine(Class::Io, "storage", |p| p.io.get(), Top::Bytes);

/// The charts below the loop's time, what limits the run first, and what has nothing to show, in words.
pub fn resources(scene: &Scene<'_>) -> (Vec<Tile>, Vec<Piece>) {
    let nothing = Frame::default();
    let frame = scene.frame().unwrap_or(&nothing);
    let class = scene.verdict().map_or(Class::Unknown, |verdict| verdict.class);
    let mut tiles: Vec<(Class, Tile)> = [
        (Class::Gpu, gpu(frame, scene)),
        (Class::Cpu, Some(cpu(frame, scene))),
        (Class::Io, Some(storage(frame, scene))),
    ]
    .into_iter()
    .filter_map(|(about, tile)| Some((about, tile?)))
    .collect();
    tiles.sort_by_key(|(about, _)| *about != class);
    let is_quiet = |about: Class| about == Class::Io && is_quiet(scene);
    let (quiet, shown): (Vec<_>, Vec<_>) = tiles.into_iter().partition(|(about, _)| is_quiet(*about));
    let folded = quiet.iter().map(|(_, tile)| in_words(tile, scene.theme.dim()));
    (shown.into_iter().map(|(_, tile)| tile).collect(), folded.collect())
}

/// A tile in a few words.
pub fn in_words(tile: &Tile, style: Style) -> Piece {
    let values: Vec<&str> = tile.panel.value.iter().take(3).map(|(text, _)| text.trim()).collect();
    (format!("{} {}", tile.panel.name.0, values.join(" · ")), style)
}

/// Whether storage has done hardly anything over the time that the charts show.
fn is_quiet(scene: &Scene<'_>) -> bool {
    let highest = STORAGE.columns(QUIET_CELLS, scene).max();
    let busy = scene.frame().and_then(|frame| frame.storage.utilization_pct).unwrap_or(0.0);
    f64::from(highest) < QUIET_BYTES_PER_S && busy < QUIET_PCT
}

/// Reading less than this, with the disks less busy than that, is nothing to look at.
const QUIET_BYTES_PER_S: f64 = 1_048_576.0;
const QUIET_PCT: f64 = 10.0;
/// The peak of a minute needs no more columns.
const QUIET_CELLS: u16 = 60;

/// Where each step's time went: rate, step time, and the parts of the loop's time over the verdict's window.
pub fn the_loop(scene: &Scene<'_>, width: u16) -> Tile {
    let parts = loop_parts(scene);
    let mut columns = LoopColumns::gather(&scene.job.history.timeline, scene.window(width));
    columns.begin_with(&parts);
    // What is in the area without being in the verdict's window has no number.
    let is_told = |part: LoopPart| parts.iter().any(|(known, _)| known.activity() == part.activity());
    let before = columns.visible().filter(|part| !is_told(*part)).map(|part| (part, None));
    let legend: Vec<_> = parts.iter().map(|(part, share)| (*part, Some(*share))).chain(before).collect();
    let trend = columns.change().map(earlier_run::trend);
    // The widest that shows all of the legend.
    let panel = |shorter| loop_panel(shorter, &legend, trend.clone(), scene);
    let fitting = (0..SHORTEST).map(panel).find(|panel| panel.width() <= width);
    let panel = fitting.unwrap_or_else(|| panel(SHORTEST));
    Tile { panel, body: Body::Loop(parts), weight: 1 }
}

/// In how many steps a title can be made shorter.
const SHORTEST: u8 = 4;

/// The edges of the loop's time, made shorter in up to [`SHORTEST`] steps.
fn loop_panel(shorter: u8, legend: &[(LoopPart, Option<f64>)], trend: Option<String>, scene: &Scene<'_>) -> Panel {
    let theme = scene.theme;
    let ranks = scene.frame().map_or(0, |frame| frame.ranks.len());
    let steps = scene.verdict().map(|verdict| &verdict.steps);
    let per_s = steps.and_then(|steps| steps.per_s).filter(|per_s| *per_s > 0.0);
    let name = match (ranks, steps.filter(|_| per_s.is_some())) {
        (2.., _) if shorter >= 2 => format!("mean of {ranks} ranks"),
        (2.., _) => format!("where the time went, mean of {ranks} ranks"),
        (_, Some(steps)) if shorter >= 2 => format!("each {}'s time", steps.unit.one()),
        (_, Some(steps)) => format!("where each {}'s time went", steps.unit.one()),
        (_, None) => "where the loop's time went".to_owned(),
    };
    let mut panel = Panel::new(name, theme.strong());
    if let (Some(per_s), Some(steps)) = (per_s, steps) {
        // The mean, not the median: it must agree with the rate beside it.
        let each = if shorter >= 3 { String::new() } else { format!(" {}", steps.unit.each()) };
        let each = (shorter < SHORTEST).then(|| format!("{}{each}", format::step_time(1000.0 / per_s)));
        panel = panel.with(format!("{} {}", format::number(Some(per_s)), steps.unit.per_s()), theme.strong());
        panel.value.extend(each.into_iter().chain(trend).map(|text| (text, theme.dim())));
    }
    let mut last = None;
    for (part, share) in legend {
        let look = Look::of_part(*part, scene.verdict());
        let word = if scene.verdict().is_some_and(|verdict| stages::is_ahead(*part, verdict)) {
            "work while the GPU computes".into()
        } else if shorter >= 1 {
            part.short()
        } else {
            part.word()
        };
        let value = share.map_or_else(String::new, |share| format!(" {:>SHARE_CELLS$}", format::share(Some(share))));
        // Parts of one color side by side share their key.
        let key = if last == Some(look) { String::new() } else { format!("{} ", theme.key(look)) };
        last = Some(look);
        panel = panel.with(format!("{key}{word}{value}"), theme.style(look));
    }
    panel
}

/// The parts of the loop's time over the verdict's window; with several ranks their mean.
fn loop_parts(scene: &Scene<'_>) -> Vec<(LoopPart, f64)> {
    let verdict = scene.verdict();
    match verdict {
        Some(verdict) if verdict.ranks.len() > 1 => {
            let (shares, waits) = ranks::mean_parts(verdict);
            parts(&shares, &waits)
        }
        _ => verdict.map(Verdict::loop_parts).unwrap_or_default(),
    }
}

fn trouble(status: &SourceStatus) -> Option<String> {
    use SourceState::{Denied, Gone, Hung, Stale};
    matches!(status.state, Stale | Hung | Gone | Denied).then(|| status.state.seen().to_uppercase())
}

/// Width of a value in the edge of a tile: with fixed places, less changes on the terminal.
const SHARE_CELLS: usize = 3;

/// A number, how it is written, and the text before and after it.
type Number<'n> = (&'n str, Option<f64>, fn(Option<f64>) -> String, &'n str);

/// A tile with the measured numbers after its first value.
fn tile(line: ChartLine, name: String, first: String, more: &[Number<'_>], scene: &Scene<'_>) -> Tile {
    let theme = scene.theme;
    let mut panel = Panel::new(name, theme.series(line.0).patch(theme.strong())).with(first, theme.strong());
    for &(before, value, show, behind) in more {
        if value.is_some_and(f64::is_finite) {
            panel = panel.with(format!("{before}{:>SHARE_CELLS$}{behind}", show(value)), theme.dim());
        }
    }
    Tile { panel, body: Body::Chart(line, String::new()), weight: 2 }
}

fn with_trouble(mut tile: Tile, trouble: Option<String>, scene: &Scene<'_>) -> Tile {
    tile.panel.value.splice(0..0, trouble.map(|trouble| (trouble, scene.theme.warning())));
    tile
}

fn gpu(frame: &Frame, scene: &Scene<'_>) -> Option<Tile> {
    let ours: Vec<&GpuRates> = frame.gpus.iter().filter(|gpu| gpu.attached).collect();
    let first = ours.first()?;
    let use_now = mean(ours.iter().map(|gpu| gpu.utilization_pct));
    // The account's share if there is one, so that the page shows the same number everywhere.
    let told = if ours.len() == 1 { scene.verdict().and_then(stages::gpu_use) } else { None };
    let used = told.map_or_else(|| format::percent(use_now), |told| format::share(Some(told.busy)));
    let sum = |of: fn(&GpuRates) -> Option<u64>| {
        let each: Option<Vec<u64>> = ours.iter().map(|gpu| of(gpu)).collect();
        Some(each?.into_iter().fold(0, u64::saturating_add))
    };
    let watts = ours.iter().map(|gpu| gpu.power_w).sum::<Option<f64>>();
    let limit = ours.iter().map(|gpu| gpu.power_limit_w).sum::<Option<f64>>();
    let limit = limit.map(|limit| format!("/{}", format::number(Some(limit)))).unwrap_or_default();
    let simulated = if ours.iter().any(|gpu| gpu.simulated) { "simulated " } else { "" };
    let name = match ours.len() {
        1 => format!("{simulated}GPU {}", first.index),
        n => format!("{n} {simulated}GPUs"),
    };
    let mut tile = tile(GPU, name, used, &[("", watts, format::number, &format!("{limit} W"))], scene);
    let dim = scene.theme.dim();
    if let Some(by_job) = told.and_then(|told| told.by_job) {
        tile.panel.value.insert(1, (format!("this job {}", format::share(Some(by_job))), dim));
    }
    if ours.len() > 1 {
        // A mean hides the one rank that idles.
        let range = range(&ours).map(|(low, high)| (format!("{low:.0}–{high:.0}%"), dim));
        tile.panel.value.splice(1..1, range);
    }
    let memory = sum(|gpu| gpu.memory_used_bytes);
    let memory = memory.map(|_| labels::used_of(memory, sum(|gpu| gpu.memory_total_bytes)));
    tile.panel.value.extend(memory.map(|text| (text, dim)));
    let hottest = ours.iter().filter_map(|gpu| gpu.temperature_c).max();
    tile.panel.value.extend(hottest.map(|celsius| (format!("{celsius} °C"), dim)));
    let lost = ours.iter().any(|gpu| gpu.lost).then(|| "LOST".to_owned());
    Some(with_trouble(tile, lost.or_else(|| trouble(&scene.job.sources.gpu)), scene))
}

/// Lowest and highest use.
fn range(gpus: &[&GpuRates]) -> Option<(f64, f64)> {
    let known = gpus.iter().filter_map(|gpu| gpu.utilization_pct).filter(|pct| pct.is_finite());
    known.map(|pct| (pct, pct)).reduce(|(low, high), (pct, _)| (low.min(pct), high.max(pct)))
}

/// Why there is no GPU tile: one dim line, once there is a verdict.
pub fn no_gpu(scene: &Scene<'_>) -> Option<String> {
    let (frame, verdict) = (scene.frame()?, scene.verdict().filter(|verdict| !verdict.is_pending())?);
    if frame.gpus.iter().any(|gpu| gpu.attached) {
        return None;
    }
    if !frame.gpus.is_empty() {
        return Some(match frame.gpus.len() {
            1 => "This job does not use the GPU.".to_owned(),
            many => format!("This job uses none of the {many} GPUs."),
        });
    }
    let reason = scene.job.sources.gpu.reason.as_deref().or_else(|| missing_gpu(verdict));
    Some(reason.map_or_else(|| "No GPU found.".to_owned(), |reason| format!("No GPU: {}", sanitize(reason))))
}

fn missing_gpu(verdict: &Verdict) -> Option<&str> {
    let is_gpu = |missing: &&trainmon_diagnosis::diagnosis::verdict::Unavailable| {
        matches!(missing.what, Missing::Subject(Subject::Nvml) | Missing::Gpu(_))
    };
    verdict.not_seen.iter().find(is_gpu).map(|missing| missing.why.as_str())
}

fn cpu(frame: &Frame, scene: &Scene<'_>) -> Tile {
    let (job, host) = (&frame.job, &frame.host);
    let cpus = |pct: Option<f64>| pct.map(|pct| pct / 100.0);
    let used = format::percent(host.allowed_cpu_pct);
    let first = job.cpus_allowed.map_or_else(|| used.clone(), |n| format!("{used} of {n}"));
    let busiest = cpu_facts::busiest_other(frame).unwrap_or_default();
    let more = [
        ("job ", cpus(job.cpu_pct), format::number as fn(_) -> _, ""),
        ("others ", cpus(host.others_cpu_pct), format::number, &busiest),
        ("queueing ", job.run_delay_share, format::share, ""),
        ("throttled ", job.throttled_share.filter(|share| *share > 0.0), format::share, ""),
        ("quota ", job.cpu_quota_cores, format::number, ""),
        ("steal ", host.steal_pct.filter(|pct| *pct >= 0.5), format::percent, ""),
        ("pressure ", host.psi_cpu_some_pct, format::percent, ""),
    ];
    with_trouble(tile(CPU, "CPU".to_owned(), first, &more, scene), trouble(&scene.job.sources.host), scene)
}

fn storage(frame: &Frame, scene: &Scene<'_>) -> Tile {
    let (storage, host) = (&frame.storage, &frame.host);
    let disk = storage.mounts.iter().flat_map(|mount| &mount.disks).next();
    let name = disk.map_or_else(|| "storage".to_owned(), |disk| format!("storage {}", sanitize(disk)));
    let net = host.net_rx_bytes_per_s.filter(|bytes| *bytes >= 1_048_576.0);
    let read = timeline::read_bytes_per_s(frame);
    let first = format!("read {}", format::rate(read));
    let more = [
        ("write ", frame.job.write_bytes_per_s.filter(|bytes| *bytes >= 10_240.0), format::rate as fn(_) -> _, ""),
        ("", storage.utilization_pct, format::percent, " busy"),
        ("net ", net, format::rate, ""),
        ("", storage.await_ms, format::number, " ms"),
        ("pressure ", host.psi_io_some_pct, format::percent, ""),
    ];
    let mut tile = tile(STORAGE, name, first, &more, scene);
    tile.body = Body::Chart(STORAGE, "cannot read the job's I/O counters".to_owned());
    with_trouble(tile, trouble(&scene.job.sources.storage), scene)
}
