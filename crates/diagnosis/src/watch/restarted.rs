//! `restarted`: the processes that trained have ended, and others train in their place, as a launcher that restarts its ranks has it.

use trainmon_sample::ProcessId;

use super::{EventDetails, EventKind, WatchEvent, WatchedMoment};
use crate::diagnosis::verdict::Phase;
use trainmon_base::text::format::counted;

/// Most ranks that are compared.
const MOST_RANKS: usize = 1024;

/// Which processes train.
#[derive(Debug, Default)]
pub(super) struct Restarted {
    /// Those that trained last, in order.
    trained: Vec<ProcessId>,
}

impl Restarted {
    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Option<WatchEvent> {
        if moment.tick.verdict.phase != Phase::Training {
            return None;
        }
        let job = moment.tick.sample.job.as_ref()?;
        let ranks = &moment.tick.frame.ranks;
        let mut now: Vec<ProcessId> = ranks.iter().map(|rank| rank.id).take(MOST_RANKS).collect();
        now.sort_unstable();
        if now.is_empty() || now == self.trained {
            return None;
        }
        let before = std::mem::replace(&mut self.trained, now);
        let lives = |id: &ProcessId| job.processes.iter().any(|process| process.id == *id);
        let youngest = before.iter().map(|id| id.start_ticks).max()?;
        let all_new = self.trained.iter().all(|id| id.start_ticks > youngest);
        if !all_new || before.iter().any(lives) {
            return None;
        }
        let training_pid = self.trained.first().map(|id| id.pid);
        let processes = counted(self.trained.len(), "training process was", "training processes were");
        let details = EventDetails::Restarted { processes: self.trained.len() as u64 };
        let event = WatchEvent::new(EventKind::Restarted, None, format!("{processes} started anew"), details);
        Some(event.at_rank(None, training_pid))
    }
}
