//! What a rank did when, in slices: exact at the begins and ends of its collectives, even within a slice. So it can be asked, after
//! all ranks were read, what a rank did while the others waited for it.

use std::collections::HashMap;

use crate::account::IdleReason;
use crate::intervals::{Intervals, Lengths, TimeRange};
use crate::names::NameId;
use crate::parts::AccountParts;
use crate::places;
use crate::ranks_account::RankActivity;
use crate::timeline::HostKind;

/// Slices of equal length that the window has at least.
const EVEN_SLICES: i64 = 1_024;
/// Most slices.
const SLICES_MAX: usize = 8_192;
/// Most places that are told apart.
const PLACES_MAX: usize = 2_000;

/// What a rank did, in the order of time.
#[derive(Debug, Default)]
pub struct ActivitySlices {
    begin: i64,
    slices: Vec<Slice>,
    places: Vec<String>,
}

#[derive(Debug)]
struct Slice {
    until: i64,
    /// Nanoseconds of each activity.
    did: [f32; RankActivity::COUNT],
    /// Where the loop was most of the time: 1 + its number in `places`; 0 for nowhere. And how long, nanoseconds.
    place: u16,
    there: f32,
}

/// Moments of the loop's thread.
#[derive(Debug, Default)]
struct OfLoop {
    waits: Vec<TimeRange>,
    operates: Vec<TimeRange>,
    blocked: Vec<TimeRange>,
    places: Vec<(TimeRange, NameId, bool)>,
}

impl ActivitySlices {
    /// Of a trace. `collectives` are the moments of its collectives.
    pub(super) fn new(parts: &AccountParts<'_>, collectives: &[TimeRange]) -> Self {
        let window = parts.scope.window;
        let of_loop = OfLoop::new(parts);
        let union = |moments: &[TimeRange]| Intervals::union(moments.iter().copied(), window);
        let blocked = (RankActivity::Blocked, union(&of_loop.blocked));
        let sets = match parts.gpus.first() {
            Some(gpu) => {
                let busy = [
                    (RankActivity::Compute, gpu.compute.clone()),
                    (RankActivity::Collective, gpu.communication.clone()),
                    (RankActivity::Copy, gpu.copy.clone()),
                ];
                let reasons = IdleReason::ALL.into_iter().zip(&gpu.idle_by).take(IdleReason::Python.index());
                let idle =
                    reasons.filter_map(|(reason, set)| Some((RankActivity::named(reason.word())?, set.clone())));
                first_that_holds(window, busy.into_iter().chain(idle).chain([blocked]))
            }
            // Without a GPU the loop computes, and the collectives run in other threads.
            None => first_that_holds(
                window,
                [
                    (RankActivity::InputWait, union(&of_loop.waits)),
                    (RankActivity::Compute, union(&of_loop.operates)),
                    (RankActivity::Collective, union(collectives)),
                    blocked,
                ],
            ),
        };
        let mut activities = Self { begin: window.0, ..Self::default() };
        activities.slice(window, &sets, collectives);
        activities.find_places(parts, &of_loop.places);
        activities
    }

    fn slice(&mut self, window: TimeRange, sets: &[Intervals; RankActivity::COUNT], collectives: &[TimeRange]) {
        let length = window.1 - window.0;
        let even = (1..EVEN_SLICES)
            .map(|at| window.0 + (i128::from(length) * i128::from(at) / i128::from(EVEN_SLICES)) as i64);
        let of_collectives = collectives.iter().flat_map(|(begin, end)| [*begin, *end]);
        let mut moments: Vec<i64> =
            even.chain(of_collectives).filter(|at| window.0 < *at && *at < window.1).collect();
        moments.sort_unstable();
        moments.dedup();
        let every = moments.len().div_ceil(SLICES_MAX).max(1);
        let lengths = sets.each_ref().map(Lengths::new);
        let mut from = window.0;
        for until in moments.into_iter().step_by(every).chain([window.1]) {
            let did = lengths.each_ref().map(|lengths| lengths.within(from, until) as f32);
            self.slices.push(Slice { until, did, place: 0, there: 0.0 });
            from = until;
        }
    }

    /// Says of each slice where the loop was most of the time.
    fn find_places(&mut self, parts: &AccountParts<'_>, pieces: &[(TimeRange, NameId, bool)]) {
        let mut known: HashMap<NameId, u16> = HashMap::new();
        let mut first = 0;
        let mut from = self.begin;
        for slice in &mut self.slices {
            let mut times: HashMap<NameId, (i64, bool)> = HashMap::new();
            for ((begin, end), name, function) in
                pieces.iter().skip(first).take_while(|(piece, ..)| piece.0 < slice.until)
            {
                let length = (*end).min(slice.until) - (*begin).max(from);
                if length > 0 {
                    times.entry(*name).or_insert((0, *function)).0 += length;
                }
                first += usize::from(*end <= slice.until);
            }
            let most = times.into_iter().max_by_key(|(name, (length, _))| (*length, std::cmp::Reverse(*name)));
            if let Some((name, (length, function))) = most {
                slice.there = length as f32;
                let places = &mut self.places;
                slice.place = *known.entry(name).or_insert_with(|| {
                    let place =
                        if function { places::of_function(parts.text(name)).map(|place| place.at) } else { None };
                    if places.len() >= PLACES_MAX {
                        return 0;
                    }
                    places.push(place.unwrap_or_else(|| parts.shown(name)));
                    u16::try_from(places.len()).unwrap_or_default()
                });
            }
            from = slice.until;
        }
    }

    /// Adds what the rank did between two moments, nanoseconds, and where its loop was.
    pub(crate) fn add_within<'a>(
        &'a self,
        (begin, end): TimeRange,
        did: &mut [f64; RankActivity::COUNT],
        mut place: impl FnMut(&'a str, f64),
    ) {
        if let Some(before) = did.get_mut(RankActivity::Begins.index()) {
            *before += (self.begin.min(end) - begin).max(0) as f64;
        }
        let first = self.slices.partition_point(|slice| slice.until <= begin);
        let mut from =
            first.checked_sub(1).and_then(|before| self.slices.get(before)).map_or(self.begin, |slice| slice.until);
        for slice in self.slices.get(first..).unwrap_or_default() {
            if from >= end {
                break;
            }
            let common = slice.until.min(end) - from.max(begin);
            let part = common.max(0) as f64 / (slice.until - from).max(1) as f64;
            for (sum, of_slice) in did.iter_mut().zip(slice.did) {
                *sum += f64::from(of_slice) * part;
            }
            if let Some(at) = usize::from(slice.place).checked_sub(1).and_then(|at| self.places.get(at)) {
                place(at, f64::from(slice.there) * part);
            }
            from = slice.until;
        }
    }

    /// All of one activity, nanoseconds.
    pub fn total(&self, activity: RankActivity) -> f64 {
        self.slices.iter().filter_map(|slice| slice.did.get(activity.index())).map(|did| f64::from(*did)).sum()
    }
}

impl OfLoop {
    fn new(parts: &AccountParts<'_>) -> Self {
        let mut of_loop = Self::default();
        let Some(lane) = parts.scope.of_loop else { return of_loop };
        let mut python = parts.python_of(lane);
        parts.walk(lane).each(|piece, level| {
            let aside = python.as_mut().and_then(|python| python.level_at(piece.0));
            let function = level.function.or_else(|| aside.and_then(|aside| aside.function));
            let operator = level.operator.map(|operator| operator.name);
            let span = level.span;
            if level.batch.is_some() {
                of_loop.waits.push(piece);
            } else if matches!(span.kind, HostKind::Operator | HostKind::Runtime) && !level.communicates {
                of_loop.operates.push(piece);
            } else if level.blocked.is_some() || aside.is_some_and(|aside| aside.blocked.is_some()) {
                of_loop.blocked.push(piece);
            }
            if let Some(name) = function.or(operator) {
                of_loop.places.push((piece, name, function.is_some()));
            }
        });
        of_loop
    }
}

/// Each moment has the first activity that holds, and what is left is Python.
fn first_that_holds(
    window: TimeRange,
    activities: impl IntoIterator<Item = (RankActivity, Intervals)>,
) -> [Intervals; RankActivity::COUNT] {
    let mut left = Intervals::one(window.0, window.1);
    let mut sets: [Intervals; RankActivity::COUNT] = Default::default();
    for (activity, moments) in activities {
        if let Some(set) = sets.get_mut(activity.index()) {
            *set = left.take(&moments);
        }
    }
    if let Some(set) = sets.get_mut(RankActivity::Python.index()) {
        *set = left;
    }
    sets
}
