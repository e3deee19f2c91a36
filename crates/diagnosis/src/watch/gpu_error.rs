//! `gpu-error`: the driver has reported an error of one of the job's GPUs (Xid).

use std::collections::BTreeMap;

use super::held_down::MOST_GPUS;
use super::{EventDetails, EventKind, WatchEvent, WatchedMoment};

/// How many errors of each GPU have been told.
#[derive(Debug, Default)]
pub(super) struct GpuErrors {
    told: BTreeMap<u32, u64>,
}

impl GpuErrors {
    #[cfg(test)]
    pub(super) fn is_small(&self) -> bool {
        self.told.len() <= MOST_GPUS
    }

    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Vec<WatchEvent> {
        let mut events = Vec::new();
        for gpu in moment.tick.frame.gpus.iter().filter(|gpu| gpu.attached) {
            let Some(xids) = gpu.xids else { continue };
            if self.told.len() >= MOST_GPUS && !self.told.contains_key(&gpu.index) {
                continue;
            }
            let told = self.told.insert(gpu.index, xids.count).unwrap_or(0);
            // Where it counts from zero again, the driver was loaded again.
            let new = xids.count.checked_sub(told).unwrap_or(xids.count);
            let Some((words, number)) = xids.words().zip(xids.last).filter(|_| new > 0) else { continue };
            let more = if new > 1 { format!(", the last of {new} errors") } else { String::new() };
            let text = format!("GPU {} reported {words}{more}", gpu.index);
            let details = EventDetails::GpuError { gpu: gpu.index, xid: number, errors: new };
            events.push(WatchEvent::new(EventKind::GpuError, None, text, details));
        }
        events
    }
}
