//! Matrix products: `[m,k]×[k,n]` is 2·m·n·k operations, as in torch's FLOP counter. Adding a bias is not counted.

use serde::Deserialize;

use super::Work;
use super::operands::{Element, NumberFormat, Operands, Tensor, numel};

/// Which arguments are multiplied.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Product {
    left: usize,
    right: usize,
    /// The right one is a weight of `[n,k]`.
    right_is_transposed: bool,
    /// Others that are read: what is added, and scales.
    others: Vec<usize>,
    result: ResultType,
}

/// The type of a product's elements.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ResultType {
    #[default]
    Left,
    I32,
    /// Given by the argument at this place; products of 8 bits give `bf16` otherwise.
    Given(usize),
    /// That of the tensor at this place, which is written.
    Written(usize),
}

impl Product {
    pub fn work(&self, operands: &Operands) -> Option<Work> {
        let (left, right) = (operands.tensor(self.left)?, operands.tensor(self.right)?);
        let [results, inner] = multiplied(&left.dims, &self.right_dims(right))?;
        let packed = left.element.packed();
        let others: f64 = self.others.iter().map(|at| operands.bytes(*at)).sum();
        let result_bytes = match self.result {
            ResultType::Left => left.element.bytes,
            ResultType::I32 => 4.0,
            ResultType::Given(at) => {
                let is_short = [NumberFormat::F8, NumberFormat::F4, NumberFormat::I8].contains(&left.element.format);
                operands.element(at).map_or(if is_short { 2.0 } else { left.element.bytes }, |given| given.bytes)
            }
            ResultType::Written(at) => operands.tensor(at)?.element.bytes,
        };
        Some(Work {
            flops: 2.0 * results * inner * packed,
            bytes: left.bytes() + right.bytes() + others + results * result_bytes,
            number: left.element.format,
        })
    }

    /// The shapes of both factors as they are multiplied, and the type of the left one; `None` if they don't fit.
    pub(crate) fn factors(&self, operands: &Operands) -> Option<([Vec<u64>; 2], &'static Element)> {
        let (left, right) = (operands.tensor(self.left)?, operands.tensor(self.right)?);
        let right = self.right_dims(right);
        multiplied(&left.dims, &right)?;
        Some(([left.dims.clone(), right], left.element))
    }

    fn right_dims(&self, right: &Tensor) -> Vec<u64> {
        let mut dims = right.dims.clone();
        if self.right_is_transposed && dims.len() >= 2 {
            let last = dims.len() - 1;
            dims.swap(last - 1, last);
        }
        dims
    }
}

/// A product of two shapes, after the rules of `torch.matmul`: elements of the result, and length of the sums. `None` if the shapes
/// don't fit.
fn multiplied(left: &[u64], right: &[u64]) -> Option<[f64; 2]> {
    let (inner, left_rows) = left.split_last()?;
    let (right_batch, right_inner, columns) = match right {
        [inner] => (&[][..], inner, 1),
        [batch @ .., inner, columns] => (batch, inner, *columns),
        [] => return None,
    };
    if inner != right_inner {
        return None;
    }
    let (rows, left_batch) = left_rows.split_last().map_or((1, left_rows), |(rows, batch)| (*rows, batch));
    let batch = broadcast(left_batch, right_batch)?;
    Some([numel(batch.into_iter().chain([rows, columns])), *inner as f64])
}

/// The shape to which two shapes are broadcast; `None` if they don't fit.
pub(super) fn broadcast(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let (longer, shorter) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let padding = longer.len() - shorter.len();
    let padded = std::iter::repeat_n(&1, padding).chain(shorter);
    let sizes = longer.iter().zip(padded).map(|(a, b)| match (*a, *b) {
        (a, b) if a == b => Some(a),
        (1, size) | (size, 1) => Some(size),
        _ => None,
    });
    sizes.collect()
}
