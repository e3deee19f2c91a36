//! Takes a profile of a job that was not started to be profiled: Python 3.14 and later run a script where another process of the
//! same user asks for it (`sys.remote_exec`, PEP 768). The script starts torch's profiler, ends it, writes the trace and leaves
//! nothing behind; `assets/inject/profile.py` is all of it.
//!
//! ```text
//! target (may it be done) → folder (script, lock) → the job's own interpreter, which asks → what the script says → trace
//! ```
//!
//! While trainmon waits it holds a lock. The script looks for it: where trainmon has gone, killed or not, the job ends its
//! profiler and removes the files.

mod answer;
mod folder;
mod script;
mod target;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::kineto::ProfileWish;
use folder::InjectFolder;
pub use target::{InjectTarget, may_be_asked};
use trainmon_profiles::asked::{ProfileAsker, ProfileStage};

/// How long the first thread of a job may take to come to the script: it is between two bytecodes many times a second, unless it is
/// in a call of a library.
const COMES_WITHIN: Duration = Duration::from_secs(15);
/// How long the script waits for the first thread to end the profiler before its own thread does.
const STOPS_WITHIN: Duration = Duration::from_secs(10);
/// How long steps are counted at most.
const STEPS_WITHIN: Duration = Duration::from_secs(60);
/// How long the job may take to begin, to end the profiler and to write the trace. The first start of torch's profiler on a GPU takes
/// seconds, and a loop of 300,000 calls a second writes for half a minute.
const WRITES_WITHIN: Duration = Duration::from_secs(120);
/// How long the job's interpreter may take to ask.
const CALL_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOKS: Duration = Duration::from_millis(20);

/// Why no profile was taken, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum InjectError {
    /// The process is gone.
    #[error("process {0} has ended")]
    Ended(u32),
    /// It executed another program.
    #[error("process {0} runs another program since, which has no profiler: try again when it trains")]
    Execed(u32),
    /// It is stopped.
    #[error("process {0} is stopped: `kill -CONT {0}` lets it go on")]
    Stopped(u32),
    /// It is another user's.
    #[error("process {0} belongs to another user: run trainmon with sudo")]
    Denied(u32),
    /// It is in a container.
    #[error(
        "process {0} sees other files or processes than trainmon, as in a container or a chroot: run trainmon inside it"
    )]
    Elsewhere(u32),
    /// It is no Python.
    #[error(
        "process {pid} runs {program}, not an interpreter of Python: name the process that trains; `trainmon` lists them"
    )]
    NotPython {
        /// Its PID.
        pid: u32,
        /// Name of its program.
        program: String,
    },
    /// It cannot run scripts of others.
    #[error(
        "process {pid} runs Python {version}, and only 3.14 and later run a script for another process: start the job with `trainmon run -- CMD`, or use --probe"
    )]
    OldPython {
        /// Its PID.
        pid: u32,
        /// What it runs.
        version: String,
    },
    /// The interpreter's file is another one by now.
    #[error("the interpreter of process {pid}, {program}, was replaced since the job started: start the job again")]
    Replaced {
        /// Its PID.
        pid: u32,
        /// Path of the interpreter.
        program: String,
    },
    /// Another user may have written the interpreter.
    #[error("{why}, so root does not run it: {fix}")]
    Untrusted {
        /// What is wrong with it.
        why: String,
        /// The command that does without root.
        fix: String,
    },
    /// It was started so.
    #[error(
        "the Python of process {0} runs no script of another process: start the job without -X disable-remote-debug and PYTHON_DISABLE_REMOTE_DEBUG, or with `trainmon run -- CMD`"
    )]
    Forbidden(u32),
    /// It was built so.
    #[error(
        "the Python of process {0} was built without remote debugging: start the job with `trainmon run -- CMD`, or use --probe"
    )]
    Without(u32),
    /// The kernel forbids it.
    #[error("{0}")]
    Ptrace(String),
    /// The interpreter failed.
    #[error("cannot run {program}: {said}")]
    Interpreter {
        /// Its path.
        program: String,
        /// What it said.
        said: String,
    },
    /// There is no place for script and trace.
    #[error("cannot write to {folder}, where process {pid} has its temporary files: {why}")]
    Folder {
        /// Its PID.
        pid: u32,
        /// The folder.
        folder: String,
        /// Why.
        why: io::Error,
    },
    /// It does not train.
    #[error("process {0} has not imported torch: name the process that trains; `trainmon` lists them")]
    NoTorch(u32),
    /// There is one already.
    #[error("a profiler runs in process {0} already: try again when it has ended")]
    Profiled(u32),
    /// It never came to the script.
    #[error(
        "process {pid} did not come to run the script for {waited:.0} s: its first thread is in a long call; try again, or use --probe"
    )]
    NeverCame {
        /// Its PID.
        pid: u32,
        /// How long it was waited for, seconds.
        waited: f64,
    },
    /// The script says why not.
    #[error("process {pid} took no profile: {why}")]
    Failed {
        /// Its PID.
        pid: u32,
        /// Why.
        why: String,
    },
    /// No trace came.
    #[error(
        "process {pid} began a profile and wrote no trace to {folder} within {waited:.0} s: is there room on the disk?"
    )]
    NoTrace {
        /// Its PID.
        pid: u32,
        /// The folder.
        folder: String,
        /// How long it was waited for, seconds.
        waited: f64,
    },
    /// It was given up.
    #[error("given up: the job goes on, and removes the profiler from itself")]
    GivenUp,
}

/// A trace that a job wrote. Its files are removed with this value.
#[derive(Debug)]
pub struct InjectedTrace {
    /// The process.
    pub pid: u32,
    /// Where it can be read.
    pub path: PathBuf,
    /// How many steps came, where steps were asked for and fewer came in time.
    pub short_of: Option<u32>,
    /// Held open: what was checked is what is read.
    _file: File,
    _folder: InjectFolder,
}

/// What the script says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct ScriptStatus {
    state: String,
    #[serde(default)]
    why: String,
    #[serde(default)]
    steps: i64,
}

/// What would be done: the script, and the command that has the job run it.
pub fn dry_run(target: &InjectTarget, wish: ProfileWish) -> String {
    let folder = InjectFolder::name(target);
    let script = script::text(target, &folder, wish);
    let command = answer::command(target, &folder);
    format!("{script}\n# The command that has process {} run it:\n{command}", target.pid)
}

/// Has a job profile itself, and waits for the trace.
///
/// # Errors
/// Why no profile was taken. The job goes on in each case.
pub fn take(
    proc_root: &Path,
    target: &InjectTarget,
    wish: ProfileWish,
    asker: &dyn ProfileAsker,
) -> Result<InjectedTrace, InjectError> {
    let interpreter = target.interpreter()?;
    let mut folder = InjectFolder::create(target, |folder| script::text(target, folder, wish))?;
    answer::ask(proc_root, target, &interpreter, &folder.script())?;
    folder.set_pending(true);
    // Only now: until then the job may have come to the script of a call that was killed.
    folder.remove_left(proc_root, target);
    let pid = target.pid;
    let asked = Instant::now();
    let mut begun: Option<Instant> = None;
    loop {
        if !asker.wanted() {
            return Err(InjectError::GivenUp);
        }
        let status = folder.status();
        let state = status.as_ref().map(|status| status.state.as_str());
        folder.set_pending(state.is_none());
        match (state, &status) {
            (Some("no-torch"), _) => return Err(InjectError::NoTorch(pid)),
            (Some("profiled"), _) => return Err(InjectError::Profiled(pid)),
            (Some("failed"), Some(status)) => {
                return Err(InjectError::Failed { pid, why: trainmon_base::text::fit(&status.why, 200) });
            }
            (Some("written"), Some(status)) => return written(target, folder, wish, status),
            (Some(_), _) => {
                let begun = *begun.get_or_insert_with(Instant::now);
                let waited = begun.elapsed();
                asker.reached(match waited.checked_sub(script::longest(wish)) {
                    None => ProfileStage::Recording(wish.window),
                    Some(writing) => ProfileStage::Writing(writing.as_secs()),
                });
                if waited > script::longest(wish) + WRITES_WITHIN {
                    let folder = folder.shown();
                    return Err(InjectError::NoTrace { pid, folder, waited: waited.as_secs_f64() });
                }
            }
            (None, _) if asked.elapsed() > COMES_WITHIN => {
                return Err(InjectError::NeverCame { pid, waited: asked.elapsed().as_secs_f64() });
            }
            (None, _) => asker.reached(ProfileStage::Asking(COMES_WITHIN)),
        }
        let here = target.check(proc_root);
        if let Err(InjectError::Ended(_) | InjectError::Execed(_)) = here {
            folder.set_pending(false);
        }
        here?;
        std::thread::sleep(LOOKS);
    }
}

/// The trace that the script says it wrote.
fn written(
    target: &InjectTarget,
    folder: InjectFolder,
    wish: ProfileWish,
    status: &ScriptStatus,
) -> Result<InjectedTrace, InjectError> {
    let (file, path) = folder.trace().map_err(|why| InjectError::Failed {
        pid: target.pid,
        why: format!("its trace cannot be read: {}", trainmon_base::errors::without_number(&why)),
    })?;
    let came = u32::try_from(status.steps).unwrap_or_default();
    let short_of = script::steps(wish).filter(|steps| came < *steps).map(|_| came);
    Ok(InjectedTrace { pid: target.pid, path, short_of, _file: file, _folder: folder })
}
