//! Why a process cannot be attached to, each reason with the command that fixes it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::facts::with_more_rights;
use crate::{descriptors, hidepid};

/// Why a process cannot be attached to.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The process does not exist.
    #[error("no process {0}: it has ended, or the PID is wrong; run `trainmon` to list the running jobs")]
    NoSuchProcess(u32),
    /// It has ended, and its parent has not collected it yet.
    #[error("process {0} has ended: it is a zombie that its parent has not collected yet")]
    Zombie(u32),
    /// It is a kernel thread.
    #[error("process {0} is a kernel thread, not a training job; run `trainmon` to list the running jobs")]
    KernelThread(u32),
    /// `/proc` hides it: the mount option, and the command.
    #[error("cannot see process {0}: it belongs to another user, and /proc is mounted with {1}; run `{2}`")]
    Hidden(u32, String, Arc<str>),
    /// A stricter security module.
    #[error("cannot read process {0}: permission denied{how}", how = .1.as_ref().map_or(String::new(), |fix| format!("; run `{fix}`")))]
    Denied(u32, Option<Arc<str>>),
    /// No descriptor is free: how many there are, and the command.
    #[error("cannot read process {0}: {1}; run `{2}` first")]
    TooFewDescriptors(u32, String, String),
    /// The thread that reads the job cannot start: why, and what allows it.
    #[error("cannot start a thread: {0}")]
    NoThread(String),
    /// Any other error.
    #[error("cannot read process {0}: {1}")]
    Failed(u32, io::Error),
}

impl AttachError {
    /// The error for a process without a folder in `/proc`.
    pub fn missing(proc_root: &Path, pid: u32) -> Self {
        Self::hidden(proc_root, pid).unwrap_or(Self::NoSuchProcess(pid))
    }

    /// The error for a process whose folder cannot be read.
    pub(super) fn denied(proc_root: &Path, pid: u32) -> Self {
        Self::hidden(proc_root, pid).unwrap_or_else(|| Self::Denied(pid, with_more_rights(pid)))
    }

    pub(super) fn too_few_descriptors(pid: u32) -> Self {
        let (reason, fix) = descriptors::too_few();
        Self::TooFewDescriptors(pid, reason, fix)
    }

    /// Whether the process exists but `/proc` hides it.
    fn hidden(proc_root: &Path, pid: u32) -> Option<Self> {
        let option = hidepid::option(proc_root)?;
        if !exists(pid) {
            return None;
        }
        // Root that is bound by it has no CAP_SYS_PTRACE, and does not gain it by sudo.
        let command = with_more_rights(pid).unwrap_or_else(|| "mount -o remount,hidepid=0 /proc".into());
        Some(Self::Hidden(pid, option, command))
    }
}

/// Whether the kernel knows the process: it answers ESRCH for an unknown PID, whatever `/proc` shows (kill(2)).
fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| matches!(test_kill_process(pid), Ok(()) | Err(Errno::PERM)))
}
