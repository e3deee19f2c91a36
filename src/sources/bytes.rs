//! Reading the kernel's text files again and again without allocating, and cutting them up as bytes.
//!
//! A descriptor that stays open is read from offset 0 into a buffer that the caller keeps, so that a tick costs one or
//! two system calls for each file. A kept descriptor of a process that has exited answers ESRCH, one of a removed
//! cgroup ENODEV: a reused PID or a recreated group cannot be mistaken for the old one.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

/// No file of the kernel is read beyond this many bytes.
pub const READ_LIMIT: usize = 4 << 20;

/// First size of a read buffer: seq_file hands out at least a page at a time.
const FIRST_BUFFER: usize = 4096;

/// A path that could not be opened is tried again only after this many reads.
const RETRY_AFTER_READS: u32 = 30;

/// Why a file could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReadFailure {
    /// The process, cgroup or device behind the descriptor has ended (ESRCH, ENODEV).
    #[error("it has ended")]
    Gone,
    /// EACCES or EPERM.
    #[error("access denied")]
    Denied,
    /// There is no such file, or the kernel has the feature switched off.
    #[error("no such file")]
    Absent,
    /// Any other error.
    #[error("{0}")]
    Other(io::ErrorKind),
}

impl From<io::Error> for ReadFailure {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::SRCH | Errno::NODEV) => Self::Gone,
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied,
            // EOPNOTSUPP: `/proc/pressure` of a kernel booted with psi=0.
            Some(Errno::NOENT | Errno::NOTDIR | Errno::OPNOTSUPP) => Self::Absent,
            _ => Self::Other(error.kind()),
        }
    }
}

impl From<ReadFailure> for io::Error {
    fn from(failure: ReadFailure) -> Self {
        let kind = match failure {
            ReadFailure::Gone | ReadFailure::Absent => io::ErrorKind::NotFound,
            ReadFailure::Denied => io::ErrorKind::PermissionDenied,
            ReadFailure::Other(kind) => kind,
        };
        Self::new(kind, failure)
    }
}

/// A descriptor kept open and read from its start each time.
#[derive(Debug)]
pub struct KeptFile(File);

impl KeptFile {
    /// Opens `path` for reading, never waiting (a FIFO in its place does not block).
    ///
    /// # Errors
    /// What the kernel answered, sorted by what it means.
    pub fn open(path: &Path) -> Result<Self, ReadFailure> {
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        Ok(Self(OpenOptions::new().read(true).custom_flags(flags).open(path)?))
    }

    /// Reads the whole file, at most [`READ_LIMIT`] bytes; a longer one ends with its last complete line.
    ///
    /// # Errors
    /// [`ReadFailure::Gone`] once the process or cgroup behind the descriptor has ended.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadFailure> {
        self.read_up_to(buffer, READ_LIMIT)
    }

    /// Reads the file's first `limit` bytes; a longer file is cut after its last complete line. `buffer` keeps its
    /// size between calls.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_up_to<'b>(&self, buffer: &'b mut Vec<u8>, limit: usize) -> Result<&'b [u8], ReadFailure> {
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
            // A short read is not the end: seq_file stops at whole records. Only 0 is.
            match self.0.read_at(free, u64::try_from(filled).unwrap_or(u64::MAX)) {
                Ok(0) => return Ok(buffer.get(..filled).unwrap_or_default()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A path whose descriptor is opened at the first read, kept, and opened again after it has failed.
#[derive(Debug)]
pub struct KeptPath {
    path: PathBuf,
    file: Option<KeptFile>,
    last_failure: ReadFailure,
    reads_until_retry: u32,
}

impl KeptPath {
    /// Nothing is opened yet.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self { path, file: None, last_failure: ReadFailure::Absent, reads_until_retry: 0 }
    }

    /// The path that is read.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file's first `limit` bytes. A path that could not be opened is tried again at every 30th call only.
    ///
    /// # Errors
    /// The failure of this call, or of the last attempt to open.
    pub fn read_up_to<'b>(&mut self, buffer: &'b mut Vec<u8>, limit: usize) -> Result<&'b [u8], ReadFailure> {
        if self.file.is_none() {
            if self.reads_until_retry > 0 {
                self.reads_until_retry -= 1;
                return Err(self.last_failure);
            }
            match KeptFile::open(&self.path) {
                Ok(file) => self.file = Some(file),
                Err(failure) => return Err(self.failed(failure)),
            }
        }
        let Some(file) = &self.file else { return Err(self.last_failure) };
        match file.read_up_to(buffer, limit) {
            Ok(bytes) => Ok(bytes),
            Err(failure) => {
                self.file = None;
                Err(self.failed(failure))
            }
        }
    }

    /// Reads the whole file, as [`KeptFile::read`] does.
    ///
    /// # Errors
    /// As [`Self::read_up_to`].
    pub fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], ReadFailure> {
        self.read_up_to(buffer, READ_LIMIT)
    }

    fn failed(&mut self, failure: ReadFailure) -> ReadFailure {
        self.last_failure = failure;
        self.reads_until_retry = if failure == ReadFailure::Gone { 0 } else { RETRY_AFTER_READS };
        failure
    }
}

/// Reads a small file once, for what is read too seldom to keep a descriptor.
///
/// # Errors
/// As [`KeptFile::open`] and [`KeptFile::read`].
pub fn read_once<'b>(path: &Path, buffer: &'b mut Vec<u8>, limit: usize) -> Result<&'b [u8], ReadFailure> {
    KeptFile::open(path)?.read_up_to(buffer, limit)
}

/// The lines of a text, without their newline; no empty line after the last newline.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let empty = text.is_empty();
    text.split(|&byte| byte == b'\n').filter(move |_| !empty)
}

/// A decimal number that fills the whole token; `None` for anything else and beyond 64 bits.
#[must_use]
pub fn number(token: &[u8]) -> Option<u64> {
    if token.is_empty() {
        return None;
    }
    token.iter().try_fold(0_u64, |value, &byte| {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit <= 9)?;
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The fields of a line, separated by any number of blanks and tabs.
#[derive(Debug, Clone)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields of `line`.
    #[must_use]
    pub fn of(line: &'a [u8]) -> Self {
        Self(line)
    }

    /// The next field as a number; `None` where there is none or it is something else.
    pub fn number(&mut self) -> Option<u64> {
        self.next().and_then(number)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let start = self.0.iter().position(|byte| !blank(byte))?;
        let rest = self.0.get(start..)?;
        let length = rest.iter().position(blank).unwrap_or(rest.len());
        let (field, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }
}

/// The number of the line `KEY NUMBER` (`/proc/vmstat`, `cpu.stat`, `memory.events`).
#[must_use]
pub fn keyed_number(text: &[u8], key: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut fields = Fields::of(line);
        (fields.next()? == key).then(|| fields.number())?
    })
}

/// Text of the kernel as a string; bytes that are not UTF-8 become U+FFFD.
#[must_use]
pub fn text(bytes: &[u8]) -> std::sync::Arc<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

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
        assert!(matches!(read_once(&path, &mut Vec::new(), 100), Ok(b"") | Err(_)));
    }

    proptest! {
        #[test]
        fn numbers_round_trip(value: u64) {
            prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
        }

        #[test]
        fn fields_are_the_words(words in proptest::collection::vec("[a-z0-9:./]{1,8}", 0..8), blanks in "[ \t]{1,3}") {
            let line = words.join(&blanks);
            let found: Vec<String> = Fields::of(line.as_bytes()).map(|f| String::from_utf8(f.to_vec()).unwrap()).collect();
            prop_assert_eq!(found, words);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            for line in lines(&bytes) {
                let mut fields = Fields::of(line);
                while fields.next().is_some() {}
            }
            let _ = (number(&bytes), keyed_number(&bytes, b"a"), text(&bytes));
        }
    }
}
