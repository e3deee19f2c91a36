//! Reading a process once, by PID, folder or file.

use std::path::Path;
use std::sync::Arc;

use crate::fields::{head, lines, numbers};
use crate::files::{KeptFile, READ_LIMIT, ReadFailure, read_once};
use crate::task_files::{self, Stat};
use trainmon_base::text::secrets;
use trainmon_sample::{IoCounters, ProcessId};

/// Upper bound for `stat`, bytes: 52 numbers and a name of at most 64.
pub(super) const STAT_MOST: usize = 1280;
/// Upper bound for `io`, bytes: seven lines.
const IO_MOST: usize = 256;
/// Longest command line kept, bytes.
const LONGEST_COMMAND: usize = 4096;

/// `stat` of a process that is read once.
pub fn stat_of(proc_root: &Path, pid: u32) -> Option<Stat> {
    let file = KeptFile::open(proc_root.join(format!("{pid}/stat"))).ok()?;
    task_files::stat(file.read_line(&mut [0_u8; STAT_MOST]).ok()?)
}

/// The current `io` counters of a process or a thread.
pub(crate) fn io_counters(file: &KeptFile) -> Result<IoCounters, ReadFailure> {
    task_files::io(file.read_line(&mut [0_u8; IO_MOST])?).ok_or(ReadFailure::Malformed)
}

/// Command line with its arguments joined by spaces and secrets masked, cut at [`LONGEST_COMMAND`]; empty for kernel
/// threads. All command lines that are shown or stored must be read here.
pub(crate) fn command(folder: &Path) -> Arc<str> {
    // More than is kept: a secret cut in two would not be recognized.
    let mut room = vec![0_u8; 2 * LONGEST_COMMAND];
    let Ok(file) = KeptFile::open(folder.join("cmdline")) else { return "".into() };
    let bytes = file.read_line(&mut room).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let arguments: Vec<&str> = text.trim_end_matches('\0').split('\0').collect();
    // A program that rewrites its own command line joins it with spaces (setproctitle(3)).
    let joined = match arguments.as_slice() {
        [one] => secrets::line(one).into_owned(),
        several => secrets::joined(several),
    };
    head(&joined, LONGEST_COMMAND).into()
}

/// Owner and innermost PID from `status`, read once.
pub fn identity(folder: &Path) -> (Option<u32>, Option<u32>) {
    let status = read_once(folder.join("status"), READ_LIMIT).unwrap_or_default();
    let field = |name: &[u8]| lines(&status).find_map(|line| line.strip_prefix(name)).map(numbers);
    (field(b"Uid:").and_then(|mut ids| ids.next()), field(b"NSpid:").and_then(Iterator::last))
}

/// The TIDs of the first thread, as seen by the kernel and by py-spy: in another PID namespace, py-spy uses that
/// namespace's numbers.
pub fn main_tids(proc_root: &Path, process: ProcessId) -> [u32; 2] {
    let (_, inner) = identity(&proc_root.join(process.pid.to_string()));
    [process.pid, inner.unwrap_or(process.pid)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command_of(bytes: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("cmdline"), bytes).unwrap();
        command(folder.path()).to_string()
    }

    #[test]
    fn secrets_are_masked_in_a_list_of_arguments_and_in_a_line() {
        assert_eq!(command_of(b"python\0t.py\0--password\0a b\0--lr\0"), "python t.py --password *** --lr");
        // As setproctitle(3) leaves it, padded.
        assert_eq!(command_of(b"python t.py --password a --lr\0\0\0"), "python t.py --password *** --lr");
        assert_eq!(command_of(b""), "");
    }

    #[test]
    fn a_secret_at_the_cut_is_masked_as_a_whole() {
        let token = "ghp_0123456789abcdefghij0123456789abcdef";
        for begins in LONGEST_COMMAND - token.len() - 20..LONGEST_COMMAND {
            let line =
                format!("python\0{}\0x={token}\0{}\0", "a".repeat(begins - 10), "b".repeat(2 * LONGEST_COMMAND));
            let kept = command_of(line.as_bytes());
            assert!(kept.len() <= LONGEST_COMMAND && !kept.contains("ghp"), "{begins}: {}", kept.len());
        }
    }
}
