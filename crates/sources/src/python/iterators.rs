//! How far iterators have come.

use super::objects::{Kind, Objects, TurnsPlace};

/// Where the remaining length of a range is known instead of its place, the place is counted up to the first of these that is longer:
/// more than a loop has turns, more than one is asked for, and what `range(sys.maxsize)` has.
const RANGES: [u64; 3] = [1 << 29, 1 << 40, i64::MAX as u64];
/// How many iterators are looked into one another: `zip(enumerate(…))`.
const WITHIN: usize = 4;

/// How far a loop has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Turns(i64),
    /// What the generator at this address has counted.
    Generator(u64),
    /// What the attributes of this object count.
    Object(u64),
    /// It keeps that where it is not read.
    Unknown,
}

impl Objects<'_> {
    /// How far an iterator has come; `None` if it is not a known one.
    pub(super) fn progress(&self, iterator: u64) -> Option<Progress> {
        self.progress_within(iterator, WITHIN)
    }

    fn progress_within(&self, iterator: u64, within: usize) -> Option<Progress> {
        let place = |offset: u64| self.memory.word(iterator.checked_add(offset)?);
        let of = |inner: u64| self.progress_within(inner, within.checked_sub(1)?);
        let turns = match self.kind(iterator)? {
            Kind::Counting(TurnsPlace::At(offset)) => place(offset)?,
            Kind::Counting(TurnsPlace::Range) if self.layout.is_tagged => place_in_range(place(32)?)?,
            Kind::Counting(TurnsPlace::Range) => place(16)?,
            Kind::Counting(TurnsPlace::First(offset)) => return of(*self.items(place(offset)?, 1)?.first()?),
            Kind::Counting(TurnsPlace::Cycle) => match place(16)? {
                0 => place(32)?,
                first_pass => return of(first_pass),
            },
            Kind::Counting(TurnsPlace::Batched) => {
                let Progress::Turns(items) = of(place(16)?)? else { return Some(Progress::Unknown) };
                return Some(Progress::Turns(batches(items, i64::try_from(place(24)?).ok()?)?));
            }
            Kind::Iterator => return Some(Progress::Unknown),
            Kind::Generator => return Some(Progress::Generator(iterator)),
            Kind::Object(of) if of.next != 0 && of.next != self.no_next => return Some(Progress::Object(iterator)),
            _ => return None,
        };
        i64::try_from(turns).ok().map(Progress::Turns)
    }
}

/// How far a range has come of which so much is left.
fn place_in_range(left: u64) -> Option<u64> {
    RANGES.iter().find_map(|range| range.checked_sub(left))
}

/// How many batches so many items are.
pub(super) fn batches(items: i64, size: i64) -> Option<i64> {
    let whole = items.checked_div(size).filter(|_| size > 0 && items >= 0)?;
    Some(whole + i64::from(items % size > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_comes_further_by_one_each_turn() {
        let maxsize = i64::MAX as u64;
        assert_eq!([maxsize, maxsize - 150].map(place_in_range), [Some(0), Some(150)]);
        for length in [10, 1 << 29, 10_000_000_000] {
            let places = [length, length - 1, length - 10].map(|left| place_in_range(left).unwrap());
            assert_eq!([places[1] - places[0], places[2] - places[0]], [1, 10]);
        }
        assert_eq!(place_in_range(u64::MAX), None);
    }

    #[test]
    fn batches_of_items() {
        assert_eq!(
            [(0, 8), (8, 8), (9, 8), (5, 0), (-1, 8)].map(|(items, size)| batches(items, size)),
            [Some(0), Some(1), Some(2), None, None]
        );
    }
}
