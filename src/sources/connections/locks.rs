//! Who holds the file lock that a process waits for.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{MOST_FILES, read_link};
use crate::sample::LockWait;
use crate::sources::fields::{Fields, lines, number};
use crate::sources::files::read_once;

/// Who waits for a lock that whom holds (`/proc/locks`; fs/locks.c, `lock_get_status`): the lines of the waiters come after
/// the holder's, under the same number and with an arrow.
pub(super) fn waits_for_locks(locks: &[u8]) -> impl Iterator<Item = (LockWait, Option<u64>)> + '_ {
    let mut holder = None;
    lines(locks).filter_map(move |line| {
        let mut fields = Fields::of(line);
        let at = fields.next()?;
        let waits = fields.clone().next() == Some(b"->".as_slice());
        // NUMBER: [->] POSIX ADVISORY WRITE PID DEVICE:INODE START END
        let pid = fields.nth(if waits { 4 } else { 3 }).and_then(number).and_then(|pid| u32::try_from(pid).ok());
        if !waits {
            holder = Some((at, pid));
            return None;
        }
        let holder = holder.filter(|(of, _)| *of == at).and_then(|(_, pid)| pid);
        // MAJOR:MINOR:INODE.
        let inode = fields.next().and_then(|field| number(field.rsplit(|byte| *byte == b':').next()?));
        Some((LockWait { waiter: pid?, holder: holder.unwrap_or(0), path: None }, inode))
    })
}

/// The name of a file that a process has open. Nothing is asked of the file itself, which may be on a file server that does
/// not answer: `fdinfo` names the inode (since Linux 5.14).
pub(super) fn open_file(proc_root: &Path, pid: u32, inode: u64) -> Option<Arc<str>> {
    let entries = std::fs::read_dir(proc_root.join(format!("{pid}/fd"))).ok()?.filter_map(Result::ok);
    let is_it = |(fd, _): &(std::ffi::OsString, Arc<str>)| {
        let info = read_once(proc_root.join(format!("{pid}/fdinfo")).join(fd), 4096).unwrap_or_default();
        lines(&info)
            .any(|line| line.strip_prefix(b"ino:").is_some_and(|rest| Fields::of(rest).number() == Some(inode)))
    };
    let mut files = entries.take(MOST_FILES).filter_map(|entry| {
        let target = read_link(&entry.path(), &mut BTreeSet::new()).filter(|target| target.starts_with('/'))?;
        Some((entry.file_name(), target))
    });
    files.find(is_it).map(|(_, target)| target)
}
