//! Asks a running job for a profile, like the daemon of dynolog: libkineto, a part of torch, asks a socket of a known name for a
//! configuration again and again where the job was started with `KINETO_USE_DAEMON`. The socket exists only while it is asked.
//!
//! A process ends itself if an answer comes from a socket whose name it does not expect (ipcfabric/Endpoint.h), so answers are only
//! ever sent from the socket of that very name, in the namespaces of the process.

mod message;
mod socket;
mod target;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use message::KinetoMessage;
use socket::{KinetoSocket, Question};
pub use target::{KinetoTarget, USE_DAEMON};

use trainmon_profiles::asked::{ProfileAsker, ProfileStage, ProfileWindow};
use trainmon_sources::process::stat_of;

/// How long a process may take to ask. Without a daemon it tries again for ten seconds, at last after five (`sync_send`), and then
/// waits for the interval of its configuration, five seconds unless that says otherwise.
const ASKS_WITHIN: Duration = Duration::from_secs(12);
/// How long a process may take to write a trace once its window is over: a loop of 300,000 calls a second took half a minute.
const WRITES_WITHIN: Duration = Duration::from_secs(120);
/// How far off the moment is that a process is given, each time that it has missed the last one. libkineto looks for a configuration
/// that came once a second (`kControllerIntervalMsecs`), but after a first window often once in ten (2.15); it drops one whose time is
/// over.
const LEADS: [Duration; 3] = [Duration::from_millis(1100), Duration::from_secs(11), Duration::from_secs(11)];
/// Several processes start at the same moment if all of them have asked until then.
const LEAD_OF_SEVERAL: Duration = Duration::from_millis(6200);
/// A process that asks so long after its window began, and is not recording, has missed the moment: the machine was busy. It is then
/// given another one.
const MISSED_AFTER: Duration = Duration::from_millis(1500);
/// Between two looks.
const LOOKS: Duration = Duration::from_millis(20);

/// Why no profile was taken, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum KinetoError {
    /// The process is gone.
    #[error("process {0} has ended")]
    Ended(u32),
    /// Its environment cannot be read.
    #[error("process {0} belongs to another user: run trainmon with sudo")]
    Denied(u32),
    /// It does not ask for configurations.
    #[error(
        "process {0} was not started to be profiled: start it with `trainmon run -- CMD`, or with KINETO_USE_DAEMON=1 in its environment"
    )]
    NotStartedFor(u32),
    /// A process has the socket's name.
    #[error(
        "another daemon has the socket `dynolog`, perhaps dynolog itself or another trainmon: stop it, or ask it for the trace"
    )]
    Taken,
    /// It is in a container.
    #[error("process {0} runs in a container with a network of its own: run trainmon inside it, or with sudo")]
    OtherNetwork(u32),
    /// Its sockets are files that have another name here.
    #[error("process {0} has its sockets in a container's folder: run trainmon inside the container")]
    OtherMounts(u32),
    /// It never asked.
    #[error(
        "process {pid} did not ask for {waited:.0} s: it has not imported torch yet, hangs, or its torch is older than 2.0"
    )]
    NeverAsked {
        /// Its PID.
        pid: u32,
        /// How long it was waited for, seconds.
        waited: f64,
    },
    /// It is stopped.
    #[error("process {0} is stopped: `kill -CONT {0}` lets it go on")]
    Stopped(u32),
    /// No trace came.
    #[error(
        "process {pid} took the configuration and wrote no trace to {folder} within {waited:.0} s: is there room, and may it write there?"
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
    #[error("given up: the job goes on, and what it may still write to {0} can be removed")]
    GivenUp(String),
    /// The system's answer.
    #[error("{what}: {why}")]
    System {
        /// What failed.
        what: &'static str,
        /// Why.
        why: io::Error,
    },
}

/// A wish for a profile.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProfileWish {
    /// What is recorded.
    pub window: ProfileWindow,
    /// Python's functions as well. They slow the window down.
    pub stacks: bool,
}

/// A trace that a process wrote. It is removed with this value.
#[derive(Debug)]
pub struct WrittenTrace {
    /// The process.
    pub pid: u32,
    /// Where it can be read.
    pub path: PathBuf,
}

impl Drop for WrittenTrace {
    fn drop(&mut self) {
        // It is the job's file, perhaps another user's: then it stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A process on its way to a trace.
#[derive(Debug)]
struct Asked {
    target: KinetoTarget,
    /// The trace as the process names it, with its PID.
    trace: PathBuf,
    /// When its window begins, once it has a configuration.
    start: Option<SystemTime>,
    /// How often it has been given one.
    given: usize,
    /// When its trace was seen to be written, of a window whose end is not known.
    writing: Option<Instant>,
}

impl Asked {
    /// Its trace, if that is there: libkineto writes it under another name, and renames it when it is whole.
    fn written(&self) -> Option<PathBuf> {
        let path = self.target.seen_from_here(&self.trace);
        path.symlink_metadata().is_ok_and(|found| found.is_file()).then_some(path)
    }

    /// How far it is with this window. The file of its trace is there from the window's begin on, and empty until its end.
    fn stage(&mut self, window: ProfileWindow) -> ProfileStage {
        let Ok(file) = self.unfinished().symlink_metadata() else {
            let missed: Duration = LEADS.iter().take(self.given).skip(1).sum();
            return ProfileStage::Asking(ASKS_WITHIN + missed);
        };
        let since = match window {
            ProfileWindow::For(length) => self.start.and_then(|start| start.elapsed().ok()?.checked_sub(length)),
            ProfileWindow::Steps(_) if file.len() == 0 => None,
            ProfileWindow::Steps(_) => Some(self.writing.get_or_insert_with(Instant::now).elapsed()),
        };
        since.map_or(ProfileStage::Recording(window), |since| ProfileStage::Writing(since.as_secs()))
    }

    /// Where its trace is written to.
    fn unfinished(&self) -> PathBuf {
        self.target.seen_from_here(&self.trace).with_extension("json.tmp")
    }

    /// Whether a process that asks is to get a configuration: the first one, or one more where it has missed the moment of the last.
    fn wants(&self) -> bool {
        let missed = |start: SystemTime| {
            start.elapsed().is_ok_and(|since| since > MISSED_AFTER)
                && self.given < LEADS.len()
                && self.written().is_none()
        };
        self.start.is_none_or(missed)
    }
}

/// Asks the processes for a profile of the same window, and waits for their traces. The asker hears how far the slowest is.
///
/// # Errors
/// Why no profile was taken. The job goes on in each case.
pub fn take(
    proc_root: &Path,
    targets: Vec<KinetoTarget>,
    wish: ProfileWish,
    asker: &dyn ProfileAsker,
) -> Result<Vec<WrittenTrace>, KinetoError> {
    let name = format!("trainmon-{:016x}", fastrand::u64(..));
    let named = |target: KinetoTarget| {
        let trace = target.traces.join(format!("{name}_{}.json", target.own_pid));
        Asked { target, trace, start: None, given: 0, writing: None }
    };
    let mut asked: Vec<Asked> = targets.into_iter().map(named).collect();
    let Some(first) = asked.first() else { return Ok(Vec::new()) };
    let socket = KinetoSocket::open(proc_root, &first.target)?;
    asked.iter().for_each(|one| remove_unread(&one.target));
    let length = match wish.window {
        ProfileWindow::For(length) => length,
        ProfileWindow::Steps(_) => Duration::ZERO,
    };
    let begun = Instant::now();
    // Until each trace is there: a process that missed its moment asks again.
    while let Some(waiting) = asked.iter_mut().find(|one| one.written().is_none()) {
        let stage = waiting.stage(wish.window);
        let (pid, folder) = (waiting.target.pid, || waiting.target.traces.display().to_string());
        check_state(proc_root, pid)?;
        if !asker.wanted() {
            return Err(KinetoError::GivenUp(folder()));
        }
        asker.reached(stage);
        match waiting.start {
            None if begun.elapsed() > ASKS_WITHIN => {
                return Err(KinetoError::NeverAsked { pid, waited: begun.elapsed().as_secs_f64() });
            }
            Some(start) => {
                let waited = start.elapsed().unwrap_or_default();
                if waited > length + WRITES_WITHIN {
                    let _ = std::fs::remove_file(waiting.unfinished());
                    return Err(KinetoError::NoTrace { pid, folder: folder(), waited: waited.as_secs_f64() });
                }
            }
            None => {}
        }
        if let Some(question) = socket.next(LOOKS)? {
            answer(&socket, &question, &mut asked, (&name, wish));
        }
    }
    Ok(asked.iter().filter_map(|one| Some(WrittenTrace { pid: one.target.pid, path: one.written()? })).collect())
}

/// Answers what a process asks. Other jobs, and processes that are being profiled, get no configuration.
fn answer(socket: &KinetoSocket, question: &Question, asked: &mut [Asked], (name, wish): (&str, ProfileWish)) {
    let all = asked.len();
    // All processes begin at the moment of the first one that asked.
    let together = asked.iter().filter_map(|one| one.start).next();
    let one = asked.iter_mut().find(|one| one.target.pid == question.pid);
    let bytes = match (KinetoMessage::parse(&question.bytes), one) {
        (Some(KinetoMessage::Context), _) => message::registered(),
        (Some(KinetoMessage::Request { free: true }), Some(one)) if one.wants() => {
            let lead = LEADS.get(one.given).copied().unwrap_or_default();
            let lead = if all > 1 { lead.max(LEAD_OF_SEVERAL) } else { lead };
            let joined = if one.start.is_none() { together } else { None };
            let start = joined.unwrap_or_else(|| SystemTime::now() + lead);
            (one.start, one.given) = (Some(start), one.given + 1);
            let trace = one.target.traces.join(format!("{name}.json"));
            message::configured(&configuration(&trace, start, wish))
        }
        (Some(KinetoMessage::Request { .. }), _) => message::configured(""),
        (None, _) => return,
    };
    // One that ended meanwhile needs no answer.
    let _ = socket.answer(question, &bytes);
}

/// Removes traces that the process wrote for a trainmon that was killed meanwhile. Only one at a time has the socket.
fn remove_unread(target: &KinetoTarget) {
    let ending = format!("_{}.json", target.own_pid);
    let Ok(entries) = std::fs::read_dir(target.seen_from_here(&target.traces)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let number = name.strip_prefix("trainmon-").and_then(|rest| rest.strip_suffix(&ending));
        if number.is_some_and(|number| number.len() == 16 && number.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The configuration (keys of libkineto/src/Config.cpp). libkineto adds `_PID` to the file's name.
fn configuration(trace: &Path, start: SystemTime, wish: ProfileWish) -> String {
    let start_ms = start.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let window = match wish.window {
        ProfileWindow::For(length) => format!(
            "PROFILE_START_TIME={start_ms}\nACTIVITIES_WARMUP_PERIOD_SECS=0\nACTIVITIES_DURATION_MSECS={}\n",
            length.as_millis()
        ),
        ProfileWindow::Steps(steps) => {
            format!("PROFILE_START_ITERATION=0\nACTIVITIES_WARMUP_ITERATIONS=0\nACTIVITIES_ITERATIONS={steps}\n")
        }
    };
    format!(
        "ACTIVITIES_LOG_FILE={}\n{window}PROFILE_REPORT_INPUT_SHAPES=true\nPROFILE_WITH_STACK={}\n",
        trace.display(),
        wish.stacks
    )
}

/// Whether the process is there and runs.
fn check_state(proc_root: &Path, pid: u32) -> Result<(), KinetoError> {
    match stat_of(proc_root, pid).map(|stat| stat.state) {
        None | Some('Z' | 'X') => Err(KinetoError::Ended(pid)),
        Some('T' | 't') => Err(KinetoError::Stopped(pid)),
        Some(_) => Ok(()),
    }
}
