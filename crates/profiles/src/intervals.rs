//! Sets of moments: disjoint intervals in order.

/// Begin and end, nanoseconds; the end is not in it.
pub type TimeRange = (i64, i64);

/// A set of moments.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Intervals(Vec<TimeRange>);

impl Intervals {
    /// The moments of one interval.
    pub fn one(begin: i64, end: i64) -> Self {
        Self(if begin < end { vec![(begin, end)] } else { Vec::new() })
    }

    /// The moments that any of these intervals has, within a window.
    pub fn union(intervals: impl IntoIterator<Item = TimeRange>, window: TimeRange) -> Self {
        let clipped = intervals.into_iter().map(|(begin, end)| (begin.max(window.0), end.min(window.1)));
        let mut all: Vec<TimeRange> = clipped.filter(|(begin, end)| begin < end).collect();
        all.sort_unstable();
        all.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        Self(all)
    }

    /// The union of sets within the window. One alone is not copied.
    pub(crate) fn union_of(mut sets: Vec<Self>, window: TimeRange) -> Self {
        if sets.len() > 1 {
            return Self::union(sets.iter().flat_map(Self::iter), window);
        }
        sets.pop().unwrap_or_default()
    }

    /// Adds an interval that begins at or after the end of all others.
    pub fn push(&mut self, (begin, end): TimeRange) {
        match self.0.last_mut() {
            Some(last) if last.1 == begin => last.1 = end,
            _ => self.0.push((begin, end)),
        }
    }

    /// Takes away the moments that another set has, and returns them.
    pub fn take(&mut self, other: &Self) -> Self {
        let rest = self.minus(other);
        let taken = self.minus(&rest);
        *self = rest;
        taken
    }

    /// The intervals, in order.
    pub fn iter(&self) -> impl Iterator<Item = TimeRange> + '_ {
        self.0.iter().copied()
    }

    /// Number of intervals.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// All of it, nanoseconds.
    pub fn length(&self) -> i64 {
        self.iter().map(|(begin, end)| end - begin).sum()
    }

    /// The moments that the other set does not have.
    pub fn minus(&self, other: &Self) -> Self {
        let mut out = Vec::new();
        let mut others = other.0.as_slice();
        for (mut begin, end) in self.iter() {
            // Those that end before are before all that follows as well.
            while let Some((first, rest)) = others.split_first().filter(|(first, _)| first.1 <= begin) {
                let _ = first;
                others = rest;
            }
            for (from, to) in others.iter().copied().take_while(|(from, _)| *from < end) {
                if from > begin {
                    out.push((begin, from));
                }
                begin = begin.max(to);
            }
            if begin < end {
                out.push((begin, end));
            }
        }
        Self(out)
    }

    /// Hands over what the set and an interval have in common, with the set's own interval. `cursor` is where the
    /// search goes on: intervals asked for must not go back.
    pub fn within(&self, (begin, end): TimeRange, cursor: &mut usize, mut each: impl FnMut(TimeRange, TimeRange)) {
        while self.0.get(*cursor).is_some_and(|(_, to)| *to <= begin) {
            *cursor += 1;
        }
        for (from, to) in self.0.get(*cursor..).unwrap_or_default().iter().take_while(|(from, _)| *from < end) {
            each((begin.max(*from), end.min(*to)), (*from, *to));
        }
    }

    /// The set's own interval that an interval lies in; itself if none. `cursor` is as in [`Self::within`].
    pub fn around(&self, (begin, end): TimeRange, cursor: &mut usize) -> TimeRange {
        while self.0.get(*cursor).is_some_and(|(_, to)| *to <= begin) {
            *cursor += 1;
        }
        self.0.get(*cursor).copied().filter(|(from, _)| *from < end).unwrap_or((begin, end))
    }
}

/// Asks a set how much of it lies between two moments, without walking it.
#[derive(Debug)]
pub struct Lengths<'a> {
    intervals: &'a [TimeRange],
    /// Sum of the lengths before each interval.
    before: Vec<i64>,
}

impl<'a> Lengths<'a> {
    /// The set's lengths.
    pub fn new(set: &'a Intervals) -> Self {
        let mut sum = 0;
        let before = set.iter().map(|(begin, end)| {
            sum += end - begin;
            sum - (end - begin)
        });
        Self { before: before.collect(), intervals: &set.0 }
    }

    fn until(&self, moment: i64) -> i64 {
        let after = self.intervals.partition_point(|(begin, _)| *begin < moment);
        let Some(last) = after.checked_sub(1) else { return 0 };
        let (Some(before), Some((begin, end))) = (self.before.get(last), self.intervals.get(last)) else { return 0 };
        before + moment.min(*end) - begin
    }

    /// How much of another set lies in this one, nanoseconds.
    pub fn common(&self, other: &Intervals) -> i64 {
        other.iter().map(|(begin, end)| self.within(begin, end)).sum()
    }

    /// How much of the set lies in an interval, nanoseconds.
    pub fn within(&self, begin: i64, end: i64) -> i64 {
        if begin < end { self.until(end) - self.until(begin) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: TimeRange = (0, 100);

    fn set(intervals: &[TimeRange]) -> Intervals {
        Intervals::union(intervals.iter().copied(), WINDOW)
    }

    #[test]
    fn a_moment_counts_once() {
        assert_eq!(
            set(&[(50, 60), (0, 10), (5, 20), (20, 30), (95, 130), (7, 7), (9, 3)]).0,
            [(0, 30), (50, 60), (95, 100)]
        );
        assert_eq!(set(&[(0, 30), (50, 60)]).minus(&set(&[(10, 12), (14, 55)])).0, [(0, 10), (12, 14), (55, 60)]);
    }

    proptest! {
        #[test]
        fn sets_are_those_of_their_moments(
            a in proptest::collection::vec((0_i64..100, 0_i64..100), 0..20),
            b in proptest::collection::vec((0_i64..100, 0_i64..100), 0..20),
            from in 0_i64..100,
            to in 0_i64..100,
        ) {
            let (a, b) = (set(&a), set(&b));
            let has = |set: &Intervals, at: i64| set.iter().any(|(begin, end)| (begin..end).contains(&at));
            let (minus, lengths) = (a.minus(&b), Lengths::new(&a));
            for at in 0..100 {
                prop_assert_eq!(has(&minus, at), has(&a, at) && !has(&b, at));
            }
            let within = (from..to).filter(|at| has(&a, *at)).count();
            prop_assert_eq!(lengths.within(from, to), i64::try_from(within).unwrap());
        }
    }
}
