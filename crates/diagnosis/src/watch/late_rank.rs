//! `late-rank`: the other ranks wait for one.

use super::lasting::{Lasting, LastingRule, Turn};
use super::{EventDetails, EventKind, EventState, WatchEvent, WatchedMoment};
use crate::diagnosis::Verdict;
use crate::diagnosis::verdict::{Phase, Rank};
use trainmon_base::text::format;

/// The verdict's ranks are means over ten seconds. Ranks that are late in turn take turns faster than this.
const RULE: LastingRule = LastingRule { begins_s: 15.0, most_s: 600.0, ends_s: 20.0 };

/// The rank that the others wait for.
#[derive(Debug, Default)]
pub(super) struct LateRank {
    /// Its PID, and whether it stays late.
    late: Option<(u32, Lasting)>,
}

impl LateRank {
    pub(super) fn push(&mut self, moment: WatchedMoment<'_>) -> Option<WatchEvent> {
        let verdict = &moment.tick.verdict;
        if verdict.ranks.is_empty() || verdict.phase != Phase::Training {
            return None;
        }
        let now = verdict.ranks.iter().find(|rank| rank.straggler).map(|rank| rank.pid);
        let Some((pid, lasting)) = &mut self.late else {
            self.late = now.map(|pid| (pid, Lasting::new(RULE)));
            return None;
        };
        let pid = *pid;
        let turn = lasting.push(now == Some(pid), moment.seconds);
        // Another one has its own turn.
        if !lasting.is_told() && now.is_some_and(|other| other != pid) {
            self.late = now.map(|pid| (pid, Lasting::new(RULE)));
        }
        turn.map(|turn| tell(verdict, pid, turn))
    }
}

/// Share of its time that a rank waits for the others, 0–1: the larger of what its waits and its stacks say.
fn waits(rank: &Rank) -> f64 {
    let blocked = rank.shares.other + rank.shares.device_sync;
    rank.collectives.map_or(blocked, |share| share.max(blocked))
}

fn tell(verdict: &Verdict, pid: u32, turn: Turn) -> WatchEvent {
    let ranks = verdict.ranks.iter().enumerate();
    let number = ranks.clone().find(|(_, rank)| rank.pid == pid).map(|(place, rank)| rank.number(place));
    let own = verdict.ranks.iter().find(|rank| rank.pid == pid).map(waits);
    let others: Vec<f64> = verdict.ranks.iter().filter(|rank| rank.pid != pid).map(waits).collect();
    let others = (!others.is_empty()).then(|| others.iter().sum::<f64>() / others.len() as f64);
    let name = number.map_or_else(|| format!("PID {pid}"), |number| format!("rank {number} (PID {pid})"));
    let (state, text) = match turn {
        Turn::Begins => {
            let waits = format!("they wait {} of the time, it waits {}", format::share(others), format::share(own));
            let text = format!("the other ranks wait for {name}: {waits}; {}", verdict.heading());
            (EventState::Begins, text)
        }
        Turn::Ends(_) => (EventState::Ends, format!("the other ranks no longer wait for {name}")),
    };
    let details = EventDetails::LateRank {
        others_wait_pct: others.map(|share| share * 100.0),
        own_wait_pct: own.map(|share| share * 100.0),
        class: verdict.class,
        cause: verdict.cause,
    };
    WatchEvent::new(EventKind::LateRank, Some(state), text, details).at_rank(number, Some(pid))
}
