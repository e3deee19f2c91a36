//! How many elements a tensor of torch has.

use super::layout::MARKS;
use super::objects::Objects;

/// Where torch's tensor has the address of its memory's description, by version, and where that may say its sizes and strides: their
/// number, at most five of each, the first place, and the number of elements, which must all agree (`c10/core/TensorImpl.h`).
const TENSOR_PLACES: [u64; 2] = [16, 24];
const SIZES_PLACES: std::ops::Range<usize> = 4..20;
const MOST_SIZES: usize = 5;

impl Objects<'_> {
    /// The number of elements of the tensor that is referred to at an address; `None` as above.
    pub(super) fn elements_at(&self, place: u64) -> Option<i64> {
        let object = || Some(self.memory.word(place)? & !MARKS);
        let read = object()?;
        let tensor = TENSOR_PLACES.iter().find_map(|offset| {
            let words = self.words(self.memory.word(read.checked_add(*offset)?)?, 36)?;
            SIZES_PLACES.into_iter().find_map(|at| elements(words.get(at..)?))
        });
        (object()? == read).then_some(tensor?)
    }
}

/// The number of elements that sizes and strides say: their count, five of each, the first place, and their product.
fn elements(words: &[u64]) -> Option<i64> {
    let count = usize::try_from(*words.first()?).ok().filter(|count| (1..=MOST_SIZES).contains(count))?;
    let (sizes, strides) = (words.get(1..=count)?, words.get(1 + MOST_SIZES..=MOST_SIZES + count)?);
    let mut product = 1_u64;
    for (size, stride) in sizes.iter().zip(strides).rev() {
        if *stride != product {
            return None;
        }
        product = product.checked_mul(*size)?;
    }
    let is_whole = *words.get(2 + 2 * MOST_SIZES)? == product && product > 0;
    i64::try_from(product).ok().filter(|_| is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_elements_of_a_tensor_are_told_by_its_sizes_and_strides() {
        let described = |sizes: &[u64], strides: &[u64], product: u64| {
            let five = |numbers: &[u64]| [numbers, &[0; MOST_SIZES]].concat().into_iter().take(MOST_SIZES);
            let mut words = vec![sizes.len() as u64];
            words.extend(five(sizes).chain(five(strides)));
            words.extend([0, product]);
            elements(&words)
        };
        assert_eq!(described(&[8, 24], &[24, 1], 192), Some(192));
        assert_eq!(described(&[5], &[1], 5), Some(5));
        assert_eq!(described(&[8, 24], &[1, 8], 192), None, "another order");
        assert_eq!(described(&[8, 24], &[24, 1], 191), None, "its numbers do not agree");
        assert_eq!(described(&[0], &[1], 0), None);
        assert_eq!(described(&[u64::MAX, 2], &[2, 1], 0), None);
        assert_eq!(elements(&[1]), None);
    }
}
