//! Reading the kernel's files again and again, without allocating and within a size limit.
//!
//! A descriptor that stays open is read from offset 0 into the caller's buffer: opening costs three times as much as
//! reading (`/proc/PID/stat`). A kept descriptor of an exited process answers ESRCH, and one of a removed cgroup
//! ENODEV, so a reused PID or a recreated group cannot be mistaken for the old one.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::fields::number;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, pread};

/// Most bytes read of one kernel file.
pub const READ_LIMIT: usize = 4 << 20;

/// First size of a read buffer: seq_file returns at least a page at a time.
const FIRST_BUFFER: usize = 4096;

/// A path that could not be opened is tried again after this many reads.
const RETRY_AFTER_READS: u32 = 30;

/// Why a file could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// The process, cgroup or block device behind the descriptor is gone (ESRCH, ENODEV).
    #[error("it has ended")]
    Gone,
    /// EACCES or EPERM.
    #[error("access denied")]
    Denied,
    /// The file does not exist, or the kernel has the feature switched off.
    #[default]
    #[error("no such file")]
    Absent,
    /// The content is malformed.
    #[error("unexpected content")]
    Malformed,
    /// No descriptor is free (EMFILE, ENFILE): the content is unknown.
    #[error("too few file descriptors")]
    Exhausted,
    /// Any other error.
    #[error("{0}")]
    Other(Errno),
}

impl ReadFailure {
    /// Whether what the file belonged to no longer exists, or never did.
    pub fn is_gone(self) -> bool {
        matches!(self, Self::Gone | Self::Absent)
    }
}

impl From<Errno> for ReadFailure {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::SRCH | Errno::NODEV => Self::Gone,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            // EOPNOTSUPP: `/proc/pressure` of a kernel booted with psi=0.
            Errno::NOENT | Errno::NOTDIR | Errno::OPNOTSUPP => Self::Absent,
            Errno::MFILE | Errno::NFILE => Self::Exhausted,
            _ => Self::Other(errno),
        }
    }
}

impl From<ReadFailure> for io::Error {
    fn from(failure: ReadFailure) -> Self {
        let kind = match failure {
            ReadFailure::Gone | ReadFailure::Absent => io::ErrorKind::NotFound,
            ReadFailure::Denied => io::ErrorKind::PermissionDenied,
            ReadFailure::Malformed => io::ErrorKind::InvalidData,
            ReadFailure::Exhausted => io::ErrorKind::Other,
            ReadFailure::Other(errno) => return errno.into(),
        };
        Self::new(kind, failure)
    }
}

/// A descriptor kept open and read from its start each time.
#[derive(Debug)]
pub struct KeptFile(OwnedFd);

impl KeptFile {
    /// Opens `path` for reading without ever waiting (a FIFO in its place does not block).
    ///
    /// # Errors
    /// The kernel's answer, classified; the same holds for all functions below.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadFailure> {
        Self::open_at(CWD, path.as_ref())
    }

    /// Opens a path relative to the directory `at`.
    pub(crate) fn open_at(at: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> Result<Self, ReadFailure> {
        Ok(Self(openat(at, path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?))
    }

    /// Opens a regular file that is not a link. A file below another process's root may be anything that its user put
    /// there, and merely opening a pipe or a device file can have an effect.
    pub(crate) fn open_regular(path: impl AsRef<Path>) -> Result<Self, ReadFailure> {
        let found = openat(CWD, path.as_ref(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        if FileType::from_raw_mode(fstat(&found)?.st_mode) != FileType::RegularFile {
            return Err(ReadFailure::Absent);
        }
        Self::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
    }

    /// Reads the whole file, at most [`READ_LIMIT`] bytes; a longer file is cut after its last complete line.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadFailure> {
        self.read_up_to(buffer, READ_LIMIT)
    }

    /// Reads a kernel file whose records are a few bytes each, usually with a single call: the kernel fills at least
    /// one page before it stops at a whole record (seq_read_iter, fs/seq_file.c), so a much shorter read is the end.
    pub(crate) fn read_short_records<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadFailure> {
        if buffer.len() < FIRST_BUFFER {
            buffer.resize(FIRST_BUFFER, 0);
        }
        let count = self.read_at(buffer, 0)?;
        if count < FIRST_BUFFER / 2 {
            return Ok(buffer.get(..count).unwrap_or_default());
        }
        self.read(buffer)
    }

    /// Reads the file's first `limit` bytes; a longer file is cut after its last complete line. `buffer` keeps its
    /// size between calls.
    pub(crate) fn read_up_to<'b>(&self, buffer: &'b mut Vec<u8>, limit: usize) -> Result<&'b [u8], ReadFailure> {
        let mut filled = 0;
        loop {
            if filled >= limit {
                let whole = buffer.get(..limit).unwrap_or_default();
                let end = whole.iter().rposition(|&byte| byte == b'\n').map_or(limit, |at| at + 1);
                return Ok(buffer.get(..end).unwrap_or_default());
            }
            if filled == buffer.len() {
                let larger = (buffer.len() * 2).max(FIRST_BUFFER).max(limit.min(1 << 16));
                buffer.resize(larger, 0);
            }
            let end = buffer.len().min(limit);
            let free = buffer.get_mut(filled..end).unwrap_or_default();
            // A short read is not the end, because seq_file stops at whole records. Only 0 is.
            match self.read_at(free, filled as u64)? {
                0 => return Ok(buffer.get(..filled).unwrap_or_default()),
                count => filled += count,
            }
        }
    }

    /// Reads a file that is known to be small (one line, at most `room.len()` bytes) with a single call.
    pub fn read_line<'r>(&self, room: &'r mut [u8]) -> Result<&'r [u8], ReadFailure> {
        let count = self.read_at(room, 0)?;
        Ok(room.get(..count).unwrap_or_default())
    }

    /// One call of `pread(2)`; returns how many bytes it read.
    pub fn read_at(&self, room: &mut [u8], offset: u64) -> Result<usize, ReadFailure> {
        loop {
            match pread(&self.0, &mut *room, offset) {
                Err(Errno::INTR) => {}
                answer => return Ok(answer?),
            }
        }
    }
}

/// A path whose descriptor is opened at the first read, kept, and reopened after a failure.
#[derive(Debug, Default)]
pub struct KeptPath {
    path: PathBuf,
    file: Option<KeptFile>,
    last_failure: ReadFailure,
    reads_until_retry: u32,
}

impl KeptPath {
    /// Opens nothing yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, ..Self::default() }
    }

    /// The path that is read.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file's first `limit` bytes. A path that could not be opened is tried again only at every 30th call;
    /// the calls in between repeat the failure.
    pub(crate) fn read_up_to<'b>(&mut self, buffer: &'b mut Vec<u8>, limit: usize) -> Result<&'b [u8], ReadFailure> {
        self.read_with(|file| file.read_up_to(buffer, limit))
    }

    /// Reads a small file, usually with a single call, like [`KeptFile::read_short_records`].
    pub(crate) fn read_short_records<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadFailure> {
        self.read_with(|file| file.read_short_records(buffer))
    }

    /// Reads a file of sysfs, which has at most a page, with a single call, like [`KeptFile::read_line`].
    pub(crate) fn read_page<'r>(&mut self, room: &'r mut [u8]) -> Result<&'r [u8], ReadFailure> {
        self.read_with(|file| file.read_line(room))
    }

    fn read_with<'b>(
        &mut self,
        read: impl FnOnce(&KeptFile) -> Result<&'b [u8], ReadFailure>,
    ) -> Result<&'b [u8], ReadFailure> {
        if self.file.is_none() && self.reads_until_retry > 0 {
            self.reads_until_retry -= 1;
            return Err(self.last_failure);
        }
        let file = self.file.take().map_or_else(|| KeptFile::open_regular(&self.path), Ok);
        let found = file.and_then(|file| {
            let bytes = read(&file)?;
            self.file = Some(file);
            Ok(bytes)
        });
        found.inspect_err(|&failure| {
            self.last_failure = failure;
            self.reads_until_retry = if failure == ReadFailure::Gone { 0 } else { RETRY_AFTER_READS };
        })
    }

    /// Reads the whole file, like [`KeptFile::read`].
    pub fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadFailure> {
        self.read_up_to(buffer, READ_LIMIT)
    }
}

/// Reads a file's first `limit` bytes once, for files read too rarely to keep a descriptor or a buffer.
pub fn read_once(path: impl AsRef<Path>, limit: usize) -> Result<Vec<u8>, ReadFailure> {
    let mut buffer = Vec::new();
    let length = KeptFile::open(path)?.read_up_to(&mut buffer, limit)?.len();
    buffer.truncate(length);
    Ok(buffer)
}

/// The number that is all of a short file.
pub(crate) fn number_in(path: &Path) -> Option<u64> {
    number(read_once(path, 64).ok()?.trim_ascii())
}

/// The numbers among the names in a folder: PIDs or TIDs.
pub fn numbers_in(folder: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn pipes_and_links_below_another_root_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "1\n").unwrap();
        std::os::unix::fs::symlink("plain", at("link")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), 0o600.into()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(KeptFile::open_regular(at("plain")).unwrap().read(&mut buffer), Ok(&b"1\n"[..]));
        for name in ["link", "pipe", "none", "."] {
            assert_eq!(KeptFile::open_regular(at(name)).unwrap_err(), ReadFailure::Absent, "{name}");
            assert_eq!(KeptPath::new(at(name)).read(&mut buffer), Err(ReadFailure::Absent), "{name}");
        }
    }

    #[test]
    fn a_kept_file_is_read_from_its_start_each_time() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![b'x'; 100_000]).unwrap();
        let kept = KeptFile::open(file.path()).unwrap();
        let mut buffer = Vec::new();
        assert_eq!(kept.read(&mut buffer).unwrap().len(), 100_000);
        assert_eq!(kept.read(&mut buffer).unwrap().len(), 100_000);
    }

    #[test]
    fn short_records_are_read_to_their_end() {
        for length in [0, 7, FIRST_BUFFER / 2 - 1, FIRST_BUFFER / 2, FIRST_BUFFER, 30_000] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&vec![b'1'; length]).unwrap();
            let kept = KeptFile::open(file.path()).unwrap();
            assert_eq!(kept.read_short_records(&mut Vec::new()).unwrap().len(), length);
            assert_eq!(kept.read_short_records(&mut vec![0; 9]).unwrap().len(), length);
        }
    }

    #[test]
    fn what_exceeds_the_limit_ends_with_a_whole_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"one 1\ntwo 2\nthree 3\n").unwrap();
        let kept = KeptFile::open(file.path()).unwrap();
        assert_eq!(kept.read_up_to(&mut Vec::new(), 15).unwrap(), b"one 1\ntwo 2\n");
    }

    #[test]
    fn a_kept_descriptor_of_a_dead_process_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let kept = KeptFile::open(Path::new(&format!("/proc/{}/stat", child.id()))).unwrap();
        let mut buffer = Vec::new();
        assert!(!kept.read(&mut buffer).unwrap().is_empty());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(kept.read(&mut buffer), Err(ReadFailure::Gone));
    }

    #[test]
    fn a_missing_path_is_absent_and_found_later() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("late");
        let mut kept = KeptPath::new(path.clone());
        let mut buffer = Vec::new();
        assert_eq!(kept.read(&mut buffer), Err(ReadFailure::Absent));
        std::fs::write(&path, "here").unwrap();
        let found = (0..=RETRY_AFTER_READS).any(|_| kept.read(&mut buffer) == Ok(b"here"));
        assert!(found);
    }

    #[test]
    fn a_fifo_does_not_block() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(read_once(&path, 100).unwrap_or_default(), b"");
    }
}
