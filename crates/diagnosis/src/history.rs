//! The one store of a job's past: every tick is added once, and the moments to go back to, the charts' timeline and the
//! run's totals are derived from it. No clock and no I/O; what can be derived is not kept.

pub mod archive;
pub mod digest;
pub mod environment;
pub mod interval;
pub mod logged;
mod packed;
pub mod recent_stacks;
pub mod recent_use;
pub mod run;
pub mod step_histogram;
pub mod step_series;
pub mod surroundings;
pub mod timeline;
pub mod totals;

use std::sync::Arc;

use crate::pipeline::Tick;
use archive::{Archive, Limits};
use interval::Interval;
use timeline::Timeline;
use totals::Totals;

/// The past of one job.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Complete moments, packed.
    pub archive: Archive,
    /// The numbers that charts draw.
    pub timeline: Timeline,
    /// Sums over the whole run.
    pub totals: Totals,
}

impl History {
    /// An empty past.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { archive: Archive::new(limits), timeline: Timeline::new(limits), totals: Totals::default() }
    }

    /// Adds the newest tick.
    pub fn push(&mut self, tick: &Tick) {
        let interval = Interval::new(&tick.frame, &tick.verdict, tick.shares);
        self.timeline.add(interval.point);
        self.totals.add(&interval, &tick.verdict);
        self.archive.push(Arc::clone(&tick.frame), Arc::clone(&tick.verdict), tick.since_ns);
    }
}
