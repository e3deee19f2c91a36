//! `hung`: the job stands still.

use super::lasting::{Lasting, LastingRule, Turn};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::verdict::Phase;
use trainmon_base::text::format::duration;

/// The verdict says so only after fifteen seconds without a step, or after five of the longest steps.
const HANGS: LastingRule = LastingRule { begins_s: 12.0, most_s: 120.0, ends_s: 10.0 };
/// A job may wait for a minute: for a download, for a person, for the other half of a pipeline.
const IDLE: LastingRule = LastingRule { begins_s: 120.0, most_s: 1800.0, ends_s: 10.0 };

/// Whether the job stands still.
#[derive(Debug)]
pub(super) struct Standstill {
    hangs: Lasting,
    idle: Lasting,
    /// An idle job that has never trained is no training job, or has not begun.
    has_trained: bool,
}

impl Default for Standstill {
    fn default() -> Self {
        Self { hangs: Lasting::new(HANGS), idle: Lasting::new(IDLE), has_trained: false }
    }
}

impl Standstill {
    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Option<WatchEvent> {
        let verdict = &moment.tick.verdict;
        let phase = verdict.phase;
        self.has_trained |= phase == Phase::Training;
        let was_told = self.hangs.is_told() || self.idle.is_told();
        let turns = match phase {
            Phase::Hung | Phase::Stopped => [self.hangs.push(true, moment.seconds), None],
            Phase::Idle if self.has_trained => [None, self.idle.push(true, moment.seconds)],
            Phase::Training | Phase::Checkpoint | Phase::Compile | Phase::Validation => {
                [self.hangs.push(false, moment.seconds), self.idle.push(false, moment.seconds)]
            }
            // What the job does is not known.
            _ => return None,
        };
        let is_told = self.hangs.is_told() || self.idle.is_told();
        if was_told == is_told {
            return None;
        }
        let ended_s = turns.into_iter().flatten().find_map(|turn| match turn {
            Turn::Ends(lasted_s) => Some(lasted_s),
            Turn::Begins => None,
        });
        let lasted_s = ended_s.unwrap_or_else(|| self.hangs.lasted_s().max(self.idle.lasted_s()));
        let (state, text) = match ended_s {
            Some(lasted_s) => (EventState::Ends, format!("the job goes on, after {}", duration(lasted_s))),
            None => (EventState::Begins, verdict.summary.clone()),
        };
        let details = EventDetails::Hung { phase, lasted_s };
        Some(WatchEvent::new(EventKind::Hung, Some(state), text, details))
    }
}
