//! Sums since a job is followed, from which Prometheus computes rates over any time.

use std::collections::BTreeMap;

use trainmon_diagnosis::diagnosis::verdict::Class;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_sample::ProcessId;
use trainmon_waits::time_split::TimeSplit;

/// Most ranks whose sums are kept: those that have ended go first.
const MOST_RANKS: usize = 1024;

/// The sums of one job.
#[derive(Debug, Clone, Default)]
pub struct JobCounters {
    /// Seconds by the class of their verdict, in the order of [`Class::ALL`].
    pub class_s: [f64; Class::COUNT],
    /// CPU time, seconds.
    pub cpu_s: Option<f64>,
    /// Bytes fetched from storage.
    pub read_bytes: Option<f64>,
    /// Bytes sent to storage.
    pub written_bytes: Option<f64>,
    /// By rank.
    pub ranks: BTreeMap<ProcessId, RankCounters>,
}

/// The sums of one rank.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankCounters {
    /// Seconds by what its loop did.
    pub loop_s: TimeSplit,
    /// Steps, if they are counted.
    pub steps: Option<f64>,
}

impl JobCounters {
    /// Adds an interval. A gap, which was not watched, does not count.
    pub fn add(&mut self, tick: &Tick) {
        let frame = &tick.frame;
        if frame.gap || frame.seconds <= 0.0 {
            return;
        }
        let add = |sum: &mut Option<f64>, per_s: Option<f64>| {
            if let Some(more) =
                per_s.map(|per_s| per_s * frame.seconds).filter(|more| more.is_finite() && *more >= 0.0)
            {
                *sum = Some(sum.unwrap_or(0.0) + more);
            }
        };
        if let Some(seconds) = self.class_s.get_mut(tick.judged.class.index()) {
            *seconds += frame.seconds;
        }
        add(&mut self.cpu_s, frame.job.cpu_pct.map(|pct| pct / 100.0));
        add(&mut self.read_bytes, frame.job.read_bytes_per_s);
        add(&mut self.written_bytes, frame.job.write_bytes_per_s);
        // Those of the tick are of one loop.
        let one = if frame.ranks.len() == 1 { tick.shares } else { None };
        for rank in &frame.ranks {
            let counters = self.ranks.entry(rank.id).or_default();
            counters.loop_s += one.map_or(rank.split_s, |shares| shares.map(|share| share * rank.seconds_seen));
            add(&mut counters.steps, rank.steps_per_s(frame.seconds));
        }
        if self.ranks.len() > MOST_RANKS {
            self.ranks.retain(|id, _| frame.ranks.iter().any(|rank| rank.id == *id));
        }
    }
}
