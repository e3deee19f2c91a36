//! Ends the process at once, without running anything that libraries have registered for exit.
//!
//! Returning from `main` calls `exit(3)`, which runs the destructors of every loaded library under the loader's lock. A
//! driver library that hangs in its constructor holds that lock, so the program would wait for it forever; a driver's
//! destructor may also hang or crash. trainmon has nothing left to do by then: whatever must be undone was already
//! undone by `Drop`.
#![allow(unsafe_code, reason = "_exit(2) has no safe form in the standard library; the call says why it is sound")]

use std::io::Write;

use crate::errors::ExitCode;
use crate::signals;

/// Ends the process with this status once its output is written; or by a signal, if one has cut the output short.
pub fn now(code: ExitCode) -> ! {
    let code = signals::end_by_signal().unwrap_or(code.0);
    // Standard error is not buffered, and a vanished reader was reported when it was written to. If this process was
    // asked to end, it does not wait for a stalled reader.
    if !signals::asks_to_end() {
        let _ = std::io::stdout().flush();
    }
    // SAFETY: `_exit` takes a number, touches no memory and does not return.
    unsafe { libc::_exit(i32::from(code)) }
}
