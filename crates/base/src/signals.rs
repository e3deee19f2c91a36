//! What signals mean for the whole process: which were ignored at the start, and which one asked it to end.
//!
//! A signal that is ignored at the start stays ignored (`nohup`, a background job of a non-interactive shell): no code
//! may install a handler for it. Programs started from here inherit that.

pub mod unfinished;

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{
    Arc, LazyLock, Once, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};

/// Bit N-1 is set if signal N was ignored at the start.
static IGNORED: OnceLock<u64> = OnceLock::new();
/// The signal that asked this process to end; 0 for none.
static ASKED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);
/// The signal that ends this process because a reader stalled; 0 for none.
static CUT_SHORT: AtomicI32 = AtomicI32::new(0);
/// Done once something listens to the signals that ask this process to end.
static ASKED_FOR: Once = Once::new();
/// PID of the program in `trainmon run`, whose end decides when this process ends; 0 without one.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// A signal came that was meant for the program in `trainmon run`.
static FORWARDED: AtomicBool = AtomicBool::new(false);

/// Held for reading while a program is being started.
static STARTS: RwLock<()> = RwLock::new(());
/// How many times to try for a moment in which nothing is being started, and the time between two tries: a start takes
/// a millisecond.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Hold it while starting a program. Until its exec, the new process is in trainmon's process group, and the thread
/// that starts it waits for it (vfork). A signal that stops the group at that moment would stop the new process and
/// leave the thread waiting, so that a shell would never see trainmon stop.
pub fn starting() -> RwLockReadGuard<'static, ()> {
    STARTS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Hold it while trainmon's process group is stopped; `None` if a start takes too long to wait for.
pub fn no_starts() -> Option<RwLockWriteGuard<'static, ()>> {
    for _ in 0..TRIES {
        match STARTS.try_write() {
            Ok(held) => return Some(held),
            Err(TryLockError::Poisoned(held)) => return Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
        }
    }
    None
}

/// Prepares the process, before any handler is installed: records which signals are ignored, and turns SIGXFSZ, which
/// would kill it at `ulimit -f`, into the error EFBIG of the write.
pub fn prepare() {
    IGNORED.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        ignored_in(&status).unwrap_or_default()
    });
    // A handler rather than SIG_IGN, which programs started from here would inherit.
    if !is_ignored(Signal::XFSZ) {
        // It can fail only for a signal that cannot be handled.
        let _ = signal_hook::flag::register(Signal::XFSZ.as_raw(), Arc::default());
    }
}

/// `SigIgn` of `/proc/PID/status`, proc_pid_status(5).
fn ignored_in(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Whether this signal was ignored when the process started.
pub fn is_ignored(signal: Signal) -> bool {
    let mask = IGNORED.get().copied().unwrap_or_default();
    let bit = u32::try_from(signal.as_raw() - 1).ok().and_then(|place| 1_u64.checked_shl(place));
    bit.is_some_and(|bit| mask & bit != 0)
}

/// Records that one of these signals has come, in addition to any other listener.
pub fn remember(signals: &[Signal]) {
    ASKED_FOR.call_once(|| {
        for signal in signals {
            let number = signal.as_raw();
            // It can fail only for a signal that cannot be handled.
            let _ = signal_hook::flag::register_usize(number, Arc::clone(&ASKED), number.unsigned_abs() as usize);
        }
    });
}

/// From now on signals are for this program, a child of trainmon: this process ends when the program has ended.
pub fn belong_to(program: Pid) {
    PROGRAM.store(program.as_raw_nonzero().get(), Ordering::Relaxed);
}

/// Records that a signal came that was meant for the program.
pub fn forwarded() {
    FORWARDED.store(true, Ordering::Relaxed);
}

/// Whether this process should end now, without waiting for any reader.
pub fn asks_to_end() -> bool {
    match Pid::from_raw(PROGRAM.load(Ordering::Relaxed)) {
        Some(program) => FORWARDED.load(Ordering::Relaxed) && has_ended(program),
        None => ASKED.load(Ordering::Relaxed) != 0,
    }
}

/// Whether a child has ended; its status remains to be collected.
pub fn has_ended(child: Pid) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    // An error means that it has been collected.
    waitid(WaitId::Pid(child), options).map_or(true, |status| status.is_some())
}

/// Records that output was given up because a signal came. This signal then ends the process, unless the program in
/// `trainmon run` decides the status.
pub fn cut_short() {
    if PROGRAM.load(Ordering::Relaxed) == 0 {
        let signal = i32::try_from(ASKED.load(Ordering::Relaxed)).unwrap_or_default();
        CUT_SHORT.store(signal, Ordering::Relaxed);
    }
}

/// Ends the process by the signal that cut its output short, if there was one. Process 1 has no default action for
/// signals, so it gets the exit status to use instead, 128 + N.
pub fn end_by_signal() -> Option<u8> {
    let signal = CUT_SHORT.load(Ordering::Relaxed);
    if signal == 0 {
        return None;
    }
    if rustix::process::getpid() != Pid::INIT {
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    u8::try_from(128 + signal).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_bits_counted_from_one() {
        let mask = ignored_in("SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\nSigCgt:\t0\n").unwrap();
        assert_eq!(mask, 1 << (Signal::HUP.as_raw() - 1) | 1 << (Signal::PIPE.as_raw() - 1));
        assert_eq!(ignored_in("Name:\tx\n"), None);
    }

    #[test]
    fn nothing_starts_while_the_group_is_stopped() {
        let starting = starting();
        assert!(no_starts().is_none(), "a start goes on");
        drop(starting);
        let held = no_starts().unwrap();
        assert!(STARTS.try_read().is_err());
        drop(held);
        assert!(STARTS.try_read().is_ok());
    }
}
