//! Threads of a trainer beside the one that runs its loop: whether what they do is making batches.

use super::patterns::Pattern;
use super::reading::{makes_what_is_trained_on, sleeps};
use super::seen;
use crate::sample::{StackWindow, ThreadStacks};

/// Samples of the other threads at work in the user's own code, and those of them in which they make batches.
pub(super) fn at_work(window: &StackWindow, patterns: &[Pattern], main: Option<&ThreadStacks>) -> (u32, u32) {
    let (mut all, mut make) = (0_u32, 0_u32);
    let others = window.threads.iter().filter(|thread| main.is_none_or(|main| !std::ptr::eq(*thread, main)));
    for stack in others.flat_map(|thread| &thread.stacks) {
        let seen = seen(window, patterns, stack);
        let rests = seen.first().is_none_or(|leaf| leaf.pattern == Pattern::Wait || sleeps(leaf.frame));
        let sends = seen.iter().any(|seen| seen.pattern == Pattern::QueueFeed);
        if rests || sends || !seen.iter().any(super::reading::Seen::is_user) {
            continue;
        }
        all = all.saturating_add(stack.samples);
        make = make.saturating_add(if makes_what_is_trained_on(&seen) { stack.samples } else { 0 });
    }
    (all, make)
}
