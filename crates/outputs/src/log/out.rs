//! An open log or recording. Whole pieces are appended to it. If another program moves, removes, replaces or truncates the file
//! (`rm`, logrotate with or without `copytruncate`, an editor), the output follows.
//!
//! Everything goes to the end of the file (`O_APPEND`), so a truncated file never gets a hole of NUL bytes.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

use super::{Existing, explain, write_error};
use trainmon_base::errors::Failure;
use trainmon_base::streams::{self, Stream};

/// Only the owner may read what was recorded about a job: command lines, paths, lines of code.
const MODE: u32 = 0o600;

/// A file, or standard output as one. Each `write` is one whole piece: a row, or a frame of a recording.
#[derive(Debug)]
pub struct LogOut {
    pub(super) file: File,
    /// What it is called in messages: "log", "recording".
    what: &'static str,
    /// As the user wrote it; `-` is standard output.
    named: PathBuf,
    /// `None` for pipes, gpu files and standard output: nothing can be cut back or followed there.
    place: Option<FilePlace>,
    /// What was written to before, until it is taken.
    pub(crate) moved: Option<File>,
}

/// Where a regular file is.
#[derive(Debug)]
struct FilePlace {
    /// Resolved when the file was opened: a link that is planted later is not followed.
    path: PathBuf,
    /// Device number and inode.
    id: (u64, u64),
    /// Length after the last whole piece, bytes.
    length: u64,
}

/// What happened to the file since the last piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing that matters.
    None,
    /// It was truncated to nothing.
    Emptied,
    /// It was moved or removed; a new, empty file is in its place now.
    Renewed,
    /// It became shorter, or another file took its place: check it before the next piece.
    Replaced,
    /// Another program wrote to it.
    Grown,
}

impl Write for LogOut {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let written = match self.place {
            Some(_) => self.file.write_all(piece),
            None => streams::write_whole(self.file.as_fd(), piece),
        };
        if let Some(place) = &mut self.place {
            match &written {
                Ok(()) => place.length += piece.len() as u64,
                // Cutting the piece back frees space, so it works on a full disk; if it does not, the first error is
                // still the one to report. The file is never made longer here: it may have been truncated meanwhile.
                Err(_) if self.file.metadata().is_ok_and(|now| now.len() > place.length) => {
                    let _ = self.file.set_len(place.length);
                }
                Err(_) => {}
            }
        }
        written.map(|()| piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogOut {
    /// Opens a place to write to, emptied where it is a file. `what` names it in errors.
    ///
    /// # Errors
    /// One line: the file exists, cannot be written, or is being written by another trainmon.
    pub fn open(what: &'static str, path: &Path, existing: Existing) -> anyhow::Result<Self> {
        let cannot = |error: io::Error| anyhow::anyhow!(explain(what, path, &error));
        let passing = |file| Self { file, what, named: path.to_path_buf(), place: None, moved: None };
        if path == Path::new("-") {
            // Not buffered by lines, as that of the standard library is.
            return Ok(passing(Stream::stdout().map_err(cannot)?.into()));
        }
        let kind = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata.file_type()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        let refused = |why| Err(Failure::usage(format!("{what} {}: {why}", path.display())).into());
        match kind {
            Some(kind) if kind.is_dir() => refused("is a directory; name a file in it"),
            Some(kind) if kind.is_socket() => refused("is a socket; name a file"),
            // There is nothing in pipes and gpu files to protect, and nothing to cut back. Opening a FIFO for writing waits for
            // a reader, for ever if none comes; without blocking it answers ENXIO.
            Some(kind) if !kind.is_file() => {
                Ok(passing(without_waiting(OFlags::empty()).write(true).open(path).map_err(cannot)?))
            }
            _ => {
                let file = create(what, path, existing)?;
                file.set_len(0).map_err(cannot)?;
                Self::at(what, path, file, 0).map_err(cannot)
            }
        }
    }

    /// A regular file that was opened with [`create`] and holds so many bytes.
    pub(super) fn at(what: &'static str, path: &Path, file: File, length: u64) -> io::Result<Self> {
        let id = id(&file.metadata()?);
        let is_it = |path: &PathBuf| std::fs::symlink_metadata(path).is_ok_and(|there| self::id(&there) == id);
        let named = path.to_path_buf();
        let path = match std::fs::canonicalize(path).ok().filter(is_it) {
            Some(path) => path,
            None => std::path::absolute(path)?,
        };
        Ok(Self { file, what, named, place: Some(FilePlace { path, id, length }), moved: None })
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        self.named == Path::new("-")
    }

    /// Where it is, as the user wrote it.
    pub fn path(&self) -> &Path {
        &self.named
    }

    /// What it is called in messages: `log run.csv`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.what, self.named.display())
    }

    /// An error of writing to it, explained; see [`write_error`].
    pub fn cannot_write(&self, error: io::Error) -> anyhow::Error {
        write_error(self.what, &self.named, error)
    }

    /// Its length after the last whole piece, bytes; 0 for what has none.
    pub fn length(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.length)
    }

    /// Cuts the file to this length, bytes.
    pub(super) fn cut(&mut self, length: u64) -> io::Result<()> {
        if let Some(place) = &mut self.place {
            self.file.set_len(length)?;
            place.length = length;
        }
        Ok(())
    }

    /// Whether the last byte ends a line; an empty file has nothing to end.
    pub(super) fn ends_a_line(&self) -> io::Result<bool> {
        let mut last = [b'\n'];
        if let Some(at) = self.length().checked_sub(1) {
            self.file.read_exact_at(&mut last, at)?;
        }
        Ok(last == [b'\n'])
    }

    /// At the end: what happened to the file if it is no longer whole, or no longer at its path.
    pub fn damage(&self) -> Option<&'static str> {
        let place = self.place.as_ref()?;
        match std::fs::metadata(&self.named) {
            Ok(there) if id(&there) != place.id => Some("was moved, removed or replaced"),
            Ok(there) if there.len() < place.length => Some("was truncated"),
            Err(error) if is_missing(&error) => Some("was moved, removed or replaced"),
            _ => None,
        }
    }

    /// Compares the file with what was written, and opens a new one if it was moved, removed or replaced. Two calls of `stat`; call
    /// it before each piece.
    ///
    /// # Errors
    /// One line: it is gone, and nothing can be written in its place.
    pub fn follow(&mut self) -> anyhow::Result<Change> {
        let Some(place) = &mut self.place else { return Ok(Change::None) };
        match std::fs::symlink_metadata(&place.path) {
            Ok(there) if id(&there) == place.id => {
                // What the descriptor says: a network file system may answer for the path from a cache.
                let Ok(now) = self.file.metadata() else { return Ok(Change::None) };
                let before = std::mem::replace(&mut place.length, now.len());
                Ok(match now.len() {
                    now if now == before => Change::None,
                    0 => Change::Emptied,
                    now if now < before => Change::Replaced,
                    _ => Change::Grown,
                })
            }
            Ok(_) => self.reopen(),
            Err(error) if is_missing(&error) => self.reopen(),
            // A folder that may not be searched any more: what is open can still be written.
            Err(_) => Ok(Change::None),
        }
    }

    /// Opens the file that is at the path now, or creates it.
    fn reopen(&mut self) -> anyhow::Result<Change> {
        let Some(place) = &mut self.place else { return Ok(Change::None) };
        let (what, named) = (self.what, &self.named);
        let cannot = |error: io::Error| {
            let why = explain(what, named, &error);
            anyhow::anyhow!("{why} (the file was moved, removed or replaced meanwhile)")
        };
        // Not through a link, which may have been planted.
        let mut options = without_waiting(OFlags::NOFOLLOW);
        let file = options.read(true).append(true).create(true).open(&place.path).map_err(cannot)?;
        let now = file.metadata().map_err(cannot)?;
        if id(&now) == place.id {
            return Ok(Change::None);
        }
        if !now.is_file() || now.nlink() > 1 {
            anyhow::bail!(
                "{what} {}: it was replaced by something that is not a plain file; name a new file",
                named.display()
            );
        }
        lock(what, named, &file)?;
        let before = std::mem::replace(&mut place.length, now.len());
        place.id = id(&now);
        self.moved = Some(std::mem::replace(&mut self.file, file));
        Ok(match now.len() {
            0 => Change::Renewed,
            // A copy of what was written, as editors leave it.
            now if now == before => Change::None,
            _ => Change::Replaced,
        })
    }
}

/// Device number and inode.
fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// How files are opened here: without waiting for the other end of a pipe, and without taking a terminal as ours. New files
/// belong to their owner alone.
pub(crate) fn without_waiting(more: OFlags) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(MODE).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY | more).bits().cast_signed());
    options
}

/// Opens a regular file, creates it if it is missing, and locks it against other writers. Its content stays.
pub(super) fn create(what: &str, path: &Path, existing: Existing) -> anyhow::Result<File> {
    let mut options = without_waiting(OFlags::empty());
    options.read(true).append(true).create(true).create_new(existing == Existing::Refuse);
    if existing != Existing::Refuse && may_be_planted(path) {
        anyhow::bail!(
            "{what} {}: is a link in a folder that other users can write to; name the file it leads to",
            path.display()
        );
    }
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let append = if what == "log" { "--append continues it, " } else { "" };
            anyhow::bail!("{what} {}: the file exists; {append}--force overwrites it", path.display());
        }
        Err(error) => return Err(anyhow::anyhow!(explain(what, path, &error))),
    };
    if !file.metadata().is_ok_and(|now| now.is_file()) {
        anyhow::bail!("{what} {}: is not a plain file; name another one", path.display());
    }
    lock(what, path, &file)?;
    Ok(file)
}

/// Two writers would tear each other's rows. File systems without locks (some NFS) report success, and that has to do.
pub(crate) fn lock(what: &str, path: &Path, file: &File) -> anyhow::Result<()> {
    if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        anyhow::bail!("{what} {}: another trainmon is writing to it; name another file", path.display());
    }
    Ok(())
}

/// Whether `path` is a symbolic link that another user could have made. The kernel refuses those only with
/// `fs.protected_symlinks`.
pub(crate) fn may_be_planted(path: &Path) -> bool {
    let Ok(link) = std::fs::symlink_metadata(path) else { return false };
    let own = rustix::process::geteuid().as_raw();
    let is_trusted = |owner: u32| owner == own || owner == 0;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder_is_shared = std::fs::metadata(parent).is_ok_and(|folder| folder.mode() & 0o022 != 0);
    link.is_symlink() && folder_is_shared && !is_trusted(link.uid())
}
