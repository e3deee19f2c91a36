//! What the host did while the GPU was idle: each idle moment belongs to one call, operator or function.

use std::collections::HashMap;

use super::account::{IdleBy, IdleReason, IdleRow};
use super::host_time::{HostTime, python_of};
use super::intervals::{Interval, Intervals};
use super::names::NameId;
use super::operators::shown;
use super::places::{self, UserPlace};
use super::scope::Scope;
use super::threads::ThreadWalk;
use super::timeline::{HostKind, Timeline};

/// Most rows that are kept while they are found, and that are told.
const KINDS_MAX: usize = 50_000;
const ROWS: usize = 30;

/// A GPU's idle time, divided by reason: each moment has the first that holds.
pub fn divided(idle: &Intervals, host: &HostTime) -> [Intervals; IdleReason::COUNT] {
    let mut left = idle.clone();
    let mut parts: [Intervals; IdleReason::COUNT] = Default::default();
    for (part, did) in parts.iter_mut().zip(&host.did).take(IdleReason::Python.index()) {
        let rest = left.minus(did);
        *part = left.minus(&rest);
        left = rest;
    }
    if let Some(python) = parts.last_mut() {
        *python = left;
    }
    parts
}

/// The shares of the parts.
pub fn shares(parts: &[Intervals; IdleReason::COUNT], scope: &Scope) -> IdleBy {
    let [input_wait, sync, launch, operator, python] = parts.each_ref().map(|part| scope.share(part.length()));
    IdleBy { input_wait, sync, launch, operator, python }
}

/// From this length on, a stretch of idleness is no gap between two launches, nanoseconds: a launch takes some microseconds, and
/// Python between two of them seldom more than a hundred.
const LONG_NS: i64 = 1_000_000;

/// What a moment belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kind {
    reason: IdleReason,
    name: Option<NameId>,
    operator: Option<NameId>,
    function: Option<NameId>,
    shapes: u32,
}

/// How much of it there is.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    total: i64,
    longest: i64,
    long: i64,
    count: u64,
    until: i64,
}

impl Sum {
    /// Adds a piece of a stretch of idleness.
    fn add(&mut self, (begin, end): Interval, stretch: Interval) {
        self.total += end - begin;
        self.long += if stretch.1 - stretch.0 >= LONG_NS { end - begin } else { 0 };
        // Pieces of one stretch are one.
        self.count += u64::from(stretch.0 != self.until);
        self.until = stretch.0;
        self.longest = self.longest.max(end - begin);
    }
}

impl Sum {
    fn join(&mut self, other: Self) {
        self.total += other.total;
        self.long += other.long;
        self.count += other.count;
        self.longest = self.longest.max(other.longest);
    }
}

/// The rows, those with most idle time first.
pub fn rows(timeline: &Timeline, scope: &Scope, parts: [Intervals; IdleReason::COUNT]) -> Vec<IdleRow> {
    let mut left = parts;
    let mut sums: HashMap<Kind, Sum> = HashMap::new();
    for lane in &scope.threads {
        let mut python = python_of(timeline, scope, *lane);
        let mut cursors = [0_usize; IdleReason::COUNT];
        let mut taken: [Vec<Interval>; IdleReason::COUNT] = Default::default();
        let spans = timeline.of_thread(*lane);
        ThreadWalk::new(spans, &timeline.names).each(|piece, level| {
            let reason = level.reason();
            if reason == IdleReason::InputWait && Some(*lane) != scope.of_loop {
                return;
            }
            let (Some(cursor), Some(part), Some(taken)) =
                (cursors.get_mut(reason.index()), left.get(reason.index()), taken.get_mut(reason.index()))
            else {
                return;
            };
            let mut kind = None;
            part.within(piece, cursor, |common, stretch| {
                let kind = *kind.get_or_insert_with(|| {
                    let aside = python.as_mut().and_then(|python| python.level_at(piece.0));
                    let around = level.span.kind == HostKind::Runtime || reason == IdleReason::InputWait;
                    let operator = if around { level.operator } else { None };
                    let outer = level.operator.map_or(level.span, |operator| operator);
                    // A step is no work of its own.
                    if reason == IdleReason::Operator && level.facts.step {
                        return Kind { reason, name: None, operator: None, function: None, shapes: outer.shapes };
                    }
                    Kind {
                        reason,
                        name: Some(match reason {
                            IdleReason::InputWait => level.batch.unwrap_or(level.span.name),
                            IdleReason::Operator => outer.name,
                            IdleReason::Python => aside.map_or(level.span.name, |aside| aside.span.name),
                            _ => level.span.name,
                        }),
                        operator: operator.map(|operator| operator.name),
                        function: level.function.or_else(|| aside.and_then(|aside| aside.function)),
                        shapes: if level.function.is_some() { 0 } else { outer.shapes },
                    }
                });
                if sums.len() < KINDS_MAX || sums.contains_key(&kind) {
                    sums.entry(kind).or_default().add(common, stretch);
                }
                taken.push(common);
            });
        });
        for (left, taken) in left.iter_mut().zip(taken) {
            *left = left.minus(&Intervals::union(taken, scope.window));
        }
    }
    // In Python, or nowhere that the profile shows.
    let nothing = left.last().map(|rest| rest.iter().fold(Sum::default(), |mut sum, one| {
        sum.add(one, one);
        sum
    }));
    let nothing = nothing.filter(|sum| sum.total > 0).map(|sum| {
        let reason = IdleReason::Python;
        (Kind { reason, name: None, operator: None, function: None, shapes: 0 }, sum)
    });
    let mut rows: HashMap<(IdleReason, String, Option<String>, Option<UserPlace>), Sum> = HashMap::new();
    for (kind, sum) in sums.into_iter().chain(nothing) {
        let name = kind.name.map_or_else(|| NOTHING.to_owned(), |name| shown(timeline.names.text(name)));
        let place = kind.function.and_then(|function| places::of_function(timeline.names.text(function)));
        let place = place.or_else(|| places::of_call_stack(timeline.call_stack(kind.shapes)));
        let row = rows.entry((kind.reason, name, kind.operator.map(|operator| shown(timeline.names.text(operator))), place));
        let all = row.or_default();
        all.join(sum);
    }
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by(|(a, of_a), (b, of_b)| of_b.total.cmp(&of_a.total).then_with(|| a.cmp(b)));
    let row = |((reason, name, operator, place), sum): ((IdleReason, String, Option<String>, Option<UserPlace>), Sum)| IdleRow {
        reason: Some(reason),
        name,
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
