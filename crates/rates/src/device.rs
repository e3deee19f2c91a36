//! How busy a GPU was around each moment of a tick.

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
pub struct GpuUse {
    /// PIDs that NVML lists on it.
    pub pids: Vec<u32>,
    /// The readings are from this tick.
    pub fresh: bool,
    /// Other processes use it too: only part of its work is for the job.
    pub shared: bool,
    windows: Vec<BusyWindow>,
}

impl GpuUse {
    /// `mean` is the utilization over the whole tick, 0–1. If the tick has two or more points of the samples buffer,
    /// each is a window of its own, else the whole tick is one. `scale` is the job's part of a shared GPU, 0–1.
    pub fn new(
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

    /// The utilization of each of its windows, 0–1, in the order of time.
    pub fn windows(&self) -> impl ExactSizeIterator<Item = f64> {
        self.windows.iter().map(|window| window.busy)
    }

    /// The window that contains a moment; the last one for later moments.
    pub fn window(&self, at_ns: u64) -> usize {
        self.windows.partition_point(|window| window.end_ns < at_ns).min(self.windows.len().saturating_sub(1))
    }

    /// Utilization around a moment, 0–1.
    pub fn busy(&self, at_ns: u64) -> f64 {
        self.windows.get(self.window(at_ns)).map_or(0.0, |window| window.busy)
    }
}

/// Utilization of the busiest of these GPUs around a moment, 0–1; `None` without GPUs.
pub fn busiest(devices: &[&GpuUse], at_ns: u64) -> Option<f64> {
    devices.iter().map(|gpu| gpu.busy(at_ns)).reduce(f64::max)
}

/// A point's wall-clock time on CLOCK_MONOTONIC, from the sample's reading of both.
fn monotonic_ns(unix_us: u64, sample: &Sample) -> Option<u64> {
    let ago_us = i128::from(sample.unix_ms) * 1000 - i128::from(unix_us);
    u64::try_from(i128::from(sample.monotonic_ns) - ago_us * 1000).ok()
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
        let gpu = GpuUse::new(vec![], true, 0.5, 1.0, &points, &sample(), 9 * S);
        assert_eq!(gpu.busy(9 * S + S / 4), 1.0);
        assert_eq!(gpu.busy(9 * S + S / 2), 1.0);
        assert_eq!(gpu.busy(9 * S + 3 * S / 4), 0.0);
        assert_eq!(gpu.busy(11 * S), 0.0);
    }

    #[test]
    fn one_point_or_a_wrong_clock_leave_the_mean() {
        for points in [vec![point(100, 90)], vec![point(900_000, 90), point(900_100, 80)]] {
            let gpu = GpuUse::new(vec![], true, 0.3, 1.0, &points, &sample(), 9 * S);
            assert_eq!(gpu.busy(9 * S), 0.3);
        }
    }
}
