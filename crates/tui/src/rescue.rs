//! Restores the terminal when a signal with its default action ends or stops the process: an abort, a crash in a
//! driver's library on any thread, `kill -QUIT`, `kill -TSTP`, a CPU time limit.
//!
//! While the terminal is held, each such signal has a handler. It writes the bytes that leave the screen, restores the
//! terminal modes, and lets the signal take its usual course: the exit status, the core dump and Rust's message about a
//! stack overflow stay the same. Signals that are ignored or handled elsewhere are left alone. A stack overflow on a
//! thread that a library started cannot be caught, because that thread has no stack for handlers.
#![allow(unsafe_code, reason = "handlers are installed by sigaction(2); each call says why it is sound")]

use std::cell::UnsafeCell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_int, c_void, sigaction, siginfo_t};

/// Signals whose default action ends the process, signal(7), and the one that stops it. It leaves out those that
/// [`trainmon_attach::jobs`] listens to; the real-time signals are added.
const ENDING: [c_int; 18] = [
    libc::SIGQUIT,
    libc::SIGTSTP,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGABRT,
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGSYS,
    libc::SIGTRAP,
    libc::SIGXCPU,
    libc::SIGSTKFLT,
    libc::SIGIO,
    libc::SIGPWR,
];
/// Raised by an instruction, which raises it again once the handler has returned.
const FAULTS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];
/// One more than the last signal, signal(7).
const SIGNALS: usize = 65;

/// Ends a synchronized update, resets colors, clears from the top (for terminals without another screen), switches off the
/// mouse and bracketed paste, leaves the alternate screen, shows the cursor.
///
/// The Linux console, and GNU screen in its default configuration, have no other screen to return to: later output
/// would land in the middle of the picture. Mouse reports are switched off in any case.
pub(super) const LEAVE: &[u8] =
    b"\x1b[?2026l\x1b[0m\x1b[1;1H\x1b[J\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[?1049l\x1b[?25h";
/// How often to wait for a terminal that accepts nothing, 100 ms each.
const TRIES: u32 = 5;

/// What the handler needs.
struct HeldTerminal {
    out: c_int,
    modes_of: c_int,
    modes: MaybeUninit<libc::termios>,
    /// The previous actions, by signal; `None` if our handler is not installed.
    before: [Option<sigaction>; SIGNALS],
}

/// Only [`hold`] and [`release`] write to it, one at a time (the terminal is held once), and while [`ACTIVE`] is not set.
struct TerminalCell(UnsafeCell<HeldTerminal>);

// SAFETY: see `TerminalCell`: it is written while no handler reads it.
unsafe impl Sync for TerminalCell {}

static HELD: TerminalCell = TerminalCell(UnsafeCell::new(HeldTerminal {
    out: -1,
    modes_of: -1,
    modes: MaybeUninit::uninit(),
    before: [None; SIGNALS],
}));

/// Whether the terminal has to be restored. Whoever clears it restores the terminal.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Called before the terminal is taken: stores its current state, to be restored through `out`.
///
/// # Errors
/// The error of tcgetattr(3).
pub(super) fn hold(out: &(impl AsFd + AsRawFd)) -> io::Result<()> {
    release();
    // crossterm reads the modes from standard input if that is a terminal.
    let input = rustix::stdio::stdin();
    let modes_of = if rustix::termios::isatty(input) { input.as_raw_fd() } else { out.as_raw_fd() };
    let held = HELD.0.get();
    // SAFETY: the handlers are not installed and ACTIVE is not set, so nothing else accesses `held`; tcgetattr fills the
    // whole structure where it answers 0.
    unsafe {
        if libc::tcgetattr(modes_of, (*held).modes.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        (*held).out = out.as_raw_fd();
        (*held).modes_of = modes_of;
    }
    ACTIVE.store(true, Ordering::Release);
    for signal in ENDING.into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
        let Some(before) = current(signal) else { continue };
        // Rust handles two faults to detect a stack overflow; its handler runs after ours.
        let is_untouched = before.sa_sigaction == libc::SIG_DFL || FAULTS.contains(&signal);
        if is_untouched && before.sa_sigaction != libc::SIG_IGN {
            keep(signal, Some(before));
            install(signal);
        }
    }
    Ok(())
}

/// Whether the screen is still to be left: no signal has done it since [`hold`].
pub(super) fn is_due() -> bool {
    ACTIVE.load(Ordering::Acquire)
}

/// Called after the terminal was restored.
pub(super) fn release() {
    ACTIVE.store(false, Ordering::Release);
    for signal in (1..).take(SIGNALS - 1) {
        if let (Some(before), Some(now)) = (kept(signal), current(signal)) {
            if now.sa_sigaction == handler() {
                set(signal, &before);
            }
            keep(signal, None);
        }
    }
}

fn handler() -> usize {
    on_signal as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize
}

/// The previous action.
fn kept(signal: c_int) -> Option<sigaction> {
    let place = usize::try_from(signal).ok()?;
    // SAFETY: written only by `keep`, which does not run at the same time: see `TerminalCell`.
    unsafe { (*HELD.0.get()).before.get(place).copied().flatten() }
}

fn keep(signal: c_int, before: Option<sigaction>) {
    // SAFETY: the handler of this signal is not installed; those of others read other places.
    let place = usize::try_from(signal).ok().and_then(|place| unsafe { (*HELD.0.get()).before.get_mut(place) });
    if let Some(place) = place {
        *place = before;
    }
}

/// The process's action for a signal.
fn current(signal: c_int) -> Option<sigaction> {
    let mut action = MaybeUninit::<sigaction>::uninit();
    // SAFETY: sigaction fills the structure where it answers 0.
    unsafe { (sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0).then(|| action.assume_init()) }
}

fn set(signal: c_int, action: &sigaction) {
    // SAFETY: the action is one that sigaction has answered, or is made by `install` or `default_action`. Async-signal-safe.
    unsafe { sigaction(signal, action, ptr::null_mut()) };
}

fn install(signal: c_int) {
    let mut action = default_action();
    action.sa_sigaction = handler();
    // On the alternate stack, where the thread has one: its own may have overflowed.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: the mask is a valid, empty set. From the background, tcsetattr would stop the process.
    unsafe { libc::sigaddset(&raw mut action.sa_mask, libc::SIGTTOU) };
    set(signal, &action);
}

fn default_action() -> sigaction {
    // SAFETY: all zero is a valid sigaction: SIG_DFL, no flags, an empty mask.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Everything it calls is async-signal-safe, signal-safety(7).
extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    if ACTIVE.swap(false, Ordering::AcqRel) {
        give_back();
    }
    // SAFETY: the kernel passes a valid structure, since the handler is installed with SA_SIGINFO.
    let is_fault = FAULTS.contains(&signal) && unsafe { (*info).si_code } > 0;
    if is_fault {
        // The instruction runs again, and triggers the previous handler.
        set(signal, &kept(signal).unwrap_or_else(default_action));
        return;
    }
    set(signal, &default_action());
    // SAFETY: the set is initialized by sigemptyset. These three are async-signal-safe.
    unsafe {
        let mut only = MaybeUninit::uninit();
        libc::sigemptyset(only.as_mut_ptr());
        libc::sigaddset(only.as_mut_ptr(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, only.as_ptr(), ptr::null_mut());
        libc::raise(signal);
    }
    // Only a stop signal returns here, even if no process will continue this one and the kernel does not stop it (an
    // orphaned process group). SIGCONT takes the terminal again.
    install(signal);
    // SAFETY: takes a number; async-signal-safe.
    unsafe { libc::raise(libc::SIGCONT) };
}

/// Leaves the screen and, in the foreground, restores the modes.
fn give_back() {
    // SAFETY: ACTIVE was set, so the structure is filled, and nothing writes to it. errno is put back, since the
    // interrupted code may be about to read it. All calls are async-signal-safe.
    unsafe {
        let errno = *libc::__errno_location();
        let held = HELD.0.get();
        let (mut left, mut tries) = (LEAVE, 0);
        while !left.is_empty() && tries < TRIES {
            match usize::try_from(libc::write((*held).out, left.as_ptr().cast(), left.len())) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(_) if *libc::__errno_location() == libc::EINTR => {}
                Err(_) if *libc::__errno_location() == libc::EAGAIN => {
                    let mut ready = libc::pollfd { fd: (*held).out, events: libc::POLLOUT, revents: 0 };
                    libc::poll(&raw mut ready, 1, 100);
                    tries += 1;
                }
                Err(_) => break,
            }
        }
        // In the background the modes are those of another program by now. Without job control there is no group (-1).
        if [libc::getpgrp(), -1].contains(&libc::tcgetpgrp((*held).modes_of)) {
            libc::tcsetattr((*held).modes_of, libc::TCSANOW, (*held).modes.as_ptr());
        }
        *libc::__errno_location() = errno;
    }
}
