//! Files that are still being written under a name of their own. If Ctrl-C, SIGTERM or SIGHUP ends the process, they are removed
//! first, so nothing of them is left.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use rustix::process::{Pid, Signal};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::{ASKED_FOR, is_ignored};

/// Where they are.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file that is removed by a signal for as long as this is kept.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        unfinished().retain(|path| *path != self.0);
    }
}

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates such a file. No signal comes between its creation and the note of where it is.
///
/// # Errors
/// Those of `create`.
pub fn create<F>(create: impl FnOnce() -> io::Result<F>, path: impl Fn(&F) -> &Path) -> io::Result<(F, Unfinished)> {
    remove_on_signals();
    let mut unfinished = unfinished();
    let file = create()?;
    let path = path(&file).to_path_buf();
    unfinished.push(path.clone());
    Ok((file, Unfinished(path)))
}

/// From now on a thread removes them when a signal comes, and then lets the signal end the process. Where signals are listened
/// to, they end the process in order, which removes the files as well.
fn remove_on_signals() {
    static ONCE: Once = Once::new();
    // Process 1 has no default action for signals.
    if ASKED_FOR.is_completed() || rustix::process::getpid() == Pid::INIT {
        return;
    }
    ONCE.call_once(|| {
        let signals = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
        let signals = signals.into_iter().filter(|signal| !is_ignored(*signal)).map(Signal::as_raw);
        let Ok(mut signals) = Signals::new(signals) else { return };
        let removed = move || {
            for signal in signals.forever() {
                let unfinished = unfinished();
                // One that cannot be removed stays.
                unfinished.iter().for_each(|path| drop(std::fs::remove_file(path)));
                let _ = emulate_default_handler(signal);
            }
        };
        let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(removed);
    });
}
