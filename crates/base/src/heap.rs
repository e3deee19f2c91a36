//! The heap under a limit on addresses (`ulimit -v`): one arena for all threads.
//!
//! glibc gives each new thread its own arena and reserves 64 MiB of addresses for it (`mallopt(3)`, M_ARENA_MAX). Under
//! a small limit that leaves nothing for the others, and a failed allocation ends the program.
#![allow(unsafe_code, reason = "mallopt(3) has no safe form; the call says why it is sound")]

/// A limit of at least this is large enough for arenas and does not keep threads from starting, bytes: trainmon's
/// arenas take 160 MiB.
pub const ENOUGH_ADDRESSES: u64 = 1 << 30;

/// Makes all threads share one arena if addresses are scarce. Call it before any thread starts.
pub fn share_under_limit() {
    #[cfg(target_env = "gnu")]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some_and(|bytes| bytes < ENOUGH_ADDRESSES)
    {
        // SAFETY: it takes two numbers, and no other thread runs yet. If it is refused, nothing changes.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
