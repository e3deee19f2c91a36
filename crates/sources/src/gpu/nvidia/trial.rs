//! Loads a library on trial, in a separate process.
//!
//! A library runs its own code while it is loaded, and the loader holds its lock meanwhile. If that code never returns,
//! nothing that takes the lock afterwards returns either, in any thread: the first use of a thread-local value with a
//! destructor (`__cxa_thread_atexit_impl(3)`), the start of a program, `exit(3)`. If the code crashes, the process is
//! gone. So this executable is started a second time, loads the library and exits; only a library that passes is loaded
//! here.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::raw;
use trainmon_base::errors::ExitCode;
use trainmon_base::signals;

/// First argument that makes this executable load a library on trial, with the PID of the process that asks. Not
/// offered to users.
const WORD: &str = "load-library:";
/// The opened library, as the trial process has it.
const OPENED: &str = "/proc/self/fd/0";
/// How long loading may take; from a cold disk it takes a few tenths of a second.
const LOADING: Duration = Duration::from_secs(5);
/// How often the trial process is polled.
const STEP: Duration = Duration::from_millis(2);

/// Loads a library in another process: the opened file, or what the loader finds by a name.
///
/// # Errors
/// What happened there; completes a sentence that names the library. Nothing if the loader refused the library: it will
/// say why when it is asked here.
pub(super) fn load(library: Result<&File, &Path>) -> Result<(), Failed> {
    let cannot = |error: std::io::Error| Failed::Start(error);
    let mut command = Command::new("/proc/self/exe");
    let (input, name) = match library {
        Ok(file) => (Stdio::from(file.try_clone().map_err(cannot)?), OsStr::new(OPENED)),
        Err(name) => (Stdio::null(), name.as_os_str()),
    };
    let word = format!("{WORD}{}", std::process::id());
    // Its own process group: Ctrl-C at trainmon's terminal must not reach it.
    command.args([OsStr::new(&word), name]).stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let starting = signals::starting();
    let mut child = command.spawn().map_err(cannot)?;
    drop(starting);
    let started = Instant::now();
    loop {
        match child.try_wait().map_err(cannot)? {
            Some(status) => return outcome(status),
            None if started.elapsed() > LOADING => {
                end(child);
                return Err(Failed::Hung);
            }
            None => thread::sleep(STEP),
        }
    }
}

/// Why a library failed its trial.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("loading it took longer than {} s", LOADING.as_secs())]
    Hung,
    #[error("loading it crashes with signal {0}")]
    Crashed(i32),
    #[error("cannot start the process that tries it: {0}")]
    Start(std::io::Error),
}

fn outcome(status: ExitStatus) -> Result<(), Failed> {
    status.signal().map_or(Ok(()), |signal| Err(Failed::Crashed(signal)))
}

/// Kills a hanging process. It may hang in the kernel, so it is not waited for here.
fn end(mut child: Child) {
    // Only this process reaps it, so the kill cannot hit another one.
    let _ = child.kill();
    // If no thread can start, it stays a zombie until trainmon exits.
    let _ = thread::Builder::new().name("tm-gpu-trial".into()).spawn(move || child.wait());
}

/// Loads the library that the arguments name, if they ask for a trial.
pub fn run_part(arguments: &[OsString]) -> Option<ExitCode> {
    let [_, word, library] = arguments else { return None };
    let parent = word.to_str()?.strip_prefix(WORD)?;
    // It dies with the process that started it, which may be gone already.
    let follows = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    let is_wanted = getppid().is_some_and(|pid| pid.to_string() == parent);
    let loaded = follows && is_wanted && raw::loads(library);
    Some(if loaded { ExitCode::DONE } else { ExitCode::FAILED })
}
