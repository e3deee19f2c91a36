//! What the host did in the gaps of a step, and where it launched what ended them: gathered while its threads are walked.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::drawn::SliceKind;
use super::intervals::TimeRange;
use super::slice_label::SliceLabel;
use super::threads::{OpenSpan, ThreadWalk};

/// Most things that the host did in a gap and that are told apart at a time: of more, the half that took longest is kept.
const THINGS: usize = 128;

/// Something that a thread did, with the shapes of its operator, which may have its place in the code.
#[derive(Debug, Clone, Copy)]
pub struct HostDeed {
    /// Its name.
    pub label: SliceLabel,
    /// Shapes and call stack, 0 for none.
    pub shapes: u32,
    /// The thread.
    pub lane: u16,
}

impl HostDeed {
    /// What a thread does; `aside` is what its Python does, where that is filed elsewhere.
    fn new(level: &OpenSpan<'_>, aside: Option<&OpenSpan<'_>>) -> Self {
        let (shapes, lane) = (level.operator.unwrap_or(level.span).shapes, level.span.lane);
        // A step is no work of its own.
        if level.facts.step
            && let Some(aside) = aside
        {
            return Self { label: SliceLabel::of_level(aside), shapes, lane };
        }
        let function = level.function.or_else(|| aside.and_then(|aside| aside.function));
        Self { label: SliceLabel { function, ..SliceLabel::of_level(level) }, shapes, lane }
    }
}

/// How long a thread did something in a gap. Of equal ones, the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct DeedSum {
    ns: i64,
    order: Reverse<usize>,
    shapes: u32,
    lane: u16,
}

/// A gap in which it is gathered what the host did for the largest part of it.
#[derive(Debug)]
struct GapDeeds {
    kind: SliceKind,
    range: TimeRange,
    things: HashMap<SliceLabel, DeedSum>,
    /// How many things there were.
    count: usize,
}

impl GapDeeds {
    fn add(&mut self, deed: HostDeed, ns: i64) {
        if self.things.len() >= THINGS && !self.things.contains_key(&deed.label) {
            let mut sums: Vec<DeedSum> = self.things.values().copied().collect();
            sums.sort_unstable();
            let middle = sums.get(sums.len() / 2).copied();
            self.things.retain(|_, sum| Some(*sum) >= middle);
        }
        self.count += 1;
        let new = DeedSum { ns: 0, order: Reverse(self.count), shapes: deed.shapes, lane: deed.lane };
        self.things.entry(deed.label).or_insert(new).ns += ns;
    }
}

/// A call whose place in the code is looked for.
#[derive(Debug)]
struct SoughtCall {
    lane: u16,
    moment: i64,
    found: Option<HostDeed>,
}

/// What is gathered.
#[derive(Debug, Default)]
pub struct Deeds {
    /// The gaps of each GPU, in order of time.
    gaps: Vec<Vec<GapDeeds>>,
    /// In order of threads and times.
    calls: Vec<SoughtCall>,
}

impl Deeds {
    /// Adds the gaps of a GPU, in order of time, each with the kind of its largest part.
    pub(crate) fn add_gaps(&mut self, gaps: impl Iterator<Item = (SliceKind, TimeRange)>) {
        let gap = |(kind, range)| GapDeeds { kind, range, things: HashMap::new(), count: 0 };
        self.gaps.push(gaps.map(gap).collect());
    }

    /// Adds calls, by their threads and begins.
    pub(crate) fn add_calls(&mut self, calls: impl Iterator<Item = (u16, i64)>) {
        self.calls.extend(calls.map(|(lane, moment)| SoughtCall { lane, moment, found: None }));
        self.calls.sort_by_key(|call| (call.lane, call.moment));
    }

    /// Before the walk over a thread.
    pub fn of_thread(&mut self, lane: u16, of_loop: bool) -> ThreadDeeds<'_> {
        let call = self.calls.partition_point(|call| call.lane < lane);
        ThreadDeeds { firsts: vec![0; self.gaps.len()], call, lane, of_loop, deeds: self }
    }

    /// What was done longest in each gap of a GPU, by the order in which they were added.
    pub fn longest(&self, gpu: usize, gap: usize) -> Option<HostDeed> {
        let things = &self.gaps.get(gpu)?.get(gap)?.things;
        let (label, sum) = things.iter().max_by_key(|(_, sum)| **sum)?;
        Some(HostDeed { label: *label, shapes: sum.shapes, lane: sum.lane })
    }

    /// What a thread did when it made a call.
    pub(crate) fn at_call(&self, lane: u16, moment: i64) -> Option<HostDeed> {
        let place = self.calls.binary_search_by_key(&(lane, moment), |call| (call.lane, call.moment)).ok()?;
        self.calls.get(place)?.found
    }
}

/// The same during the walk over one thread.
#[derive(Debug)]
pub struct ThreadDeeds<'a> {
    deeds: &'a mut Deeds,
    lane: u16,
    of_loop: bool,
    /// The first gap of each GPU that is not over, and the first call that has not come.
    firsts: Vec<usize>,
    call: usize,
}

impl ThreadDeeds<'_> {
    /// Takes in a stretch of the thread's time. `python` follows its Python functions, where they are filed elsewhere.
    pub fn piece(&mut self, (begin, end): TimeRange, level: &OpenSpan<'_>, python: &mut Option<ThreadWalk<'_>>) {
        let mut known = None;
        let mut deed = || {
            *known.get_or_insert_with(|| {
                HostDeed::new(level, python.as_mut().and_then(|python| python.level_at(begin)))
            })
        };
        let calls = self.deeds.calls.iter_mut().skip(self.call);
        for call in calls.take_while(|call| call.lane == self.lane && call.moment < end) {
            self.call += 1;
            if call.moment >= begin {
                call.found = Some(deed());
            }
        }
        let kind = level.drawn();
        // A wait for a batch is the loop's.
        if kind == SliceKind::Data && !self.of_loop {
            return;
        }
        for (gaps, first) in self.deeds.gaps.iter_mut().zip(&mut self.firsts) {
            while gaps.get(*first).is_some_and(|gap| gap.range.1 <= begin) {
                *first += 1;
            }
            let overlapping = gaps.iter_mut().skip(*first).take_while(|gap| gap.range.0 < end);
            for gap in overlapping.filter(|gap| gap.kind == kind) {
                gap.add(deed(), end.min(gap.range.1) - begin.max(gap.range.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_longest_is_found_among_many_things() {
        let mut gap = GapDeeds { kind: SliceKind::Python, range: (0, 1), things: HashMap::new(), count: 0 };
        let deed = |name| HostDeed { label: SliceLabel::new(name), shapes: 0, lane: 0 };
        for nth in 0..10_000 {
            gap.add(deed(nth + 10), 1);
            gap.add(deed(if nth % 3 == 0 { 1 } else { 2 }), 1);
            assert!(gap.things.len() <= THINGS);
        }
        let deeds = Deeds { gaps: vec![vec![gap]], calls: Vec::new() };
        assert_eq!(deeds.longest(0, 0).map(|deed| deed.label.name), Some(2));
        assert!(deeds.longest(0, 1).is_none() && deeds.longest(1, 0).is_none());
    }
}
