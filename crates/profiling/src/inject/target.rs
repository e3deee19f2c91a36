//! What must be known of a job to have it profile itself: its interpreter, and where it has temporary files.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::InjectError;
use trainmon_base::text::{fit, sudo_command};
use trainmon_sample::ProcessId;
use trainmon_sources::environ::variable;
use trainmon_sources::files::{READ_LIMIT, ReadFailure, read_once};
use trainmon_sources::interpreter::{Interpreter, NotRun};
use trainmon_sources::job_rights::JobRights;
use trainmon_sources::process::{identity, stat_of};
use trainmon_sources::trusted_program::TrustedProgram;

/// The first version with `sys.remote_exec`.
const OLDEST_MINOR: u32 = 14;
/// Where a job has its temporary files, as Python's tempfile looks for them.
const PLACE_VARIABLES: [&str; 3] = ["TMPDIR", "TEMP", "TMP"];
const USUAL: [&str; 2] = ["/tmp", "/var/tmp"];
/// Longest such path, bytes: Python keeps 512 for the path of the script.
const PLACE_MAX: usize = 400;

/// A process that can be asked to profile itself.
#[derive(Debug)]
pub struct InjectTarget {
    /// Its PID here.
    pub pid: u32,
    /// Its PID as it knows it.
    pub own_pid: u32,
    /// Its identity.
    pub(super) id: ProcessId,
    /// Its interpreter.
    pub(super) python: Interpreter,
    /// Where it may have temporary files, the likeliest first.
    pub(super) places: Vec<PathBuf>,
    /// Its rights.
    pub(super) rights: JobRights,
    /// Its user.
    user: u32,
    /// Changes with an exec.
    image: u64,
}

impl InjectTarget {
    /// A process by its PID.
    ///
    /// # Errors
    /// It cannot be asked, or must not be.
    pub fn find(proc_root: &Path, pid: u32) -> Result<Self, InjectError> {
        let folder = proc_root.join(pid.to_string());
        let stat = stat_of(proc_root, pid).filter(|stat| stat.is_alive()).ok_or(InjectError::Ended(pid))?;
        let python = interpreter_of(proc_root, pid)?;
        if !python.sees_the_same(proc_root) {
            return Err(InjectError::Elsewhere(pid));
        }
        let environ = read_once(folder.join("environ"), READ_LIMIT).map_err(|failure| match failure {
            ReadFailure::Denied => InjectError::Denied(pid),
            _ => InjectError::Ended(pid),
        })?;
        let rights = JobRights::find(&folder).ok_or(InjectError::Ended(pid))?;
        let (user, own_pid) = identity(&folder);
        let (user, us) = (user.ok_or(InjectError::Ended(pid))?, rustix::process::geteuid());
        if user != us.as_raw() && !us.is_root() {
            return Err(InjectError::Denied(pid));
        }
        let target = Self {
            pid,
            own_pid: own_pid.unwrap_or(pid),
            id: ProcessId { pid, start_ticks: stat.start_ticks },
            python,
            places: places(&environ),
            rights,
            user,
            image: stat.program,
        };
        target.check(proc_root)?;
        Ok(target)
    }

    /// Whether it is there, runs, and is still the same program.
    ///
    /// # Errors
    /// What is not so.
    pub(super) fn check(&self, proc_root: &Path) -> Result<(), InjectError> {
        let stat = stat_of(proc_root, self.pid).filter(|stat| stat.start_ticks == self.id.start_ticks);
        match stat {
            // The first thread is the one that runs the script.
            None => Err(InjectError::Ended(self.pid)),
            Some(stat) if matches!(stat.state, 'Z' | 'X' | 'x') => Err(InjectError::Ended(self.pid)),
            Some(stat) if matches!(stat.state, 'T' | 't') => Err(InjectError::Stopped(self.pid)),
            // A process that is about to end has no memory any more.
            Some(stat) if stat.program != self.image && stat.program != 0 => Err(InjectError::Execed(self.pid)),
            Some(_) => Ok(()),
        }
    }

    /// Its interpreter, opened, if it may be run from here.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn interpreter(&self) -> Result<TrustedProgram, InjectError> {
        self.python.open().map_err(|why| match why {
            NotRun::Replaced(_) => replaced(self.pid, &self.python),
            NotRun::Untrusted(_) | NotRun::Elsewhere(_) => {
                let command = sudo_command(&format!("profile --pid {} --inject", self.pid));
                let as_user = command.replacen("sudo ", &format!("sudo -u '#{}' ", self.user), 1);
                let (why, fix) = match why {
                    NotRun::Untrusted(why) => (why.to_string(), why.fix().filter(|_| self.user == 0)),
                    _ => (format!("{} has no library of its own beside it", self.python.path.display()), None),
                };
                InjectError::Untrusted { why, fix: fix.unwrap_or(as_user) }
            }
        })
    }
}

/// The interpreter of a process that could be asked, as far as its name says.
fn interpreter_of(proc_root: &Path, pid: u32) -> Result<Interpreter, InjectError> {
    let program = fs::read_link(proc_root.join(format!("{pid}/exe"))).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => InjectError::Denied(pid),
        _ => InjectError::Ended(pid),
    })?;
    let Some(python) = Interpreter::find(proc_root, pid) else {
        let program = fit(&program.file_name().unwrap_or_default().to_string_lossy(), 60);
        return Err(InjectError::NotPython { pid, program });
    };
    match python.minor() {
        _ if python.is_gone => Err(replaced(pid, &python)),
        Some(minor) if minor < OLDEST_MINOR => Err(InjectError::OldPython { pid, version: format!("3.{minor}") }),
        _ => Ok(python),
    }
}

fn replaced(pid: u32, python: &Interpreter) -> InjectError {
    InjectError::Replaced { pid, program: fit(&python.path.to_string_lossy(), 160) }
}

/// Whether a process has an interpreter that could be asked, by its name.
pub fn may_be_asked(proc_root: &Path, pid: u32) -> bool {
    let minor = Interpreter::find(proc_root, pid).and_then(|python| python.minor());
    minor.is_some_and(|minor| minor >= OLDEST_MINOR)
}

/// Where a process may have temporary files, by its environment. Names that are no text cannot be told to the script.
fn places(environ: &[u8]) -> Vec<PathBuf> {
    let value = |name| Some(PathBuf::from(OsStr::from_bytes(variable(environ, name)?)));
    let all = PLACE_VARIABLES.into_iter().filter_map(value).chain(USUAL.map(PathBuf::from));
    let mut places: Vec<PathBuf> = Vec::new();
    for place in all {
        let usable = place.is_absolute() && place.as_os_str().len() <= PLACE_MAX && place.to_str().is_some();
        if usable && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_known_by_its_name() {
        for (program, refused) in [
            ("/usr/bin/python3.14", None),
            ("/opt/env/bin/python3.14t", None),
            ("/usr/bin/python3.15d", None),
            // It says its version when it is called.
            ("/usr/bin/python3", None),
            ("/usr/bin/python3.9", Some("runs Python 3.9,")),
            ("/usr/bin/python3.14 (deleted)", Some("/usr/bin/python3.14, was replaced")),
            ("/bin/bash", Some("runs bash, not an interpreter")),
        ] {
            let root = tempfile::tempdir().unwrap();
            fs::create_dir(root.path().join("7")).unwrap();
            std::os::unix::fs::symlink(program, root.path().join("7/exe")).unwrap();
            let said = interpreter_of(root.path(), 7).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), refused.is_some(), "{program}: {said:?}");
            assert!(said.unwrap_or_default().contains(refused.unwrap_or_default()), "{program}");
        }
    }

    #[test]
    fn temporary_files_are_where_python_would_put_them() {
        let paths =
            |environ: &[u8]| places(environ).into_iter().map(|place| place.display().to_string()).collect::<Vec<_>>();
        assert_eq!(paths(b"A=1\0"), ["/tmp", "/var/tmp"]);
        assert_eq!(paths(b"TMPDIR=/a\0TMP=/b\0TMPDIR=/srv/c\0"), ["/a", "/b", "/tmp", "/var/tmp"]);
        // No text, not absolute, too long for the interpreter.
        let long = format!("TMPDIR=/{}\0", "a".repeat(400));
        for environ in [&b"TMPDIR=/\xff\0"[..], b"TMPDIR=here\0", b"TMPDIR=\0", b"TMPDIR=/tmp\0", long.as_bytes()] {
            assert_eq!(paths(environ), ["/tmp", "/var/tmp"]);
        }
    }
}
