//! What the host did while the GPU was idle: each idle moment belongs to one call, operator or function.

use std::collections::HashMap;

use super::account::{IdleReason, IdleRow};
use super::host_time::IdleParts;
use super::intervals::{Intervals, TimeRange};
use super::names::NameId;
use super::parts::AccountParts;
use super::places::UserPlace;
use super::threads::OpenSpan;
use super::timeline::HostKind;

/// Most rows that are kept while they are found, and that are told.
const KINDS_MAX: usize = 50_000;
const ROWS: usize = 30;

/// From this length on, a stretch of idleness is no gap between two launches, nanoseconds: a launch takes some microseconds, and
/// Python between two of them seldom more than a hundred.
const LONG_NS: i64 = 1_000_000;

/// What a moment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct IdleKind {
    reason: IdleReason,
    name: Option<NameId>,
    operator: Option<NameId>,
    function: Option<NameId>,
    shapes: u32,
    annotated: bool,
}

/// How much of it there is.
#[derive(Debug, Default, Clone, Copy)]
struct IdleSum {
    total: i64,
    longest: i64,
    long: i64,
    count: u64,
    until: i64,
}

impl IdleSum {
    /// Adds a piece of a stretch of idleness.
    fn add(&mut self, (begin, end): TimeRange, stretch: TimeRange) {
        self.total += end - begin;
        self.long += if stretch.1 - stretch.0 >= LONG_NS { end - begin } else { 0 };
        // Pieces of one stretch are one.
        self.count += u64::from(stretch.0 != self.until);
        self.until = stretch.0;
        self.longest = self.longest.max(end - begin);
    }

    fn join(&mut self, other: Self) {
        self.total += other.total;
        self.long += other.long;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }
}

/// The rows of idle time that is divided by reason, those with most of it first.
pub fn rows(parts: &AccountParts<'_>, threads: &[u16], idle: &Intervals, idle_by: IdleParts) -> Vec<IdleRow> {
    let mut left = idle_by;
    let mut sums: HashMap<IdleKind, IdleSum> = HashMap::new();
    // The loop's thread last: where autograd's threads work, it only waits for them.
    for lane in threads.iter().rev() {
        let taken = of_thread(parts, *lane, (idle, &left), &mut sums);
        for (left, taken) in left.iter_mut().zip(taken) {
            *left = left.minus(&Intervals::union(taken, parts.scope.window));
        }
    }
    // In Python, or nowhere that the profile shows.
    if let Some(rest) = left.last().filter(|rest| rest.count() > 0) {
        let sum = sums.entry(IdleKind::nothing(IdleReason::Python, 0)).or_default();
        let mut of_idle = 0;
        rest.iter().for_each(|one| sum.add(one, idle.around(one, &mut of_idle)));
    }
    named(parts, sums)
}

/// Adds what one thread did in the idle time that is left, and says which moments that were.
fn of_thread(
    parts: &AccountParts<'_>,
    lane: u16,
    (idle, left): (&Intervals, &IdleParts),
    sums: &mut HashMap<IdleKind, IdleSum>,
) -> [Vec<TimeRange>; IdleReason::COUNT] {
    let mut python = parts.python_of(lane);
    let mut cursors = [0_usize; IdleReason::COUNT];
    let mut of_idle = 0;
    let mut taken: [Vec<TimeRange>; IdleReason::COUNT] = Default::default();
    parts.walk(lane).each(|piece, level| {
        let reason = level.reason();
        if reason == IdleReason::InputWait && Some(lane) != parts.scope.of_loop {
            return;
        }
        let at = reason.index();
        let (Some(cursor), Some(part), Some(taken)) = (cursors.get_mut(at), left.get(at), taken.get_mut(at)) else {
            return;
        };
        let mut kind = None;
        part.within(piece, cursor, |common, _| {
            let stretch = idle.around(common, &mut of_idle);
            let kind = *kind.get_or_insert_with(|| {
                IdleKind::new(level, python.as_mut().and_then(|python| python.level_at(piece.0)))
            });
            if sums.len() < KINDS_MAX || sums.contains_key(&kind) {
                sums.entry(kind).or_default().add(common, stretch);
            }
            taken.push(common);
        });
    });
    taken
}

impl IdleKind {
    /// What a moment of a thread belongs to. `aside` is what its Python does, where that is filed elsewhere.
    fn new(level: &OpenSpan<'_>, aside: Option<&OpenSpan<'_>>) -> Self {
        let reason = level.reason();
        let outer = level.operator.unwrap_or(level.span);
        // A step is no work of its own.
        if reason == IdleReason::Operator && level.facts.step {
            return Self::nothing(reason, outer.shapes);
        }
        let around = level.span.kind == HostKind::Runtime || reason == IdleReason::InputWait;
        let operator = if around { level.operator } else { None };
        Self {
            reason,
            name: Some(match reason {
                IdleReason::InputWait => level.batch.unwrap_or(level.span.name),
                IdleReason::Operator => outer.name,
                IdleReason::Python => aside.map_or(level.span.name, |aside| aside.span.name),
                IdleReason::Sync | IdleReason::Launch => level.span.name,
            }),
            operator: operator.map(|operator| operator.name),
            function: level.function.or_else(|| aside.and_then(|aside| aside.function)),
            shapes: if level.function.is_some() { 0 } else { outer.shapes },
            annotated: reason == IdleReason::Operator && level.is_only_annotated(),
        }
    }

    fn nothing(reason: IdleReason, shapes: u32) -> Self {
        Self { reason, name: None, operator: None, function: None, shapes, annotated: false }
    }
}

/// The same by their names, those with most time first.
fn named(parts: &AccountParts<'_>, sums: HashMap<IdleKind, IdleSum>) -> Vec<IdleRow> {
    type Key = (IdleReason, String, bool, Option<String>, Option<UserPlace>);
    let mut rows: HashMap<Key, IdleSum> = HashMap::new();
    for (kind, sum) in sums {
        let name = kind.name.map_or_else(|| NOTHING.to_owned(), |name| parts.shown(name));
        let operator = kind.operator.map(|operator| parts.shown(operator));
        let place = parts.place(kind.function, kind.shapes);
        rows.entry((kind.reason, name, kind.annotated, operator, place)).or_default().join(sum);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(a, of_a), (b, of_b)| of_b.total.cmp(&of_a.total).then_with(|| a.cmp(b)));
    let row = |((reason, name, annotated, operator, place), sum): (Key, IdleSum)| IdleRow {
        reason: Some(reason),
        name,
        annotated,
        operator,
        at: place.as_ref().map(|place| place.at.clone()),
        function: place.map(|place| place.function),
        idle_ms: sum.total as f64 / 1e6,
        count: sum.count,
        longest_ms: sum.longest as f64 / 1e6,
        long_ms: sum.long as f64 / 1e6,
    };
    rows.into_iter().take(ROWS).map(row).collect()
}

/// The name of a row for moments in which the profile shows nothing on the job's threads.
pub const NOTHING: &str = "nothing recorded";
