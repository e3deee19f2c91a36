//! A lane while it is put together: short things next to each other become one slice, so that a lane is bounded however many
//! events it has. Around the ends of the largest gaps everything is kept.

use super::drawn::{DrawnLane, DrawnSlice, DrawnStep, SliceKind};
use super::intervals::TimeRange;

/// Most slices of a lane, those that are kept around gaps aside.
pub(crate) const SLICES: usize = 1500;
/// Most slices that are kept within one range around a gap's end.
const EXACT_SLICES: usize = 16;
/// Shorter slices have no name: 1/500 of a screen is two points.
const NAMED: i64 = 500;
/// Most slices of a lane in a recording, where all lanes together have a few dozen KiB.
const RECORDED_SLICES: usize = 250;
/// Units of a drawing whose lanes are packed a second time.
const UNITS: f64 = 1e12;

/// A slice while the lane is put together. `L` is what its name is made of.
#[derive(Debug, Clone, Copy)]
struct Packing<L> {
    begin: i64,
    end: i64,
    kind: SliceKind,
    covered: i64,
    count: u64,
    label: Option<L>,
    longest: i64,
    /// It is kept as it is.
    exact: bool,
}

impl<L: Copy + PartialEq> Packing<L> {
    /// Whether the next slice is the same thing, which only something within it had cut.
    fn goes_on_in(&self, next: &Self) -> bool {
        self.end == next.begin && self.kind == next.kind && self.label == next.label && self.count == 1
    }

    fn join(&mut self, next: &Self) {
        self.end = self.end.max(next.end);
        if next.covered > self.covered {
            self.kind = next.kind;
        }
        if next.longest > self.longest {
            (self.label, self.longest) = (next.label, next.longest);
        }
        self.covered += next.covered;
        self.count += next.count;
    }
}

/// A lane while it is put together: of bounded length.
pub struct PackedLane<'a, L> {
    window: TimeRange,
    /// Most slices that are not kept as they are.
    most: usize,
    /// Shorter slices next to each other are joined, nanoseconds.
    short: i64,
    /// Shorter slices have no name, nanoseconds.
    named: i64,
    /// Ranges in which slices are kept as they are, in order.
    exact: &'a [TimeRange],
    /// How many are kept in the first of these.
    kept: usize,
    /// How many are kept in all.
    all_kept: usize,
    slices: Vec<Packing<L>>,
}

impl<'a, L: Copy + PartialEq> PackedLane<'a, L> {
    /// An empty lane over a window.
    pub fn new(window: TimeRange, exact: &'a [TimeRange]) -> Self {
        Self::with_most(window, exact, SLICES)
    }

    fn with_most(window: TimeRange, exact: &'a [TimeRange], most: usize) -> Self {
        let short = (window.1 - window.0) / i64::try_from(most).unwrap_or(i64::MAX).max(1);
        let named = (window.1 - window.0) / NAMED;
        Self { window, most, short, named, exact, kept: 0, all_kept: 0, slices: Vec::new() }
    }

    /// Adds what comes next in time. What lies before the end of the last one is left out.
    pub fn push(&mut self, (begin, end): TimeRange, kind: SliceKind, label: Option<L>) {
        let after = self.slices.last().map_or(self.window.0, |last| last.end);
        let (begin, end) = (begin.max(after), end.min(self.window.1));
        if begin >= end {
            return;
        }
        let exact = self.is_exact((begin, end));
        self.add(Packing { begin, end, kind, covered: end - begin, count: 1, label, longest: end - begin, exact });
    }

    fn add(&mut self, next: Packing<L>) {
        match self.slices.last_mut() {
            Some(last) if last.goes_on_in(&next) => {
                last.end = next.end;
                last.covered += next.covered;
                last.longest += next.longest;
            }
            Some(last) if last.kind == next.kind && are_short(self.short, last, &next) => last.join(&next),
            _ => self.slices.push(next),
        }
        if self.slices.len() >= 2 * self.most + self.all_kept {
            self.shorten();
        }
    }

    /// Whether the next slice is kept as it is.
    fn is_exact(&mut self, (begin, end): TimeRange) -> bool {
        while let Some((first, rest)) = self.exact.split_first().filter(|(first, _)| first.1 <= begin) {
            let _ = first;
            (self.exact, self.kept) = (rest, 0);
        }
        let exact = self.kept < EXACT_SLICES && self.exact.first().is_some_and(|first| first.0 < end);
        self.kept += usize::from(exact);
        self.all_kept += usize::from(exact);
        exact
    }

    /// Joins short slices, whatever their kinds, until there are few enough. What counts as short grows only where it has to, so that
    /// the rest keeps its detail.
    fn shorten(&mut self) {
        let most = self.most + self.all_kept;
        while self.slices.len() > most {
            let short = self.short;
            self.slices.dedup_by(|next, last| {
                let joins = are_short(short, last, next);
                if joins {
                    last.join(next);
                }
                joins
            });
            // What is longer than the window has joined everything that may be joined.
            if self.slices.len() <= most || short > self.window.1 - self.window.0 {
                return;
            }
            self.short = short.saturating_mul(2).max(1);
        }
    }

    /// The slices. Those that are long enough to point at get a name.
    pub fn finish(mut self, name: impl Fn(L) -> String) -> Vec<DrawnSlice> {
        self.shorten();
        let length = (self.window.1 - self.window.0).max(1);
        let share = |at: i64| (at - self.window.0) as f64 / length as f64;
        let slices = self.slices.iter().map(|slice| DrawnSlice {
            begin: share(slice.begin),
            end: share(slice.end),
            kind: slice.kind,
            filled: slice.covered as f64 / (slice.end - slice.begin).max(1) as f64,
            count: slice.count,
            name: match slice.label {
                Some(label) if slice.exact || slice.end - slice.begin >= self.named => name(label),
                _ => String::new(),
            },
        });
        slices.collect()
    }
}

/// Whether two slices next to each other are both short, and so is the gap between them.
fn are_short<L>(short: i64, last: &Packing<L>, next: &Packing<L>) -> bool {
    let lengths = [last.end - last.begin, next.end - next.begin, next.begin - last.end];
    !last.exact && !next.exact && lengths.into_iter().all(|length| length < short)
}

impl DrawnStep {
    /// What a recording keeps of it: lanes of fewer slices.
    pub fn recorded(&self) -> Self {
        let lane = |lane: &DrawnLane| DrawnLane {
            slices: packed_again(&lane.slices, RECORDED_SLICES),
            name: lane.name.clone(),
            ..*lane
        };
        let lanes = self.lanes.iter().map(lane).collect();
        Self { lanes, gaps: self.gaps.clone(), ..*self }
    }
}

/// The same slices, at most so many.
fn packed_again(slices: &[DrawnSlice], most: usize) -> Vec<DrawnSlice> {
    let units = |at: f64| (at.clamp(0.0, 1.0) * UNITS) as i64;
    // Those that had none get none.
    let mut packed = PackedLane { named: 0, ..PackedLane::with_most((0, UNITS as i64), &[], most) };
    for (place, slice) in slices.iter().enumerate() {
        let (begin, end) = (units(slice.begin), units(slice.end));
        let covered = ((end - begin) as f64 * slice.filled) as i64;
        let label = (!slice.name.is_empty()).then_some(place);
        let (kind, count, longest) = (slice.kind, slice.count, if label.is_some() { end - begin } else { 0 });
        packed.add(Packing { begin, end, kind, covered, count, label, longest, exact: false });
    }
    packed.finish(|place| slices.get(place).map(|slice| slice.name.clone()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn around_the_end_of_a_gap_everything_is_kept() {
        let whole = 10_000_000;
        let mut packed = PackedLane::new((0, whole), &[(5_000_000, 5_000_100)]);
        for nth in 0..whole / 20 {
            packed.push((nth * 20, nth * 20 + 10), SliceKind::Compute, Some(()));
        }
        let slices = packed.finish(|()| "gemm".to_owned());
        let exact: Vec<_> = slices.iter().filter(|slice| slice.count == 1 && slice.filled == 1.0).collect();
        assert_eq!(exact.len(), 5);
        assert!(exact.iter().all(|slice| slice.name == "gemm"), "{exact:?}");
        assert_eq!((exact[0].begin, exact[4].end), (0.5, 0.500_009));
        assert!(slices.len() <= SLICES + 5, "{}", slices.len());
        // However much lies in such a range.
        let everything = [(0, whole)];
        let mut packed = PackedLane::new((0, whole), &everything);
        for nth in 0..whole / 20 {
            packed.push((nth * 20, nth * 20 + 10), SliceKind::Compute, Some(()));
        }
        assert!(packed.finish(|()| String::new()).len() <= SLICES + EXACT_SLICES);
    }

    #[test]
    fn a_lane_of_very_many_things_is_bounded_and_keeps_detail() {
        let count = 300_000;
        let mut packed = PackedLane::<()>::new((0, count * 10), &[]);
        for nth in 0..count {
            let kind = if nth % 2 == 0 { SliceKind::Operator } else { SliceKind::Launch };
            packed.push((nth * 10, nth * 10 + 7), kind, None);
        }
        let slices = packed.finish(|()| String::new());
        assert!((SLICES / 4..=SLICES).contains(&slices.len()), "{}", slices.len());
        let longest = slices.iter().map(|slice| slice.end - slice.begin).fold(0.0, f64::max);
        assert!(longest < 0.02, "{longest}");
    }

    proptest! {
        #[test]
        fn a_lane_is_bounded_in_order_and_keeps_its_time(
            lengths in proptest::collection::vec((0_i64..40, 0_i64..40, 0_usize..SliceKind::COUNT), 0..8000),
        ) {
            let whole = lengths.iter().map(|(gap, length, _)| gap + length).sum::<i64>();
            let mut packed = PackedLane::<()>::new((0, whole), &[]);
            let (mut at, mut time) = (0, 0);
            for (gap, length, kind) in lengths {
                packed.push((at + gap, at + gap + length), SliceKind::ALL[kind], None);
                (at, time) = (at + gap + length, time + length);
                prop_assert!(packed.slices.len() < 2 * SLICES);
            }
            let slices = packed.finish(|()| String::new());
            for (slices, most) in [(packed_again(&slices, 100), 100), (slices, SLICES)] {
                prop_assert!(slices.len() <= most, "{}", slices.len());
                prop_assert!(slices.windows(2).all(|pair| pair[0].end <= pair[1].begin));
                prop_assert!(slices.iter().all(|slice| 0.0 <= slice.begin && slice.begin < slice.end && slice.end <= 1.0));
                let kept: f64 = slices.iter().map(|slice| (slice.end - slice.begin) * slice.filled).sum();
                prop_assert!((kept * whole as f64 - time as f64).abs() < 1.0, "{kept} of {whole}: {time}");
            }
        }
    }
}
