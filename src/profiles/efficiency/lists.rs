//! Operators on lists of tensors: concatenation, `foreach` ones and fused optimizers. A trace holds the shapes of the
//! lists but not their type, which the name of the kernel says.

use super::numbers::{Element, NumberFormat};
use super::operands::{Operands, Sizes, numel};
use super::{Recorded, Work, finite};

/// How often each list crosses the memory. Schemas: `native_functions.yaml` of torch 2.15.
const LISTS: &[(&str, &[u8])] = &[
    // Read, and written into the result.
    ("aten::cat", &[2]),
    ("aten::_cat", &[2]),
    ("aten::stack", &[2]),
    ("aten::_foreach_copy_", &[1, 1]),
    ("aten::_foreach_zero_", &[1]),
    ("aten::_foreach_norm", &[1]),
    ("aten::_foreach_max", &[1]),
    ("aten::_amp_foreach_non_finite_check_and_unscale_", &[2]),
    // Parameters, gradients, and the optimizer's state; the last ones are the greatest second moments and the step
    // counts.
    ("aten::_fused_adam_", &[2, 1, 2, 2, 2, 0]),
    ("aten::_fused_adamw_", &[2, 1, 2, 2, 2, 0]),
    ("aten::_fused_sgd_", &[2, 1, 2]),
    ("aten::_fused_adagrad_", &[2, 1, 2, 0]),
];
/// All others of this name read every list and write one like the first.
const FOREACH: (&str, &[u8]) = ("aten::_foreach_", &[2, 1, 1]);

/// The work of a call on lists of tensors, which ran as a kernel of this name; `None` if the operator is no such one,
/// or if its lists or the type in the kernel's name are unknown. All lists count as of this type.
pub fn work_of_lists(call: &Recorded, kernel: &str) -> Option<Work> {
    let listed = LISTS.iter().find(|(name, _)| *name == call.name);
    let times = listed.or_else(|| call.name.starts_with(FOREACH.0).then_some(&FOREACH))?.1;
    let (bytes, number) = element(kernel)?;
    let operands = Operands::read(call)?;
    let list = |sizes: &Sizes| match sizes {
        Sizes::List(list) => Some(list.iter().map(|dims| numel(dims.iter().copied())).sum::<f64>()),
        Sizes::One(_) => None,
    };
    let first = operands.sizes.first().and_then(list);
    first?;
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
    Some((element.bytes, element.number))
}
