//! Whether trainmon may use its terminal: a shell gives the terminal to one process group, the one in the foreground.
//!
//! The kernel stops any other group that reads the terminal (SIGTTIN) or changes its settings (SIGTTOU), and repeats the call
//! once the group is continued: see `__tty_check_change` in Linux' `tty_jobctrl.c`. A process that handles SIGTERM would
//! then never end: its handler runs, the call is repeated, and the process stops again. So trainmon asks first, and while
//! it holds the terminal, its threads block both signals.

use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::{Pid, getpgid, getpgrp, getppid, getsid, tcgetpgrp};
use rustix::io::Errno;
use rustix::termios::{Action, LocalModes, tcflow, tcgetattr};

/// The terminal is used by another process group, and no shell can change that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the screen needs the foreground, and no shell can bring trainmon there")]
pub struct NoShell;

/// Whether this process group is in the foreground. Also if no terminal is controlled by a shell: without job control,
/// nothing stops a process.
pub fn is_ours() -> bool {
    taken_by_others().is_none()
}

/// A terminal on a standard stream that another process group has.
fn taken_by_others() -> Option<BorrowedFd<'static>> {
    let terminals = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    // An error means: no terminal, or not the one that controls this process.
    terminals.into_iter().find(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group != getpgrp()))
}

/// In the background, stops the process group until a shell has brought it to the foreground, like any other full-screen
/// program. `before` is called before the first stop, where the terminal takes output.
///
/// Call it before handlers for SIGTERM and the like are installed: those signals then end the process here.
///
/// # Errors
/// If no shell can bring it to the foreground.
pub fn wait(before: impl FnOnce()) -> Result<(), NoShell> {
    if is_ours() {
        return Ok(());
    }
    if !has_shell() {
        return Err(NoShell);
    }
    if !would_stop(rustix::stdio::stderr()) {
        before();
    }
    while let Some(terminal) = taken_by_others() {
        // In the foreground it does nothing: the terminal's output was not suspended by tcflow(3). In the background the kernel
        // stops the group.
        match tcflow(terminal, Action::OOn) {
            Err(Errno::INTR) => {}
            Err(Errno::IO) => return Err(NoShell),
            // SIGTTOU is ignored, so that nothing stops the process: the screen waits instead.
            _ => break,
        }
    }
    Ok(())
}

/// Whether writing here would stop the process: in the background, to a terminal that takes output only from the foreground
/// (`stty tostop`).
pub fn would_stop(out: impl AsFd) -> bool {
    // An error means that it is no terminal. Where no shell could continue the process, writing fails (EIO) and stops nothing.
    tcgetattr(out).is_ok_and(|modes| modes.local_modes.contains(LocalModes::TOSTOP)) && !is_ours() && has_shell()
}

/// Whether a shell can bring this group to the foreground: a process outside the group, in the same session, has started it.
pub fn has_shell() -> bool {
    let (group, session) = (getpgrp(), getsid(None));
    let mut parent = getppid();
    // Programs in between are in the same group: a script, timeout --foreground, sudo.
    while parent.as_raw() > 0 && getpgid(Some(parent)) == Ok(group) {
        let stat = procfs::process::Process::new(parent.as_raw()).and_then(|process| process.stat());
        // With hidepid=2, processes of other users cannot be read.
        let Ok(stat) = stat else { return true };
        parent = Pid::from_raw(stat.ppid);
    }
    parent.as_raw() > 0 && getsid(Some(parent)) == session
}

/// While it lives, neither reading from the terminal nor changing it stops the process, and threads that are started meanwhile are
/// like this one: in the background, reading fails (EIO) and changes are made. Dropped on the thread that made it.
#[derive(Debug)]
pub struct Unstopped {
    before: Option<SigSet>,
    /// The mask is a thread's.
    _thread: std::marker::PhantomData<*const ()>,
}

/// Keeps this thread from being stopped by the terminal.
pub fn unstopped() -> Unstopped {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTTIN);
    signals.add(Signal::SIGTTOU);
    Unstopped { before: signals.thread_swap_mask(SigmaskHow::SIG_BLOCK).ok(), _thread: std::marker::PhantomData }
}

impl Drop for Unstopped {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = before.thread_set_mask();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mask_of_the_thread_is_put_back() {
        let blocked = || SigSet::thread_get_mask().unwrap().contains(Signal::SIGTTOU);
        assert!(!blocked());
        let outer = unstopped();
        drop(unstopped());
        assert!(blocked(), "the outer one still holds");
        drop(outer);
        assert!(!blocked());
    }
}
