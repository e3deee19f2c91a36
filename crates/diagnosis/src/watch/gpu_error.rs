//! `gpu-error`: the driver has reported an error of one of the job's GPUs (Xid).

use std::collections::BTreeMap;

use super::held_down::MOST_GPUS;
use super::{EventDetails, EventKind, WatchEvent, WatchedMoment};
use trainmon_sample::gpu::GpuXids;

/// A number of error is told once in so many seconds: a program that fails may cause one after the other.
const SAME_AGAIN_S: f64 = 60.0;
/// Most numbers that are told of a GPU in that time.
const MOST_NUMBERS: usize = 8;

/// The errors of each GPU.
#[derive(Debug, Default)]
pub(super) struct GpuErrors {
    gpus: BTreeMap<u32, ToldErrors>,
}

/// What has been told of a GPU.
#[derive(Debug, Default)]
struct ToldErrors {
    count: u64,
    /// The numbers, in the last minute.
    numbers: Vec<u32>,
    seconds: f64,
}

impl ToldErrors {
    /// How many errors are new, and the number of the last one, if that is to be told now.
    fn new_errors(&mut self, xids: GpuXids, seconds: f64) -> Option<(u64, u32)> {
        self.seconds += seconds;
        if self.seconds >= SAME_AGAIN_S {
            *self = Self { count: self.count, ..Self::default() };
        }
        if xids.count < self.count {
            // Counted anew: the driver was loaded again.
            self.count = 0;
        }
        let (new, number) = (xids.count - self.count, xids.last?);
        if new == 0 || self.numbers.contains(&number) || self.numbers.len() >= MOST_NUMBERS {
            return None;
        }
        self.count = xids.count;
        self.numbers.push(number);
        Some((new, number))
    }
}

impl GpuErrors {
    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        self.gpus.len() <= MOST_GPUS
    }

    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        for gpu in moment.tick.frame.gpus.iter().filter(|gpu| gpu.attached) {
            let Some(xids) = gpu.xids else { continue };
            if self.gpus.len() >= MOST_GPUS && !self.gpus.contains_key(&gpu.index) {
                continue;
            }
            let told = self.gpus.entry(gpu.index).or_default();
            let Some((new, number)) = told.new_errors(xids, moment.seconds) else { continue };
            let words = xids.words().unwrap_or_default();
            let more = if new > 1 { format!(", the last of {new} errors") } else { String::new() };
            let text = format!("GPU {} reported {words}{more}", gpu.index);
            let details = EventDetails::GpuError { gpu: gpu.index, xid: number, errors: new };
            events.push(WatchEvent::new(EventKind::GpuError, None, text, details));
        }
        events
    }
}
