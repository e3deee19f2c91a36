//! Standard output and standard error, written so that nothing there can hold up or end the process.
//!
//! A full, closed or broken standard error is no reason to panic or to change the exit status, which `eprintln!` would
//! do. And a stalled reader must not keep a signal from ending the process: handlers are installed by then, so a
//! blocking write would never return.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::foreground;
use crate::signals;

/// What a pipe that is ready is sure to accept: `PIPE_BUF` in pipe(7).
const PIECE: usize = 4096;
/// A stalled reader is waited for in steps of this length; signals are checked in between.
const STEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The same in the background of a terminal that takes output only from the foreground: the kernel would stop the process, and
/// again after each signal that it handles.
const BACKGROUND_STEP: Duration = Duration::from_millis(100);
/// After a signal, a reader gets this long to take what is left.
const GRACE: Duration = Duration::from_secs(1);

/// An unbuffered stream to a pipe, terminal, socket or file.
#[derive(Debug)]
pub struct Stream(File);

impl Stream {
    /// Standard output.
    ///
    /// # Errors
    /// If it cannot be duplicated: no descriptor is left.
    pub fn stdout() -> io::Result<Self> {
        Self::duplicate(rustix::stdio::stdout())
    }

    /// The same open file as `descriptor`. Pipes and terminals are reopened if allowed: then writing never blocks, and
    /// other processes that share them are not affected.
    ///
    /// # Errors
    /// If it cannot be duplicated: no descriptor is left.
    pub fn duplicate(descriptor: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = rustix::fs::fstat(descriptor).map(|stat| FileType::from_raw_mode(stat.st_mode));
        if matches!(kind, Ok(FileType::Fifo | FileType::CharacterDevice)) {
            let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&descriptor));
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            // Reopening a pipe without a reader fails; writing to the existing one reports "broken pipe".
            if let Ok(own) = rustix::fs::open(path, flags, Mode::empty()) {
                return Ok(Self(File::from(own)));
            }
        }
        Ok(Self(File::from(descriptor.try_clone_to_owned()?)))
    }
}

impl From<Stream> for File {
    fn from(stream: Stream) -> Self {
        stream.0
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write_whole(self.0.as_fd(), bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes everything to a pipe, terminal or socket, as fast as the reader takes it.
///
/// # Errors
/// Those of write(2). `BrokenPipe` also if the reader has stalled and a signal asks this process to end.
pub fn write_whole(out: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    let mut asked_since = None;
    while !bytes.is_empty() {
        if !is_ready(out)? {
            if signals::asks_to_end() && asked_since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
                signals::cut_short();
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            continue;
        }
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        match rustix::io::write(out, piece) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Whether something can be written, or writing would fail. Waits a little for it.
fn is_ready(out: BorrowedFd<'_>) -> io::Result<bool> {
    if foreground::would_stop(out) {
        std::thread::sleep(BACKGROUND_STEP);
        return Ok(false);
    }
    match poll(&mut [PollFd::from_borrowed_fd(out, PollFlags::OUT)], Some(&STEP)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a line to standard error. If it is full or closed, the line is lost.
pub fn tell(line: &str) {
    let line = format!("{line}\n");
    let _ = match Stream::duplicate(rustix::stdio::stderr()) {
        Ok(mut stream) => stream.write_all(line.as_bytes()),
        // No descriptor is left, which may be the very error to report.
        Err(_) => write_whole(rustix::stdio::stderr(), line.as_bytes()),
    };
}
