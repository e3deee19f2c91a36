//! Which parts of different ranks are one collective, and how far the ranks' clocks differ.
//!
//! Where the profiler recorded numbers of collectives, these decide. Else it is their order within a group, kind and stream, if that
//! fits: as many on both sides, of the same sizes, and each time with a moment in which both ranks are in it, once the clocks are
//! set by the median difference of the ends. What does not fit (a trace that begins later, or that lacks events) is matched by the
//! ends: two parts are one collective if each one's end is the nearest to the other's.

use std::collections::{BTreeMap, HashMap};

use super::trace::{Collective, Group, RankTrace};
use crate::gpu_time::median;
use crate::ranks_account::CollectiveKind;

/// Ends on one clock that lie so close count half as much as equal ones, nanoseconds.
const CLOSE_NS: f64 = 100_000.0;
/// Ends on one clock that lie farther apart are not of one collective, nanoseconds.
const FAR_NS: i64 = 5_000_000;
/// Two ranks are in a collective at the same moment, give or take this, nanoseconds.
const SLACK_NS: i64 = 50_000;
/// Share of the collectives for which that must hold, if their order is right.
const MOST_FIT: f64 = 0.9;
/// By so many collectives a trace may begin earlier or later than another.
const SHIFT_MAX: i64 = 16;
/// Clocks that differ more than this do not have the time of day, nanoseconds: a day.
const SAME_DAY_NS: i128 = 86_400_000_000_000;
/// The time of day is later than this, nanoseconds since 1970: 2001.
const EARLIEST_NS: i128 = 1_000_000_000_000_000_000;

/// Collectives of several ranks.
#[derive(Debug, Default)]
pub struct Matching {
    /// The parts of each: places of ranks and of [`RankTrace::collectives`]. At least two.
    pub collectives: Vec<Vec<(usize, usize)>>,
    /// What is to be added to a rank's times to have them on the clock of all.
    pub to_common: Vec<i64>,
    /// How far each clock is ahead of the first rank's, if they have the time of day.
    pub ahead: Option<Vec<i64>>,
    /// Ranks whose clock could not be set by any collective.
    pub unset: usize,
    /// Parts that have no counterpart.
    pub unmatched: u64,
    /// Of these, sends and receives.
    pub sends: u64,
    /// Parts in groups of which there is one trace only.
    pub alone: u64,
}

/// What parts of one collective have in common.
type SequenceKey<'a> = (Option<&'a Group>, CollectiveKind, Option<i32>);

/// Matches the collectives of ranks.
pub fn matched(ranks: &[&RankTrace]) -> Matching {
    let origins = common_origins(ranks);
    let at_origin = |rank: usize| origins.get(rank).copied().unwrap_or_default();
    let mut matching = Matching::default();
    let mut edges: BTreeMap<(usize, usize), Differences> = BTreeMap::new();
    for ((_, kind, _), mut of_ranks) in sequences(ranks, &origins) {
        let all: usize = of_ranks.values().map(Vec::len).sum();
        if of_ranks.len() < 2 {
            matching.alone += all as u64;
            continue;
        }
        if kind == CollectiveKind::PointToPoint {
            matching.unmatched += all as u64;
            matching.sends += all as u64;
            continue;
        }
        let most = of_ranks.iter().max_by_key(|(rank, parts)| (parts.len(), std::cmp::Reverse(**rank)));
        let Some(first) = most.map(|(rank, _)| *rank) else { continue };
        let Some(reference) = of_ranks.remove(&first) else { continue };
        let mut found: Vec<Vec<(usize, usize)>> = reference.iter().map(|(place, _)| vec![(first, *place)]).collect();
        for (rank, parts) in &of_ranks {
            let between = edges.entry((first, *rank)).or_default();
            for (mine, other) in pairs(kind, &reference, parts) {
                let (Some((_, mine_part)), Some((place, other_part)), Some(found)) =
                    (reference.get(mine), parts.get(other), found.get_mut(mine))
                else {
                    continue;
                };
                found.push((*rank, *place));
                let to = if kind.holds_all() { &mut between.held } else { &mut between.others };
                to.push(other_part.end - mine_part.end);
            }
        }
        found.retain(|parts| parts.len() > 1);
        matching.unmatched += (all - found.iter().map(Vec::len).sum::<usize>()) as u64;
        matching.collectives.append(&mut found);
    }
    let mut ahead = clocks(ranks.len(), edges);
    if have_time_of_day(ranks) {
        share_clocks(ranks, &mut ahead);
    }
    matching.unset = ahead.iter().filter(|ahead| ahead.is_none()).count();
    matching.to_common = ahead
        .iter()
        .enumerate()
        .map(|(rank, ahead)| at_origin(rank).saturating_sub(ahead.unwrap_or_default()))
        .collect();
    if have_time_of_day(ranks) {
        matching.ahead = Some(ahead.into_iter().map(Option::unwrap_or_default).collect());
    }
    matching
}

/// The parts of each rank that are matched with one another, in their order and on one clock, each with its place.
fn sequences<'a>(
    ranks: &[&'a RankTrace],
    origins: &[i64],
) -> BTreeMap<SequenceKey<'a>, BTreeMap<usize, PlacedParts>> {
    let mut sequences: BTreeMap<SequenceKey<'a>, BTreeMap<usize, PlacedParts>> = BTreeMap::new();
    let streams_agree = streams_agree(ranks);
    for ((rank, trace), origin) in ranks.iter().enumerate().zip(origins) {
        for (place, collective) in trace.collectives.iter().enumerate() {
            let group = collective.group.and_then(|group| trace.groups.get(usize::from(group)));
            let stream = (group.is_none() && streams_agree).then_some(collective.stream);
            let parts = sequences.entry((group, collective.kind, stream)).or_default().entry(rank).or_default();
            parts.push((place, collective.moved(*origin)));
        }
    }
    sequences
}

/// A rank's parts in collectives, on one clock, with their places.
type PlacedParts = Vec<(usize, Collective)>;

/// Differences of ends between two ranks.
#[derive(Debug, Default)]
struct Differences {
    /// Of collectives that no rank leaves before all have entered.
    held: Vec<i64>,
    others: Vec<i64>,
}

fn have_time_of_day(ranks: &[&RankTrace]) -> bool {
    let origins = || ranks.iter().map(|rank| rank.origin_unix_ns.unwrap_or_default());
    let (earliest, latest) = (origins().min().unwrap_or_default(), origins().max().unwrap_or_default());
    earliest > EARLIEST_NS && latest - earliest < SAME_DAY_NS
}

/// What is to be added to the times of each rank: by the time of day, or so that all begin with their first collective's end.
fn common_origins(ranks: &[&RankTrace]) -> Vec<i64> {
    let with_time = have_time_of_day(ranks);
    let first = ranks.first().and_then(|rank| rank.origin_unix_ns).unwrap_or_default();
    let origin = |rank: &&RankTrace| {
        let by_time = rank.origin_unix_ns.and_then(|origin| i64::try_from(origin - first).ok());
        let by_end = rank.collectives.first().map(|collective| collective.end.saturating_neg());
        if with_time { by_time } else { by_end }.unwrap_or_default()
    };
    ranks.iter().map(origin).collect()
}

/// Whether streams have the same numbers in all ranks, where groups are not recorded.
fn streams_agree(ranks: &[&RankTrace]) -> bool {
    let streams = |rank: &&RankTrace| {
        let mut streams: Vec<i32> =
            rank.collectives.iter().filter(|one| one.group.is_none()).map(|one| one.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        streams
    };
    let mut all = ranks.iter().map(streams).filter(|streams| !streams.is_empty());
    let first = all.next();
    all.all(|streams| Some(&streams) == first.as_ref())
}

/// Which parts of two ranks are one collective.
fn pairs(kind: CollectiveKind, mine: &[(usize, Collective)], others: &[(usize, Collective)]) -> Vec<(usize, usize)> {
    if let Some(pairs) = by_number(mine, others) {
        return pairs;
    }
    let in_order: Vec<(usize, usize)> = (0..mine.len()).map(|at| (at, at)).collect();
    if mine.len() == others.len() && fits(kind, mine, others, &in_order) {
        in_order
    } else {
        by_ends(kind, mine, others)
    }
}

/// By the numbers of the profiler, if all have one. Of equal numbers, by their order.
fn by_number(mine: &[(usize, Collective)], others: &[(usize, Collective)]) -> Option<Vec<(usize, usize)>> {
    let numbered = |parts: &[(usize, Collective)]| -> Option<Vec<(u32, u32)>> {
        let mut counts: HashMap<u32, u32> = HashMap::new();
        let number = |(_, part): &(usize, Collective)| {
            let number = part.sequence?;
            let count = counts.entry(number).or_default();
            *count += 1;
            Some((number, *count))
        };
        parts.iter().map(number).collect()
    };
    let (mine, others) = (numbered(mine)?, numbered(others)?);
    let places: HashMap<(u32, u32), usize> =
        others.into_iter().enumerate().map(|(place, number)| (number, place)).collect();
    Some(mine.iter().enumerate().filter_map(|(place, number)| Some((place, *places.get(number)?))).collect())
}

fn middle(mut numbers: Vec<i64>) -> Option<i64> {
    numbers.sort_unstable();
    median(&numbers)
}

/// The parts of pairs.
fn each<'a>(
    mine: &'a [(usize, Collective)],
    others: &'a [(usize, Collective)],
    pairs: &'a [(usize, usize)],
) -> impl Iterator<Item = (&'a Collective, &'a Collective)> + Clone {
    pairs.iter().filter_map(|(at, other)| Some((&mine.get(*at)?.1, &others.get(*other)?.1)))
}

/// Whether an order is right.
fn fits(
    kind: CollectiveKind,
    mine: &[(usize, Collective)],
    others: &[(usize, Collective)],
    pairs: &[(usize, usize)],
) -> bool {
    let parts = each(mine, others, pairs);
    let Some(ahead) = middle(parts.clone().map(|(mine, other)| other.end - mine.end).collect()) else { return true };
    let fit = parts.clone().filter(|(mine, other)| are_one(kind, mine, other, ahead)).count();
    let sizes = parts.filter(|(mine, other)| !sizes_agree(kind, mine, other)).count();
    sizes == 0 && fit as f64 >= MOST_FIT * pairs.len() as f64
}

fn sizes_agree(kind: CollectiveKind, mine: &Collective, other: &Collective) -> bool {
    !kind.is_even() || mine.bytes.is_none() || other.bytes.is_none() || mine.bytes == other.bytes
}

/// Whether two parts may be one collective, if the other clock is so much ahead.
fn are_one(kind: CollectiveKind, mine: &Collective, other: &Collective, ahead: i64) -> bool {
    let (start, end) = (other.start - ahead, other.end - ahead);
    let together = mine.start <= end.saturating_add(SLACK_NS) && start <= mine.end.saturating_add(SLACK_NS);
    sizes_agree(kind, mine, other) && (together || !kind.holds_all())
}

/// By the ends, with the difference of the clocks for which these agree best.
fn by_ends(
    kind: CollectiveKind,
    mine: &[(usize, Collective)],
    others: &[(usize, Collective)],
) -> Vec<(usize, usize)> {
    let mut candidates = vec![0];
    let mut add = |mut differences: Vec<i64>| {
        differences.sort_unstable();
        // Where an event is missing in the middle, only a part of them is right.
        candidates.extend([1, 2, 3].iter().filter_map(|quarter| differences.get(differences.len() * quarter / 4)));
    };
    for shift in -SHIFT_MAX..=SHIFT_MAX {
        let (skip_mine, skip_others) = (usize::try_from(shift), usize::try_from(-shift));
        let (skip_mine, skip_others) = (skip_mine.unwrap_or_default(), skip_others.unwrap_or_default());
        let together = mine.iter().skip(skip_mine).zip(others.iter().skip(skip_others));
        add(together.map(|((_, mine), (_, other))| other.end - mine.end).collect());
    }
    let from_the_end = mine.iter().rev().zip(others.iter().rev());
    add(from_the_end.map(|((_, mine), (_, other))| other.end - mine.end).collect());
    candidates.sort_unstable_by_key(|ahead| (ahead.saturating_abs(), *ahead));
    candidates.dedup();
    let mut best: (f64, Vec<(usize, usize)>) = (0.0, Vec::new());
    for ahead in candidates {
        let (score, pairs) = nearest(kind, mine, others, ahead);
        if score > best.0 * (1.0 + 1e-9) {
            best = (score, pairs);
        }
    }
    let ahead = middle(each(mine, others, &best.1).map(|(mine, other)| other.end - mine.end).collect());
    ahead.map(|ahead| nearest(kind, mine, others, ahead).1).unwrap_or_default()
}

/// The pairs of which each end is the nearest to the other, and how close they are: each counts 1 at most.
fn nearest(
    kind: CollectiveKind,
    mine: &[(usize, Collective)],
    others: &[(usize, Collective)],
    ahead: i64,
) -> (f64, Vec<(usize, usize)>) {
    let (my_ends, other_ends) = (by_end(mine, 0), by_end(others, ahead));
    let mut score = 0.0;
    let mut pairs = Vec::new();
    for (end, at) in &my_ends {
        let Some((other_end, other)) = closest(&other_ends, *end) else { continue };
        if closest(&my_ends, other_end).is_none_or(|(_, back)| back != *at) {
            continue;
        }
        let (Some((_, my_part)), Some((_, other_part))) = (mine.get(*at), others.get(other)) else { continue };
        let apart = (other_end - end).saturating_abs();
        if apart <= FAR_NS && are_one(kind, my_part, other_part, ahead) {
            score += CLOSE_NS / (CLOSE_NS + apart as f64);
            pairs.push((*at, other));
        }
    }
    (score, pairs)
}

/// The ends in order, with the places of their parts.
fn by_end(parts: &[(usize, Collective)], ahead: i64) -> Vec<(i64, usize)> {
    let mut ends: Vec<(i64, usize)> =
        parts.iter().enumerate().map(|(at, (_, part))| (part.end - ahead, at)).collect();
    ends.sort_unstable();
    ends
}

fn closest(ends: &[(i64, usize)], to: i64) -> Option<(i64, usize)> {
    let after = ends.partition_point(|(end, _)| *end < to);
    let around = [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|at| ends.get(at));
    around.min_by_key(|(end, _)| (end - to).saturating_abs()).copied()
}

/// Ranks on one machine have one clock: the median of what their ends say. Machines of one name may be several.
fn share_clocks(ranks: &[&RankTrace], ahead: &mut [Option<i64>]) {
    let mut of_hosts: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    for (rank, ahead) in ranks.iter().zip(ahead.iter()) {
        if let (Some(host), Some(ahead)) = (rank.host.as_deref(), ahead) {
            of_hosts.entry(host).or_default().push(*ahead);
        }
    }
    // The first rank's clock is the common one.
    let own = ranks.first().and_then(|rank| rank.host.as_deref());
    for (rank, ahead) in ranks.iter().zip(ahead.iter_mut()) {
        let of_host = rank.host.as_deref().and_then(|host| Some((host, of_hosts.get(host)?)));
        let Some((host, all)) = of_host else { continue };
        let shared = if Some(host) == own { Some(0) } else { middle(all.clone()) };
        let apart = |clock: &i64| shared.is_some_and(|shared| clock.saturating_sub(shared).saturating_abs() > FAR_NS);
        if !all.iter().any(apart) {
            *ahead = shared;
        }
    }
}

/// How far each clock is ahead of the first rank's: over the pairs of ranks that have most collectives in common.
fn clocks(ranks: usize, edges: BTreeMap<(usize, usize), Differences>) -> Vec<Option<i64>> {
    let mut known: Vec<Option<i64>> = vec![None; ranks];
    if let Some(first) = known.first_mut() {
        *first = Some(0);
    }
    let measured = |((from, to), differences): ((usize, usize), Differences)| {
        let ends = if differences.held.is_empty() { differences.others } else { differences.held };
        Some((ends.len(), from, to, middle(ends)?))
    };
    let mut edges: Vec<(usize, usize, usize, i64)> = edges.into_iter().filter_map(measured).collect();
    edges.sort_by_key(|(count, from, to, _)| (std::cmp::Reverse(*count), *from, *to));
    let at = |known: &[Option<i64>], rank: usize| known.get(rank).copied().flatten();
    loop {
        let one_known =
            |(_, from, to, _): &&(usize, usize, usize, i64)| at(&known, *from).is_some() != at(&known, *to).is_some();
        let Some(&(_, from, to, ahead)) = edges.iter().find(one_known) else { return known };
        let (place, clock) = match (at(&known, from), at(&known, to)) {
            (Some(from), _) => (to, from.saturating_add(ahead)),
            (_, Some(to)) => (from, to.saturating_sub(ahead)),
            _ => return known,
        };
        if let Some(known) = known.get_mut(place) {
            *known = Some(clock);
        }
    }
}
