//! The heap under a limit on addresses (`ulimit -v`): one arena for all threads.
//!
//! glibc gives a new thread an arena of its own and reserves 64 MiB of addresses for it (`mallopt(3)`, M_ARENA_MAX). Under a small
//! limit that leaves nothing for the others, and an allocation that fails ends the program.
#![allow(unsafe_code, reason = "mallopt(3) has no safe form; the call says why it is sound")]

/// A limit from here on is neither too small for arenas nor what keeps a thread from being started, bytes: all of ours take 160 MiB.
pub(crate) const ENOUGH_ADDRESSES: u64 = 1 << 30;

/// Shares one arena where addresses are few. To be called before any thread is started.
pub fn share_under_limit() {
    #[cfg(target_env = "gnu")]
    if rustix::process::getrlimit(rustix::process::Resource::As).current.is_some_and(|bytes| bytes < ENOUGH_ADDRESSES)
    {
        // SAFETY: it takes two numbers, and no other thread runs yet. Where it is refused all stays as it is.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    }
}
