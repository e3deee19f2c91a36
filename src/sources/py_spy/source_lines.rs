//! The source line of the user's innermost frame, which a verdict can show, and that of torch's `fetch`.
//!
//! Files are opened inside the target's own root (perhaps a container's), never following a link out of it, and with
//! the rights of the target's user. Pipes and device files are never opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags};

use crate::sample::stacks::is_user_code;
use crate::sample::{StackFrame, StackWindow};
use crate::sources::fields::head;
use crate::sources::job_rights::JobRights;

/// Where torch's workers call the dataset and the collate function.
const FETCH: &str = "torch/utils/data/_utils/fetch.py";
/// How many of each thread's most frequent stacks get source lines.
const STACKS: usize = 8;
/// Most files read for one window.
const FILES_KEPT: usize = 32;
/// Larger files are not read, bytes: no source file is that large.
const LARGEST_SOURCE: u64 = 2 << 20;
/// Longest line, bytes.
const LONGEST_LINE: usize = 200;

/// Adds source lines to the user's innermost frames in each thread's most frequent stacks. Lines that cannot be read,
/// or that the target's user (`rights`) may not read, stay empty.
pub fn fill(window: &mut StackWindow, proc_root: &Path, rights: &JobRights) {
    let wanted: Vec<_> = wanted(window).into_iter().take(FILES_KEPT).collect();
    if wanted.is_empty() {
        return;
    }
    let folder = proc_root.join(window.process.pid.to_string());
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(folder.join("root"), flags, Mode::empty()) else { return };
    let cwd = fs::read_link(folder.join("cwd")).ok();
    let open_all = || -> Vec<_> { wanted.iter().map(|(file, _)| open(&root, cwd.as_deref(), file)).collect() };
    let opened = rights.act(open_all).unwrap_or_default();
    for ((_, lines), file) in wanted.into_iter().zip(opened) {
        let Some(file) = file else { continue };
        let mut bytes = Vec::new();
        // What was read before an error is still the beginning of the file.
        let _ = file.take(LARGEST_SOURCE).read_to_end(&mut bytes);
        let mut rows = (1..).zip(bytes.split(|&byte| byte == b'\n'));
        for (line, frames) in lines {
            let text = rows.find(|(number, _)| *number == line).and_then(|(_, row)| trimmed(row));
            for at in frames {
                if let Some(frame) = window.frames.get_mut(at) {
                    frame.text.clone_from(&text);
                }
            }
        }
    }
}

/// The frames that need a line, as indices into the window's frames, by line number.
type Lines = BTreeMap<u32, BTreeSet<usize>>;

/// Which frames need which line, by file.
fn wanted(window: &StackWindow) -> BTreeMap<Arc<str>, Lines> {
    let mut wanted: BTreeMap<Arc<str>, Lines> = BTreeMap::new();
    for stack in window.threads.iter().flat_map(|thread| thread.stacks.iter().take(STACKS)) {
        let users = |frame: &&StackFrame| frame.line > 0 && is_user_code(&frame.file);
        // The line of torch's fetch shows whether it calls the dataset or the collate function.
        let fetches = |frame: &&StackFrame| frame.line > 0 && frame.file.ends_with(FETCH);
        let frames = || stack.frames.iter().filter_map(|&at| Some((at as usize, window.frames.get(at as usize)?)));
        let found = [frames().find(|(_, frame)| users(frame)), frames().find(|(_, frame)| fetches(frame))];
        for (at, frame) in found.into_iter().flatten() {
            wanted.entry(Arc::clone(&frame.file)).or_default().entry(frame.line).or_default().insert(at);
        }
    }
    wanted
}

/// Opens a source file inside the target's root. It is opened for reading only once it is known to be a regular file:
/// merely opening a pipe or a device file can have an effect.
fn open(root: &OwnedFd, cwd: Option<&Path>, file: &str) -> Option<File> {
    let path = Path::new(file);
    // Interpreters before 3.9 name the program as it was typed.
    let path = if path.is_absolute() { path.to_path_buf() } else { cwd?.join(path) };
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat2(root, &path, flags, Mode::empty(), ResolveFlags::IN_ROOT).ok()?;
    let found = File::from(found);
    let metadata = found.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST_SOURCE {
        return None;
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok()
}

/// A line without its indentation, cut between characters; `None` if it is empty.
fn trimmed(row: &[u8]) -> Option<Arc<str>> {
    let text = String::from_utf8_lossy(row.get(..row.len().min(4096))?);
    Some(head(text.trim(), LONGEST_LINE)).filter(|text| !text.is_empty()).map(Into::into)
}

#[cfg(test)]
mod tests;
