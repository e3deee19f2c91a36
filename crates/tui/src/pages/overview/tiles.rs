//! The tiles of the overview: steps, the loop's time, GPU, workers, CPU, storage. Empty tiles are left out.

use crate::theme::WithLook;
use crate::widgets::panel::Panel;
use crate::widgets::tile::{Body, Tile};
use crate::widgets::{ChartLine, Scene, Top, card};
use crate::{charts, format, labels};
use trainmon_base::stats::mean;
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::verdict::{Class, Missing, Subject, Verdict};
use trainmon_diagnosis::history::timeline;
use trainmon_rates::frame::GpuRates;
use trainmon_sample::{SourceState, SourceStatus};
use trainmon_views::stages;
use trainmon_waits::Frame;
use trainmon_waits::frame::WorkerRates;
use trainmon_waits::time_split::LoopActivity;

const GPU: ChartLine = ChartLine(Class::Gpu, "GPU", |p| p.gpu.get(), Top::Percent);
const WORKERS: ChartLine = ChartLine(Class::DataLoader, "workers", |p| p.loader.get(), Top::Percent);
const CPU: ChartLine = ChartLine(Class::Cpu, "CPU", |p| p.cpu.get(), Top::Percent);
const STORAGE: ChartLine = ChartLine(Class::Io, "storage", |p| p.io.get(), Top::Bytes);

/// All tiles, the most important first.
pub fn all(scene: &Scene<'_>) -> Vec<Tile> {
    let nothing = Frame::default();
    let frame = scene.frame().unwrap_or(&nothing);
    let tiles = [
        steps(scene),
        Some(the_loop(frame, scene)),
        gpu(frame, scene),
        workers(frame, scene),
        Some(cpu(frame, scene)),
        Some(storage(frame, scene)),
    ];
    tiles.into_iter().flatten().collect()
}

/// The tiles for one column of so many rows: if there is no room for a chart of each, CPU and storage share a rule.
pub fn in_rows(mut tiles: Vec<Tile>, rows: u16, scene: &Scene<'_>) -> Vec<Tile> {
    let needed = |tiles: &[Tile]| 3 * tiles.len() as u16 + 2;
    if needed(&tiles) > rows && tiles.len() > 2 {
        let storage = tiles.pop();
        if let (Some(cpu), Some(storage)) = (tiles.last_mut(), storage) {
            cpu.body = Body::Nothing;
            cpu.panel.value.truncate(3);
            let name = (storage.panel.name.0, storage.panel.name.1);
            let value = storage.panel.value.into_iter().next().map(|(value, _)| value).unwrap_or_default();
            cpu.panel.value.push((format!("{} {value}", name.0), scene.theme.strong()));
        }
    }
    // Extra tiles are dropped, the least important first.
    while needed(&tiles) > rows + 3 && tiles.len() > 2 {
        tiles.remove(tiles.len() - 2);
    }
    tiles
}

/// Steps per second, the number that people tune for.
fn steps(scene: &Scene<'_>) -> Option<Tile> {
    let verdict = scene.verdict()?;
    let per_s = verdict.steps.per_s?;
    let theme = scene.theme;
    let line = ChartLine(Class::Balanced, verdict.steps.unit.per_s(), |p| p.steps.get(), Top::Number);
    let panel = Panel::new(line.1, theme.series(line.0).patch(theme.strong()));
    let mut panel = panel.with(format::number(Some(per_s)), theme.strong());
    // The mean, not the median: it must agree with the rate beside it.
    if per_s > 0.0 {
        panel =
            panel.with(format!("{} {}", format::step_time(1000.0 / per_s), verdict.steps.unit.each()), theme.dim());
    }
    Some(Tile { panel, body: Body::Chart(line, "no steps yet".to_owned()), weight: 2 })
}

/// Where each second of the loop goes.
fn the_loop(frame: &Frame, scene: &Scene<'_>) -> Tile {
    let theme = scene.theme;
    // The verdict's shares are of one rank; with several ranks, the chart and its title show the mean.
    let told = if frame.ranks.len() < 2 { scene.verdict().and_then(|verdict| verdict.shares) } else { None };
    let shares = told.or_else(|| frame.loop_shares());
    let ranks = if frame.ranks.len() > 1 { format!(" ×{}", frame.ranks.len()) } else { String::new() };
    let mut panel = Panel::new(format!("training loop{ranks}"), theme.strong());
    // What is blamed has a name of its own.
    let waited_for = scene.verdict().and_then(stages::waited_for);
    // The largest first: where room is short, what fills the chart keeps its key.
    let tenths = |activity: &LoopActivity| shares.map_or(0.0, |shares| (shares[*activity] * 10.0).round());
    let mut shown = LoopActivity::ALL;
    shown.sort_by(|a, b| tenths(b).total_cmp(&tenths(a)));
    let is_small = |activity: LoopActivity| shares.is_none_or(|shares| shares[activity] < OTHER_NAMED);
    for activity in shown.into_iter().filter(|a| *a != LoopActivity::Other || !is_small(*a)) {
        let look = activity.look();
        let share = format::share(shares.map(|shares| shares[activity]));
        let word = match waited_for {
            Some(word) if activity == LoopActivity::Other => word,
            _ => activity.short(),
        };
        let text = format!("{} {word} {share:>VALUE_CELLS$}", theme.glyph(look));
        panel = panel.with(text, charts::loop_style(activity, scene.verdict(), theme));
    }
    Tile { panel, body: Body::Loop, weight: 3 }
}

/// Anything else that the loop does is named from this share on.
const OTHER_NAMED: f64 = 0.05;

fn trouble(status: &SourceStatus) -> Option<String> {
    use SourceState::{Denied, Gone, Hung, Stale};
    matches!(status.state, Stale | Hung | Gone | Denied).then(|| status.state.seen().to_uppercase())
}

/// Width of a value in the edge of a tile: with fixed places, less changes on the terminal.
const VALUE_CELLS: usize = 3;

/// A number, how it is written, and the text before and after it.
type Number<'n> = (&'n str, Option<f64>, fn(Option<f64>) -> String, &'n str);

/// A tile with the measured numbers after its first value.
fn tile(line: ChartLine, name: String, first: String, more: &[Number<'_>], scene: &Scene<'_>) -> Tile {
    let theme = scene.theme;
    let mut panel = Panel::new(name, theme.series(line.0).patch(theme.strong())).with(first, theme.strong());
    for &(before, value, show, behind) in more {
        if value.is_some_and(f64::is_finite) {
            panel = panel.with(format!("{before}{:>VALUE_CELLS$}{behind}", show(value)), theme.dim());
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
    let idle = if ours.len() == 1 { scene.verdict().and_then(|verdict| verdict.gpu_idle) } else { None };
    let used = idle.map_or_else(|| format::percent(use_now), |idle| format::share(Some(1.0 - idle.total)));
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
    let (frame, verdict) = (scene.frame()?, scene.verdict().filter(|verdict| !card::is_pending(verdict))?);
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

fn workers(frame: &Frame, scene: &Scene<'_>) -> Option<Tile> {
    let workers = &frame.workers;
    if workers.is_empty() {
        return None;
    }
    // The verdict's window if it covers the workers; otherwise this moment.
    let known = scene.verdict().map(|verdict| &verdict.workers).filter(|known| known.len() == workers.len());
    let mean = |told: fn(&trainmon_diagnosis::diagnosis::verdict::WorkerVerdict) -> Option<f64>,
                now: fn(&WorkerRates) -> Option<f64>| match known {
        Some(known) => mean(known.iter().map(told)),
        None => mean(workers.iter().map(now)),
    };
    let batches = workers.iter().map(|w| w.batches_per_s).sum::<Option<f64>>();
    let busy = mean(|w| w.busy, |w| w.busy);
    // What the chart shows.
    let active = mean(|w| w.idle, |w| w.idle).map(|idle| 1.0 - idle);
    let more = [
        ("busy ", busy, format::share as fn(_) -> _, ""),
        ("io ", mean(|w| w.io_wait, |w| w.io_wait), format::share, ""),
        ("queueing ", mean(|w| w.runnable, |w| w.runnable), format::share, ""),
        ("", batches, format::number, " batches/s"),
    ];
    let name = format::counted(workers.len(), "worker", "workers");
    Some(tile(WORKERS, name, format!("{} active", format::share(active)), &more, scene))
}

fn cpu(frame: &Frame, scene: &Scene<'_>) -> Tile {
    let (job, host) = (&frame.job, &frame.host);
    let cpus = |pct: Option<f64>| pct.map(|pct| pct / 100.0);
    let used = format::percent(host.allowed_cpu_pct);
    let first = job.cpus_allowed.map_or_else(|| used.clone(), |n| format!("{used} of {n}"));
    let more = [
        ("job ", cpus(job.cpu_pct), format::number as fn(_) -> _, ""),
        ("others ", cpus(host.others_cpu_pct), format::number, ""),
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
