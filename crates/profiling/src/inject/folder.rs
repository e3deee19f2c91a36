//! The folder of one profile, among the job's temporary files: script, lock, what the script says, and the trace. Everything in it is
//! done with the rights of the job's user, and all that is read is the job's word.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, fcntl_lock};

use super::{InjectError, InjectTarget, ScriptStatus};
use trainmon_sources::job_rights::JobRights;

/// What its name begins with. The PID of the job and 16 digits follow.
const PREFIX: &str = "trainmon-";
const NAME_DIGITS: usize = 16;
/// What trainmon locks while it waits, the script, what that says, and the trace.
const LOCK: &str = "lock";
const SCRIPT_FILE: &str = "script.py";
const STATUS: &str = "status";
const TRACE: &str = "trace.json";
/// Most bytes that the script says. The file has room for them from the beginning, for a disk that is full.
const STATUS_MOST: usize = 512;

/// A folder that is removed with this value.
#[derive(Debug)]
pub struct InjectFolder {
    path: PathBuf,
    rights: JobRights,
    /// The job may still come to the script.
    pending: bool,
    /// Locked as long as it is open: the job sees that trainmon is there.
    _lock: File,
}

/// Where the script is in a folder.
pub(crate) fn script_in(folder: &Path) -> PathBuf {
    folder.join(SCRIPT_FILE)
}

impl InjectFolder {
    /// A name for one, where the job is likely to have its temporary files.
    pub fn name(target: &InjectTarget) -> PathBuf {
        named(target.places.first().map_or(Path::new("/tmp"), PathBuf::as_path), target.own_pid)
    }

    /// Makes one, with the script in it.
    ///
    /// # Errors
    /// The system's, of the last place that was tried.
    pub fn create(target: &InjectTarget, script: impl Fn(&Path) -> String) -> Result<Self, InjectError> {
        let mut failed = InjectError::Ended(target.pid);
        for place in &target.places {
            let path = named(place, target.own_pid);
            let text = script(&path);
            let made = target
                .rights
                .act(|| make(&path, &text))
                .unwrap_or_else(|| Err(io::ErrorKind::PermissionDenied.into()));
            match made {
                Ok(lock) => return Ok(Self { path, rights: target.rights.clone(), pending: false, _lock: lock }),
                Err(why) => {
                    let folder = trainmon_base::text::fit(&place.to_string_lossy(), 160);
                    failed = InjectError::Folder { pid: target.pid, folder, why };
                }
            }
        }
        Err(failed)
    }

    /// Says whether the job may still come to the script.
    pub(crate) fn set_pending(&mut self, pending: bool) {
        self.pending = pending;
    }

    /// Where the script is.
    pub fn script(&self) -> PathBuf {
        script_in(&self.path)
    }

    /// Its path, for a message.
    pub fn shown(&self) -> String {
        trainmon_base::text::fit(&self.path.to_string_lossy(), 160)
    }

    /// What the script says, if it says anything yet.
    pub fn status(&self) -> Option<ScriptStatus> {
        let file = self.rights.act(|| opened(&self.path.join(STATUS)))?.ok()?;
        let mut text = Vec::new();
        file.take(STATUS_MOST as u64).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// The trace, opened, and a path to it.
    ///
    /// # Errors
    /// The system's.
    pub fn trace(&self) -> io::Result<(File, PathBuf)> {
        let path = self.path.join(TRACE);
        let file =
            self.rights.act(|| opened(&path)).unwrap_or_else(|| Err(io::ErrorKind::PermissionDenied.into()))?;
        // With more rights than the job's, its name may lead anywhere by now.
        let path = if trainmon_base::trust::privileged() {
            format!("/proc/self/fd/{}", file.as_raw_fd()).into()
        } else {
            path
        };
        Ok((file, path))
    }

    /// Removes folders of calls that were killed: of this process, and of those that have ended.
    pub(crate) fn remove_left(&self, proc_root: &Path, target: &InjectTarget) {
        let is_left = |path: &Path| {
            let pid = path.file_name().and_then(|name| pid_in(name.to_str()?));
            let of_this = pid == Some(target.own_pid);
            let of_ended = pid.is_some_and(|pid| !proc_root.join(pid.to_string()).exists());
            path != self.path && (of_this || of_ended) && !is_locked(path)
        };
        let remove_all = || {
            for place in &target.places {
                let entries = fs::read_dir(place).into_iter().flatten().flatten();
                entries.map(|entry| entry.path()).filter(|path| is_left(path)).for_each(|path| {
                    let _ = fs::remove_dir_all(path);
                });
            }
        };
        let _ = self.rights.act(remove_all);
    }
}

impl Drop for InjectFolder {
    fn drop(&mut self) {
        // A job that comes to the script later finds no lock, and removes what is there. Without a script it would complain.
        if !self.pending {
            let _ = self.rights.act(|| fs::remove_dir_all(&self.path));
        }
    }
}

fn named(place: &Path, pid: u32) -> PathBuf {
    place.join(format!("{PREFIX}{pid}-{:016x}", fastrand::u64(..)))
}

/// The PID in the name of such a folder.
fn pid_in(name: &str) -> Option<u32> {
    let (pid, digits) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let whole = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if whole { pid.parse().ok() } else { None }
}

/// Makes the folder, and what must be in it before the job is asked. The lock, locked.
fn make(path: &Path, script: &str) -> io::Result<File> {
    fs::DirBuilder::new().mode(0o700).create(path)?;
    let fill = || {
        let lock = created(&path.join(LOCK))?;
        fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        created(&path.join(STATUS))?.write_all(&[b' '; STATUS_MOST])?;
        created(&script_in(path))?.write_all(script.as_bytes())?;
        Ok(lock)
    };
    fill().inspect_err(|_| {
        let _ = fs::remove_dir_all(path);
    })
}

fn created(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Opens a regular file that the job wrote, following no link and waiting for nothing.
fn opened(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// Whether a trainmon waits for what is in this folder.
fn is_locked(folder: &Path) -> bool {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let lock =
        File::options().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(folder.join(LOCK));
    lock.is_ok_and(|lock| fcntl_lock(&lock, FlockOperation::NonBlockingLockExclusive).is_err())
}
