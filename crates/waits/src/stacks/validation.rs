//! Whether a stack is in a validation, and why it counts as one.

use super::patterns::Pattern;
use super::reading::{KnownFrame, has};
use trainmon_base::text::is_one_of;
use trainmon_libraries::code::last_part;
use trainmon_sample::FrameLocals;

/// Why a stack counts as being in a validation loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValidationSign {
    /// A framework's evaluation loop, or a user function named for it that learns nothing: under `torch.no_grad()`.
    Sure,
    /// A user function named for it; whole runs have such names too.
    Name,
    /// A function under `torch.no_grad()`, which programs that only generate or predict have too.
    NoGrad,
}

/// Whether a stack is in a validation loop, and why. What the user's own loop that takes steps (`stepping`) calls, even a metric,
/// is part of its step.
pub(super) fn validation_sign(stack: &[KnownFrame<'_>], stepping: Option<&FrameLocals>) -> Option<ValidationSign> {
    // A library's evaluation loop takes no part in its steps, wherever it is called.
    if has(stack, Pattern::Validation) {
        return Some(ValidationSign::Sure);
    }
    let is_loop = |seen: &KnownFrame<'_>| {
        stepping.is_some_and(|found| (&found.function, &found.file) == (&seen.frame.function, &seen.frame.file))
    };
    let stack = stack.get(stack.iter().position(is_loop).unwrap_or(0)..).unwrap_or_default();
    // torch's optimizers run under no_grad too, and so do parts of frameworks: only the user's own functions count.
    let under_no_grad = |pair: &[KnownFrame<'_>]| matches!(pair, [inner, outer] if inner.is_user() && outer.pattern == Pattern::NoGrad);
    let named = is_named_for_validation(stack);
    match stack.windows(2).any(under_no_grad) {
        true if named => Some(ValidationSign::Sure),
        true => Some(ValidationSign::NoGrad),
        false => named.then_some(ValidationSign::Name),
    }
}

/// Whether a stack is in a function of the user's that is named for a validation and in which no model learns.
pub(super) fn is_named_for_validation(stack: &[KnownFrame<'_>]) -> bool {
    let validates = |seen: &KnownFrame<'_>| {
        seen.is_user() && !seen.learns && named_for_validation(last_part(&seen.frame.function))
    };
    stack.iter().any(validates)
}

fn named_for_validation(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words = || name.split('_');
    // `train_and_evaluate` is the whole run.
    words().any(|word| is_one_of("validate validation evaluate evaluation eval val test testing", word))
        && !words().any(|word| matches!(word, "train" | "training" | "fit" | "main" | "run" | "and"))
}
