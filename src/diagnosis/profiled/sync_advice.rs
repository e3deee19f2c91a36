//! What replaces each operator that makes the host wait for the GPU.

use crate::profiles::account::SyncRow;

/// An operator that waits, and what to do instead.
struct Instead {
    /// Words in its name, any of which makes it this one.
    operators: &'static [&'static str],
    title: &'static str,
    why: &'static str,
}

/// In order: the first whose word is in the operator's name. Sources: the operators' documentation in torch, and the list of
/// synchronizing calls in its CUDA tuning guide.
const INSTEAD: &[Instead] = &[
    Instead {
        operators: &["item", "_local_scalar_dense"],
        title: "Read the value every so many steps, not in each one",
        why: "`.item()` waits until the GPU has computed it; keep sums on the GPU and read them when they are logged",
    },
    Instead {
        operators: &["is_nonzero"],
        title: "Decide on the GPU: torch.where instead of `if tensor:`",
        why: "a condition on a tensor waits until the GPU has computed it",
    },
    Instead {
        operators: &["unique"],
        title: "Sort, and compare each value with the next, instead of torch.unique",
        why: "the size of its result is only known on the GPU, so the host waits for it; a sort has a fixed size",
    },
    Instead {
        operators: &["nonzero", "masked_select", "aten::index", "IndexBackward", "index_put"],
        title: "Use torch.where or a multiplication instead of a boolean mask",
        why: "the number of selected elements is only known on the GPU, so the host waits for it; the loss functions' \
              ignore_index needs no mask",
    },
    Instead {
        operators: &["repeat_interleave"],
        title: "Give repeat_interleave its output_size",
        why: "without it the size of its result is read back from the GPU",
    },
    Instead {
        operators: &["aten::to", "aten::copy_", "_to_copy", "aten::cpu"],
        title: "Copy results with non_blocking=True into pinned memory, and read them a step later",
        why: "`.cpu()` waits until the GPU has computed the result and copied it",
    },
    Instead {
        operators: &["allclose", "equal"],
        title: "Compare on the GPU, and read the answer at the end of an epoch",
        why: "the comparison's answer is read back from the GPU",
    },
];

/// Title and reason.
pub(super) fn instead_of(row: &SyncRow) -> (String, String) {
    let operator = row.operator.as_deref().unwrap_or_default();
    let found = INSTEAD.iter().find(|instead| instead.operators.iter().any(|word| operator.contains(word)));
    if let Some(found) = found {
        return (found.title.to_owned(), found.why.to_owned());
    }
    let call = &row.call;
    (
        format!("Remove {call}, or call it less often"),
        "the host then launches the next work while the GPU still computes".to_owned(),
    )
}
