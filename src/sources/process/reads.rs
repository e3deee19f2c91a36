//! What is read of a process at once, by number, folder or file.

use std::path::Path;
use std::sync::Arc;

use crate::sample::IoCounters;
use crate::sources::fields::{lines, numbers};
use crate::sources::files::{KeptFile, READ_LIMIT, ReadFailure, read_once};
use crate::sources::task_files::{self, Stat};

/// `stat` is shorter than this, bytes: 52 numbers and a name of at most 64.
pub(super) const STAT_MOST: usize = 1280;
/// So is `io` than this: seven lines.
const IO_MOST: usize = 256;
/// Longest command line kept, bytes.
const LONGEST_COMMAND: usize = 4096;

/// `stat` of a process that is read once.
pub(in crate::sources) fn stat_of(proc_root: &Path, pid: u32) -> Option<Stat> {
    let file = KeptFile::open(proc_root.join(format!("{pid}/stat"))).ok()?;
    task_files::stat(file.read_line(&mut [0_u8; STAT_MOST]).ok()?)
}

/// What `io` of a process or a thread says now.
pub(in crate::sources) fn io_counters(file: &KeptFile) -> Result<IoCounters, ReadFailure> {
    task_files::io(file.read_line(&mut [0_u8; IO_MOST])?).ok_or(ReadFailure::Malformed)
}

/// Command line with its arguments joined by spaces, cut at [`LONGEST_COMMAND`]; empty for kernel threads.
pub(in crate::sources) fn command(folder: &Path) -> Arc<str> {
    let mut room = vec![0_u8; LONGEST_COMMAND];
    let Ok(file) = KeptFile::open(folder.join("cmdline")) else { return "".into() };
    let bytes = file.read_line(&mut room).unwrap_or_default();
    String::from_utf8_lossy(bytes).trim_end_matches('\0').replace('\0', " ").into()
}

/// Owner and innermost PID from `status`, read once.
pub(in crate::sources) fn identity(folder: &Path) -> (Option<u32>, Option<u32>) {
    let status = read_once(folder.join("status"), READ_LIMIT).unwrap_or_default();
    let field = |name: &[u8]| lines(&status).find_map(|line| line.strip_prefix(name)).map(numbers);
    (field(b"Uid:").and_then(|mut ids| ids.next()), field(b"NSpid:").and_then(Iterator::last))
}
