//! The line of source behind the user's innermost frame, so that a verdict can show it, and behind torch's `fetch`.
//!
//! Files are opened inside the target's own root (a container's, perhaps), never following a link out of it, and with the
//! rights of the target's user. Pipes and devices are not opened at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use super::readers::Readers;
use crate::sample::stacks::is_user_code;
use crate::sample::{StackFrame, StackWindow};
use crate::sources::fields::head;

/// Where torch's workers call the data set and the collate function from.
const FETCH: &str = "torch/utils/data/_utils/fetch.py";
/// Stacks of each thread that are given a line, the most frequent.
const STACKS: usize = 8;
/// Files whose lines are kept.
const FILES: usize = 32;
/// Lines that are kept of one file.
const LINES: usize = 256;
/// Larger files are not read, bytes: nobody writes such a program.
const LARGEST: u64 = 2 << 20;
/// Longest line, bytes.
const LONGEST: usize = 200;

/// Lines that were read before, by the file's identity, so that a changed file is read again.
#[derive(Debug, Default)]
pub struct SourceLines {
    /// The file that was used last stands at the end.
    files: Vec<(Identity, Texts)>,
}

/// Device, inode, size, and the time of the last change in seconds and nanoseconds.
type Identity = (u64, u64, u64, i64, i64);

/// Lines by their numbers from 1; `None` for an empty one and one that does not exist.
type Texts = BTreeMap<u32, Option<Arc<str>>>;

impl SourceLines {
    /// Gives the user's innermost frames in each thread's most frequent stacks their line of source. Whatever cannot be
    /// read stays without one, and so does what the target's user (`readers`) may not read.
    pub fn fill(&mut self, window: &mut StackWindow, proc_root: &Path, readers: &Readers) {
        let wanted = wanted(window);
        if wanted.is_empty() {
            return;
        }
        let folder = proc_root.join(window.process.pid.to_string());
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(root) = rustix::fs::open(folder.join("root"), flags, Mode::empty()) else { return };
        let cwd = fs::read_link(folder.join("cwd")).ok();
        let wanted: Vec<_> = wanted.into_iter().take(FILES).collect();
        let opened =
            readers.read(|| -> Vec<_> { wanted.iter().map(|(file, _)| open(&root, cwd.as_deref(), file)).collect() });
        for ((_, frames), opened) in wanted.into_iter().zip(opened.unwrap_or_default()) {
            let Some(opened) = opened else { continue };
            let lines: Vec<u32> = frames.iter().filter_map(|&at| Some(window.frames.get(at)?.line)).collect();
            let texts = self.lines(opened, &lines);
            for (at, text) in frames.into_iter().zip(texts) {
                if let Some(frame) = window.frames.get_mut(at) {
                    frame.text = text;
                }
            }
        }
    }

    /// The texts of some lines of a file, in their order.
    fn lines(&mut self, (mut file, identity): (File, Identity), lines: &[u32]) -> Vec<Option<Arc<str>>> {
        let known = self.files.iter().position(|(known, _)| *known == identity);
        let (_, mut texts) = known.map(|at| self.files.remove(at)).unwrap_or_default();
        if lines.iter().any(|line| !texts.contains_key(line)) {
            let mut bytes = Vec::new();
            // What was read before an error is still the file's beginning.
            let _ = (&mut file).take(LARGEST).read_to_end(&mut bytes);
            if texts.len() + lines.len() > LINES {
                texts.clear();
            }
            let mut rows = bytes.split(|&byte| byte == b'\n');
            let mut at = 0;
            let mut ordered = lines.to_vec();
            ordered.sort_unstable();
            ordered.dedup();
            for line in ordered {
                let row = rows.nth((line.saturating_sub(1).saturating_sub(at)) as usize);
                at = line;
                texts.insert(line, row.and_then(trimmed));
            }
        }
        let found = lines.iter().map(|line| texts.get(line).cloned().flatten()).collect();
        if self.files.len() >= FILES {
            self.files.remove(0);
        }
        self.files.push((identity, texts));
        found
    }
}

/// Which frames of which files are to be given a line, as indices into the window's frames.
fn wanted(window: &StackWindow) -> BTreeMap<Arc<str>, Vec<usize>> {
    let mut wanted: BTreeMap<Arc<str>, Vec<usize>> = BTreeMap::new();
    for stack in window.threads.iter().flat_map(|thread| thread.stacks.iter().take(STACKS)) {
        let users = |frame: &&StackFrame| frame.line > 0 && is_user_code(&frame.file);
        // The line of torch's fetch tells whether it calls the data set or the collate function.
        let fetches = |frame: &&StackFrame| frame.line > 0 && frame.file.ends_with(FETCH);
        let frames = || stack.frames.iter().filter_map(|&at| Some((at as usize, window.frames.get(at as usize)?)));
        let found = [frames().find(|(_, frame)| users(frame)), frames().find(|(_, frame)| fetches(frame))];
        for (at, frame) in found.into_iter().flatten() {
            let places = wanted.entry(Arc::clone(&frame.file)).or_default();
            if !places.contains(&at) {
                places.push(at);
            }
        }
    }
    wanted
}

/// Opens a source file inside the target's root, if it is one. It is opened for reading only once it is known to be a regular
/// file: opening a pipe or a device can already have an effect.
fn open(root: &OwnedFd, cwd: Option<&Path>, file: &str) -> Option<(File, Identity)> {
    let path = Path::new(file);
    // Interpreters before 3.9 name the program as it was typed.
    let path = if path.is_absolute() { path.to_path_buf() } else { cwd?.join(path) };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(root, &path, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let found = File::from(found);
    let metadata = found.metadata().ok()?;
    let identity = (metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec());
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    Some((File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()?, identity))
}

/// A line without its indentation, cut between characters; `None` for an empty one.
fn trimmed(row: &[u8]) -> Option<Arc<str>> {
    let text = String::from_utf8_lossy(row.get(..row.len().min(4096))?);
    Some(head(text.trim(), LONGEST)).filter(|text| !text.is_empty()).map(Into::into)
}

#[cfg(test)]
mod tests;
