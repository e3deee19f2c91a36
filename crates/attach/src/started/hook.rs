//! `--exec`: a shell command for each event, which never holds up the watching.
//!
//! One runs at a time, on a thread that waits for it. Events that come meanwhile queue up, and beyond [`QUEUE`] they are dropped. What is
//! known of the job reaches the command only by its environment, so no shell reads foreign text as code. The command comes from the
//! command line alone, never from a configuration file.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use trainmon_base::errors;
use trainmon_base::signals;

/// Events that wait for their command.
const QUEUE: usize = 16;
/// A command may take so long; then its process group gets SIGTERM …
const LIMIT: Duration = Duration::from_secs(60);
/// … and after this SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// What is still to be done when a signal ends trainmon has so long.
const AFTER_SIGNAL: Duration = Duration::from_secs(2);
/// Between two notes about commands that failed.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Between two looks at a command that runs.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Names and values.
type Variables = Vec<(&'static str, String)>;

/// Runs the commands.
#[derive(Debug)]
pub struct Hook {
    queue: SyncSender<Variables>,
    thread: JoinHandle<()>,
    /// No more commands: the running one is ended.
    stop: Arc<AtomicBool>,
    dropping: bool,
}

impl Hook {
    /// Ready for events. Nothing runs yet.
    pub fn start(command: &str) -> anyhow::Result<Self> {
        let (queue, events) = sync_channel(QUEUE);
        let stop = Arc::new(AtomicBool::new(false));
        let mut runner = Runner { command: command.to_owned(), stop: Arc::clone(&stop), noted: None };
        let thread = std::thread::Builder::new().name("tm-exec".to_owned());
        let thread = thread.spawn(move || runner.run_all(&events)).context("cannot start a thread for --exec")?;
        Ok(Self { queue, thread, stop, dropping: false })
    }

    /// Has the command run for an event.
    pub fn run(&mut self, variables: Variables) {
        let full = matches!(self.queue.try_send(variables), Err(TrySendError::Full(_)));
        if full && !self.dropping {
            errors::note(&format!(
                "--exec: the command is slower than events come; beyond {QUEUE} they are left out"
            ));
        }
        self.dropping = full;
    }

    /// Waits for the commands of all events, for as long as one may take; not for long after a signal.
    pub fn finish(self) {
        let Self { queue, thread, stop, .. } = self;
        drop(queue);
        let begun = Instant::now();
        let mut asked = None;
        while !thread.is_finished() {
            let asked_s = signals::asks_to_end().then(|| asked.get_or_insert_with(Instant::now).elapsed());
            if begun.elapsed() > LIMIT || asked_s.is_some_and(|elapsed| elapsed > AFTER_SIGNAL) {
                stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// What the thread works with.
struct Runner {
    command: String,
    stop: Arc<AtomicBool>,
    /// When a failure was noted last.
    noted: Option<Instant>,
}

impl Runner {
    fn run_all(&mut self, events: &Receiver<Variables>) {
        for variables in events {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if let Err(why) = self.run_one(variables)
                && self.noted.is_none_or(|noted| noted.elapsed() >= NOTE_EVERY)
            {
                self.noted = Some(Instant::now());
                errors::note(&format!("--exec: {why}"));
            }
        }
    }

    /// Runs the command and waits for it; why it failed.
    fn run_one(&self, variables: Variables) -> Result<(), String> {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.command).envs(variables).process_group(0);
        // Standard output is for the events.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        if let Some((uid, gid)) = sudo_caller() {
            command.gid(gid).uid(uid);
        }
        let started = {
            let _starting = signals::starting();
            command.spawn()
        };
        let mut child = started.map_err(|error| format!("cannot start /bin/sh: {error}"))?;
        self.wait(&mut child)
    }

    fn wait(&self, child: &mut Child) -> Result<(), String> {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let signal = |signal| {
            // It may have ended in between.
            let _ = group.map(|group| kill_process_group(group, signal));
        };
        let (begun, mut ending) = (Instant::now(), None::<Instant>);
        loop {
            match child.try_wait() {
                Ok(Some(_)) if self.stop.load(Ordering::Relaxed) => return Ok(()),
                Ok(Some(_)) if ending.is_some() => return Err(format!("the command ran for {} s", LIMIT.as_secs())),
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("the command failed ({status})")),
                Ok(None) => {}
                Err(error) => return Err(format!("cannot wait for the command: {error}")),
            }
            let over = begun.elapsed() > LIMIT || self.stop.load(Ordering::Relaxed);
            match ending {
                None if over => {
                    ending = Some(Instant::now());
                    signal(Signal::TERM);
                }
                Some(since) if since.elapsed() > GRACE => signal(Signal::KILL),
                _ => {}
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Under sudo, UID and GID of the user who called it: sudo may allow them nothing but trainmon, so the command that they name
/// must not run as root.
fn sudo_caller() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    Some((number("SUDO_UID")?, number("SUDO_GID")?))
}
