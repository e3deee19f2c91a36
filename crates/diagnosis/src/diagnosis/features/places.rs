//! Which ranks of a run should exist, according to what the launcher told the existing ones.

use std::collections::BTreeSet;

use crate::diagnosis::thresholds::thresholds;
use trainmon_sample::RankPlace;
use trainmon_waits::Frame;

thresholds! {
    FEW_GONE = 3.0, "ranks there for each that is not", "more of them may run on other machines";
}

/// Most ranks of one machine that are checked.
const MOST_RANKS: usize = 1024;

/// Ranks that should run on this machine, according to the launcher, and have ended. Empty if not all of the job's ranks would
/// be seen.
pub(super) fn gone(frame: &Frame) -> Vec<u32> {
    let target = frame.processes.first().map(|process| process.id);
    let attached = frame.ranks.iter().any(|rank| Some(rank.id) == target);
    let places: Option<Vec<RankPlace>> = frame.ranks.iter().map(|rank| rank.place).collect();
    let (Some(places), false) = (places, attached) else { return Vec::new() };
    let Some(first) = places.first() else { return Vec::new() };
    let there: BTreeSet<u32> = places.iter().map(|place| place.rank).collect();
    let one_run = places.iter().all(|place| (place.world, place.local_world) == (first.world, first.local_world));
    if !one_run || there.len() < places.len() {
        return Vec::new();
    }
    // Ranks are numbered machine by machine.
    let local = first.local_world.filter(|local| *local > 0);
    let begin = local.map_or(0, |local| first.rank / local * local);
    let end = local.map_or(first.world, |local| begin.saturating_add(local).min(first.world));
    let gone: Vec<u32> = (begin..end).take(MOST_RANKS).filter(|rank| !there.contains(rank)).collect();
    let few = gone.len() as f64 * FEW_GONE.value <= there.len() as f64;
    if local.is_some() && there.iter().all(|rank| (begin..end).contains(rank)) || few { gone } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_rates::frame::ProcessRates;
    use trainmon_sample::ProcessId;
    use trainmon_waits::frame::RankRates;

    fn frame(target: u32, ranks: &[u32], world: u32, local_world: Option<u32>) -> Frame {
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        let rank = |rank: &u32| RankRates {
            id: id(100 + rank),
            place: Some(RankPlace { rank: *rank, world, local_world }),
            ..RankRates::default()
        };
        Frame {
            processes: vec![ProcessRates { id: id(target), ..ProcessRates::default() }],
            ranks: ranks.iter().map(rank).collect(),
            ..Frame::default()
        }
    }

    #[test]
    fn those_that_should_run_here_and_do_not() {
        let all = [0, 1, 2, 3, 4, 6, 7];
        assert_eq!(gone(&frame(1, &all, 8, Some(8))), [5]);
        assert_eq!(gone(&frame(1, &all, 8, None)), [5]);
        assert_eq!(gone(&frame(1, &[0], 2, Some(2))), [1]);
        // The second of two machines.
        assert_eq!(gone(&frame(1, &[4, 5, 7], 8, Some(4))), [6]);
    }

    #[test]
    fn not_where_others_may_run_elsewhere_or_not_all_can_be_seen() {
        assert!(gone(&frame(1, &[0, 1, 2, 3], 8, None)).is_empty());
        assert!(gone(&frame(1, &[0, 1], 2, Some(2))).is_empty());
        // Attached to one rank of several.
        assert!(gone(&frame(103, &[3], 4, Some(4))).is_empty());
        // Two runs side by side, and none that says.
        assert!(gone(&frame(1, &[0, 0, 1], 4, Some(4))).is_empty());
        assert!(gone(&Frame { ranks: vec![RankRates::default(); 2], ..Frame::default() }).is_empty());
        assert!(gone(&frame(1, &[0, 5], u32::MAX, Some(u32::MAX))).len() <= MOST_RANKS);
    }
}
