//! The started program, and the signals that go on to it.
//!
//! With `--log` the program is in our process group: what the terminal sends (Ctrl-C) reaches it directly, and forwarding
//! it would deliver it twice. Such signals come from the kernel, all others from a process, so they can be told apart.
//! Under the screen the program has a group of its own, so that Ctrl-Z stops the screen and not the job.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

use trainmon_base::signals;

/// In which process group the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessGroup {
    /// In ours: the terminal's signals reach it.
    Shared,
    /// In one of its own.
    Own,
}

/// Signals that go on to another process: those that were not ignored at the start.
pub(super) fn listen(signals: &[Signal]) -> io::Result<SignalsInfo<WithOrigin>> {
    SignalsInfo::new(signals.iter().filter(|signal| !signals::is_ignored(**signal)).map(|signal| signal.as_raw()))
}

/// Whether the terminal has sent this: it goes to every process of the group in its foreground.
pub(super) fn is_from_terminal(origin: &Origin) -> bool {
    origin.cause == Cause::Kernel
}

/// Listens to signals before there is a program: none is lost.
pub struct Forwarder {
    signals: SignalsInfo<WithOrigin>,
    group: ProcessGroup,
}

impl Forwarder {
    /// Begins to listen.
    pub fn listen(group: ProcessGroup) -> anyhow::Result<Self> {
        let mut wanted = vec![Signal::TERM, Signal::HUP, Signal::INT, Signal::USR1, Signal::USR2];
        // On the screen Ctrl-\ is a key, and the signal ends trainmon alone.
        wanted.extend((group == ProcessGroup::Shared).then_some(Signal::QUIT));
        Ok(Self { signals: listen(&wanted).context("listening to signals")?, group })
    }

    /// Starts the program, and forwards signals from now on.
    pub fn start(mut self, command: &mut Command) -> io::Result<Arc<Program>> {
        if self.group == ProcessGroup::Own {
            command.process_group(0);
        }
        // The thread comes first: a program that is already running must not be left alone for lack of one.
        let (give, take) = sync_channel::<(Self, Arc<Program>)>(1);
        std::thread::Builder::new().name("tm-signals".to_owned()).spawn(move || {
            if let Ok((forwarder, program)) = take.recv() {
                forwarder.forward_to(&program);
            }
        })?;
        // What the terminal has sent until now, the program does not get from there.
        let before: Vec<Origin> = self.signals.pending().collect();
        let program = Arc::new(Program::new(command.spawn()?, self.group)?);
        for origin in before {
            signals::forwarded();
            program.forward(origin.signal);
        }
        // It fails only if the thread has gone.
        let _ = give.send((self, Arc::clone(&program)));
        Ok(program)
    }

    /// Forwards signals for as long as the process lives.
    fn forward_to(mut self, program: &Program) {
        for origin in self.signals.forever() {
            signals::forwarded();
            if self.group == ProcessGroup::Own || !is_from_terminal(&origin) {
                program.forward(origin.signal);
            }
        }
    }
}

/// The program.
pub struct Program {
    /// Locked while it is signaled or collected, so that no signal goes to a process that has got its number since.
    child: Mutex<Uncollected>,
    pid: Pid,
    group: ProcessGroup,
}

/// The program until its status has been collected.
type Uncollected = Option<Child>;

impl Program {
    fn new(child: Child, group: ProcessGroup) -> io::Result<Self> {
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("it has no process number"))?;
        signals::belong_to(pid);
        Ok(Self { child: Mutex::new(Some(child)), pid, group })
    }

    /// Its PID.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Whether it has ended. Its status stays there to be collected.
    pub fn has_ended(&self) -> bool {
        signals::has_ended(self.pid)
    }

    /// Waits for its end.
    pub fn wait(&self) -> anyhow::Result<ExitStatus> {
        // The lock is not held meanwhile: signals still go on to the program.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(self.pid), options) {}
        let mut child = self.child();
        let mut collected = child.take().context("the program has been waited for already")?;
        collected.wait().context("waiting for the program")
    }

    fn forward(&self, number: i32) {
        let child = self.child();
        // Once it has been collected its number may be another process's.
        let (Some(signal), Some(_)) = (Signal::from_named_raw(number), &*child) else { return };
        // It may have ended in between, or have changed its user: there is nothing more to be done about it.
        let _ = match (self.group, signal) {
            // As the terminal would send it.
            (ProcessGroup::Own, Signal::INT) => kill_process_group(self.pid, signal),
            _ => kill_process(self.pid, signal),
        };
    }

    fn child(&self) -> MutexGuard<'_, Uncollected> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
