//! The ranks of a distributed run, a line each: which is late, where its time goes, and its hottest line of code.

use crate::diagnosis::verdict::Rank;
use crate::text::format::largest_first;

/// Most ranks that are listed.
pub(super) const LISTED: usize = 16;
/// Smaller shares are left out.
const SHARE_LISTED: f64 = 0.03;

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RankLine {
    /// `rank 5 (PID 12345), late`.
    pub name: String,
    /// `own work 70%, waiting for the GPU 14%; hottest: burn (common.py:233)`. Names in it come from outside.
    pub text: String,
}

/// The late rank first, then by their numbers; at most [`LISTED`].
pub(super) fn lines(ranks: &[Rank]) -> Vec<RankLine> {
    let mut numbered: Vec<(u32, &Rank)> =
        ranks.iter().enumerate().map(|(at, rank)| (rank.number(at), rank)).collect();
    numbered.sort_by_key(|(number, rank)| (!rank.straggler, *number));
    numbered.truncate(LISTED);
    numbered.into_iter().map(|(number, rank)| line(number, rank)).collect()
}

fn line(number: u32, rank: &Rank) -> RankLine {
    let late = if rank.straggler { ", late" } else { "" };
    let shares = largest_first(rank.shares.iter().map(|(activity, share)| (activity.word(), share)), SHARE_LISTED);
    let place = rank.at.as_ref().map(|at| format!("; hottest: {at}")).unwrap_or_default();
    RankLine { name: format!("rank {number} (PID {}){late}", rank.pid), text: shares + &place }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::verdict::Hottest;
    use crate::rates::time_split::TimeSplit;

    #[test]
    fn the_late_one_comes_first_and_the_list_ends() {
        let at = Hottest { function: "burn".into(), file: "a.py".into(), line: 3, share: 0.7 };
        let ranks: Vec<Rank> = (0..40)
            .map(|rank| Rank {
                pid: 100 + rank,
                rank: Some(39 - rank),
                shares: TimeSplit { host_busy: 0.7, device_sync: 0.28, other: 0.02, ..TimeSplit::default() },
                straggler: rank == 4,
                at: (rank == 4).then(|| at.clone()),
                ..Rank::default()
            })
            .collect();
        let lines = lines(&ranks);
        assert_eq!(lines.len(), LISTED);
        assert_eq!(lines[0].name, "rank 35 (PID 104), late");
        assert!(
            lines[0].text.ends_with("; hottest: burn (a.py:3)") && lines[0].text.contains("70%"),
            "{:?}",
            lines[0]
        );
        assert_eq!(lines[1].name, "rank 0 (PID 139)");
        assert!(!lines[1].text.contains(" 2%"));
    }
}
