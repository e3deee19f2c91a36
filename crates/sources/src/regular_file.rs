//! Opens a regular file for reading. Anything else is recognized before it is opened: opening a pipe may wait forever
//! for its other end, and opening a device file may have an effect.

use std::fs::{File, FileType};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens the file, or says in words what is there instead.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> io::Result<Result<File, &'static str>> {
    // A place in the file system, not an open file: nothing is asked of the file.
    let place = File::options().read(true).custom_flags(OFlags::PATH.bits().cast_signed()).open(path)?;
    let kind = place.metadata()?.file_type();
    if !kind.is_file() {
        return Ok(Err(word(kind)));
    }
    // The same file, whatever the path names by now.
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).map(Ok)
}

/// Opens the file; whatever else is there is an error.
///
/// # Errors
/// The system's, or what is there instead.
pub fn opened(path: &Path) -> io::Result<File> {
    match open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let why = "permission denied; run trainmon as a user who may read it";
            Err(io::Error::new(error.kind(), why))
        }
        opened => opened?.map_err(|kind| io::Error::other(format!("it is a {kind}"))),
    }
}

fn word(kind: FileType) -> &'static str {
    match kind {
        _ if kind.is_dir() => "directory; name a file in it",
        _ if kind.is_fifo() => "pipe; save it in a file first",
        _ if kind.is_socket() => "socket",
        _ => "device file",
    }
}
