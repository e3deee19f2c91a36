//! Threads other than the main one of a window. If a worker's dataset decodes or fetches in threads of its own while
//! its first thread waits for them, their stacks show what a sample costs; a training process's threads may make its
//! batches.

use super::call_tree::{CallTree, is_told};
use super::patterns::Pattern;
use super::reading::{KnownFrame, has, makes_what_is_trained_on, sample_stage, sleeps, waits};
use super::{place, seen, tally};
use crate::taxonomy::Activity;
use trainmon_sample::{StackWindow, ThreadStacks};

/// Whether the thread waits, in the dataset or collate function, for something that its code does not name.
pub(super) fn is_wait_in_fetch(stack: &[KnownFrame<'_>], activity: Activity) -> bool {
    waits(stack) && activity == Activity::Transform && has(stack, Pattern::Fetch)
}

/// Samples in which a thread did something, and where.
#[derive(Debug)]
pub(super) struct Did {
    pub activity: Activity,
    /// The frame, and whether it is the leaf.
    pub place: Option<(usize, bool)>,
    pub samples: u32,
}

/// The stacks of the other threads that neither wait nor send batches, and how often each occurred.
fn at_work_aside<'a>(
    window: &'a StackWindow,
    patterns: &'a [Pattern],
    main: Option<&'a ThreadStacks>,
) -> impl Iterator<Item = (Vec<KnownFrame<'a>>, u32)> {
    let others = window.threads.iter().filter(move |thread| main.is_none_or(|main| !std::ptr::eq(*thread, main)));
    let stacks = others.flat_map(|thread| &thread.stacks).map(|stack| (seen(window, patterns, stack), stack.samples));
    stacks.filter(|(seen, _)| !waits(seen) && !has(seen, Pattern::QueueFeed))
}

/// What a training process's other threads do.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Samples at work in the user's own code.
    pub works: u32,
    /// Of these: making batches.
    pub makes_batches: u32,
    /// Samples in what a library fits a model with, or in a model that makes no batches.
    pub fits: u32,
    /// The calls of those that make batches or fit a model.
    pub calls: CallTree,
}

/// What the other threads of a training process do while they do not wait.
pub(super) fn at_work(window: &StackWindow, patterns: &[Pattern], main: Option<&ThreadStacks>) -> Aside {
    let mut aside = Aside::default();
    for (seen, samples) in at_work_aside(window, patterns, main) {
        let works = seen.iter().any(KnownFrame::is_user) && !sleeps(&seen);
        let makes = works && makes_what_is_trained_on(&seen);
        let runs_model =
            |seen: &KnownFrame<'_>| matches!(seen.pattern, Pattern::Is(Activity::Forward | Activity::Generate));
        let fits = has(&seen, Pattern::Is(Activity::Fit)) || !makes && seen.iter().any(runs_model);
        let counts = [(&mut aside.works, works), (&mut aside.makes_batches, makes), (&mut aside.fits, fits)];
        tally(samples, counts);
        if makes || fits {
            aside.calls.add_stack(seen.iter().map(|seen| seen.frame).filter(|frame| is_told(frame)), samples);
        }
    }
    aside.calls = aside.calls.cut();
    aside
}

/// What the other threads did during this many samples of the first thread's waits, which they share: in the user's own
/// code, or in known reading or decoding code, and not waiting themselves. Empty if no thread did.
pub(super) fn meanwhile(
    window: &StackWindow,
    patterns: &[Pattern],
    main: Option<&ThreadStacks>,
    waited: u32,
) -> Vec<Did> {
    let mut did: Vec<Did> = at_work_aside(window, patterns, main)
        .filter_map(|(seen, samples)| {
            let known = |seen: &KnownFrame<'_>| {
                seen.is_user() || matches!(seen.pattern, Pattern::Is(Activity::Decode | Activity::Load))
            };
            seen.iter().any(known).then(|| Did { activity: sample_stage(&seen), place: place(&seen), samples })
        })
        .collect();
    let all: u64 = did.iter().map(|did| u64::from(did.samples)).sum();
    // The parts add up to the whole.
    let (mut before, mut given) = (0_u64, 0_u64);
    for did in &mut did {
        before += u64::from(did.samples);
        let until = before * u64::from(waited) / all.max(1);
        did.samples = u32::try_from(until - given).unwrap_or(u32::MAX);
        given = until;
    }
    did.retain(|did| did.samples > 0);
    did
}
