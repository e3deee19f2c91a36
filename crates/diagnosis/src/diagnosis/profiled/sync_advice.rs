//! What replaces each operator that makes the host wait for the GPU.

use super::super::parts::Advice;
use super::said::{self, Fix, advice};
use trainmon_profiles::account::SyncRow;

/// Words in an operator's name, and what to do instead of it. In order: the first whose word is in the name. Sources: the operators'
/// documentation in torch, and the list of synchronizing calls in its CUDA tuning guide.
const INSTEAD: [(&[&str], Fix); 7] = [
    (&["item", "_local_scalar_dense"], said::READ_SELDOM),
    (&["is_nonzero"], said::DECIDE_ON_GPU),
    (&["unique"], said::SORT),
    (&["nonzero", "masked_select", "aten::index", "IndexBackward", "index_put"], said::NO_MASK),
    (&["repeat_interleave"], said::OUTPUT_SIZE),
    (&["aten::to", "aten::copy_", "_to_copy", "aten::cpu"], said::COPY_LATER),
    (&["allclose", "equal"], said::COMPARE_ON_GPU),
];

/// What to do instead, with what it gains at most.
pub(super) fn instead_of(row: &SyncRow, gain: f64) -> Advice {
    let operator = row.operator.as_deref().unwrap_or_default();
    let known = INSTEAD.iter().find(|(words, _)| words.iter().any(|word| operator.contains(word)));
    known.map_or_else(
        || {
            let why = "the host then launches the next work while the GPU still computes";
            advice(format!("Remove {}, or call it less often", row.call), why, Some(gain))
        },
        |(_, fix)| fix.gaining(gain),
    )
}
