//! How busy a GPU was around each moment of a tick, and what the loop did during its idle time.

use super::time_split::{LoopActivity, TimeSplit};
use trainmon_sample::{Sample, UtilizationPoint};

/// Points of the samples buffer further than this from the tick are not believed: the driver's wall clock and
/// trainmon's disagree. Nanoseconds.
const NEAR_NS: u64 = 1_000_000_000;

/// A stretch of time that ends at `end_ns` (CLOCK_MONOTONIC), with one utilization, 0–1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct BusyWindow {
    end_ns: u64,
    busy: f64,
}

/// A GPU that the job uses, in one tick.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct DeviceUse {
    /// PIDs that NVML lists on it.
    pub pids: Vec<u32>,
    /// The readings are from this tick.
    pub fresh: bool,
    /// Other processes use it too: only part of its work is for the job.
    pub shared: bool,
    windows: Vec<BusyWindow>,
}

impl DeviceUse {
    /// `mean` is the utilization over the whole tick, 0–1. If the tick has two or more points of the samples buffer,
    /// each is a window of its own, else the whole tick is one. `scale` is the job's part of a shared GPU, 0–1.
    pub(super) fn new(
        pids: Vec<u32>,
        fresh: bool,
        mean: f64,
        scale: f64,
        points: &[UtilizationPoint],
        sample: &Sample,
        from_ns: u64,
    ) -> Self {
        let near = from_ns.saturating_sub(NEAR_NS)..=sample.monotonic_ns.saturating_add(NEAR_NS);
        let mut windows: Vec<BusyWindow> = points
            .iter()
            .filter_map(|point| {
                let end_ns = monotonic_ns(point.unix_us, sample).filter(|ns| near.contains(ns))?;
                (point.pct <= 100).then(|| BusyWindow { end_ns, busy: f64::from(point.pct) / 100.0 * scale })
            })
            .collect();
        if windows.len() < 2 {
            windows = vec![BusyWindow { end_ns: u64::MAX, busy: (mean * scale).clamp(0.0, 1.0) }];
        }
        windows.sort_by_key(|window| window.end_ns);
        Self { pids, fresh, shared: scale < 1.0, windows }
    }

    /// The window that contains a moment; the last one for later moments.
    fn window(&self, at_ns: u64) -> usize {
        self.windows.partition_point(|window| window.end_ns < at_ns).min(self.windows.len().saturating_sub(1))
    }

    /// Utilization around a moment, 0–1.
    pub(super) fn busy(&self, at_ns: u64) -> f64 {
        self.windows.get(self.window(at_ns)).map_or(0.0, |window| window.busy)
    }
}

/// Utilization of the busiest of these GPUs around a moment, 0–1; `None` without GPUs.
pub(super) fn busiest(devices: &[&DeviceUse], at_ns: u64) -> Option<f64> {
    devices.iter().map(|device| device.busy(at_ns)).reduce(f64::max)
}

/// A point's wall-clock time on CLOCK_MONOTONIC, from the sample's reading of both.
fn monotonic_ns(unix_us: u64, sample: &Sample) -> Option<u64> {
    let ago_us = i128::from(sample.unix_ms) * 1000 - i128::from(unix_us);
    u64::try_from(i128::from(sample.monotonic_ns) - ago_us * 1000).ok()
}

/// The samples of the loop's thread sorted into one GPU's windows: seconds by activity in each.
#[derive(Debug)]
pub(super) struct Overlap<'a> {
    device: &'a DeviceUse,
    seconds: Vec<TimeSplit>,
}

impl<'a> Overlap<'a> {
    pub(super) fn new(device: &'a DeviceUse) -> Self {
        Self { device, seconds: vec![TimeSplit::default(); device.windows.len()] }
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, at_ns: u64, activity: LoopActivity, seconds: f64) {
        let window = self.device.window(at_ns);
        if let Some(split) = self.seconds.get_mut(window) {
            split[activity] += seconds;
        }
    }

    /// Seconds of the samples in which the GPU was busy.
    pub(super) fn busy_s(&self) -> f64 {
        let windows = self.device.windows.iter().zip(&self.seconds);
        windows.map(|(window, split)| window.busy * split.total()).sum()
    }

    /// The GPU's idle seconds by what the loop's thread did. An estimate, because within a window only the sum is
    /// known: the GPU counts as busy during waits for it first, and the remaining busy time is spread over the other
    /// kinds in proportion. So no kind has more idle seconds than seconds, and the idle seconds add up to (1 −
    /// utilization) × seconds. `sync_kept` is the part of the waits for the GPU that stays one; the rest is other.
    pub(super) fn idle_s(&self, sync_kept: f64) -> TimeSplit {
        let mut idle = TimeSplit::default();
        for (window, split) in self.device.windows.iter().zip(&self.seconds) {
            let kept = split.device_sync * sync_kept;
            let split = TimeSplit { device_sync: kept, other: split.other + split.device_sync - kept, ..*split };
            let seen = split.total();
            let busy = seen * window.busy;
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

    const S: u64 = 1_000_000_000;

    fn sample() -> Sample {
        Sample { monotonic_ns: 10 * S, unix_ms: 1_700_000_000_000, ..Sample::default() }
    }

    fn point(ms_ago: u64, pct: u32) -> UtilizationPoint {
        UtilizationPoint { unix_us: (1_700_000_000_000 - ms_ago) * 1000, pct }
    }

    #[test]
    fn points_are_windows_on_our_clock() {
        let points = [point(500, 100), point(0, 0)];
        let device = DeviceUse::new(vec![], true, 0.5, 1.0, &points, &sample(), 9 * S);
        assert_eq!(device.busy(9 * S + S / 4), 1.0);
        assert_eq!(device.busy(9 * S + S / 2), 1.0);
        assert_eq!(device.busy(9 * S + 3 * S / 4), 0.0);
        assert_eq!(device.busy(11 * S), 0.0);
    }

    #[test]
    fn one_point_or_a_wrong_clock_leave_the_mean() {
        for points in [vec![point(100, 90)], vec![point(900_000, 90), point(900_100, 80)]] {
            let device = DeviceUse::new(vec![], true, 0.3, 1.0, &points, &sample(), 9 * S);
            assert_eq!(device.busy(9 * S), 0.3);
        }
    }

    #[test]
    fn sync_is_busy_first() {
        let device = DeviceUse::new(vec![], true, 0.5, 1.0, &[], &sample(), 9 * S);
        let mut overlap = Overlap::new(&device);
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
        let device = DeviceUse::new(vec![], true, 0.2, 1.0, &[], &sample(), 9 * S);
        let mut overlap = Overlap::new(&device);
        overlap.add(9 * S, LoopActivity::DeviceSync, 0.5);
        overlap.add(9 * S, LoopActivity::HostBusy, 0.5);
        let idle = overlap.idle_s(1.0).values();
        assert!((idle[1] - 0.3).abs() < 1e-9 && (idle[2] - 0.5).abs() < 1e-9);
        let idle = overlap.idle_s(0.4).values();
        assert!(idle[1].abs() < 1e-9 && (idle[4] - 0.3).abs() < 1e-9, "{idle:?}");
    }
}
