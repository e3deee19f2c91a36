//! Signals that are cheap to compare and show a change before it is understood.

use super::windows::SHORT_S;
use trainmon_base::stats::mean;
use trainmon_waits::Frame;
use trainmon_waits::frame::WorkerRates;
use trainmon_waits::time_split::LoopActivity;

/// Cheap signals that differ by this much, as a share, have moved.
const MOVED: f64 = 0.2;

/// The cheap signals of some frames: the loop's measured shares, the workers' shares, and the GPU's use.
#[derive(Debug)]
pub(super) struct Mix([f64; LoopActivity::COUNT + 4]);

impl Mix {
    pub fn from_frames(frames: &[&Frame]) -> Option<Self> {
        let mut sums = [0.0; LoopActivity::COUNT + 4];
        let mut seen = 0.0;
        for frame in frames.iter().filter(|frame| frame.seconds > 0.0) {
            let main = LoopActivity::ALL.map(|activity| {
                let of = frame.ranks.iter().map(|one| one.measured()[activity] / one.seconds_seen.max(1e-9));
                mean(of)
            });
            let worker = |part: fn(&WorkerRates) -> Option<f64>| mean(frame.workers.iter().filter_map(part));
            let device = frame.gpus.iter().filter(|gpu| gpu.attached).filter_map(|gpu| gpu.job_utilization_pct);
            let rest = [
                worker(|worker| worker.busy),
                worker(|worker| worker.io_wait),
                worker(|worker| worker.runnable),
                mean(device).map(|pct| pct / 100.0),
            ];
            for (sum, value) in sums.iter_mut().zip(main.into_iter().chain(rest)) {
                *sum += value.unwrap_or(0.0) * frame.seconds;
            }
            seen += frame.seconds;
        }
        (seen >= SHORT_S * 0.5).then(|| Self(sums.map(|sum| sum / seen)))
    }

    /// Whether some share clearly differs from that of these earlier frames.
    pub fn has_moved_since(&self, frames: &[&Frame]) -> bool {
        let differs = |then: Self| self.0.iter().zip(then.0).any(|(now, then)| (now - then).abs() > MOVED);
        Self::from_frames(frames).is_some_and(differs)
    }
}
