//! The ranks of a distributed run, a row each: which is late, where its time goes, its steps, and its hottest line of code.

use trainmon_base::text::format::{UNMEASURED, precise, whole_percent};
use trainmon_diagnosis::diagnosis::verdict::Rank;

/// Most ranks that are listed.
pub(crate) const LISTED: usize = 16;

/// The late rank first, then by their numbers; at most [`LISTED`]. A row has the rank, its PID, its shares of time, its steps a
/// second and its hottest line, whose names come from outside.
pub fn rows(ranks: &[Rank]) -> Vec<Vec<String>> {
    let mut numbered: Vec<(u32, &Rank)> =
        ranks.iter().enumerate().map(|(at, rank)| (rank.number(at), rank)).collect();
    numbered.sort_by_key(|(number, rank)| (!rank.straggler, *number));
    numbered.truncate(LISTED);
    numbered.into_iter().map(|(number, rank)| row(number, rank)).collect()
}

fn row(number: u32, rank: &Rank) -> Vec<String> {
    let late = if rank.straggler { ", late" } else { "" };
    let steps = rank.steps_per_s.filter(|rate| rate.is_finite());
    let mut row = vec![format!("{number}{late}"), rank.pid.to_string()];
    row.extend(rank.shares.iter().map(|(_, share)| format!("{}%", whole_percent(share))));
    row.push(steps.map_or(UNMEASURED.to_owned(), precise));
    row.push(rank.at.as_ref().map_or(String::new(), ToString::to_string));
    row
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::verdict::Hottest;
    use trainmon_waits::time_split::TimeSplit;

    #[test]
    fn the_late_one_comes_first_and_the_list_ends() {
        let at = Hottest { function: "burn".into(), file: "a.py".into(), line: 3, share: 0.7 };
        let ranks: Vec<Rank> = (0..40)
            .map(|rank| Rank {
                pid: 100 + rank,
                rank: Some(39 - rank),
                shares: TimeSplit { host_busy: 0.7, device_sync: 0.28, other: 0.02, ..TimeSplit::default() },
                steps_per_s: (rank == 4).then_some(9.87),
                straggler: rank == 4,
                at: (rank == 4).then(|| at.clone()),
                ..Rank::default()
            })
            .collect();
        let rows = rows(&ranks);
        assert_eq!(rows.len(), LISTED);
        assert_eq!(rows[0], ["35, late", "104", "0%", "28%", "70%", "0%", "2%", "9.87", "burn (a.py:3)"]);
        assert_eq!(rows[1], ["0", "139", "0%", "28%", "70%", "0%", "2%", "–", ""]);
    }
}
