//! What must be known of a job to ask it for a profile: whether it asks for configurations, where, and where it may write a trace.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{KinetoError, check_state};
use trainmon_sources::environ;
use trainmon_sources::files::{READ_LIMIT, ReadFailure, numbers_in, read_once};
use trainmon_sources::namespaces;
use trainmon_sources::process::identity;

/// libkineto asks for configurations where this is set, to whatever (libkineto/src/Config.cpp).
pub const USE_DAEMON: &str = "KINETO_USE_DAEMON";
/// The folder of the sockets, instead of abstract names (ipcfabric/Endpoint.h).
const SOCKET_FOLDER: &str = "KINETO_IPC_SOCKET_DIR";
/// The folder that traces asked for may be written to (Config.cpp), and the one without it.
const TRACE_FOLDER: &str = "KINETO_ONDEMAND_TRACE_DIR";
const DEFAULT_TRACE_FOLDER: &str = "/tmp";

/// A process that can be asked for a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KinetoTarget {
    /// Its PID here.
    pub pid: u32,
    /// Its PID as it knows it: part of the trace's name.
    pub own_pid: u32,
    /// The folder of the sockets; `None` for abstract names.
    pub sockets: Option<PathBuf>,
    /// The folder of its traces, as it names it.
    pub traces: PathBuf,
    /// Its folder below `/proc`.
    pub folder: PathBuf,
    /// Its rank, and where its run meets, as its environment has them.
    rank: Option<u32>,
    meets_at: Option<PathBuf>,
}

impl KinetoTarget {
    /// A process by its PID.
    ///
    /// # Errors
    /// It has ended, hides its environment, or does not ask for configurations.
    pub fn find(proc_root: &Path, pid: u32) -> Result<Self, KinetoError> {
        let folder = proc_root.join(pid.to_string());
        let content = read_once(folder.join("environ"), READ_LIMIT).map_err(|failure| match failure {
            ReadFailure::Denied => KinetoError::Denied(pid),
            _ => KinetoError::Ended(pid),
        })?;
        let variable = |name: &str| {
            environ::variable(&content, name)
                .map(|value| PathBuf::from(OsStr::from_bytes(value)))
                .filter(|value| !value.as_os_str().is_empty())
        };
        if environ::variable(&content, USE_DAEMON).is_none() {
            // The environment of a zombie is empty.
            return Err(match check_state(proc_root, pid) {
                Err(ended @ KinetoError::Ended(_)) => ended,
                _ => KinetoError::NotStartedFor(pid),
            });
        }
        let (_, own_pid) = identity(&folder);
        Ok(Self {
            pid,
            own_pid: own_pid.unwrap_or(pid),
            sockets: variable(SOCKET_FOLDER),
            traces: variable(TRACE_FOLDER).unwrap_or_else(|| DEFAULT_TRACE_FOLDER.into()),
            folder,
            rank: variable("RANK").and_then(|rank| rank.to_str()?.parse().ok()),
            meets_at: variable("MASTER_PORT"),
        })
    }

    /// The ranks of its run on this machine, itself among them, in their order. A rank's own children have its environment, and ask
    /// for nothing: the first process of each rank counts.
    pub fn ranks(self, proc_root: &Path) -> Vec<Self> {
        let mut all: BTreeMap<u32, Self> = BTreeMap::new();
        let Some(rank) = self.rank else { return vec![self] };
        let mut pids: Vec<u32> = numbers_in(proc_root).collect();
        pids.sort_unstable();
        for other in pids.into_iter().filter_map(|pid| Self::find(proc_root, pid).ok()) {
            if other.meets_at == self.meets_at
                && let Some(rank) = other.rank
            {
                all.entry(rank).or_insert(other);
            }
        }
        all.insert(rank, self);
        all.into_values().collect()
    }

    /// A path as the process names it, seen from here.
    pub(crate) fn seen_from_here(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix("/").unwrap_or(path);
        self.folder.join("root").join(below)
    }

    /// Whether it is in another network namespace, where abstract names are others.
    pub(crate) fn in_other_network(&self, proc_root: &Path) -> bool {
        namespaces::is_same(proc_root, &self.folder, "net") == Some(false)
    }

    /// Whether it sees other file systems.
    pub(crate) fn in_other_mounts(&self, proc_root: &Path) -> bool {
        namespaces::is_same(proc_root, &self.folder, "mnt") == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn target(environ: &[u8], state: char) -> Result<KinetoTarget, KinetoError> {
        let proc = tempfile::tempdir().unwrap();
        let folder = proc.path().join("12");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("environ"), environ).unwrap();
        fs::write(folder.join("stat"), format!("12 (python) {state} 1{}", " 0".repeat(48))).unwrap();
        fs::write(folder.join("status"), "Name:\tpython\nUid:\t0\t0\t0\t0\nNSpid:\t12\t7\n").unwrap();
        KinetoTarget::find(proc.path(), 12)
    }

    #[test]
    fn a_job_that_asks_is_found_with_its_folders() {
        let environ = b"A=1\0KINETO_USE_DAEMON=1\0KINETO_ONDEMAND_TRACE_DIR=/srv/traces\0KINETO_IPC_SOCKET_DIR=\0";
        let found = target(environ, 'R').unwrap();
        assert_eq!((found.own_pid, found.sockets.clone(), found.traces.clone()), (7, None, "/srv/traces".into()));
        assert!(found.seen_from_here(Path::new("/srv/traces/a.json")).ends_with("12/root/srv/traces/a.json"));
        let found = target(b"KINETO_USE_DAEMON=\0KINETO_IPC_SOCKET_DIR=/run/kineto\0", 'S').unwrap();
        assert_eq!((found.sockets, found.traces), (Some("/run/kineto".into()), "/tmp".into()));
    }

    #[test]
    fn a_job_that_does_not_ask_or_has_ended_is_refused() {
        let not = target(b"A=1\0KINETO_USE_DAEMONS=1\0", 'T').unwrap_err();
        assert!(matches!(not, KinetoError::NotStartedFor(12)), "{not}");
        assert!(not.to_string().contains("KINETO_USE_DAEMON=1"), "{not}");
        let ended = KinetoTarget::find(Path::new("/nonexistent"), 12).unwrap_err();
        assert!(matches!(ended, KinetoError::Ended(12)), "{ended}");
        // A zombie has no environment.
        let zombie = target(b"", 'Z').unwrap_err();
        assert!(matches!(zombie, KinetoError::Ended(12)), "{zombie}");
    }
}
