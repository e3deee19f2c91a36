//! How well the busy time is used: floating-point operations and bytes of operators whose shapes were recorded,
//! beside the GPU's peaks.
//!
//! Two numbers for each call, from its recorded shapes alone:
//!
//! - **FLOPs** of matrix products, convolutions and attention, as torch's FLOP counter counts them
//!   (`torch.utils.flop_counter`): a multiplication with its addition is two. Everything else counts zero, so that a
//!   step's sum is the numerator of the usual MFU. Attention counts in full even if it is causal, as torch counts it,
//!   although a kernel may skip half of it.
//! - **Bytes** that have to cross the GPU's memory at least: each operand is read once and each result is written
//!   once. A dimension with stride 0 is one element, however often it is repeated. What stays in a cache is not taken
//!   off, and temporaries are not added.
//!
//! Where a shape or type that decides a number was not recorded, there is no number: profilers record no types for
//! lists of tensors (`aten::cat`, fused optimizers: [`work_of_lists`] reads them from the kernel's name), no strides
//! of convolutions before torch 2.1 ([`ConvolutionResults`] helps), and no lengths of cached sequences.

mod attention;
mod convolutions;
mod operands;
mod peaks;
mod products;
mod shapes;
mod traffic;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::LazyLock;

use attention::Attention;
use convolutions::Convolution;
pub use convolutions::ConvolutionResults;
pub use operands::NumberFormat;
use operands::{Element, Operands};
pub use peaks::{Peak, peak_of, peak_of_unnamed};
use products::Product;
use serde::Deserialize;
pub use shapes::shape_of;
use traffic::Traffic;
pub use traffic::work_of_lists;

/// What a trace recorded of an operator's call: its name, and its arguments as the JSON texts of the trace, empty
/// where not recorded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Recorded<'a> {
    /// Name of the operator, such as `aten::mm`.
    pub name: &'a str,
    /// `Input Dims`: `[[8,16],[16,32],[]]`.
    pub dims: &'a str,
    /// `Input type`: `["float","c10::BFloat16",""]`.
    pub types: &'a str,
    /// `Input Strides`, in elements: `[[16,1],[32,1],[]]`.
    pub strides: &'a str,
    /// `Concrete Inputs`: `["","1","[1, 1]"]`.
    pub values: &'a str,
}

/// How much work a call is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Floating-point operations, or integer operations of integers.
    pub flops: f64,
    /// Bytes that are read and written at least.
    pub bytes: f64,
    /// The format of the operands. Products of `f32` may run as TF32, which only the kernel's name says.
    pub number: NumberFormat,
}

/// How the work of an operator follows from its operands.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Operator {
    Product(Product),
    Convolution(Convolution),
    Attention(Attention),
    Traffic(Traffic),
    /// Of an operator on lists of tensors: how often each list crosses the memory.
    Lists(Vec<u8>),
}

/// What `assets/operators.toml` says.
#[derive(Debug, Default, Deserialize)]
struct OperatorFacts {
    operators: Vec<NamedOperators>,
    elements: Vec<Element>,
}

#[derive(Debug, Deserialize)]
struct NamedOperators {
    names: String,
    #[serde(flatten)]
    operator: Operator,
}

static FACTS: LazyLock<OperatorFacts> =
    LazyLock::new(|| toml::from_str(include_str!("../../assets/operators.toml")).unwrap_or_default());

/// Every known operator by its name.
static OPERATORS: LazyLock<HashMap<&str, &Operator>> = LazyLock::new(|| {
    let named = |row: &'static NamedOperators| row.names.split_whitespace().map(|name| (name, &row.operator));
    FACTS.operators.iter().flat_map(named).collect()
});

/// How the work of this operator is computed; an operator in place (`aten::add_`) is like the other (`aten::add`).
fn operator(name: &str) -> Option<&'static Operator> {
    OPERATORS.get(name).or_else(|| OPERATORS.get(name.strip_suffix('_')?)).copied()
}

/// The work of a call; `None` if the operator is unknown, or if what decides it was not recorded.
///
/// Time and memory are bounded: texts above 16 KiB, more than 64 operands and more than 16 dimensions are refused.
pub(crate) fn work_of(call: &Recorded) -> Option<Work> {
    let operator = operator(call.name)?;
    let operands = Operands::read(call)?;
    let work = match operator {
        Operator::Product(product) => product.work(&operands),
        Operator::Convolution(convolution) => convolution.work(&operands),
        Operator::Attention(attention) => attention.work(&operands),
        Operator::Traffic(traffic) => traffic.work(&operands),
        Operator::Lists(_) => None,
    }?;
    finite(work)
}

/// Sizes that multiply to more than a number holds are no work.
fn finite(work: Work) -> Option<Work> {
    (work.flops.is_finite() && work.bytes.is_finite()).then_some(work)
}
