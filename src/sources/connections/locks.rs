//! Who holds the file lock that a process waits for.

use std::path::Path;
use std::sync::Arc;

use super::MOST_FILES;
use super::descriptors::{inode, with_target};
use crate::sample::LockWait;
use crate::sources::fields::{Fields, lines, number};

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
/// not answer.
pub(super) fn open_file(proc_root: &Path, pid: u32, wanted: u64) -> Option<Arc<str>> {
    let entries = std::fs::read_dir(proc_root.join(format!("{pid}/fd"))).ok()?.filter_map(Result::ok);
    let mut files = entries.take(MOST_FILES).filter_map(|entry| {
        let target =
            with_target(&entry.path(), |target| Arc::<str>::from(target)).filter(|target| target.starts_with('/'))?;
        Some((entry.file_name(), target))
    });
    files.find(|(fd, _)| inode(proc_root, pid, fd.display()) == Some(wanted)).map(|(_, target)| target)
}
