//! The sums of each rank, each kind of collective, and the straggler.

use std::collections::{BTreeMap, HashMap};

use super::matching::Matching;
use super::trace::{Collective, RankTrace};
use crate::gpu_time::median;
use crate::intervals::TimeRange;
use crate::ranks_account::{
    ActivityTime, CollectiveKind, MatchedCollectiveRow, RankActivity, RankRow, RanksAccount, Straggler,
};

/// Most rows of collectives.
const COLLECTIVE_ROWS: usize = 100;
/// A rank enters later than the others if it does so by more than this, whatever the clocks, nanoseconds.
const LATE_NS: i64 = 10_000;
/// Of ten ends, so many are no farther from their middle than `clock_scatter_us`.
const NINE_OF_TEN: (usize, usize) = (9, 10);
/// Share of the skewed time that a rank must be last into to be the straggler, and how many times the share of chance.
const STRAGGLER_SHARE: f64 = 0.5;
const BEYOND_CHANCE: f64 = 1.5;
/// Share of its late time that the straggler's loop must be at a place to say so.
const MOST_OF_LATE: f64 = 0.5;

/// A rank's part in a matched collective.
#[derive(Debug, Clone, Copy)]
struct RankEntry<'a> {
    /// Its place among the ranks.
    rank: usize,
    /// The part, in the rank's own time.
    part: &'a Collective,
    /// When the rank entered, on the clock of all.
    at: i64,
    end: i64,
}

impl RankEntry<'_> {
    fn length(&self) -> i64 {
        self.part.end - self.part.start
    }
}

/// What the collectives of a row have in common: name and size of the group, kind, bytes.
type OneKind = (Option<(String, u64)>, CollectiveKind, Option<u64>);

/// What is summed up for a row of collectives.
#[derive(Debug, Default)]
struct OfKind {
    own: Vec<i64>,
    skew: i64,
    ranks: usize,
}

/// How late a rank is into the collectives that it enters last.
#[derive(Debug, Default, Clone)]
struct Lateness {
    last_in: u64,
    late: i64,
    /// From the median entry of the others to its own, in its own time.
    moments: Vec<TimeRange>,
}

/// The account in the making, and what it is made of.
pub struct RankSums<'a> {
    pub account: &'a mut RanksAccount,
    pub ranks: &'a [&'a RankTrace],
    pub matching: &'a Matching,
}

impl<'a> RankSums<'a> {
    /// Fills in all that the matched collectives say.
    pub fn fill(&mut self) {
        let scatter = self.scatter();
        self.account.clock_scatter_us = scatter.map(|ns| ns as f64 / 1e3);
        // Both entries are uncertain by the scatter.
        let least = scatter.unwrap_or_default().saturating_mul(2).max(LATE_NS);
        let mut lateness = vec![Lateness::default(); self.ranks.len()];
        let mut kinds: BTreeMap<OneKind, OfKind> = BTreeMap::new();
        let mut own_of_rank = vec![0_i64; self.ranks.len()];
        for parts in &self.matching.collectives {
            let entries = self.entries(parts);
            let (Some(first), Some(last)) = (entries.first(), entries.last()) else { continue };
            // The last one waits for no other.
            let own = last.length();
            let skew = last.at - first.at;
            for entry in &entries {
                self.add_entry(entry, first.at, last.at, own);
                if let Some(sum) = own_of_rank.get_mut(entry.rank) {
                    *sum = sum.saturating_add(own.min(entry.length()));
                }
            }
            let group = self.ranks.get(first.rank).and_then(|rank| rank.groups.get(usize::from(first.part.group?)));
            let group = group.map(|group| (group.name.clone(), group.size));
            let of_kind = kinds.entry((group, last.part.kind, last.part.bytes)).or_default();
            of_kind.own.push(own);
            of_kind.skew = of_kind.skew.saturating_add(skew);
            of_kind.ranks = of_kind.ranks.max(entries.len());
            let others: Vec<i64> = entries.iter().rev().skip(1).map(|entry| entry.at).collect();
            let middle = others.get(others.len() / 2).copied().unwrap_or(last.at);
            let late = last.at - middle;
            if late > least
                && let Some(of_last) = lateness.get_mut(last.rank)
            {
                of_last.last_in += 1;
                of_last.late = of_last.late.saturating_add(late);
                of_last.moments.push((last.part.start - late, last.part.start));
            }
        }
        self.account.matched = self.matching.collectives.len() as u64;
        self.account.unmatched = self.matching.unmatched;
        self.account.skewed = lateness.iter().map(|of_rank| of_rank.last_in).sum();
        for (row, of_rank) in self.account.ranks.iter_mut().zip(&lateness) {
            row.last_in = of_rank.last_in;
            row.last_late_ms = of_rank.late as f64 / 1e6;
            row.late_mean_ms = row.late_ms / row.matched.max(1) as f64;
        }
        for (row, ahead) in self.account.ranks.iter_mut().zip(self.matching.ahead.iter().flatten()) {
            row.clock_offset_us = Some(*ahead as f64 / 1e3);
        }
        self.set_shares(&own_of_rank);
        self.account.straggler = self.straggler(&lateness);
        self.account.collectives = self.rows(kinds);
    }

    /// The parts of a collective by their begins.
    fn entries(&self, parts: &[(usize, usize)]) -> Vec<RankEntry<'a>> {
        let entry = |(rank, place): &(usize, usize)| {
            let part = self.ranks.get(*rank)?.collectives.get(*place)?;
            let by = self.matching.to_common.get(*rank)?;
            let Collective { start: at, end, .. } = part.moved(*by);
            Some(RankEntry { rank: *rank, part, at, end })
        };
        let mut entries: Vec<RankEntry<'a>> = parts.iter().filter_map(entry).collect();
        entries.sort_by_key(|entry| (entry.at, entry.rank));
        entries
    }

    /// How far nine of ten ends are from the middle end of their collective, nanoseconds.
    fn scatter(&self) -> Option<i64> {
        let mut apart = Vec::new();
        for parts in &self.matching.collectives {
            let entries = self.entries(parts);
            if !entries.iter().all(|entry| entry.part.kind.holds_all()) {
                continue;
            }
            let mut ends: Vec<i64> = entries.iter().map(|entry| entry.end).collect();
            ends.sort_unstable();
            let middle = (median(&ends)? + ends.get((ends.len() - 1) / 2)?) / 2;
            apart.extend(ends.into_iter().map(|end| (end - middle).abs()));
        }
        apart.sort_unstable();
        apart.get(apart.len().saturating_sub(1) * NINE_OF_TEN.0 / NINE_OF_TEN.1).copied()
    }

    fn add_entry(&mut self, entry: &RankEntry<'_>, first: i64, last: i64, own: i64) {
        let Some(row) = self.account.ranks.get_mut(entry.rank) else { return };
        // Its part lasts longer than that of the last rank by what it waits; and it waits for no longer than until that enters.
        let wait = (entry.length() - own).clamp(0, (last - entry.at).max(0));
        let mut did = [0.0; RankActivity::COUNT];
        if wait > 0
            && let Some(rank) = self.ranks.get(entry.rank)
        {
            rank.activities.add_within((entry.part.start, entry.part.start + wait), &mut did, |_, _| ());
        }
        let alone = did.get(RankActivity::Collective.index()).copied().unwrap_or_default();
        row.matched += 1;
        row.late_ms += (entry.at - first) as f64 / 1e6;
        row.early_ms += (last - entry.at) as f64 / 1e6;
        row.wait_ms += wait as f64 / 1e6;
        row.exposed_wait_ms += alone / 1e6;
    }

    fn set_shares(&mut self, own: &[i64]) {
        let ranks = self.account.ranks.len().max(1) as f64;
        let mean = |of_rank: &dyn Fn(usize, &RankRow) -> f64| {
            let shares = self.account.ranks.iter().enumerate().filter(|(_, row)| row.window_ms > 0.0);
            shares.map(|(at, row)| (of_rank(at, row) / row.window_ms).min(1.0)).sum::<f64>() / ranks
        };
        let skew = mean(&|_, row| row.wait_ms);
        let exposed = mean(&|_, row| row.exposed_wait_ms);
        let own = mean(&|at, _| own.get(at).map_or(0.0, |own| *own as f64 / 1e6));
        (self.account.skew, self.account.exposed_skew, self.account.own) = (skew, exposed, own);
    }

    fn straggler(&self, lateness: &[Lateness]) -> Option<Straggler> {
        let all = lateness.iter().fold(0_i64, |sum, of_rank| sum.saturating_add(of_rank.late));
        let (index, of_rank) =
            lateness.iter().enumerate().max_by_key(|(index, one)| (one.late, std::cmp::Reverse(*index)))?;
        let share = of_rank.late as f64 / all.max(1) as f64;
        let chance = BEYOND_CHANCE / lateness.len() as f64;
        if of_rank.last_in == 0 || share < STRAGGLER_SHARE.max(chance) {
            return None;
        }
        let trace = self.ranks.get(index)?;
        let mut did = [0.0; RankActivity::COUNT];
        let mut places: HashMap<&str, f64> = HashMap::new();
        for moments in &of_rank.moments {
            trace.activities.add_within(*moments, &mut did, |place, ns| *places.entry(place).or_default() += ns);
        }
        let times = RankActivity::ALL.into_iter().zip(did).filter(|(_, ns)| *ns > 0.0);
        let mut doing: Vec<ActivityTime> =
            times.map(|(activity, ns)| ActivityTime { activity, ms: ns / 1e6 }).collect();
        doing.sort_by(|a, b| b.ms.total_cmp(&a.ms));
        // The host runs ahead of a GPU that computes: where it is says nothing then.
        let of_gpu = !trace.account.devices.is_empty()
            && doing.first().is_some_and(|doing| {
                matches!(doing.activity, RankActivity::Compute | RankActivity::Copy | RankActivity::Collective)
            });
        let most = places.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then_with(|| b.0.cmp(a.0)));
        let late_ms = of_rank.late as f64 / 1e6;
        let row = self.account.ranks.get(index)?;
        Some(Straggler {
            index,
            rank: row.rank,
            last_in: of_rank.last_in,
            late_ms,
            late_mean_ms: late_ms / of_rank.last_in as f64,
            late_per_step_ms: row.per_step(late_ms),
            share,
            doing,
            at: most
                .filter(|(_, ns)| !of_gpu && *ns >= MOST_OF_LATE * of_rank.late as f64)
                .map(|(place, _)| place.to_owned()),
        })
    }

    fn rows(&self, kinds: BTreeMap<OneKind, OfKind>) -> Vec<MatchedCollectiveRow> {
        let row = |((group, kind, bytes), mut of_kind): (OneKind, OfKind)| {
            of_kind.own.sort_unstable();
            let own = of_kind.own.iter().fold(0_i64, |sum, own| sum.saturating_add(*own));
            let count = of_kind.own.len() as u64;
            let size = group.as_ref().and_then(|(_, size)| u32::try_from(*size).ok());
            let group_size = size.or(self.account.world_size);
            let moved = bytes.map(|bytes| bytes as f64 * count as f64);
            // Bytes per nanosecond are GB/s.
            let algorithm = if own > 0 { moved.map(|bytes| bytes / own as f64) } else { None };
            let factor = kind.bus_factor(group_size.unwrap_or_default());
            MatchedCollectiveRow {
                kind: Some(kind),
                group: group.map(|(name, _)| name),
                group_size,
                ranks: u32::try_from(of_kind.ranks).unwrap_or(u32::MAX),
                count,
                bytes,
                own_ms: own as f64 / 1e6,
                own_median_us: median(&of_kind.own).unwrap_or_default() as f64 / 1e3,
                skew_ms: of_kind.skew as f64 / 1e6,
                algorithm_gb_per_s: algorithm,
                bus_gb_per_s: algorithm.zip(factor).map(|(algorithm, factor)| algorithm * factor),
            }
        };
        let mut rows: Vec<MatchedCollectiveRow> = kinds.into_iter().map(row).collect();
        rows.sort_by(|a, b| (b.own_ms + b.skew_ms).total_cmp(&(a.own_ms + a.skew_ms)));
        rows.truncate(COLLECTIVE_ROWS);
        rows
    }
}
