//! A `/proc` file that stays open between ticks.
//!
//! Opening costs more than reading (three times more for `/proc/PID/stat`), and a kept descriptor of a dead process
//! answers ESRCH for ever, so a reused PID can never be mistaken for the process that was opened.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The most that is read of one file, bytes: `/proc` files of hostile size must not fill our memory.
const MOST: usize = 4 << 20;

/// Opens `path` for reading, close-on-exec.
///
/// # Errors
/// What `open(2)` says.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(File::open(path)?.into())
}

/// Opens `name` below the directory `at` for reading, close-on-exec.
///
/// # Errors
/// What `openat(2)` says.
pub fn open_at(at: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(at, name, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty())?)
}

/// Opens a directory as an anchor for [`open_at`].
///
/// # Errors
/// What `open(2)` says.
pub fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Reads the whole file behind `fd` from its start into `buffer`, replacing what was there. A short read of a `/proc`
/// file is not its end, so it reads until nothing more comes.
///
/// # Errors
/// What `pread(2)` says; ESRCH when the process behind the file has gone.
pub fn read_into(fd: &OwnedFd, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    let mut filled = 0;
    loop {
        if buffer.len() < filled + 1024 {
            buffer.resize((filled + 4096).min(MOST), 0);
        }
        let Some(room) = buffer.get_mut(filled..) else { break };
        if room.is_empty() {
            break;
        }
        match rustix::io::pread(fd, room, filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => {
                buffer.clear();
                return Err(errno.into());
            }
        }
    }
    buffer.truncate(filled);
    Ok(())
}

/// Reads a file that is known to be small (one line, at most `room.len()` bytes) with a single call.
///
/// # Errors
/// What `pread(2)` says.
pub fn read_line<'a>(fd: &OwnedFd, room: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let count = loop {
        match rustix::io::pread(fd, &mut *room, 0) {
            Ok(count) => break count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    };
    Ok(room.get(..count).unwrap_or_default())
}

/// True for the answers that a dead process's files give.
#[must_use]
pub fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::SRCH | Errno::NOENT))
}

/// True where the kernel refuses.
#[must_use]
pub fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}
