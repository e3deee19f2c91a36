//! Matrix products: `[m,k]×[k,n]` is 2·m·n·k operations, as in torch's FLOP counter. Adding a bias is not counted.

use super::Work;
use super::numbers::{Element, NumberFormat};
use super::operands::{Operands, Tensor, numel};

/// Which arguments are multiplied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Product {
    left: usize,
    right: usize,
    /// The right one is a weight of `[n,k]`.
    right_is_transposed: bool,
    /// Others that are read: what is added, and scales.
    others: &'static [usize],
    result: ResultType,
}

/// The type of a product's elements.
#[derive(Debug, Clone, Copy)]
enum ResultType {
    Left,
    I32,
    /// Given by the argument at this place; products of 8 bits give `bf16` otherwise.
    Given(usize),
    /// That of the tensor at this place, which is written.
    Written(usize),
}

const PLAIN: Product =
    Product { left: 0, right: 1, right_is_transposed: false, others: &[], result: ResultType::Left };
const ADDED: Product = Product { left: 1, right: 2, others: &[0], ..PLAIN };
const LINEAR: Product = Product { right_is_transposed: true, others: &[2], ..PLAIN };

/// Products by name. Schemas: `native_functions.yaml` of torch 2.15, and those of vLLM, SGLang and AITER.
pub(super) const PRODUCTS: &[(&str, Product)] = &[
    ("aten::mm", PLAIN),
    ("aten::bmm", PLAIN),
    ("aten::mv", PLAIN),
    ("aten::dot", PLAIN),
    ("aten::matmul", PLAIN),
    ("aten::addmm", ADDED),
    ("aten::addmv", ADDED),
    ("aten::baddbmm", ADDED),
    ("aten::_addmm_activation", ADDED),
    ("aten::linear", LINEAR),
    ("aten::_int_mm", Product { result: ResultType::I32, ..PLAIN }),
    ("aten::_scaled_mm", Product { others: &[2, 3, 4, 5], result: ResultType::Given(6), ..PLAIN }),
    (
        "_C::cutlass_scaled_mm",
        Product { left: 1, right: 2, others: &[3, 4, 5], result: ResultType::Written(0), ..PLAIN },
    ),
    ("trtllm::cublas_scaled_mm", Product { others: &[2, 3, 4], result: ResultType::Given(5), ..PLAIN }),
    ("sgl_kernel::fp8_scaled_mm", Product { others: &[2, 3, 5], result: ResultType::Given(4), ..PLAIN }),
    ("vllm::rocm_unquantized_gemm", LINEAR),
    ("aiter::gemm_a16w16", LINEAR),
];

impl Product {
    pub fn work(self, operands: &Operands) -> Option<Work> {
        let (left, right) = (operands.tensor(self.left)?, operands.tensor(self.right)?);
        let multiplied = Multiplied::new(&left.dims, &self.right_dims(right))?;
        let packed = left.element.packed();
        let others: f64 = self.others.iter().map(|at| operands.bytes(*at)).sum();
        let result = match self.result {
            ResultType::Left => left.element,
            ResultType::I32 => Element::I32,
            ResultType::Given(at) => {
                let is_short = [NumberFormat::F8, NumberFormat::F4, NumberFormat::I8].contains(&left.element.number);
                operands.element(at).unwrap_or(if is_short { Element::BF16 } else { left.element })
            }
            ResultType::Written(at) => operands.tensor(at)?.element,
        };
        Some(Work {
            flops: 2.0 * multiplied.results * multiplied.inner * packed,
            bytes: left.bytes() + right.bytes() + others + multiplied.results * result.bytes,
            number: left.element.number,
        })
    }

    /// The shapes of both factors as they are multiplied, and the type of the left one; `None` if they don't fit.
    pub fn factors(self, operands: &Operands) -> Option<([Vec<u64>; 2], Element)> {
        let (left, right) = (operands.tensor(self.left)?, operands.tensor(self.right)?);
        let right = self.right_dims(right);
        Multiplied::new(&left.dims, &right)?;
        Some(([left.dims.clone(), right], left.element))
    }

    fn right_dims(self, right: &Tensor) -> Vec<u64> {
        let mut dims = right.dims.clone();
        if self.right_is_transposed && dims.len() >= 2 {
            let last = dims.len() - 1;
            dims.swap(last - 1, last);
        }
        dims
    }
}

/// A product of two shapes, after the rules of `torch.matmul`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Multiplied {
    /// Elements of the result.
    results: f64,
    /// Length of the sums.
    inner: f64,
}

impl Multiplied {
    /// `None` if the shapes don't fit.
    fn new(left: &[u64], right: &[u64]) -> Option<Self> {
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
        Some(Self { results: numel(batch.into_iter().chain([rows, columns])), inner: *inner as f64 })
    }
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
