//! The end of the process, at once: nothing that a library has registered to run at exit is run.
//!
//! Returning from `main` calls `exit(3)`, which runs the destructors of every loaded library under the loader's lock. A driver's
//! library that hangs in its constructor holds that lock, so the program would wait for it for ever; a destructor of a driver
//! may hang or crash by itself. trainmon has nothing left to do by then: whatever must be undone is undone by `Drop` before.
#![allow(unsafe_code, reason = "_exit(2) has no safe form in the standard library; the call says why it is sound")]

use std::io::Write;

use crate::errors::ExitCode;
use crate::signals;

/// Ends the process with this status once what was printed has been written; by a signal, where one has cut the output short.
pub fn now(code: ExitCode) -> ! {
    let code = signals::end_by_signal().unwrap_or(code.0);
    // Standard error is not buffered; a reader that has gone was reported where it was written to. Whoever asks this
    // process to end does not wait for a reader that stalls.
    if !signals::asks_to_end() {
        let _ = std::io::stdout().flush();
    }
    // SAFETY: `_exit` takes a number, touches no memory and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}
