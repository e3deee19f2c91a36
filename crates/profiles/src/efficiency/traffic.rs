//! Operators that are bound by memory: elementwise ones, normalization, softmax, reductions, look-ups and copies.
//! They count no FLOPs. Their bytes are those of the operands and of the result, each once; a result that is not
//! recorded follows from the rest. A trace holds the shapes of lists of tensors (concatenation, `foreach` operators, fused optimizers)
//! but not their type, which the name of the kernel says.

use serde::Deserialize;

use super::operands::{Element, NumberFormat, Operands, Sizes, Tensor, numel};
use super::products::broadcast;
use super::{OPERATORS, Operator, Recorded, Work, finite};

/// All operators of this name read every list and write one like the first, unless they have a row of their own.
const FOREACH: &str = "aten::_foreach_";

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
            Self::Like(at) => read_of_all() + operands.tensor(at)?.written(),
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
                input.bytes() + input.written() + input.numel() * BOOL
            }
            Self::Rows => {
                let table = operands.tensor(0)?;
                looked_up(operands.tensor(1)?, numel(table.dims.iter().skip(1).copied()), table)
            }
            Self::RowGradients => {
                let (gradient, rows) = (operands.tensor(0)?, *operands.integers(2)?.first()?);
                let rows = u64::try_from(rows).ok()? as f64;
                read_of_all() + rows * gradient.size(-1)? as f64 * gradient.element.bytes
            }
            Self::Slices => {
                let table = operands.tensor(0)?;
                let slices = table.size(*operands.integers(1)?.first()?).filter(|slices| *slices > 0)?;
                looked_up(operands.tensor(2)?, table.numel() / slices as f64, table)
            }
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

/// The work of a call on lists of tensors, which ran as a kernel of this name; `None` if the operator is no such one,
/// or if its lists or the type in the kernel's name are unknown. All lists count as of this type.
pub fn work_of_lists(call: &Recorded, kernel: &str) -> Option<Work> {
    let listed = OPERATORS.get(call.name);
    let is_foreach = listed.is_none() && call.name.starts_with(FOREACH);
    let Some(Operator::Lists(times)) = (if is_foreach { OPERATORS.get(FOREACH) } else { listed }) else {
        return None;
    };
    let (bytes, number) = element(kernel)?;
    let operands = Operands::read(call)?;
    let list = |sizes: &Sizes| match sizes {
        Sizes::List(list) => Some(list.iter().map(|dims| numel(dims.iter().copied())).sum::<f64>()),
        Sizes::One(_) => None,
    };
    list(operands.sizes.first()?)?;
    let crossed =
        operands.sizes.iter().zip(times).map(|(sizes, times)| list(sizes).unwrap_or(0.0) * f64::from(*times));
    finite(Work { flops: 0.0, bytes: crossed.sum::<f64>() * bytes, number })
}

/// Bytes and format of the elements that a kernel's name says: in its opaque type, or as the first argument of its
/// functor.
fn element(kernel: &str) -> Option<(f64, NumberFormat)> {
    let after = |text: &str| kernel.split_once(text).map(|(_, rest)| rest);
    if let Some(rest) = after("OpaqueType<") {
        let bytes: u8 = rest.split_once("u>")?.0.parse().ok()?;
        return Some((f64::from(bytes), NumberFormat::Other));
    }
    let arguments =
        after("Functor<").or_else(|| after("CatArrayBatchedCopy")?.split_once('<').map(|(_, rest)| rest))?;
    let element = Element::named(arguments.split([',', '>']).next()?)?;
    Some((element.bytes, element.format))
}
