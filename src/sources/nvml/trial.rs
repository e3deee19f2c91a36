//! Loading a library on trial, in a process of its own.
//!
//! A library runs code of its own while it is loaded, and the loader holds its lock meanwhile. If that code never returns, then
//! neither does whatever takes that lock afterwards, in any thread: the first use of a thread-local value that has a destructor
//! (`__cxa_thread_atexit_impl(3)`), the start of a program, `exit(3)`. If it crashes, the process is gone. So this executable is
//! started once more, loads the library and ends; only a library that has come through is loaded here.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use crate::errors::ExitCode;
use crate::signals;
use crate::sources::nvml_raw;

/// First argument of this executable where it loads a library on trial, with the number of the process that asks for it. Not
/// offered to people.
const WORD: &str = "load-library:";
/// The opened library, as the process on trial has it.
const OPENED: &str = "/proc/self/fd/0";
/// How long loading may take. From a cold disk it takes some tenths of a second.
const LOADING: Duration = Duration::from_secs(5);
/// How often its end is looked for.
const STEP: Duration = Duration::from_millis(2);

/// Loads a library in another process: the opened file, or whatever the loader finds by a name.
///
/// # Errors
/// What happened there, as the rest of a sentence that names the library; nothing where the loader refused it, which will say
/// why when it is asked here.
pub(super) fn load(library: Result<&File, &Path>) -> Result<(), Failed> {
    let cannot = |error: std::io::Error| Failed::Start(error);
    let mut command = Command::new("/proc/self/exe");
    let (input, name) = match library {
        Ok(file) => (Stdio::from(file.try_clone().map_err(cannot)?), OsStr::new(OPENED)),
        Err(name) => (Stdio::null(), name.as_os_str()),
    };
    let word = format!("{WORD}{}", std::process::id());
    // A group of its own: Ctrl-C at our terminal is not for it.
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

/// Why a library did not come through.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failed {
    #[error("loading it did not end within {} s", LOADING.as_secs())]
    Hung,
    #[error("loading it ends the process with signal {0}")]
    Crashed(i32),
    #[error("the process that loads it on trial did not start: {0}")]
    Start(std::io::Error),
}

fn outcome(status: ExitStatus) -> Result<(), Failed> {
    status.signal().map_or(Ok(()), |signal| Err(Failed::Crashed(signal)))
}

/// Ends a process that hangs, in the kernel perhaps: then it is not waited for here.
fn end(mut child: Child) {
    // It cannot have been reaped by anybody else.
    let _ = child.kill();
    // Where no thread can be started it stays a zombie until we end.
    let _ = thread::Builder::new().name("tm-gpu-trial".into()).spawn(move || child.wait());
}

/// Loads the library that the arguments name, if they ask for that.
pub fn run_part(arguments: &[OsString]) -> Option<ExitCode> {
    let [_, word, library] = arguments else { return None };
    let parent = word.to_str()?.strip_prefix(WORD)?;
    // It ends with the process that has started it, which may have ended already.
    let follows = set_parent_process_death_signal(Some(Signal::KILL)).is_ok();
    let is_wanted = getppid().is_some_and(|pid| pid.to_string() == parent);
    let loaded = follows && is_wanted && nvml_raw::loads(library);
    Some(if loaded { ExitCode::DONE } else { ExitCode::FAILED })
}
