//! Operators that are bound by memory: elementwise ones, normalization, softmax, reductions, look-ups and copies.
//! They count no FLOPs. Their bytes are those of the operands and of the result, each once; a result that is not
//! recorded follows from the rest.

use serde::Deserialize;

use super::Work;
use super::numbers::Element;
use super::operands::{Operands, Tensor, numel};
use super::products::broadcast;

/// What such an operator reads and writes.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Traffic {
    /// The first operands, as many as there are, are broadcast to the result.
    Elementwise(usize),
    /// The same, with a result of Booleans.
    Comparison(usize),
    /// All operands are read; the result is like the one at this place.
    Like(usize),
    /// The same, in single precision if the flag at this place says so.
    Softmax(usize),
    /// The first operand becomes one of another type, whose number is at this place.
    Cast(usize),
    /// The dimensions at this place are summed up, or whatever a reduction does with them.
    Reduced(usize),
    /// All operands are read, and the result is one number.
    ToScalar,
    /// The first operand becomes a result like it and a mask of Booleans.
    Dropout,
    /// Rows of a table are read, as many as there are indices at place 1.
    Rows,
    /// The gradient of such a table, with as many rows as place 2 says.
    RowGradients,
    /// Slices along the dimension at place 1 are read, as many as there are indices at place 2.
    Slices,
    /// A single element for each index at place 2.
    Gathered,
    /// Each operand crosses the memory this many times.
    Each(Vec<u8>),
}

/// Bytes of a Boolean, and of a number in single precision.
const BOOL: f64 = 1.0;
const F32: f64 = 4.0;

impl Traffic {
    pub fn work(&self, operands: &Operands) -> Option<Work> {
        let first = operands.tensors.iter().flatten().next()?;
        let read_of_all = || operands.tensors.iter().flatten().map(Tensor::bytes).sum::<f64>();
        let bytes = match *self {
            Self::Elementwise(count) => elementwise(operands, count, None)?,
            Self::Comparison(count) => elementwise(operands, count, Some(BOOL))?,
            Self::Like(at) => read_of_all() + result_like(operands.tensor(at)?),
            Self::Softmax(flag) => {
                let input = operands.tensor(0)?;
                let of_one = if operands.flag(flag) == Some(true) { F32 } else { input.element.bytes };
                input.bytes() + input.numel() * of_one
            }
            Self::Cast(at) => {
                let input = operands.tensor(0)?;
                input.bytes() + input.numel() * operands.element(at).unwrap_or(input.element).bytes
            }
            Self::Reduced(at) => {
                let input = operands.tensor(0)?;
                input.bytes() + reduced(operands, input, at) * input.element.bytes
            }
            Self::ToScalar => read_of_all() + first.element.bytes,
            Self::Dropout => {
                let input = operands.tensor(0)?;
                input.bytes() + result_like(input) + input.numel() * BOOL
            }
            Self::Rows => rows(operands)?,
            Self::RowGradients => read_of_all() + row_gradients(operands)?,
            Self::Slices => slices(operands)?,
            Self::Gathered => looked_up(operands.tensor(2)?, 1.0, operands.tensor(0)?),
            Self::Each(ref times) => {
                let each = times.iter().enumerate().map(|(at, times)| f64::from(*times) * operands.bytes(at));
                operands.tensor(0)?;
                each.sum()
            }
        };
        Some(Work { flops: 0.0, bytes, number: first.element.format })
    }
}

/// Bytes of a result with the shape and type of this tensor.
fn result_like(tensor: &Tensor) -> f64 {
    tensor.numel() * tensor.element.bytes
}

/// Bytes of the first operands and of the result to which they are broadcast, the bytes of whose elements may be given.
fn elementwise(operands: &Operands, count: usize, result: Option<f64>) -> Option<f64> {
    let tensors: Vec<&Tensor> = operands.tensors.iter().take(count).flatten().collect();
    let result = result.or_else(|| Some(promoted(&tensors)?.bytes))?;
    let shape = tensors.iter().try_fold(Vec::new(), |shape, tensor| broadcast(&shape, &tensor.dims))?;
    let read: f64 = tensors.iter().map(|tensor| tensor.bytes()).sum();
    Some(read + numel(shape.into_iter()) * result)
}

/// The type to which operands are promoted: tensors of one number count only where there is no other.
fn promoted(tensors: &[&Tensor]) -> Option<&'static Element> {
    let elements = tensors.iter().map(|tensor| (!tensor.dims.is_empty(), tensor.element));
    elements.max_by_key(|(has_dimensions, element)| (*has_dimensions, element.rank())).map(|(_, element)| element)
}

/// Elements that are left after the reduction over the dimensions at this place: one, where none are recorded.
fn reduced(operands: &Operands, input: &Tensor, at: usize) -> f64 {
    let Some(dims) = operands.integers(at).filter(|dims| !dims.is_empty()) else { return 1.0 };
    let gone = numel(dims.iter().filter_map(|at| input.size(*at)));
    if gone > 0.0 { input.numel() / gone } else { 0.0 }
}

/// Bytes of a look-up: the indices, and for each of them some elements of a table, which are read and written.
fn looked_up(indices: &Tensor, elements: f64, table: &Tensor) -> f64 {
    indices.bytes() + 2.0 * indices.numel() * elements * table.element.bytes
}

/// Bytes of rows that are looked up in a table.
fn rows(operands: &Operands) -> Option<f64> {
    let table = operands.tensor(0)?;
    Some(looked_up(operands.tensor(1)?, numel(table.dims.iter().skip(1).copied()), table))
}

/// Bytes of the gradient of such a table.
fn row_gradients(operands: &Operands) -> Option<f64> {
    let (gradient, rows) = (operands.tensor(0)?, *operands.integers(2)?.first()?);
    Some(u64::try_from(rows).ok()? as f64 * gradient.size(-1)? as f64 * gradient.element.bytes)
}

/// Bytes of slices that are looked up along a dimension.
fn slices(operands: &Operands) -> Option<f64> {
    let table = operands.tensor(0)?;
    let slices = table.size(*operands.integers(1)?.first()?)?;
    let slice = if slices > 0 { table.numel() / slices as f64 } else { return None };
    Some(looked_up(operands.tensor(2)?, slice, table))
}
