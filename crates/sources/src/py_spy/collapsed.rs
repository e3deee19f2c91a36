//! py-spy's collapsed stacks (`--format raw`) as a window of stacks: a pure function of bytes.
//!
//! A line is one stack of one thread and how often it was seen: `thread (TID): NAME;outermost (FILE:LINE);…;leaf
//! (FILE:LINE) COUNT`. This is all that the speedscope format has, except the order of the samples, which is not
//! needed. py-spy before 0.4 omits the name. Names may contain anything, including newlines and semicolons: a line
//! without a count continues in the next one, and a file name may contain semicolons.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::fields::{head, tail};
use trainmon_sample::stacks::{DEPTH, FRAMES, NAME, STACKS, THREADS};
use trainmon_sample::{ProcessId, StackCount, StackFrame, StackWindow, ThreadStacks};

/// Larger documents are refused, bytes; 150 threads of 60 frames at 50 different samples take 6 MB.
pub(crate) const LARGEST_STACKS: usize = 16 << 20;
/// Further lines are ignored: twice as many as 150 threads can have at 50 samples a second for 4 s.
const STACK_LINES: usize = 1 << 16;

/// Reads a document; `None` if it is malformed or too large. Stacks come leaf first and most frequent first, within the
/// bounds of `sample::stacks`: the leaf end of deep stacks and the most frequent stacks are kept. A forked worker's
/// stack is cut at its own `multiprocessing/process.py:_bootstrap`; the frames below show what its parent was doing. A
/// thread without Python frames has an empty stack. The first thread, whose ID is in `main_tids`, comes first.
pub fn parse(bytes: &[u8], process: ProcessId, main_tids: &[u32]) -> Option<StackWindow> {
    if bytes.len() > LARGEST_STACKS {
        return None;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut counted: BTreeMap<&str, BTreeMap<Vec<&str>, u32>> = BTreeMap::new();
    for (line, count) in lines(&text).take(STACK_LINES) {
        let (label, stack) = line.split_once(';').unwrap_or((line, ""));
        if let Some(label) = label.strip_prefix("thread (") {
            let seen = counted.entry(label).or_default().entry(leaf_first(stack)).or_default();
            *seen = seen.saturating_add(count);
        }
    }
    if counted.is_empty() && !text.trim().is_empty() {
        return None;
    }
    let mut threads: Vec<_> = counted
        .into_iter()
        .map(|(label, stacks)| {
            let (tid, name) = label.split_once(')').unwrap_or((label, ""));
            // py-spy writes the pthread's address in hexadecimal if it does not know the ID.
            let tid = tid.parse::<u32>().ok();
            let is_main = tid.is_some_and(|tid| main_tids.contains(&tid));
            let name = match name.strip_prefix(": ").unwrap_or_default() {
                "" if is_main => "MainThread",
                name => name,
            };
            (!is_main && name != "MainThread", tid, name, stacks)
        })
        .collect();
    threads.sort_by_key(|(is_other, tid, name, _)| (*is_other, *tid, *name));
    threads.truncate(THREADS);
    let mut kept = Kept::default();
    let threads = threads.into_iter().map(|(_, tid, name, stacks)| {
        let mut stacks: Vec<_> = stacks.into_iter().collect();
        stacks.sort_by_key(|(_, count)| Reverse(*count));
        stacks.truncate(STACKS);
        let stacks = stacks
            .into_iter()
            .filter_map(|(stack, samples)| Some(StackCount { frames: kept.places(&stack)?, samples }));
        ThreadStacks { name: head(name, NAME).into(), tid, stacks: stacks.collect() }
    });
    let threads = threads.collect();
    Some(StackWindow { process, frames: kept.frames, threads })
}

/// Stacks with their counts.
fn lines(text: &str) -> impl Iterator<Item = (&str, u32)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut from = 0;
        loop {
            let end = from + rest.get(from..)?.find('\n')?;
            let count =
                rest.get(from..end)?.rsplit_once(' ').and_then(|(_, count)| Some((count.len(), count.parse().ok()?)));
            if let Some((length, count)) = count {
                let stack = rest.get(..end - length - 1)?;
                rest = rest.get(end + 1..)?;
                return Some((stack, count));
            }
            from = end + 1;
        }
    })
}

/// The frames of a stack as written, at most [`DEPTH`], without what a forked worker inherited from its parent.
fn leaf_first(stack: &str) -> Vec<&str> {
    let mut frames = Vec::new();
    let mut start = 0;
    for (end, _) in stack.match_indices(';').chain([(stack.len(), "")]) {
        let frame = stack.get(start..end).unwrap_or_default();
        // The rest of a file's name is still to come.
        if frame.contains(" (") && !frame.ends_with(')') && end < stack.len() {
            continue;
        }
        start = end + 1;
        if is_worker_start(&parsed(frame)) {
            frames.clear();
        } else if !frame.is_empty() {
            frames.push(frame);
        }
    }
    frames.reverse();
    frames.truncate(DEPTH);
    frames
}

/// `NAME (FILE:LINE)`, `NAME (FILE)` or `NAME`, as function, file and line.
fn parsed(frame: &str) -> (&str, &str, u32) {
    let Some((function, place)) = frame.strip_suffix(')').and_then(|frame| frame.split_once(" (")) else {
        return (frame, "", 0);
    };
    match place.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => (function, file, line),
        None => (function, place, 0),
    }
}

/// Whether a multiprocessing child's own code starts at this frame.
fn is_worker_start((function, file, _): &(&str, &str, u32)) -> bool {
    function.rsplit('.').next() == Some("_bootstrap") && file.ends_with("multiprocessing/process.py")
}

/// The frames used by the kept stacks, in the order they appeared.
#[derive(Default)]
struct Kept<'t> {
    frames: Vec<StackFrame>,
    places: HashMap<&'t str, u32>,
}

impl<'t> Kept<'t> {
    /// The stack in terms of the kept frames; `None` if it needs more frames than may be kept.
    fn places(&mut self, stack: &[&'t str]) -> Option<Vec<u32>> {
        let new = stack.iter().filter(|frame| !self.places.contains_key(*frame)).count();
        if self.frames.len() + new > FRAMES {
            return None;
        }
        let place = |frame: &&'t str| {
            *self.places.entry(frame).or_insert_with(|| {
                let (function, file, line) = parsed(frame);
                let (function, file) = (head(function, NAME).into(), tail(file, NAME).into());
                self.frames.push(StackFrame { function, file, line, text: None });
                u32::try_from(self.frames.len() - 1).unwrap_or(u32::MAX)
            })
        };
        Some(stack.iter().map(place).collect())
    }
}

#[cfg(test)]
mod tests;
