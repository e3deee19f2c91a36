//! Programs that trainmon starts and waits for: the job of `trainmon run`, and the commands of `trainmon watch --exec`. Signals that
//! are meant for them go on to them.

pub mod command;
pub mod hook;
pub mod init;
pub mod program;

/// This executable.
const OWN: &str = "/proc/self/exe";
