//! Files that are written as a whole: reports, traces, imported recordings, saved screens. Each is written under another name
//! beside its place and renamed once it is complete, so a full disk or Ctrl-C leaves the file that was there as it was.
//!
//! Rows that are appended go through [`LogOut`](super::log::LogOut).

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use tempfile::NamedTempFile;

use super::log::out::{lock, may_be_planted, without_waiting};
use super::log::{Existing, explain};
use trainmon_base::errors::{self, Failure};
use trainmon_base::signals::unfinished::{self, Unfinished};
use trainmon_base::streams::{self, Stream};

/// Most links from one to the next, as in the kernel (MAXSYMLINKS, include/linux/namei.h).
const LINKS_MAX: usize = 40;

/// A file in the making; or standard output, a pipe or a gpu file, where every piece arrives at once. Nothing is left of it
/// unless it is finished.
#[derive(Debug)]
pub struct WholeFile {
    /// What it is called in messages: "report", "trace".
    what: &'static str,
    /// As the user wrote it; `-` is standard output.
    named: PathBuf,
    out: Out,
    /// Bytes so far.
    length: u64,
}

#[derive(Debug)]
enum Out {
    Passing(File),
    Beside(Box<Beside>),
}

/// A file beside its place.
#[derive(Debug)]
struct Beside {
    file: NamedTempFile,
    unfinished: Unfinished,
    /// Its place: no link.
    place: PathBuf,
    /// What is there so far, open and locked.
    replaced: Option<(File, Metadata)>,
}

impl Write for WholeFile {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Passing(file) => streams::write_whole(file.as_fd(), piece)?,
            Out::Beside(beside) => beside.file.as_file_mut().write_all(piece)?,
        }
        self.length += piece.len() as u64;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl WholeFile {
    /// Begins a file. `what` names it in errors. What is there stays until [`Self::finish`].
    ///
    /// # Errors
    /// One line: the file exists, cannot be written or replaced, or is being written by another trainmon.
    pub fn create(what: &'static str, path: &Path, existing: Existing) -> anyhow::Result<Self> {
        let cannot = |error: io::Error| anyhow::anyhow!(explain(what, path, &error));
        let whole = |out| Self { what, named: path.to_path_buf(), out, length: 0 };
        if path == Path::new("-") {
            return Ok(whole(Out::Passing(Stream::stdout().map_err(cannot)?.into())));
        }
        let there = match std::fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(cannot(error)),
        };
        let refused = |why| Err(Failure::usage(format!("{what} {}: {why}", path.display())).into());
        let kind = there.as_ref().map(Metadata::file_type);
        match kind {
            Some(kind) if kind.is_dir() => return refused("is a directory; name a file in it"),
            Some(kind) if kind.is_socket() => return refused("is a socket; name a file"),
            Some(kind) if kind.is_file() && leads_to_descriptor(path) => {
                let standard = there.as_ref().and_then(standard_stream).transpose().map_err(cannot)?;
                let open = || without_waiting(OFlags::empty()).append(true).open(path);
                return Ok(whole(Out::Passing(standard.map_or_else(open, Ok).map_err(cannot)?)));
            }
            Some(kind) if !kind.is_file() => {
                let mut options = without_waiting(OFlags::empty());
                return Ok(whole(Out::Passing(options.append(true).open(path).map_err(cannot)?)));
            }
            _ => {}
        }
        let is_link_or_file = std::fs::symlink_metadata(path).is_ok();
        if existing == Existing::Refuse && is_link_or_file {
            anyhow::bail!("{what} {}: the file exists; --force overwrites it", path.display());
        }
        if may_be_planted(path) {
            anyhow::bail!(
                "{what} {}: is a link in a folder that other users can write to; name the file it leads to",
                path.display()
            );
        }
        // A file that may not be written is not replaced either, and one that another trainmon writes is its own.
        let replaced = there.map(|there| Ok((without_waiting(OFlags::empty()).append(true).open(path)?, there)));
        let replaced: Option<(File, Metadata)> = replaced.transpose().map_err(cannot)?;
        replaced.iter().try_for_each(|(file, _)| lock(what, path, file))?;
        let place = links(path).last().unwrap_or_else(|| path.to_path_buf());
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Only its owner may read it.
        let create = || tempfile::Builder::new().prefix(".trainmon-").tempfile_in(folder);
        let (file, unfinished) = unfinished::create(create, NamedTempFile::path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem if replaced.is_some() => {
                let why = errors::without_number(&error).to_lowercase();
                let name = path.display();
                anyhow::anyhow!(
                    "{what} {name}: cannot create a file in its folder, which replacing it takes: {why}; name a file in \
                     another folder"
                )
            }
            _ => cannot(error),
        })?;
        Ok(whole(Out::Beside(Box::new(Beside { file, unfinished, place, replaced }))))
    }

    /// Puts the file in its place, with the owner and the mode of the one that was there. Returns its length, bytes.
    ///
    /// # Errors
    /// One line: it could not be written to the end or renamed, or another file has come into its place.
    pub fn finish(self) -> anyhow::Result<u64> {
        let Self { what, named, out, length } = self;
        if let Out::Beside(beside) = out {
            let name = named.display();
            beside.finish().map_err(|error| match error.kind() {
                io::ErrorKind::AlreadyExists => {
                    anyhow::anyhow!("{what} {name}: another file was put there meanwhile; --force overwrites it")
                }
                io::ErrorKind::ResourceBusy => {
                    anyhow::anyhow!("{what} {name}: it is a mount point, which cannot be replaced; name another file")
                }
                _ => cannot_write(what, &named, error),
            })?;
        }
        Ok(length)
    }

    /// Whether it is standard output.
    pub fn is_stdout(&self) -> bool {
        self.named == Path::new("-")
    }

    /// An error of writing to it, explained; see [`cannot_write`].
    pub fn cannot_write(&self, error: io::Error) -> anyhow::Error {
        cannot_write(self.what, &self.named, error)
    }
}

impl Beside {
    fn finish(self) -> io::Result<()> {
        let Self { file, unfinished, place, replaced } = self;
        if let Some((_, there)) = &replaced {
            take_rights(file.as_file(), there)?;
        }
        // Network file systems and quotas report a full disk only now.
        file.as_file().sync_data()?;
        match replaced {
            Some(_) => file.persist(place),
            None => file.persist_noclobber(place),
        }?;
        drop(unfinished);
        Ok(())
    }
}

/// Gives a file the owner, group and mode of another. A group that may not be given gets no rights.
fn take_rights(file: &File, from: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    let mut mode = from.mode() & 0o777;
    if own.gid() != from.gid() && fchown(file, None, Some(from.gid())).is_err() {
        mode &= !0o070;
    }
    if own.uid() != from.uid() {
        // Only root may: otherwise it belongs to the user who wrote it, like any file that is replaced.
        let _ = fchown(file, Some(from.uid()), None);
    }
    file.set_permissions(Permissions::from_mode(mode))
}

/// Wraps an error of writing a whole file: a closed pipe stays one (it is success), the rest is explained, with what is in its
/// place now.
pub fn cannot_write(what: &str, path: &Path, error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return error.into();
    }
    let left = match std::fs::metadata(path) {
        Ok(there) if there.is_file() && !leads_to_descriptor(path) => format!("; {} is as it was", path.display()),
        Err(_) if path != Path::new("-") => "; nothing of it is left".to_owned(),
        _ => String::new(),
    };
    anyhow::anyhow!("{}{left}", explain(what, path, &error))
}

/// Standard output or standard error, if it is this file: opened anew, it would not go on where the file was written last.
fn standard_stream(file: &Metadata) -> Option<io::Result<File>> {
    let is_it = |stream: &BorrowedFd<'_>| {
        rustix::fs::fstat(stream).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (file.dev(), file.ino()))
    };
    let stream = [rustix::stdio::stdout(), rustix::stdio::stderr()].into_iter().find(is_it)?;
    Some(Stream::duplicate(stream).map(File::from))
}

/// A path, and where its last part leads if that is a link, and so on.
fn links(path: &Path) -> impl Iterator<Item = PathBuf> {
    let next = |place: &PathBuf| Some(place.parent()?.join(std::fs::read_link(place).ok()?));
    std::iter::successors(Some(path.to_path_buf()), next).take(LINKS_MAX)
}

/// Whether a path leads to an open descriptor, like `/dev/stdout`: what is written there follows what was.
fn leads_to_descriptor(path: &Path) -> bool {
    let is_descriptor = |place: PathBuf| {
        let folder = place.parent().and_then(|folder| folder.canonicalize().ok());
        folder.is_some_and(|folder| folder.starts_with("/proc") && folder.ends_with("fd"))
    };
    links(path).any(is_descriptor)
}
