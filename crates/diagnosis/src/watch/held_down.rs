//! `throttled`: something other than its work keeps a GPU or the job from running at full speed.

use std::collections::BTreeMap;

use super::lasting::{Lasting, LastingRule, Turn};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::verdict::Phase;
use trainmon_base::text::format;
use trainmon_rates::frame::GpuRates;
use trainmon_sample::gpu::{HELD_DOWN, clock_event_words};

/// Fans and clocks answer each other within seconds.
const RULE: LastingRule = LastingRule { begins_s: 15.0, most_s: 600.0, ends_s: 30.0 };
/// A quota stops a job now and then when its threads wake at once. In so many of the periods it costs time.
const THROTTLED: f64 = 0.25;
/// Most GPUs that are watched: no machine has more.
pub(super) const MOST_GPUS: usize = 64;

/// What holds GPUs and CPUs down.
#[derive(Debug)]
pub(super) struct HeldDown {
    gpus: BTreeMap<u32, Lasting>,
    quota: Lasting,
}

impl Default for HeldDown {
    fn default() -> Self {
        Self { gpus: BTreeMap::new(), quota: Lasting::new(RULE) }
    }
}

impl HeldDown {
    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        self.gpus.len() <= MOST_GPUS
    }

    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Vec<WatchEvent> {
        let frame = &moment.tick.frame;
        let mut events = Vec::new();
        // While the job does something else, nothing is held down: that is not the end of it.
        let is_seen = |there: bool| there || moment.tick.verdict.phase == Phase::Training;
        for gpu in frame.gpus.iter().filter(|gpu| gpu.attached && !gpu.lost) {
            let Some(reasons) = gpu.clock_event_reasons else { continue };
            if self.gpus.len() >= MOST_GPUS && !self.gpus.contains_key(&gpu.index) {
                continue;
            }
            let lasting = self.gpus.entry(gpu.index).or_insert_with(|| Lasting::new(RULE));
            let there = reasons & HELD_DOWN != 0;
            let turn = is_seen(there).then(|| lasting.push(there, moment.seconds)).flatten();
            events.extend(turn.map(|turn| tell_gpu(gpu, reasons & HELD_DOWN, turn)));
        }
        if let Some(share) = frame.job.throttled_share.filter(|share| share.is_finite()) {
            let there = share >= THROTTLED;
            let turn = is_seen(there).then(|| self.quota.push(there, moment.seconds)).flatten();
            events.extend(turn.map(|turn| tell_quota(share, frame.job.cpu_quota_cores, turn)));
        }
        events
    }
}

fn tell_gpu(gpu: &GpuRates, reasons: u64, turn: Turn) -> WatchEvent {
    let words: Vec<&'static str> = clock_event_words(reasons).collect();
    let index = gpu.index;
    let (state, text) = match turn {
        Turn::Begins => {
            let clocks = gpu.sm_clock_mhz.zip(gpu.sm_clock_max_mhz).map(|(now, most)| format!("{now} of {most} MHz"));
            let heat = gpu.temperature_c.map(|celsius| format!("{celsius} °C"));
            let numbers: Vec<String> = clocks.into_iter().chain(heat).collect();
            let numbers = if numbers.is_empty() { String::new() } else { format!(" ({})", numbers.join(", ")) };
            (EventState::Begins, format!("GPU {index} is held down: {}{numbers}", words.join(", ")))
        }
        Turn::Ends(_) => (EventState::Ends, format!("GPU {index} is no longer held down")),
    };
    let details = EventDetails::ThrottledGpu {
        gpu: index,
        reasons: words,
        temperature_c: gpu.temperature_c,
        sm_clock_mhz: gpu.sm_clock_mhz,
        sm_clock_max_mhz: gpu.sm_clock_max_mhz,
    };
    WatchEvent::new(EventKind::Throttled, Some(state), text, details)
}

fn tell_quota(share: f64, cpu_quota_cores: Option<f64>, turn: Turn) -> WatchEvent {
    let quota = cpu_quota_cores.map_or_else(String::new, |cores| format!(" of {} CPUs", format::precise(cores)));
    let (state, text) = match turn {
        Turn::Begins => {
            let share = format::share(Some(share));
            (EventState::Begins, format!("the control group's quota{quota} stops the job in {share} of the periods"))
        }
        Turn::Ends(_) => {
            (EventState::Ends, format!("the control group's quota{quota} hardly stops the job any more"))
        }
    };
    let details = EventDetails::ThrottledCpu { throttled_pct: Some(share * 100.0), cpu_quota_cores };
    WatchEvent::new(EventKind::Throttled, Some(state), text, details)
}
