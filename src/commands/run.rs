//! `trainmon run -- CMD`: start a program and attach to it.
//!
//! Where Yama lets only ancestors attach (ptrace_scope 1), py-spy, a sibling of the program, may not. A process may allow it for
//! itself, though, and the leave outlasts an exec: the program is then started through this executable, which gives the leave and
//! becomes the program. Its data workers give none: of these py-spy gets no stacks.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{PTracer, getppid, set_ptracer};

use crate::config::Settings;
use crate::errors::{ExitCode, Failure};
use crate::text::secrets;

/// This executable.
const OWN: &str = "/proc/self/exe";
/// First argument of this executable where it becomes the program. Not offered to people: [`crate::cli`] knows nothing of it.
const BECOME: &str = "become-program";
/// Yama lets only ancestors attach.
const ANCESTORS_ONLY: &str = "1";
/// Longest time that the start of the program is waited for.
const BECOMES: Duration = Duration::from_secs(1);
/// Between two looks whether it has started.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// This much of the program's output is shown when the screen is left, bytes.
const TAIL: u64 = 4096;
/// And no more lines.
const LINES: usize = 20;

/// Starts the program and watches it; its exit code is passed on.
///
/// With `--log` the program keeps the terminal to itself. Under the screen its output goes to a file, whose end is
/// printed when the screen is left. Leaving the screen does not end the program.
pub fn run(settings: &Settings, program: &[OsString]) -> anyhow::Result<ExitCode> {
    let Some((program, rest)) = program.split_first() else {
        return Err(Failure::usage("run needs a program after --").into());
    };
    let mut command = command_for(program, rest, &settings.proc_root);
    let mut output = None;
    if settings.call.log.is_none() {
        super::live::terminal_or("trainmon run --log FILE -- …")?;
        let (path, file) = output_file()?;
        // A group of its own: Ctrl-C and Ctrl-Z on the screen are for trainmon.
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file.try_clone()?).process_group(0);
        output = Some((path, file));
    }
    let mut child = command.spawn().map_err(|why| cannot_start(program, why))?;
    if command.get_program() == OWN {
        wait_until_it_is_the_program(&child);
    }
    let watched = super::live::attach(settings, child.id(), None);
    let status = finish(&mut child, output.is_some())?;
    if let Some((path, file)) = output {
        show_tail(&path, file);
    }
    // A program that is over before it could be watched is no failure of the watching.
    if let Err(error) = watched
        && crate::errors::exit_of(&error) != crate::errors::Exit::NoProcess
    {
        return Err(error);
    }
    Ok(code(status))
}

/// The program, or what becomes it once py-spy has leave to attach.
fn command_for(program: &OsString, rest: &[OsString], proc_root: &Path) -> Command {
    let scope = std::fs::read_to_string(proc_root.join("sys/kernel/yama/ptrace_scope")).unwrap_or_default();
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if scope.trim() == ANCESTORS_ONLY && !is_root {
        let mut command = Command::new(OWN);
        command.arg(BECOME).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.args(rest);
    command
}

/// Becomes the program that the arguments name, if they ask for that. It returns where the program cannot be started.
pub fn run_part(arguments: &[OsString]) -> Option<ExitCode> {
    let (_, [word, program, rest @ ..]) = arguments.split_first()? else { return None };
    if word != BECOME {
        return None;
    }
    // The leave is a convenience: where the kernel knows no such call the program starts all the same.
    let _ = set_ptracer(getppid().map_or(PTracer::None, PTracer::ProcessID));
    let failed = Command::new(program).args(rest).exec();
    Some(crate::errors::report(&cannot_start(program, failed)))
}

/// What is attached to is the program, not this executable on its way to become it: an exec takes some milliseconds.
fn wait_until_it_is_the_program(child: &Child) {
    let own = std::fs::read_link(OWN).ok();
    let is_own = || own.is_some() && std::fs::read_link(format!("/proc/{}/exe", child.id())).ok() == own;
    let begun = Instant::now();
    while is_own() && begun.elapsed() < BECOMES {
        std::thread::sleep(LOOK_AGAIN);
    }
}

fn cannot_start(program: &OsString, why: std::io::Error) -> anyhow::Error {
    anyhow::Error::new(why).context(format!("cannot start {}", secrets::line(&program.to_string_lossy())))
}

/// Waits for the program's end.
fn finish(child: &mut Child, screen: bool) -> anyhow::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    if screen {
        eprintln!("trainmon: process {} goes on; waiting for its end (kill {} ends it)", child.id(), child.id());
    }
    child.wait().context("waiting for the program")
}

fn output_file() -> anyhow::Result<(PathBuf, File)> {
    let path = std::env::temp_dir().join(format!("trainmon-run-{}.out", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .with_context(|| format!("no file for the program's output at {}", path.display()))?;
    Ok((path, file))
}

fn show_tail(path: &std::path::Path, mut file: File) {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = Vec::new();
    let found = file.seek(SeekFrom::Start(length.saturating_sub(TAIL)));
    if length == 0 || found.and_then(|_| file.take(TAIL).read_to_end(&mut bytes)).is_err() {
        let _ = std::fs::remove_file(path);
        return;
    }
    crate::errors::note(&format!("the program's output is in {}; its end:", path.display()));
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().skip(lines.len().saturating_sub(LINES)) {
        eprintln!("{}", crate::text::sanitise(line));
    }
}

/// The program's exit code; 128 + N for one that signal N has ended, as a shell gives it.
fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1);
    ExitCode(u8::try_from(code & 0xff).unwrap_or(1))
}
