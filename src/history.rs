//! The one store of a job's past: every tick goes in once, and the whole moments to go back to, the charts' timeline and
//! the run's totals are made from it. No clock and no I/O; what may be derived is not kept.

pub mod archive;
mod packed;
pub mod timeline;
pub mod totals;

use std::sync::Arc;

use crate::pipeline::Tick;
use archive::{Archive, Limits};
use timeline::Timeline;
use totals::Totals;

/// The past of one job.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Whole moments, packed.
    pub archive: Archive,
    /// The numbers that charts draw.
    pub timeline: Timeline,
    /// The whole run in sums.
    pub totals: Totals,
}

impl History {
    /// A past of nothing yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { archive: Archive::new(limits), timeline: Timeline::new(limits), totals: Totals::default() }
    }

    /// Takes in the newest tick.
    pub fn push(&mut self, tick: &Tick) {
        self.timeline.push(&tick.frame, tick.verdict.class, tick.verdict.steps.per_s);
        self.totals.push(&tick.frame, &tick.verdict);
        self.archive.push(Arc::clone(&tick.frame), Arc::clone(&tick.verdict), tick.since_ns);
    }
}
