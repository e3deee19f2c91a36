//! Remarks on a GPU: what limits its clocks, and anything unusual.

use trainmon_rates::frame::GpuRates;
use trainmon_sample::gpu::{CLOCK_EVENT_REASONS, clock_event_words};
use trainmon_waits::Frame;

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
    words.extend(gpu.simulated.then(|| "simulated".to_owned()));
    words.join(", ")
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
