//! Which process holds the file lock that a process waits for.

use std::path::Path;
use std::sync::Arc;

use super::MOST_FILES;
use super::descriptors::{fdinfo, inode};
use crate::fields::{Fields, lines, number, path_text};
use crate::links::each_link;
use trainmon_sample::LockWait;

/// Pairs of waiter and holder of a lock (`/proc/locks`; fs/locks.c, `lock_get_status`). The waiters' lines follow the
/// holder's, with the same number and an arrow.
pub(super) fn waits_for_locks(locks: &[u8]) -> impl Iterator<Item = (LockWait, Option<u64>)> + '_ {
    let mut holder = None;
    lines(locks).filter_map(move |line| {
        let mut fields = Fields::new(line);
        let at = fields.next()?;
        let waits = fields.clone().next() == Some(b"->".as_slice());
        // NUMBER: [->] POSIX ADVISORY WRITE PID DEVICE:INODE START END
        let pid = fields.nth(if waits { 4 } else { 3 }).and_then(number);
        if !waits {
            holder = Some((at, pid));
            return None;
        }
        let holder = holder.filter(|(of, _)| *of == at).and_then(|(_, pid)| pid);
        // MAJOR:MINOR:INODE.
        let inode = fields.next().and_then(|field| number(field.rsplit(|byte| *byte == b':').next()?));
        Some((LockWait { waiter: pid?, holder: holder.unwrap_or(0), ..LockWait::default() }, inode))
    })
}

/// The inodes of files locked against writing, with their holders; 0 for a holder that the kernel does not name.
pub(super) fn held_for_writing(locks: &[u8]) -> impl Iterator<Item = (u32, u64)> + '_ {
    lines(locks).filter_map(|line| {
        let mut fields = Fields::new(line);
        // NUMBER: KIND ADVISORY WRITE PID DEVICE:INODE START END
        let kind = fields.nth(1)?;
        if !matches!(kind, b"POSIX" | b"FLOCK" | b"OFDLCK") || fields.nth(1)? != b"WRITE" {
            return None;
        }
        let holder = fields.next().and_then(number).unwrap_or(0);
        Some((holder, number(fields.next()?.rsplit(|byte| *byte == b':').next()?)?))
    })
}

/// Among files locked by others, one that a process has open and did not lock itself, with the lock's holder. A lock
/// that it holds, or inherited with its descriptor, is listed with the descriptor (proc(5), `fdinfo`).
pub(super) fn locked_by_another(proc_root: &Path, pid: u32, held: &[(u32, u64)]) -> Option<(u32, Arc<str>)> {
    let process = proc_root.join(pid.to_string());
    let open = open_files(&process).into_iter().filter_map(|(fd, path)| {
        let info = fdinfo(&process, fd)?;
        let inode = inode(&info)?;
        let (holder, _) = held.iter().find(|(holder, of)| *of == inode && *holder != pid)?;
        let own = lines(&info)
            .filter_map(|line| line.strip_prefix(b"lock:"))
            .any(|lock| held_for_writing(lock).next().is_some());
        Some((inode, own, *holder, path))
    });
    let open: Vec<_> = open.collect();
    let is_own = |inode: u64| open.iter().any(|(of, own, ..)| *own && *of == inode);
    let found = open.iter().find(|(inode, ..)| !is_own(*inode));
    found.map(|(.., holder, path)| (*holder, path_text(path)))
}

/// The name of a file that a process has open. The file itself is not touched: it may be on a server that does not
/// answer.
pub(super) fn open_file(proc_root: &Path, pid: u32, wanted: u64) -> Option<Arc<str>> {
    let process = proc_root.join(pid.to_string());
    let is_it = |fd: u32| fdinfo(&process, fd).and_then(|info| inode(&info)) == Some(wanted);
    open_files(&process).into_iter().find(|(fd, _)| is_it(*fd)).map(|(_, path)| path_text(&path))
}

/// The descriptors of regular files, with their paths.
fn open_files(process: &Path) -> Vec<(u32, Vec<u8>)> {
    let mut files = Vec::new();
    let _ = each_link(process, MOST_FILES, |link| {
        if link.target.starts_with(b"/") {
            files.push((link.fd, link.target.to_vec()));
        }
    });
    files
}
