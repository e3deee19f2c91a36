//! The ranks of a run by their traces, a row each: what each computes, how long it waits for others, and how late it enters
//! collectives.

use super::section::{Column, whole};
use trainmon_base::text::format::{UNMEASURED, step_time, whole_percent};
use trainmon_profiles::ranks_account::{RankRow, RanksAccount};

/// Most ranks that are listed: those that enter last into most of the skewed collectives first.
const RANKS_LISTED: usize = 16;

/// The columns.
pub const COLUMNS: [Column; 7] = [
    Column::left("rank"),
    Column::right("step"),
    Column::right("computes"),
    Column::right("collectives"),
    Column::right("waits"),
    Column::right("late by"),
    Column::left("last in"),
];

/// The rows, that of the late rank first.
pub fn rows(across: &RanksAccount) -> Vec<Vec<String>> {
    let late = across.straggler.as_ref().map(|late| late.index);
    let mut rows: Vec<(usize, &RankRow)> = across.ranks.iter().enumerate().collect();
    if rows.len() > RANKS_LISTED {
        rows.sort_by(|a, b| {
            b.1.last_in.cmp(&a.1.last_in).then(b.1.late_ms.total_cmp(&a.1.late_ms)).then(a.0.cmp(&b.0))
        });
    }
    rows.sort_by_key(|(at, _)| Some(*at) != late);
    rows.into_iter().take(RANKS_LISTED).map(|(at, row)| cells(row, Some(at) == late)).collect()
}

/// The sentences below the rows.
pub fn notes(across: &RanksAccount) -> Vec<String> {
    let waits = (across.matched > 0).then(|| {
        let (skew, own) = (whole_percent(across.skew), whole_percent(across.own));
        format!(
            "A rank waits for a later one {skew}% of the time on average. The collectives themselves take {own}%."
        )
    });
    let exact = if across.matched > 0 { across.clock_scatter_us } else { None };
    let exact = exact.map(|us| format!("Times of different ranks agree to {us:.0} µs."));
    let late = across.straggler_words().map(|words| capitalized(&words) + ".");
    let late = late.or_else(|| Some(format!("The ranks are late in turn: {}.", across.in_turn_words()?)));
    let more = across.ranks.len().saturating_sub(RANKS_LISTED);
    let more = (more > 0).then(|| format!("and {more} more"));
    late.into_iter().chain(waits).chain(exact).chain(across.notes.iter().cloned()).chain(more).collect()
}

fn cells(row: &RankRow, late: bool) -> Vec<String> {
    let of_matched = |text: String| if row.matched == 0 { UNMEASURED.to_owned() } else { text };
    vec![
        format!("{}{}", row.rank, if late { ", late" } else { "" }),
        row.step_ms.map_or(UNMEASURED.to_owned(), step_time),
        whole(row.compute),
        whole(row.exposed),
        of_matched(whole(if row.window_ms > 0.0 { row.wait_ms / row.window_ms } else { 0.0 })),
        of_matched(step_time(row.per_step(row.last_late_ms).unwrap_or(row.last_late_ms))),
        of_matched(format!("{} of {}", row.last_in, row.matched)),
    ]
}

fn capitalized(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_profiles::ranks_account::{ActivityTime, RankActivity, Straggler};

    #[test]
    fn the_late_rank_comes_first_with_what_it_does() {
        let row = |rank: u32| RankRow {
            rank,
            step_ms: Some(125.0),
            window_ms: 1000.0,
            compute: 0.5,
            exposed: 0.25,
            wait_ms: 180.0,
            last_late_ms: 4.0,
            matched: 48,
            last_in: 1,
            ..RankRow::default()
        };
        let mut across = RanksAccount {
            ranks: (0..20).map(row).collect(),
            matched: 48,
            skew: 0.18,
            own: 0.07,
            clock_scatter_us: Some(40.0),
            straggler: Some(Straggler {
                index: 3,
                rank: 3,
                last_in: 41,
                late_mean_ms: 5.2,
                late_per_step_ms: Some(26.625),
                doing: vec![ActivityTime { activity: RankActivity::InputWait, ms: 200.0 }],
                at: Some("train.py:12".into()),
                ..Straggler::default()
            }),
            ..RanksAccount::default()
        };
        across.ranks[3] = RankRow { last_in: 41, wait_ms: 0.0, last_late_ms: 213.0, ..row(3) };
        let (rows, notes) = (rows(&across), notes(&across));
        assert_eq!((rows[0].len(), rows.len()), (COLUMNS.len(), RANKS_LISTED));
        assert_eq!(rows[0], ["3, late", "125 ms", "50%", "25%", "0%", "27 ms", "41 of 48"]);
        assert_eq!(rows[1], ["0", "125 ms", "50%", "25%", "18%", "0.50 ms", "1 of 48"]);
        let words = "Rank 3 enters 41 of 48 collectives last, 26.6 ms after the others in each step; meanwhile it waits for data \
                     (train.py:12).";
        assert_eq!(notes[0], words);
        assert_eq!(notes[2], "Times of different ranks agree to 40 µs.");
        assert_eq!(notes.last().unwrap(), "and 4 more");
        assert!(super::rows(&RanksAccount::default()).is_empty());
    }
}
