//! Spans of time, nested in each other → how long each stack of names lasted in each interval. The spans come in any order, and
//! their number is bounded: beyond it the shortest are left out, so that their time counts for what they are in.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::sample::stacks::{DEPTH, STACKS};

/// Most spans kept: 48 MiB.
const SPANS_MAX: usize = 2_000_000;
/// The first length, nanoseconds, below which spans are left out if there are too many.
const FIRST_FLOOR_NS: u64 = 1000;

/// One thing that lasted from `start_ns` to `end_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TraceSpan {
    pub start_ns: u64,
    pub end_ns: u64,
    /// What it was; numbers below [`SpanSet::lasting`] are kept however short.
    pub what: u32,
}

/// The spans of one thread.
#[derive(Debug, Default)]
pub(super) struct SpanSet {
    spans: Vec<TraceSpan>,
    floor_ns: u64,
    lasting: u32,
    most: usize,
}

impl SpanSet {
    /// An empty set that keeps every span of something numbered below `lasting`.
    pub(super) fn new(lasting: u32) -> Self {
        Self { lasting, most: SPANS_MAX, ..Self::default() }
    }

    /// Adds a span. Past the bound, lasting ones are left out too.
    pub(super) fn add(&mut self, span: TraceSpan) {
        if span.end_ns <= span.start_ns || !self.keeps(&span) {
            return;
        }
        if self.spans.len() >= self.most {
            self.thin_out();
        }
        if self.spans.len() < self.most && self.keeps(&span) {
            self.spans.push(span);
        }
    }

    fn keeps(&self, span: &TraceSpan) -> bool {
        span.what < self.lasting || span.end_ns - span.start_ns >= self.floor_ns
    }

    /// Leaves out the shortest until half of the room is free, or all that is left is long.
    fn thin_out(&mut self) {
        while self.spans.len() > self.most / 2 && self.floor_ns < u64::MAX / 2 {
            self.floor_ns = (self.floor_ns * 2).max(FIRST_FLOOR_NS);
            let mut spans = std::mem::take(&mut self.spans);
            spans.retain(|span| self.keeps(span));
            let stuck = self.floor_ns > 1_000_000_000;
            self.spans = spans;
            if stuck {
                break;
            }
        }
    }

    /// Spans shorter than this were left out, nanoseconds.
    pub(super) fn floor_ns(&self) -> u64 {
        self.floor_ns
    }

    /// Hands `piece` every stretch of time from `begin_ns` to `end_ns` in which the stack did not change: from, to, and the
    /// spans, outermost first.
    pub(super) fn sweep(&mut self, begin_ns: u64, end_ns: u64, mut piece: impl FnMut(u64, u64, &[TraceSpan])) {
        self.spans.sort_unstable_by_key(|span| (span.start_ns, Reverse(span.end_ns)));
        let mut stack: Vec<TraceSpan> = Vec::new();
        let mut now = begin_ns;
        let mut until = |to: u64, stack: &[TraceSpan], now: &mut u64| {
            let to = to.min(end_ns);
            if to > *now {
                piece(*now, to, stack);
                *now = to;
            }
        };
        for span in &self.spans {
            while let Some(top) = stack.last().copied().filter(|top| top.end_ns <= span.start_ns) {
                until(top.end_ns, &stack, &mut now);
                stack.pop();
            }
            until(span.start_ns, &stack, &mut now);
            // A span that outlasts the one it is in ends with it.
            let end_ns = stack.last().map_or(span.end_ns, |top| top.end_ns.min(span.end_ns));
            if stack.len() < DEPTH {
                stack.push(TraceSpan { end_ns, ..*span });
            }
        }
        while let Some(top) = stack.last().copied() {
            until(top.end_ns, &stack, &mut now);
            stack.pop();
        }
        until(end_ns, &stack, &mut now);
    }
}

/// How long each stack lasted, nanoseconds; the frames leaf first.
#[derive(Debug, Clone, Default)]
pub(super) struct StackTimes(HashMap<Vec<u32>, u64>);

impl StackTimes {
    /// Adds time to a stack. With too many different ones it goes to what the stack is in.
    pub(super) fn add(&mut self, mut stack: Vec<u32>, ns: u64) {
        while self.0.len() >= STACKS && stack.len() > 1 && !self.0.contains_key(&stack) {
            stack.remove(0);
        }
        if self.0.len() < 2 * STACKS || self.0.contains_key(&stack) {
            *self.0.entry(stack).or_default() += ns;
        }
    }

    /// All of it, nanoseconds.
    pub(super) fn total_ns(&self) -> u64 {
        self.0.values().sum()
    }

    /// The stacks, in no order.
    pub(super) fn stacks(&self) -> impl Iterator<Item = &[u32]> {
        self.0.keys().map(Vec::as_slice)
    }

    /// Whole samples of this length for each stack, which add up to the total: short stacks of one kind share them.
    pub(super) fn samples(&self, each_ns: u64) -> Vec<(&[u32], u32)> {
        let mut sorted: Vec<(&[u32], u64)> = self.0.iter().map(|(stack, ns)| (stack.as_slice(), *ns)).collect();
        sorted.sort_unstable_by(|a, b| a.0.iter().rev().cmp(b.0.iter().rev()));
        let (mut sum, mut given) = (0_u64, 0_u64);
        let mut samples = Vec::new();
        for (stack, ns) in sorted {
            sum = sum.saturating_add(ns);
            let upto = (sum + each_ns / 2) / each_ns.max(1);
            let own = u32::try_from(upto - given).unwrap_or(u32::MAX);
            given = upto;
            samples.extend((own > 0).then_some((stack, own)));
        }
        samples.sort_by_key(|(_, count)| Reverse(*count));
        samples
    }
}

/// The time that any of many intervals covers, in bounded memory.
#[derive(Debug)]
pub(super) struct Cover {
    /// Begin and end, nanoseconds.
    intervals: Vec<(u64, u64)>,
    /// Gaps up to this length are taken as covered, nanoseconds: 0 unless there are too many intervals.
    slack_ns: u64,
    most: usize,
}

/// Most intervals of a cover: 16 MiB.
const COVER_MAX: usize = 1_000_000;

impl Default for Cover {
    fn default() -> Self {
        Self { intervals: Vec::new(), slack_ns: 0, most: COVER_MAX }
    }
}

impl Cover {
    /// Adds an interval.
    pub(super) fn add(&mut self, start_ns: u64, end_ns: u64) {
        if self.intervals.len() >= self.most {
            self.merge();
            while self.intervals.len() > self.most / 2 {
                self.slack_ns = (self.slack_ns * 2).max(FIRST_FLOOR_NS);
                self.merge();
            }
        }
        if end_ns > start_ns {
            self.intervals.push((start_ns, end_ns));
        }
    }

    fn merge(&mut self) {
        self.intervals.sort_unstable();
        let slack_ns = self.slack_ns;
        self.intervals.dedup_by(|next, last| {
            let joins = next.0 <= last.1.saturating_add(slack_ns);
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
    }

    /// Nanoseconds covered in each interval of this length from `begin_ns` on.
    pub(super) fn per_interval(&mut self, begin_ns: u64, interval_ns: u64, count: usize) -> Vec<u64> {
        self.merge();
        let mut out = vec![0; count];
        for (start_ns, end_ns) in &self.intervals {
            each_interval(*start_ns, *end_ns, begin_ns, interval_ns, |at, ns| {
                if let Some(sum) = out.get_mut(at) {
                    *sum += ns;
                }
            });
        }
        out
    }
}

/// Divides a stretch of time over the intervals that it touches: index and nanoseconds of each.
pub(super) fn each_interval(
    start_ns: u64,
    end_ns: u64,
    begin_ns: u64,
    interval_ns: u64,
    mut each: impl FnMut(usize, u64),
) {
    let interval_ns = interval_ns.max(1);
    let mut from = start_ns.max(begin_ns);
    while from < end_ns {
        let at = (from - begin_ns) / interval_ns;
        let to = begin_ns.saturating_add((at + 1).saturating_mul(interval_ns)).min(end_ns);
        if to <= from {
            return;
        }
        each(usize::try_from(at).unwrap_or(usize::MAX), to - from);
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn span(start_ns: u64, end_ns: u64, what: u32) -> TraceSpan {
        TraceSpan { start_ns, end_ns, what }
    }

    fn pieces(spans: &[TraceSpan], begin: u64, end: u64) -> Vec<(u64, u64, Vec<u32>)> {
        let mut set = SpanSet::new(0);
        spans.iter().for_each(|span| set.add(*span));
        let mut out = Vec::new();
        set.sweep(begin, end, |from, to, stack| out.push((from, to, stack.iter().map(|span| span.what).collect())));
        out
    }

    #[test]
    fn the_innermost_span_has_the_time() {
        let found = pieces(&[span(30, 40, 3), span(10, 50, 1), span(20, 45, 2), span(60, 70, 4)], 0, 80);
        let expected = [
            (0, 10, vec![]),
            (10, 20, vec![1]),
            (20, 30, vec![1, 2]),
            (30, 40, vec![1, 2, 3]),
            (40, 45, vec![1, 2]),
            (45, 50, vec![1]),
            (50, 60, vec![]),
            (60, 70, vec![4]),
            (70, 80, vec![]),
        ];
        assert_eq!(found, expected);
        assert_eq!(pieces(&[span(0, 10, 1), span(5, 20, 2)], 2, 30).last(), Some(&(10, 30, vec![])));
    }

    #[test]
    fn the_shortest_spans_are_left_out_first() {
        let mut set = SpanSet { most: 100, lasting: 1, ..SpanSet::default() };
        for at in 0..1000 {
            set.add(span(at * 10_000, at * 10_000 + 1500, 7));
            set.add(span(at * 10_000, at * 10_000 + 9000, if at % 20 == 0 { 0 } else { 8 }));
        }
        assert!(set.spans.len() <= 100 && set.floor_ns() >= 2000);
        assert!(set.spans.iter().filter(|span| span.what == 0).count() >= 50, "{set:?}");
    }

    #[test]
    fn covered_time_counts_once() {
        let mut cover = Cover::default();
        for (start, end) in [(50, 60), (0, 10), (5, 20), (19, 30), (95, 130)] {
            cover.add(start, end);
        }
        assert_eq!(cover.per_interval(0, 50, 3), [30, 15, 30]);
        let mut many = Cover { most: 10, ..Cover::default() };
        (0..1000).for_each(|at| many.add(at * 1000, at * 1000 + 500));
        assert!(many.intervals.len() <= 10);
        let all = many.per_interval(0, 1_000_000, 1)[0];
        assert!((500_000..=1_000_000).contains(&all), "{all}");
    }

    proptest! {
        #[test]
        fn all_time_is_handed_out_once(
            spans in proptest::collection::vec((0_u64..1000, 0_u64..1000, 0_u32..9), 0..50),
            begin in 0_u64..500,
            length in 1_u64..500,
        ) {
            let spans: Vec<TraceSpan> = spans.into_iter().map(|(start, length, what)| span(start, start + length, what)).collect();
            let found = pieces(&spans, begin, begin + length);
            let mut at = begin;
            for (from, to, _) in &found {
                prop_assert!(*from == at && to > from);
                at = *to;
            }
            prop_assert_eq!(at, begin + length);
            let covered = |at: u64| spans.iter().any(|span| (span.start_ns..span.end_ns).contains(&at));
            for (from, _, stack) in &found {
                // The part of a span that outlasts the one it is in is left out.
                prop_assert!(stack.is_empty() || covered(*from), "{}", from);
            }
        }

        #[test]
        fn samples_add_up(times in proptest::collection::vec((0_u32..300, 1_u64..5_000_000), 1..400)) {
            let mut stacks = StackTimes::default();
            for (frame, ns) in &times {
                stacks.add(vec![*frame, 1000], *ns);
            }
            let all: u64 = stacks.samples(1_000_000).iter().map(|(_, count)| u64::from(*count)).sum();
            prop_assert!(all.abs_diff(stacks.total_ns() / 1_000_000) <= 1);
        }
    }
}
