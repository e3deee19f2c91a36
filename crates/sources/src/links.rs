//! What a process's descriptors point to: the links in `/proc/PID/fd`.
//!
//! The kernel builds them from its memory. The files themselves are never opened or touched: one on a server that does
//! not answer would hang trainmon.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, openat, readlinkat_raw, statat};

use super::fields::number;
use super::files::ReadFailure;

/// One descriptor.
#[derive(Debug)]
pub struct Link<'l> {
    /// Its number.
    pub fd: u32,
    /// What it points to, raw.
    pub target: &'l [u8],
    folder: BorrowedFd<'l>,
    name: &'l CStr,
}

impl Link<'_> {
    /// Whether it is open for reading and for writing, from the link's permissions (proc(5)); both if they are unknown.
    pub fn ways(&self) -> (bool, bool) {
        let stat = statat(self.folder, self.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.map_or((true, true), |stat| (stat.st_mode & 0o400 != 0, stat.st_mode & 0o200 != 0))
    }
}

/// Passes a process's links, at most `most`, to `each`. Returns how many were read, and whether they could be read:
/// gone if the process has ended, denied without ptrace read rights.
pub(crate) fn each_link(process: &Path, most: usize, each: impl FnMut(Link<'_>)) -> (usize, Result<(), ReadFailure>) {
    let mut count = 0;
    let read = walk(process, most, each, &mut count);
    (count, read)
}

fn walk(process: &Path, most: usize, mut each: impl FnMut(Link<'_>), count: &mut usize) -> Result<(), ReadFailure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = openat(CWD, process.join("fd"), flags, Mode::empty())?;
    let mut entries_buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut entries = RawDir::new(&folder, &mut entries_buffer);
    // The kernel writes these links into one page (fs/proc/base.c, do_proc_readlink).
    let mut link_buffer = [MaybeUninit::<u8>::uninit(); 4096];
    let mut read = Ok(());
    let mut any = false;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        let Some(fd) = number(name.to_bytes()) else { continue };
        if *count == most {
            break;
        }
        *count += 1;
        match readlinkat_raw(&folder, name, &mut link_buffer) {
            Ok((target, _)) => {
                any = true;
                each(Link { fd, target, folder: folder.as_fd(), name });
            }
            // Root may list the folder even without the right to trace.
            Err(error) if ReadFailure::from(error) == ReadFailure::Denied => read = Err(ReadFailure::Denied),
            // Closed since.
            Err(_) => {}
        }
    }
    if any { Ok(()) } else { read }
}
