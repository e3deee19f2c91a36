//! What the loop did during a GPU's idle time.

use super::time_split::{LoopActivity, TimeSplit};
use trainmon_rates::device::GpuUse;

/// The samples of the loop's thread sorted into one GPU's windows: seconds by activity in each.
#[derive(Debug)]
pub(super) struct Overlap<'a> {
    gpu: &'a GpuUse,
    seconds: Vec<TimeSplit>,
}

impl<'a> Overlap<'a> {
    pub(super) fn new(gpu: &'a GpuUse) -> Self {
        Self { gpu, seconds: vec![TimeSplit::default(); gpu.windows().len()] }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, at_ns: u64, activity: LoopActivity, seconds: f64) {
        let window = self.gpu.window(at_ns);
        if let Some(split) = self.seconds.get_mut(window) {
            split[activity] += seconds;
        }
    }

    /// Seconds of the samples in which the GPU was busy.
    pub(super) fn busy_s(&self) -> f64 {
        self.gpu.windows().zip(&self.seconds).map(|(busy, split)| busy * split.total()).sum()
    }

    /// The GPU's idle seconds by what the loop's thread did. An estimate, because within a window only the sum is
    /// known: the GPU counts as busy during waits for it first, and the remaining busy time is spread over the other
    /// kinds in proportion. So no kind has more idle seconds than seconds, and the idle seconds add up to (1 −
    /// utilization) × seconds. `sync_kept` is the part of the waits for the GPU that stays one; the rest is other.
    pub(super) fn idle_s(&self, sync_kept: f64) -> TimeSplit {
        let mut idle = TimeSplit::default();
        for (busy, split) in self.gpu.windows().zip(&self.seconds) {
            let kept = split.device_sync * sync_kept;
            let split = TimeSplit { device_sync: kept, other: split.other + split.device_sync - kept, ..*split };
            let seen = split.total();
            let busy = seen * busy;
            let in_sync = busy.min(kept);
            let rest = seen - kept;
            let rest_idle = if rest > 0.0 { (1.0 - (busy - in_sync) / rest).clamp(0.0, 1.0) } else { 0.0 };
            let scaled = split.map(|seconds| seconds * rest_idle);
            idle += TimeSplit { device_sync: kept - in_sync, ..scaled };
        }
        idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_sample::Sample;

    const S: u64 = 1_000_000_000;

    fn sample() -> Sample {
        Sample { monotonic_ns: 10 * S, unix_ms: 1_700_000_000_000, ..Sample::default() }
    }

    #[test]
    fn sync_is_busy_first() {
        let gpu = GpuUse::new(vec![], true, 0.5, 1.0, &[], &sample(), 9 * S);
        let mut overlap = Overlap::new(&gpu);
        overlap.add(9 * S, LoopActivity::DeviceSync, 0.4);
        overlap.add(9 * S, LoopActivity::InputWait, 0.4);
        overlap.add(9 * S, LoopActivity::HostBusy, 0.2);
        assert!((overlap.busy_s() - 0.5).abs() < 1e-9);
        // 0.5 s busy: 0.4 in the sync, 0.1 over the other 0.6 s.
        let [input, sync, host, checkpoint, other] = overlap.idle_s(1.0).values();
        assert!(sync.abs() < 1e-9 && checkpoint == 0.0 && other == 0.0);
        assert!((input - 0.4 * (5.0 / 6.0)).abs() < 1e-9, "{input}");
        assert!((host - 0.2 * (5.0 / 6.0)).abs() < 1e-9);
        assert!((input + sync + host - 0.5).abs() < 1e-9);
    }

    #[test]
    fn more_sync_than_busy_leaves_idle_in_sync() {
        let gpu = GpuUse::new(vec![], true, 0.2, 1.0, &[], &sample(), 9 * S);
        let mut overlap = Overlap::new(&gpu);
        overlap.add(9 * S, LoopActivity::DeviceSync, 0.5);
        overlap.add(9 * S, LoopActivity::HostBusy, 0.5);
        let idle = overlap.idle_s(1.0).values();
        assert!((idle[1] - 0.3).abs() < 1e-9 && (idle[2] - 0.5).abs() < 1e-9);
        let idle = overlap.idle_s(0.4).values();
        assert!(idle[1].abs() < 1e-9 && (idle[4] - 0.3).abs() < 1e-9, "{idle:?}");
    }
}
