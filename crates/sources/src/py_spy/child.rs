//! Runs the helper program: bounded in time and output, always ended and reaped, and without access to the terminal.
//!
//! Its three standard streams are anonymous memory files, so nothing can fill up and block, and nothing is written to
//! disk. Standard input doubles as the file to which the helper writes its document (`/proc/self/fd/0`).

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::Pid;
use trainmon_base::signals::has_ended;

use super::supervisor::{Answer, Supervisor};
use crate::clock::ticks_per_second;
use crate::process::stat_of;
use crate::trusted_program::TrustedProgram;

/// The helper's name for the file that is its standard input.
pub(crate) const DOCUMENT: &str = "/proc/self/fd/0";

/// How often the helper's end and the request to stop are checked.
const STEP: Duration = Duration::from_millis(40);
/// How long to wait for the helper to end; after that a separate thread waits.
const REAP: Duration = Duration::from_millis(500);

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildEnding {
    /// It exited.
    Exited(ExitStatus),
    /// Killed because the caller asked to stop.
    Stopped,
    /// Killed because its time was over.
    TimedOut,
    /// Killed because it wrote too much.
    TooMuch,
}

/// A finished run.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub ending: ChildEnding,
    /// CPU time of all that ran, to 10 ms.
    pub cpu: Duration,
    document: File,
    out: File,
    err: File,
}

impl Ran {
    /// What was written to [`DOCUMENT`].
    ///
    /// # Errors
    /// Those of `pread(2)`.
    pub fn document(&self) -> io::Result<Vec<u8>> {
        read(&self.document, u64::MAX)
    }

    /// The first `most` bytes of standard output.
    pub fn out(&self, most: u64) -> String {
        text(&self.out, most)
    }

    /// The first `most` bytes of standard error.
    pub fn err(&self, most: u64) -> String {
        text(&self.err, most)
    }
}

/// Runs `program` until it ends, `stop` is set, `time_out` has passed or one of its files exceeds `most` bytes. Nothing
/// that it started survives.
///
/// # Errors
/// If it could not be started.
pub fn run(
    program: &TrustedProgram,
    arguments: &[&str],
    time_out: Duration,
    most: u64,
    stop: &AtomicBool,
) -> io::Result<Ran> {
    let (document, out, err) = (memory()?, memory()?, memory()?);
    let streams = [document.as_fd(), out.as_fd(), err.as_fd()];
    let supervisor = Supervisor::start(program, arguments, streams, most)?;
    // The limit per file does not cover the memory that several files take.
    let too_much = || [&document, &out, &err].into_iter().any(|file| length(file) > most);
    let ending = watch(&supervisor, time_out, stop, too_much);
    let cpu = reap(supervisor.end());
    let ending = ending?;
    // At its limit, a helper was ended by SIGXFSZ, or stopped writing exactly there.
    let full = [&document, &out, &err].into_iter().any(|file| length(file) >= most);
    let ending = if full && matches!(ending, ChildEnding::Exited(_)) { ChildEnding::TooMuch } else { ending };
    Ok(Ran { ending, cpu, document, out, err })
}

/// Waits for the end, or for a reason to end it.
fn watch(
    supervisor: &Supervisor,
    time_out: Duration,
    stop: &AtomicBool,
    too_much: impl Fn() -> bool,
) -> io::Result<ChildEnding> {
    let started = Instant::now();
    loop {
        match supervisor.answer(STEP)? {
            Some(Answer::Ended(status)) => return Ok(ChildEnding::Exited(status)),
            Some(Answer::NotStarted(error)) => return Err(io::Error::from_raw_os_error(error)),
            None if stop.load(Ordering::Relaxed) => return Ok(ChildEnding::Stopped),
            None if started.elapsed() >= time_out => return Ok(ChildEnding::TimedOut),
            None if too_much() => return Ok(ChildEnding::TooMuch),
            None => {}
        }
    }
}

/// Waits for a supervisor that is about to end. CPU time of it and of all that it waited for; zero if it takes too long.
fn reap(mut child: Child) -> Duration {
    let pid = Pid::from_child(&child);
    let asked = Instant::now();
    while asked.elapsed() < REAP {
        if has_ended(pid) {
            // Its counters remain until it is waited for.
            let cpu = stat_of(Path::new("/proc"), child.id())
                .map_or(0, |stat| stat.cpu_ticks().saturating_add(stat.children_ticks));
            let _ = child.wait();
            return Duration::from_secs_f64(cpu as f64 / f64::from(ticks_per_second()));
        }
        thread::sleep(Duration::from_millis(2));
    }
    // The machine is busy, or the helper hangs in the kernel; a caller that wants to stop must not wait for that. The
    // supervisor is not killed, because it is what ends the helper.
    let _ = thread::Builder::new().name("tm-reap".to_owned()).spawn(move || child.wait());
    Duration::ZERO
}

fn memory() -> io::Result<File> {
    Ok(rustix::fs::memfd_create("py-spy", MemfdFlags::CLOEXEC)?.into())
}

fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

fn read(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let length = usize::try_from(length(file).min(most)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn text(file: &File, most: u64) -> String {
    String::from_utf8_lossy(&read(file, most).unwrap_or_default()).into_owned()
}
