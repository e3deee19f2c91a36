//! The open ends of a process, as its descriptors tell.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, readlinkat_raw, statat};
use rustix::io::Errno;

use super::descriptors::inode;
use super::{End, MOST_DESCRIPTORS, is_channel};

/// Most named pipes that are remembered.
const MOST_FIFOS: usize = 256;

/// Named pipes that were waited on, by path: a descriptor of one shows its path, as of any file (fifo(7)).
#[derive(Debug, Default)]
pub(super) struct Fifos(BTreeMap<Box<str>, Arc<str>>);

impl Fifos {
    /// The name of the named pipe that a descriptor shows as this path.
    pub(super) fn name(&mut self, proc_root: &Path, pid: u32, fd: u32, path: &str) -> Option<Arc<str>> {
        if let Some(known) = self.0.get(path) {
            return Some(Arc::clone(known));
        }
        let inode = inode(proc_root, pid, fd)?;
        if self.0.len() >= MOST_FIFOS {
            self.0.clear();
        }
        let link: Arc<str> = format!("pipe:[fifo {inode}]").into();
        self.0.insert(path.into(), Arc::clone(&link));
        Some(link)
    }

    /// The name of the channel that a target of a descriptor stands for: of a pipe, a socket, or a known named pipe.
    fn channel<'a>(&'a self, target: &'a str) -> Option<&'a str> {
        if is_channel(target) { Some(target) } else { self.0.get(target).map(AsRef::as_ref) }
    }
}

/// The pipes and sockets that a process holds open, how many descriptors were looked at, and whether they may not be read.
pub(super) fn open_ends(proc_root: &Path, pid: u32, fifos: &Fifos) -> (Vec<End>, usize, bool) {
    let mut ends: HashMap<Arc<str>, (bool, bool)> = HashMap::new();
    let (count, denied) = each_end(
        proc_root,
        pid,
        fifos,
        |_| true,
        |link, reads, writes| {
            let end = ends.entry(link.into()).or_default();
            *end = (end.0 | reads, end.1 | writes);
        },
    );
    let ends = ends.into_iter().map(|(link, (reads, writes))| End { link, reads, writes });
    (ends.collect(), count, denied)
}

/// Goes through the pipes and sockets that a process holds open and that are `wanted`. The permissions of the links say
/// which way they are open (proc(5)). How many descriptors were looked at, and whether they may not be read.
pub(super) fn each_end(
    proc_root: &Path,
    pid: u32,
    fifos: &Fifos,
    wanted: impl Fn(&str) -> bool,
    mut found: impl FnMut(&str, bool, bool),
) -> (usize, bool) {
    let path = proc_root.join(format!("{pid}/fd"));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let is_denied = |errno: Errno| matches!(errno, Errno::ACCESS | Errno::PERM);
    let folder = match openat(CWD, &path, flags, Mode::empty()) {
        Ok(folder) => folder,
        Err(errno) => return (1, is_denied(errno)),
    };
    let entries = match Dir::read_from(&folder) {
        Ok(entries) => entries,
        Err(errno) => return (1, is_denied(errno)),
    };
    let (mut count, mut read, mut denied) = (1, false, false);
    for entry in entries.filter_map(Result::ok).take(MOST_DESCRIPTORS) {
        count += 1;
        let mut room = [std::mem::MaybeUninit::uninit(); 512];
        let target = match readlinkat_raw(&folder, entry.file_name(), &mut room) {
            Ok((target, _)) => target,
            Err(errno) => {
                denied |= is_denied(errno);
                continue;
            }
        };
        read = true;
        let target = std::str::from_utf8(target).ok().and_then(|target| fifos.channel(target));
        let Some(link) = target.filter(|link| wanted(link)) else { continue };
        let (reads, writes) = if link.starts_with("pipe:") {
            let mode = statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
            mode.map_or((true, true), |stat| (stat.st_mode & 0o400 != 0, stat.st_mode & 0o200 != 0))
        } else {
            (true, true)
        };
        found(link, reads, writes);
    }
    (count, denied && !read)
}
