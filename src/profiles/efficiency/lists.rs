//! Operators on lists of tensors: concatenation, `foreach` ones and fused optimizers. A trace holds the shapes of the
//! lists but not their type, which the name of the kernel says.

use super::numbers::{Element, NumberFormat};
use super::operands::{Operands, Sizes, numel};
use super::{OPERATORS, Operator, Recorded, Work, finite};

/// All operators of this name read every list and write one like the first, unless they have a row of their own.
const FOREACH: &str = "aten::_foreach_";

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
