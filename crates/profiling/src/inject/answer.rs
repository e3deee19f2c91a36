//! How the job is asked: its own interpreter calls `sys.remote_exec`, as the layout of Python's memory is that of a version.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use super::folder::script_in;
use super::{CALL_WITHIN, InjectError, InjectTarget};
use trainmon_base::text::{fit, shell_word};
use trainmon_sources::py_spy::child::{self, ChildEnding};
use trainmon_sources::py_spy::refusal;
use trainmon_sources::trusted_program::TrustedProgram;

/// What the interpreter runs.
const CALL: &str = include_str!("../../assets/inject/call.py");
/// It reads no settings and imports nothing of the user's.
const ISOLATED: [&str; 3] = ["-I", "-S", "-c"];
/// Bytes read of what it says.
const MESSAGES: u64 = 4096;
/// Longest message shown, terminal cells.
const WIDTH: usize = 160;

/// The command, for a shell.
pub fn command(target: &InjectTarget, folder: &Path) -> String {
    let pid = target.own_pid.to_string();
    let script = script_in(folder);
    let words = [target.python.path.as_path(), Path::new("-I"), Path::new("-S"), Path::new("-c"), Path::new(CALL)];
    let words = words.into_iter().chain([Path::new(&pid), &script]);
    let command = words.map(shell_word).collect::<Vec<_>>().join(" ");
    command.lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
}

/// Asks the job to run the script.
///
/// # Errors
/// Why it cannot be asked.
pub fn ask(
    proc_root: &Path,
    target: &InjectTarget,
    interpreter: &TrustedProgram,
    script: &Path,
) -> Result<(), InjectError> {
    let program = || fit(&interpreter.path.to_string_lossy(), WIDTH);
    let failed = |said: String| InjectError::Interpreter { program: program(), said };
    let (pid, script) = (target.own_pid.to_string(), script.to_string_lossy());
    let arguments: Vec<&str> = ISOLATED.into_iter().chain([CALL, &pid, &script]).collect();
    let never = AtomicBool::new(false);
    let ran = child::run(interpreter, &arguments, CALL_WITHIN, MESSAGES, &never)
        .map_err(|error| failed(trainmon_base::errors::without_number(&error)))?;
    match ran.ending {
        ChildEnding::Exited(status) if status.success() => {}
        ChildEnding::Exited(_) => return Err(failed(refusal::said(&ran.err(MESSAGES)))),
        _ => return Err(failed(format!("it took longer than {} s", CALL_WITHIN.as_secs()))),
    }
    let said = ran.out(MESSAGES);
    let (kind, rest) = said.trim().split_once(' ').unwrap_or((said.trim(), ""));
    let pid = target.pid;
    Err(match kind {
        "done" => return Ok(()),
        "old" => InjectError::OldPython { pid, version: fit(rest, 20) },
        "PermissionError" => {
            let again = format!("profile --pid {pid} --inject");
            let (why, fix) = refusal::denied(proc_root, target.id, "trainmon write to", &again);
            InjectError::Ptrace(fix.map_or(why.clone(), |fix| format!("{why}: {fix}")))
        }
        "ProcessLookupError" => InjectError::Ended(pid),
        "FileNotFoundError" => InjectError::Replaced { pid, program: program() },
        "RuntimeError" if rest.contains("not enabled in the remote process") => InjectError::Forbidden(pid),
        "RuntimeError" if rest.contains("not been compiled in") || rest.contains("not supported") => {
            InjectError::Without(pid)
        }
        _ => {
            target.check(proc_root)?;
            failed(refusal::said(&said))
        }
    })
}
