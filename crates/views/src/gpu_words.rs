//! Remarks on a GPU: what limits its clocks, and anything unusual.

use crate::labels::number;
use trainmon_base::stats::mean;
use trainmon_base::text::{fit, format};
use trainmon_rates::frame::{GpuLink, GpuRates};
use trainmon_sample::gpu::{CLOCK_EVENT_REASONS, clock_event_words, special_words};
use trainmon_sample::{SourceState, SourceStatus};
use trainmon_waits::Frame;

const GIB: f64 = 1_073_741_824.0;
/// An idle GPU is worth a remark if the busiest one reaches this use, percent.
const BUSY_PCT: f64 = 50.0;
/// Width of the driver's text, cells.
const TOLD: usize = 60;

/// A GPU with less use than this is called idle here, percent. It is only a word on the screen: verdicts have their own
/// thresholds.
pub const IDLE_PCT: f64 = 10.0;

/// Whether a GPU does next to nothing; unknown use is not idle.
pub fn is_idle(gpu: &GpuRates) -> bool {
    !gpu.lost && gpu.utilization_pct.is_some_and(|pct| pct < IDLE_PCT)
}

/// A clock event reason in plain words, by its name in recordings.
fn reason(word: &'static str) -> &'static str {
    match word {
        "idle" => "idle clocks",
        "application-clocks" => "clocks set by hand",
        "power-cap" => "power cap",
        "hw-slowdown" => "hardware slowdown",
        "sync-boost" => "sync boost group",
        "sw-thermal" => "thermal limit",
        "hw-thermal" => "thermal limit (hardware)",
        "power-brake" => "power brake",
        "display-clocks" => "display clocks",
        other => other,
    }
}

/// What limits the clocks; empty if nothing does or the reasons are unknown.
pub fn throttled(gpu: &GpuRates) -> impl Iterator<Item = String> {
    let mask = gpu.clock_event_reasons.unwrap_or(0);
    let known = CLOCK_EVENT_REASONS.iter().fold(0, |all, (bit, _)| all | bit);
    let rest = mask & !known;
    clock_event_words(mask)
        .map(|word| reason(word).to_owned())
        .chain((rest != 0).then(|| format!("unknown reason {rest:#x}")))
}

/// Everything unusual, the worst first.
pub fn state(gpu: &GpuRates, frame: &Frame) -> String {
    let mut words = Vec::new();
    words.extend(gpu.lost.then(|| "LOST: it no longer answers".to_owned()));
    words.extend(gpu.xids.and_then(|xids| xids.words()));
    words.extend(gpu.asleep.then(|| "asleep".to_owned()));
    words.extend(gpu.ecc_uncorrected.filter(|errors| *errors > 0).map(|errors| format!("{errors} ECC errors")));
    words.extend(is_idle(gpu).then(|| "idle".to_owned()));
    words.extend(throttled(gpu).filter(|word| !gpu.lost && (word != "idle clocks" || !is_idle(gpu))));
    let others_job = !gpu.attached && frame.gpus.iter().any(|other| other.attached);
    words.extend(others_job.then(|| "not this job's".to_owned()));
    match gpu.others.len() {
        1 if gpu.attached => words.push("another process on it".to_owned()),
        n if gpu.attached && n > 1 => words.push(format!("{n} other processes")),
        _ => {}
    }
    words.extend((gpu.mig == Some(true)).then(|| "MIG".to_owned()));
    words.extend(special_words(gpu.vgpu, gpu.confidential, gpu.by_mps).map(str::to_owned));
    words.extend(gpu.integrated.then(|| "uses the host's memory".to_owned()));
    words.extend(gpu.of_processes.then(|| "use and memory: sums of the processes seen".to_owned()));
    words.extend(gpu.simulated.then(|| "simulated".to_owned()));
    words.join(", ")
}

/// The facts about all GPUs together, each with whether it is a problem; those come first.
pub fn facts(frame: &Frame, status: &SourceStatus) -> Vec<(String, bool)> {
    let mut pieces = Vec::new();
    pieces.extend(trouble(status).into_iter().chain(idle(frame)).map(|text| (text, true)));
    let count = frame.gpus.len();
    let ours: Vec<&GpuRates> = frame.gpus.iter().filter(|gpu| gpu.attached).collect();
    let mut fact = |text: String| pieces.push((text, false));
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
    pieces
}

/// How the job's GPUs were told from others.
fn link(link: GpuLink) -> &'static str {
    match link {
        GpuLink::Processes => "found by its PIDs",
        GpuLink::OpenDevice => "found by its open GPU device files",
        GpuLink::VisibleDevices => "found by its environment",
        GpuLink::Chosen => "chosen by --gpu",
        GpuLink::None => "",
    }
}

/// The source delivers nothing.
fn trouble(status: &SourceStatus) -> Option<String> {
    let what = match status.state {
        SourceState::Fresh | SourceState::Pending => return None,
        SourceState::Stale => "the values are old",
        SourceState::Hung => "HUNG: the driver does not answer",
        SourceState::Gone => "GONE: the driver lists no GPU any more",
        SourceState::Absent => "the driver is no longer available",
        SourceState::Denied => "DENIED: cannot ask the driver",
    };
    let age = status.age_ms.map(|ms| format!(" (last read {} ago)", format::duration(ms as f64 / 1e3)));
    let why = status.reason.as_deref().map(|why| format!(": {}", fit(why, TOLD)));
    Some(format!("{what}{}{}", age.unwrap_or_default(), why.unwrap_or_default()))
}

/// GPUs of the job that idle while others of the job work.
fn idle(frame: &Frame) -> Option<String> {
    let ours = || frame.gpus.iter().filter(|gpu| gpu.attached);
    let busiest = ours().filter_map(|gpu| gpu.utilization_pct).filter(|pct| pct.is_finite()).fold(0.0, f64::max);
    let idle: Vec<&GpuRates> = ours().filter(|gpu| is_idle(gpu)).collect();
    let first = if busiest >= BUSY_PCT { idle.first()? } else { return None };
    let others = match idle.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    let verb = if idle.len() == 1 { "idles" } else { "idle" };
    Some(format!("GPU {}{others} {verb} while others work (up to {busiest:.0}%)", first.index))
}

/// The numbers of a GPU, the most useful first. Values that were not measured are dashes; rare ones are left out.
pub fn numbers(gpu: &GpuRates) -> Vec<String> {
    let mut numbers = vec![
        if gpu.power_w.is_none() && gpu.power_limit_w.is_none() { "– W".to_owned() } else { watts(gpu) },
        celsius(gpu),
        match gpu.clock_event_reasons {
            None => "throttling –".to_owned(),
            Some(0) => "not throttled".to_owned(),
            Some(_) => format!("clock limited by: {}", throttled(gpu).collect::<Vec<_>>().join(", ")),
        },
        format!("clock {} of {} MHz", number(gpu.sm_clock_mhz), number(gpu.sm_clock_max_mhz)),
        format!("memory clock {} of {} MHz", number(gpu.memory_clock_mhz), number(gpu.memory_clock_max_mhz)),
        pcie(gpu),
    ];
    if gpu.nvlink_rx_bytes_per_s.or(gpu.nvlink_tx_bytes_per_s).is_some() {
        let [rx, tx] = [gpu.nvlink_rx_bytes_per_s, gpu.nvlink_tx_bytes_per_s].map(gib);
        numbers.push(format!("NVLink {rx} in, {tx} out GiB/s"));
    }
    if gpu.sm_active_pct.or(gpu.tensor_active_pct).or(gpu.dram_active_pct).is_some() {
        let [sm, tensor, dram] = [gpu.sm_active_pct, gpu.tensor_active_pct, gpu.dram_active_pct].map(format::percent);
        numbers.push(format!("SMs active {sm}, tensor cores {tensor}, memory {dram} of the time"));
    } else if let Some(other) = &gpu.gpm_beside {
        numbers.push(format!("SM activity refused: {} may hold the counters", fit(other, TOLD)));
    }
    numbers.push(format!("reads or writes its memory {} of the time", format::percent(gpu.memory_utilization_pct)));
    for (name, pct) in [("encoder", gpu.encoder_pct), ("decoder", gpu.decoder_pct)] {
        numbers.extend(pct.filter(|pct| *pct > 0).map(|pct| format!("{name} {pct}%")));
    }
    numbers
}

fn gib(bytes: Option<f64>) -> String {
    format::number(bytes.map(|bytes| bytes / GIB))
}

/// `PCIe 1.2 in, 0.11 out of 25 GiB/s (4×16)`: generation and lanes. If the link is below what GPU and slot support, as on an idle
/// GPU, that is said as well: `(1×16, 4×16 possible)`.
fn pcie(gpu: &GpuRates) -> String {
    let link = |generation: Option<u32>, width: Option<u32>| match (generation, width) {
        (None, None) => None,
        (generation, width) => Some(format!("{}×{}", number(generation), number(width))),
    };
    let now = link(gpu.pcie_generation, gpu.pcie_width);
    let most = link(gpu.pcie_generation_max, gpu.pcie_width_max);
    let trained = match (now, most) {
        (Some(now), Some(most)) if now != most => format!(" ({now}, {most} possible)"),
        (Some(link), _) | (None, Some(link)) => format!(" ({link})"),
        (None, None) => String::new(),
    };
    let (rx, tx) = (gib(gpu.pcie_rx_bytes_per_s), gib(gpu.pcie_tx_bytes_per_s));
    let capacity = gpu.pcie_capacity_bytes_per_s.map(|bytes| format!(" of {}", gib(Some(bytes))));
    format!("PCIe {rx} in, {tx} out{} GiB/s{trained}", capacity.unwrap_or_default())
}

/// Its power, and the limit of that.
pub fn watts(gpu: &GpuRates) -> String {
    match gpu.power_limit_w {
        Some(limit) => format!("{}/{} W", format::number(gpu.power_w), format::number(Some(limit))),
        None if gpu.power_w.is_some() => format!("{} W", format::number(gpu.power_w)),
        None => format::UNMEASURED.to_owned(),
    }
}

/// Its temperature.
pub fn celsius(gpu: &GpuRates) -> String {
    gpu.temperature_c.map_or_else(|| "– °C".to_owned(), |celsius| format!("{celsius} °C"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_words_of_its_own() {
        for (bit, _) in CLOCK_EVENT_REASONS {
            let gpu = GpuRates { clock_event_reasons: Some(bit), ..GpuRates::default() };
            let words: Vec<_> = throttled(&gpu).collect();
            assert!(words.len() == 1 && !words.concat().contains('-'), "{words:?}");
        }
        let gpu = GpuRates { clock_event_reasons: Some(0x4 | 0x4000), ..GpuRates::default() };
        assert_eq!(throttled(&gpu).collect::<Vec<_>>(), ["power cap", "unknown reason 0x4000"]);
    }

    #[test]
    fn unknown_use_is_not_idle() {
        let at = |utilization_pct| GpuRates { utilization_pct, ..GpuRates::default() };
        assert!(is_idle(&at(Some(3.0))) && !is_idle(&at(Some(50.0))) && !is_idle(&at(None)));
    }
}
