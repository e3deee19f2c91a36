//! With whose rights trainmon acts.
//!
//! If its file is setuid, setgid or has capabilities, everyone who may execute it gets these rights ("secure
//! execution", `AT_SECURE` in getauxval(3)). They are meant for reading `/proc`, not for what the caller names: logs,
//! recordings, settings, programs. Checking each such path with access(2) first would leave a race, and would have to
//! be remembered at every future `open`. Instead the first thread drops these rights before anything else, and the
//! threads and programs that it starts inherit that. Whatever is opened, created, executed or signaled is done as the
//! real user, checked by the kernel. Only the threads that read `/proc` take the rights back: on Linux, credentials
//! belong to threads (credentials(7), setresuid(2)).

use std::io;
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

use rustix::process::{Gid, Uid, getegid, geteuid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_ambient_set, set_capabilities, set_thread_res_gid,
    set_thread_res_uid,
};

/// The credentials that the program was started with.
#[derive(Debug)]
pub(super) struct Start {
    /// The user who called.
    pub(super) uid: Uid,
    /// The user whose rights the program got.
    pub(super) euid: Uid,
    gid: Gid,
    egid: Gid,
    secure: bool,
}

pub(super) fn start() -> &'static Start {
    static START: OnceLock<Start> = OnceLock::new();
    START.get_or_init(|| {
        let (uid, euid, gid, egid) = (getuid(), geteuid(), getgid(), getegid());
        let secure = uid != euid || gid != egid || (!uid.is_root() && has_capabilities_of_file());
        Start { uid, euid, gid, egid, secure }
    })
}

/// Whether this thread may use capabilities from the program's file; those passed on by a caller are in the ambient set
/// (capabilities(7)).
fn has_capabilities_of_file() -> bool {
    let Ok(sets) = capabilities(None) else { return false };
    sets.permitted.iter().any(|one| !capability_is_in_ambient_set(one).unwrap_or(false))
}

/// Whether the rights are not the caller's own: set-user-ID, set-group-ID, or capabilities of the file.
pub fn is_secure() -> bool {
    start().secure
}

/// Whether trainmon may do more than ordinary users: it runs as root, or [`is_secure`].
pub fn privileged() -> bool {
    start().euid.is_root() || start().secure
}

/// From now on this thread, and whatever it starts, acts with the real user's rights only. Changes nothing unless
/// [`is_secure`]. Call it first of all, while there is one thread.
///
/// # Errors
/// Those of setresuid(2), setresgid(2) or capset(2). The program must then not continue.
pub fn lay_down() -> rustix::io::Result<()> {
    let Start { uid, gid, secure, .. } = *start();
    if !secure {
        return Ok(());
    }
    set_thread_res_gid(None, gid, None)?;
    // Also removes the effective capabilities if root had any.
    set_thread_res_uid(None, uid, None)?;
    let sets = capabilities(None)?;
    set_capabilities(None, CapabilitySets { effective: CapabilitySet::empty(), ..sets })
}

/// Gives this thread back the rights that the program was started with, for reading `/proc` and nothing that the caller
/// names. If the kernel refuses, the thread continues without them and reads less.
pub fn take_up() {
    let Start { euid, egid, secure, .. } = *start();
    if !secure {
        return;
    }
    let _ = set_thread_res_uid(None, euid, None);
    let _ = set_thread_res_gid(None, egid, None);
    if let Ok(sets) = capabilities(None) {
        let _ = set_capabilities(None, CapabilitySets { effective: sets.permitted, ..sets });
    }
}

/// Does something with the rights that the program was started with, on a separate thread, so that no thread can fail
/// to drop them again.
///
/// # Errors
/// If the thread cannot be started.
pub fn with_rights<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    if !is_secure() {
        return Ok(work());
    }
    let work = || {
        take_up();
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("tm-rights".to_owned()).spawn_scoped(scope, work)?;
        thread.join().or_else(|panic| resume_unwind(panic))
    })
}
