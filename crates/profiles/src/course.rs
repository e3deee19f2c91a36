//! A profile's course over time, for a recording that has other sources beside it: interval by interval, how long each GPU was
//! busy, what the loop did, and which steps ended. The account says all of it more exactly; only what comes when is told here.

use std::collections::HashMap;

use super::account::{ProfileAccount, StepPart};
use super::host_time::{self, each_piece};
use super::intervals::{Lengths, TimeRange};
use super::names::{NameId, TraceNames};
use super::parts::AccountParts;
use super::timeline::{HostKind, TracePlace};

/// An interval, nanoseconds; a short trace has at least this many …
const INTERVAL_NS: i64 = 1_000_000_000;
const FEWEST_INTERVALS: i64 = 20;
/// … of at least this length, nanoseconds, and a long one at most this many.
const SHORTEST_INTERVAL_NS: i64 = 100_000_000;
const MOST_INTERVALS: i64 = 5000;
/// Parts of an interval for each of which a GPU's use is told.
pub const TENTHS: usize = 10;
/// Most places of the loop that are told apart in an interval.
const PLACES_MAX: usize = 500;

/// A profile, interval by interval.
#[derive(Debug)]
pub struct Course {
    /// The account of the whole.
    pub account: ProfileAccount,
    /// The process whose thread runs the loop.
    pub pid: Option<u32>,
    /// Length of an interval, nanoseconds; the last one may be shorter.
    pub interval_ns: i64,
    /// The intervals, in order.
    pub intervals: Vec<CourseInterval>,
    pub(super) names: TraceNames,
}

/// One interval.
#[derive(Debug, Clone, Default)]
pub struct CourseInterval {
    /// Wall clock at its end, nanoseconds since 1970; since an unknown moment if the file does not say when it was made.
    pub end_unix_ns: i128,
    /// Its length, nanoseconds.
    pub length_ns: i64,
    /// For each GPU of the account: the share of each tenth of it in which it was busy.
    pub busy: Vec<[f64; TENTHS]>,
    /// How long the loop was where, nanoseconds, in no order. It adds up to the length.
    pub of_loop: HashMap<LoopPlace, i64>,
    /// Lengths of the steps that ended in it, nanoseconds.
    pub steps: Vec<i64>,
}

/// What the loop does at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LoopPlace {
    /// The part of its time.
    pub part: StepPart,
    /// The call of the GPU's runtime or the operator: see [`Course::name`].
    pub call: Option<NameId>,
    /// The innermost function of the user's own code.
    pub function: Option<NameId>,
}

impl Course {
    /// The course of a timeline, beside its account.
    pub(super) fn new(parts: &AccountParts<'_>, account: ProfileAccount) -> Self {
        let AccountParts { timeline, scope, gpus, .. } = parts;
        let length = scope.length();
        let interval_ns = (length / FEWEST_INTERVALS)
            .clamp(SHORTEST_INTERVAL_NS, INTERVAL_NS)
            .max((length - 1) / MOST_INTERVALS + 1);
        let origin = timeline.origin_unix_ns().unwrap_or_default();
        let busy: Vec<Lengths> = gpus.iter().map(|gpu| Lengths::new(&gpu.busy)).collect();
        let begins = (0..).map(|at| scope.window.0 + at * interval_ns).take_while(|begin| *begin < scope.window.1);
        let mut intervals: Vec<CourseInterval> = begins
            .map(|begin| {
                let end = (begin + interval_ns).min(scope.window.1);
                CourseInterval {
                    end_unix_ns: origin + i128::from(end),
                    length_ns: end - begin,
                    busy: busy.iter().map(|busy| tenths(busy, begin, end)).collect(),
                    ..CourseInterval::default()
                }
            })
            .collect();
        let at = |moment: i64| usize::try_from((moment - scope.window.0) / interval_ns).unwrap_or_default();
        let mut pid = None;
        if let Some(lane) = scope.of_loop {
            pid = timeline.threads.get(usize::from(lane)).and_then(|lane| match lane.process {
                TracePlace::Number(pid) => u32::try_from(pid).ok(),
                _ => None,
            });
            each_piece(timeline, scope, lane, |(mut begin, end), level, aside| {
                let call = if level.span.kind == HostKind::Runtime { Some(level.span) } else { level.operator };
                let function = level.function.or_else(|| aside.and_then(|aside| aside.function));
                let part = host_time::part(level, aside);
                let place = LoopPlace { part, call: call.map(|call| call.name), function };
                while begin < end {
                    let Some(interval) = intervals.get_mut(at(begin)) else { return };
                    let until = end.min(scope.window.0 + (at(begin) as i64 + 1) * interval_ns);
                    interval.add(place, until - begin);
                    begin = until;
                }
            });
        }
        for interval in &mut intervals {
            let rest = interval.length_ns - interval.of_loop.values().sum::<i64>();
            interval.add(LoopPlace { part: StepPart::Nothing, call: None, function: None }, rest);
        }
        let mut steps: Vec<TimeRange> = scope.steps.clone();
        steps.sort_unstable_by_key(|(_, end)| *end);
        for (start, end) in steps {
            // A step that ends with an interval belongs to it.
            if let Some(interval) = intervals.get_mut(at(end - 1)) {
                interval.steps.push(end - start);
            }
        }
        Self { account, pid, interval_ns, intervals, names: TraceNames::default() }
    }

    /// A name of a place, raw.
    pub fn name(&self, number: NameId) -> &str {
        self.names.text(number)
    }
}

impl CourseInterval {
    fn add(&mut self, mut place: LoopPlace, ns: i64) {
        if self.of_loop.len() >= PLACES_MAX && !self.of_loop.contains_key(&place) {
            (place.call, place.function) = (None, None);
        }
        if ns > 0 {
            *self.of_loop.entry(place).or_default() += ns;
        }
    }
}

/// The share of each tenth of an interval that a set covers.
fn tenths(set: &Lengths<'_>, begin: i64, end: i64) -> [f64; TENTHS] {
    let mut from = begin;
    let mut tenth = 0;
    [(); TENTHS].map(|()| {
        tenth += 1;
        let to = begin + (end - begin) * tenth / TENTHS as i64;
        let share = set.within(from, to) as f64 / (to - from).max(1) as f64;
        from = to;
        share
    })
}
