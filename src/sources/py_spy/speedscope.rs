//! py-spy's speedscope document as a window of stacks: a pure function of bytes.
//!
//! The document holds one profile for each thread, with a row of frame indices (root first) for each sample, and one
//! table of frames. Rows are counted while they are read, so memory is bounded by the different stacks, not by the
//! samples. Format: <https://www.speedscope.app/file-format-schema.json>; names of py-spy's `src/speedscope.rs`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use crate::sample::stacks::{DEPTH, FRAMES, NAME, STACKS, THREADS};
use crate::sample::{ProcessId, StackCount, StackFrame, StackWindow, ThreadStacks};

/// Larger documents are refused, bytes: 150 threads of 60 frames at 50 samples take 2 MB.
pub const LARGEST: usize = 16 << 20;
/// More frames in the document's own table than this are refused; a large trainer's window has some hundred.
const TABLE: usize = 16 * FRAMES;
/// More threads than this are not looked at, for finding the main thread among them.
const PROFILES: usize = 16 * THREADS;

/// Why a document was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Longer than [`LARGEST`].
    #[error("py-spy's output is too large ({0} bytes)")]
    TooLarge(usize),
    /// No such document, or cut short.
    #[error("py-spy's output is not a speedscope document: {0}")]
    Json(#[from] serde_json::Error),
    /// A sample names a frame that the table does not hold.
    #[error("py-spy's output names frame {0}, which it does not hold")]
    Index(u32),
}

/// Reads a document. Stacks come leaf first and most frequent first, within the bounds of `sample::stacks`: the leaf's
/// side of deep stacks and the most frequent stacks are kept. A forked worker's stack is cut at its own
/// `multiprocessing/process.py:_bootstrap`, below which it shows what its parent was doing; the `thread (TID)` element
/// that py-spy puts at the root goes too. A thread with no Python frame has an empty stack.
///
/// # Errors
/// When the bytes are too many, no such document, or point outside of it.
pub fn parse(
    bytes: &[u8],
    process: ProcessId,
    began_ns: u64,
    ended_ns: u64,
    rate_hz: u32,
) -> Result<StackWindow, ParseError> {
    if bytes.len() > LARGEST {
        return Err(ParseError::TooLarge(bytes.len()));
    }
    let document: Document = serde_json::from_slice(bytes)?;
    let table = document.shared.frames;
    let mut profiles = document.profiles;
    profiles.retain(|profile| !profile.samples.0.is_empty());
    // Stable: the sampler's order stays otherwise.
    profiles.sort_by_key(|profile| {
        let (tid, name) = thread_of(&profile.name);
        tid != Some(process.pid) && name != "MainThread"
    });
    profiles.truncate(THREADS);

    let mut kept = Kept::default();
    let mut threads = Vec::with_capacity(profiles.len());
    for profile in profiles {
        let stacks = stacks_of(&profile.samples, &table)?;
        let stacks = stacks
            .into_iter()
            .filter_map(|(frames, samples)| Some(StackCount { frames: kept.indices(&frames, &table)?, samples }));
        let stacks: Vec<StackCount> = stacks.collect();
        let (tid, name) = thread_of(&profile.name);
        threads.push(ThreadStacks { name: head(name, NAME).into(), tid, stacks });
    }
    Ok(StackWindow { process, began_ns, ended_ns, rate_hz, frames: kept.frames, threads })
}

/// A thread's different stacks, leaf first, the most frequent first.
fn stacks_of(samples: &Rows, table: &[Frame]) -> Result<Vec<(Vec<u32>, u32)>, ParseError> {
    let mut merged: BTreeMap<Vec<u32>, u32> = BTreeMap::new();
    for (row, &count) in &samples.0 {
        let mut stack = Vec::with_capacity(row.len().min(DEPTH));
        for (from_root, &index) in row.iter().enumerate().rev() {
            let frame = table.get(index as usize).ok_or(ParseError::Index(index))?;
            if frame.is_worker_start() {
                break;
            }
            if stack.len() < DEPTH && !(from_root == 0 && frame.is_thread_name()) {
                stack.push(index);
            }
        }
        let seen = merged.entry(stack).or_default();
        *seen = seen.saturating_add(count);
    }
    let mut stacks: Vec<_> = merged.into_iter().collect();
    stacks.sort_by_key(|&(_, count)| Reverse(count));
    stacks.truncate(STACKS);
    Ok(stacks)
}

/// The frames that kept stacks point at, in the order in which they were met.
#[derive(Default)]
struct Kept {
    frames: Vec<StackFrame>,
    place: HashMap<u32, u32>,
}

impl Kept {
    /// The stack in terms of the kept frames, or `None` where it needs more frames than may be kept.
    fn indices(&mut self, stack: &[u32], table: &[Frame]) -> Option<Vec<u32>> {
        let before = self.frames.len();
        let mut indices = Vec::with_capacity(stack.len());
        for &index in stack {
            if let Some(&place) = self.place.get(&index) {
                indices.push(place);
                continue;
            }
            if self.frames.len() >= FRAMES {
                self.frames.truncate(before);
                self.place.retain(|_, &mut place| (place as usize) < before);
                return None;
            }
            let place = u32::try_from(self.frames.len()).ok()?;
            self.frames.push(table.get(index as usize)?.kept());
            self.place.insert(index, place);
            indices.push(place);
        }
        Some(indices)
    }
}

/// Thread ID and name of `Thread 4711 "MainThread"`, with or without a `Process 4711 ` before it. py-spy writes the
/// pthread's address in hexadecimal where it does not know the ID.
fn thread_of(profile: &str) -> (Option<u32>, &str) {
    let Some(start) = profile.find("Thread ") else { return (None, profile) };
    let rest = profile.get(start + "Thread ".len()..).unwrap_or_default();
    let (tid, name) = rest.split_once(' ').unwrap_or((rest, ""));
    let name = name.strip_prefix('"').unwrap_or(name);
    (tid.parse().ok(), name.strip_suffix('"').unwrap_or(name))
}

/// The first `limit` bytes at most, cut between characters.
fn head(text: &str, limit: usize) -> &str {
    let end = (0..=limit.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

/// The last `limit` bytes at most, cut between characters: the end of a path tells the module.
fn tail(text: &str, limit: usize) -> &str {
    let from = text.len().saturating_sub(limit);
    let start = (from..=text.len()).find(|&start| text.is_char_boundary(start)).unwrap_or(text.len());
    text.get(start..).unwrap_or_default()
}

#[derive(Deserialize)]
struct Document {
    #[serde(deserialize_with = "profiles")]
    profiles: Vec<Profile>,
    shared: Shared,
}

#[derive(Deserialize)]
struct Shared {
    #[serde(deserialize_with = "frames")]
    frames: Vec<Frame>,
}

#[derive(Deserialize)]
struct Profile {
    #[serde(default)]
    name: Arc<str>,
    samples: Rows,
}

#[derive(Deserialize)]
struct Frame {
    name: Arc<str>,
    #[serde(default)]
    file: Option<Arc<str>>,
    #[serde(default)]
    line: Line,
}

impl Frame {
    fn file(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }

    /// Where a multiprocessing child's own code begins.
    fn is_worker_start(&self) -> bool {
        self.name.rsplit('.').next() == Some("_bootstrap") && self.file().ends_with("multiprocessing/process.py")
    }

    /// The element that `--threads` puts at the root.
    fn is_thread_name(&self) -> bool {
        self.file().is_empty() && self.line.0 == 0 && self.name.starts_with("thread (")
    }

    fn kept(&self) -> StackFrame {
        StackFrame {
            function: head(&self.name, NAME).into(),
            file: tail(self.file(), NAME).into(),
            line: self.line.0,
            text: None,
        }
    }
}

/// A line number; anything that is none counts as unknown.
#[derive(Default)]
struct Line(u32);

impl<'de> Deserialize<'de> for Line {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number: Option<serde_json::Number> = Deserialize::deserialize(deserializer)?;
        let line = number.and_then(|number| number.as_u64()).and_then(|line| u32::try_from(line).ok());
        Ok(Self(line.unwrap_or(0)))
    }
}

/// Rows of frame indices, root first, with how often each was seen. Of rows deeper than can be kept, the leaf's side.
#[derive(Default)]
struct Rows(BTreeMap<Vec<u32>, u32>);

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fold(deserializer, Self::default(), |rows, Row(row)| {
            let seen = rows.0.entry(row).or_default();
            *seen = seen.saturating_add(1);
            Ok(())
        })
    }
}

/// One row; more than twice the depth that is kept is never held.
#[derive(Default)]
struct Row(Vec<u32>);

impl<'de> Deserialize<'de> for Row {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fold(deserializer, Self::default(), |row, index: u32| {
            if row.0.len() >= 2 * DEPTH {
                row.0.drain(..DEPTH);
            }
            row.0.push(index);
            Ok(())
        })
    }
}

fn profiles<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Profile>, D::Error> {
    fold(deserializer, Vec::new(), |profiles, profile| {
        if profiles.len() < PROFILES {
            profiles.push(profile);
        }
        Ok(())
    })
}

fn frames<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Frame>, D::Error> {
    fold(deserializer, Vec::new(), |frames, frame| {
        if frames.len() >= TABLE {
            return Err("too many frames");
        }
        frames.push(frame);
        Ok(())
    })
}

/// Reads a JSON array element by element into `state`, so that what is not kept is never held.
fn fold<'de, D, T, S, F>(deserializer: D, state: S, take: F) -> Result<S, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
    F: FnMut(&mut S, T) -> Result<(), &'static str>,
{
    struct Folding<S, F, T>(S, F, std::marker::PhantomData<T>);
    impl<'de, T, S, F> Visitor<'de> for Folding<S, F, T>
    where
        T: Deserialize<'de>,
        F: FnMut(&mut S, T) -> Result<(), &'static str>,
    {
        type Value = S;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut array: A) -> Result<S, A::Error> {
            while let Some(element) = array.next_element()? {
                (self.1)(&mut self.0, element).map_err(A::Error::custom)?;
            }
            Ok(self.0)
        }
    }
    deserializer.deserialize_seq(Folding(state, take, std::marker::PhantomData))
}

#[cfg(test)]
mod tests;
