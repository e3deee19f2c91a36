//! All GPUs together: how many, how far apart (a mean hides the one rank that idles), and what is wrong.

use super::{device, labels};
use crate::format;
use crate::widgets::{Piece, Scene};
use trainmon_base::stats::mean;
use trainmon_base::text::fit;
use trainmon_rates::frame::{GpuLink, GpuRates};
use trainmon_sample::SourceState;
use trainmon_waits::Frame;

/// An idle GPU is worth a remark if the busiest one reaches this use, percent.
const BUSY_PCT: f64 = 50.0;
/// Width of the driver's text, cells.
const TOLD: usize = 60;

/// The facts as pieces of text, problems first.
pub fn pieces(frame: &Frame, scene: &Scene<'_>, width: u16) -> Vec<Piece> {
    let theme = scene.theme;
    let mut pieces = Vec::new();
    pieces.extend(trouble(scene).map(|text| (text, theme.warning())));
    pieces.extend(idle(frame).map(|text| (text, theme.warning())));
    let count = frame.gpus.len();
    let ours: Vec<&GpuRates> = frame.gpus.iter().filter(|gpu| gpu.attached).collect();
    let mut fact = |text: String| pieces.push((text, theme.dim()));
    fact(match (count, ours.len()) {
        (1, 1) => "1 GPU, which this job uses (*)".to_owned(),
        (1, 0) => "1 GPU, which this job does not use".to_owned(),
        (n, 0) => format!("{n} GPUs; this job seems to use none"),
        (n, own) => format!("{n} GPUs; this job uses {own} (*)"),
    });
    let known = || ours.iter().map(|gpu| gpu.utilization_pct.filter(|pct| pct.is_finite()));
    if ours.len() > 1
        && let Some(mean) = mean(known())
    {
        let (low, high) = known().flatten().fold((mean, mean), |(low, high), pct| (low.min(pct), high.max(pct)));
        fact(format!("use {low:.0}–{high:.0}% (mean {mean:.0}%)"));
    }
    if !ours.is_empty() {
        fact(link(frame.gpu_link).to_owned());
    }
    if frame.gpus.iter().any(|gpu| gpu.simulated) {
        fact("simulated: no real measurements".to_owned());
    }
    if let Some(driver) = &frame.gpu_driver {
        fact(format!("driver {}", fit(driver, TOLD)));
    }
    // Narrow lists of many GPUs have it in their heading.
    if count <= 2 || width >= 100 {
        let [own, others, _] = device::PARTS.map(|part| theme.glyph(part));
        fact(format!("{own} this job {others} others"));
    }
    pieces
}

/// How the job's GPUs were told from others.
fn link(link: GpuLink) -> &'static str {
    match link {
        GpuLink::Processes => "found by its PIDs",
        GpuLink::OpenDevice => "found by its open GPU device files",
        GpuLink::VisibleDevices => "found by CUDA_VISIBLE_DEVICES",
        GpuLink::Chosen => "chosen by --gpu",
        GpuLink::None => "",
    }
}

/// The source delivers nothing.
fn trouble(scene: &Scene<'_>) -> Option<String> {
    let status = &scene.job.sources.gpu;
    let what = match status.state {
        SourceState::Fresh | SourceState::Pending => return None,
        SourceState::Stale => "the values are old",
        SourceState::Hung => "HUNG: NVML does not answer",
        SourceState::Gone => "GONE: NVML lists no GPU any more",
        SourceState::Absent => "NVML is no longer available",
        SourceState::Denied => "DENIED: cannot read NVML",
    };
    let age = status.age_ms.map(|ms| format!(" (last read {} ago)", format::duration(ms as f64 / 1e3)));
    let why = status.reason.as_deref().map(|why| format!(": {}", fit(why, TOLD)));
    Some(format!("{what}{}{}", age.unwrap_or_default(), why.unwrap_or_default()))
}

/// GPUs of the job that idle while others of the job work.
fn idle(frame: &Frame) -> Option<String> {
    let ours = || frame.gpus.iter().filter(|gpu| gpu.attached);
    let busiest = ours().filter_map(|gpu| gpu.utilization_pct).filter(|pct| pct.is_finite()).fold(0.0, f64::max);
    let idle: Vec<&GpuRates> = ours().filter(|gpu| labels::is_idle(gpu)).collect();
    let first = if busiest >= BUSY_PCT { idle.first()? } else { return None };
    let others = match idle.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let verb = if idle.len() == 1 { "idles" } else { "idle" };
    Some(format!("GPU {}{others} {verb} while others work (up to {busiest:.0}%)", first.index))
}
