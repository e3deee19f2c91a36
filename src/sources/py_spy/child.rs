//! Runs the helper program: bounded in time and output, ended and reaped in every case, seen by nobody's terminal.
//!
//! Its three standard streams are anonymous memory files, so nothing can fill up and block and nothing is written to a
//! disk. Standard input serves as the file that the helper writes its document to (`/proc/self/fd/0`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::process::{Pid, Resource, Rlimit, Signal};

/// The file that the helper's standard input is, as the helper names it.
pub const DOCUMENT: &str = "/proc/self/fd/0";

/// How often the helper's end and the wish to stop are looked for.
const STEP: Duration = Duration::from_millis(40);
/// How long a killed helper may take to be reaped; then a thread of its own waits for it.
const REAP: Duration = Duration::from_millis(500);
/// Lower priority than the job's: the helper must not take its CPU.
const NICE: i32 = 5;

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself.
    Exited(ExitStatus),
    /// Killed: the caller wished to stop.
    Stopped,
    /// Killed: its time was over.
    TimedOut,
    /// Killed: it wrote more than it may.
    TooMuch,
}

/// A run that is over.
#[derive(Debug)]
pub struct Ran {
    /// How.
    pub ending: Ending,
    document: File,
    out: File,
    err: File,
}

impl Ran {
    /// What was written to [`DOCUMENT`].
    ///
    /// # Errors
    /// What `pread(2)` says.
    pub fn document(&self) -> io::Result<Vec<u8>> {
        read(&self.document, u64::MAX)
    }

    /// The first `most` bytes of standard output.
    #[must_use]
    pub fn out(&self, most: u64) -> String {
        text(&self.out, most)
    }

    /// The first `most` bytes of standard error.
    #[must_use]
    pub fn err(&self, most: u64) -> String {
        text(&self.err, most)
    }
}

/// Runs `program` until it ends, `stop` is set, `time_out` is over or one of its files exceeds `most` bytes.
///
/// # Errors
/// When it could not be started.
pub fn run(program: &Path, arguments: &[&str], time_out: Duration, most: u64, stop: &AtomicBool) -> io::Result<Ran> {
    let (document, out, err) = (memory()?, memory()?, memory()?);
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(document.try_clone()?))
        .stdout(Stdio::from(out.try_clone()?))
        .stderr(Stdio::from(err.try_clone()?))
        // They add pages of messages and back traces.
        .env_remove("RUST_LOG")
        .env_remove("RUST_BACKTRACE")
        .env_remove("RUST_LIB_BACKTRACE")
        // Its own group: Ctrl-C at our terminal is ours alone.
        .process_group(0)
        .spawn()?;
    let mut child = Guard(Some(child));
    child.restrain(most);
    let started = Instant::now();
    let ending = loop {
        if let Some(status) = child.ended()? {
            break Ending::Exited(status);
        }
        if stop.load(Ordering::Relaxed) {
            break Ending::Stopped;
        }
        if started.elapsed() >= time_out {
            break Ending::TimedOut;
        }
        // The limit above is refused for a helper with rights of its own (setuid).
        if [&document, &out, &err].into_iter().any(|file| length(file) > most) {
            break Ending::TooMuch;
        }
        thread::sleep(STEP);
    };
    drop(child);
    // A helper that reached its limit was ended by SIGXFSZ, or has stopped writing exactly there.
    let full = [&document, &out, &err].into_iter().any(|file| length(file) >= most);
    let ending = if full && matches!(ending, Ending::Exited(_)) { Ending::TooMuch } else { ending };
    Ok(Ran { ending, document, out, err })
}

/// A helper that is killed and reaped when it is dropped.
struct Guard(Option<Child>);

impl Guard {
    fn restrain(&self, most: u64) {
        let Some(pid) = self.0.as_ref().and_then(pid_of) else { return };
        // Both are refused only for a helper with rights of its own, and nothing depends on them.
        let _ = rustix::process::setpriority_process(Some(pid), NICE);
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        let _ = rustix::process::prlimit(Some(pid), Resource::Fsize, limit);
        crate::sources::descriptors::restore_limit(pid);
    }

    /// The exit status once it has ended, which also reaps it.
    fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let Some(child) = &mut self.0 else { return Ok(None) };
        let status = child.try_wait()?;
        if status.is_some() {
            self.0 = None;
        }
        Ok(status)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(child) = &self.0 else { return };
        // The whole group: the program may be a script that started another. It is not reaped, so the number is its own.
        if let Some(pid) = pid_of(child) {
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
        }
        let killed = Instant::now();
        while killed.elapsed() < REAP {
            if self.ended().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        // It hangs in the kernel, which a caller that wants to stop must not do.
        if let Some(mut child) = self.0.take() {
            thread::spawn(move || child.wait());
        }
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
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
