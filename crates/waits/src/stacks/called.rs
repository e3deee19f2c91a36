//! What a thread calls while it does something of its own, and the libraries of the table that it is in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::add_library;
use super::call_tree::{self, CallTree};
use super::patterns::Pattern;
use crate::taxonomy::Activity;
use trainmon_libraries::Library;
use trainmon_sample::{StackCount, StackFrame, StackWindow};

/// The calls of a loop's thread that did this in its stacks, and the libraries that run it or hand out its batches, with the samples
/// of each.
pub(super) fn code(window: &StackWindow, done: &[(Activity, &StackCount)]) -> (CallTree, BTreeMap<Arc<str>, u32>) {
    let rows = |frame: &StackFrame| {
        let (file, function) = (&frame.file, &frame.function);
        let of_loop = Library::running(file, function).or_else(|| Library::handing_out(file, function));
        [of_loop, Library::computing(file, function)].map(|library| library.map(|library| library.name))
    };
    let of_frames: Vec<_> = window.frames.iter().map(|frame| (rows(frame), call_tree::is_told(frame))).collect();
    let (mut calls, mut libraries) = (CallTree::default(), BTreeMap::new());
    for (activity, stack) in done {
        let at = |frame: &u32| usize::try_from(*frame).unwrap_or(usize::MAX);
        let known = || stack.frames.iter().map(|frame| (window.frames.get(at(frame)), of_frames.get(at(frame))));
        let names = known().filter_map(|(_, of_frame)| Some(of_frame?.0)).flatten().flatten();
        let names: BTreeSet<&str> = names.collect();
        names.into_iter().for_each(|name| add_library(&mut libraries, name, stack.samples));
        if is_work(*activity) {
            let told = known().filter(|(_, of_frame)| of_frame.is_some_and(|(_, is_told)| *is_told));
            calls.add_stack(told.filter_map(|(frame, _)| frame), stack.samples);
        }
    }
    (calls.cut(), libraries)
}

/// The calls of a worker in its stacks, from what fetches a batch inwards.
pub(super) fn calls_of_worker(
    window: &StackWindow,
    patterns: &[Pattern],
    done: &[(Activity, &StackCount)],
) -> CallTree {
    let mut calls = CallTree::default();
    for (activity, stack) in done.iter().filter(|(activity, _)| is_work(*activity)) {
        let at = |frame: &u32| usize::try_from(*frame).unwrap_or(usize::MAX);
        let fetches = |frame: &u32| patterns.get(at(frame)) == Some(&Pattern::Fetch);
        let inside = stack.frames.iter().position(fetches).unwrap_or(stack.frames.len());
        let frames = stack.frames.iter().take(inside).filter_map(|frame| window.frames.get(at(frame)));
        let told: Vec<&StackFrame> = frames.filter(|frame| call_tree::is_told(frame)).collect();
        if *activity != Activity::Import {
            calls.add_stack(told.into_iter(), stack.samples);
        }
    }
    calls.cut()
}

/// Whether the loop's thread does something of its own, rather than wait for a batch, the GPU or other ranks.
fn is_work(activity: Activity) -> bool {
    use Activity::{Collective, QueueWait, Receiving, Sync, Waiting};
    !matches!(activity, Waiting | Receiving | QueueWait | Sync | Collective)
}
