//! Threads of a trainer beside the one that runs its loop: whether what they do is making batches.

use super::helpers::at_work_aside;
use super::patterns::Pattern;
use super::reading::{Seen, makes_what_is_trained_on, sleeps};
use crate::sample::{StackWindow, ThreadStacks};

/// Samples of the other threads at work in the user's own code, and those of them in which they make batches.
pub(super) fn at_work(window: &StackWindow, patterns: &[Pattern], main: Option<&ThreadStacks>) -> (u32, u32) {
    let (mut all, mut make) = (0_u32, 0_u32);
    for (seen, samples) in at_work_aside(window, patterns, main) {
        if seen.first().is_some_and(|leaf| sleeps(leaf.frame)) || !seen.iter().any(Seen::is_user) {
            continue;
        }
        all = all.saturating_add(samples);
        make = make.saturating_add(if makes_what_is_trained_on(&seen) { samples } else { 0 });
    }
    (all, make)
}
