//! What must be known of a job to have it profile itself: its interpreter, and where it has temporary files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::InjectError;
use trainmon_base::text::{fit, sudo_command};
use trainmon_base::trust;
use trainmon_sample::ProcessId;
use trainmon_sources::environ::variable;
use trainmon_sources::files::{READ_LIMIT, ReadFailure, read_once};
use trainmon_sources::job_rights::JobRights;
use trainmon_sources::namespaces;
use trainmon_sources::process::{identity, stat_of};
use trainmon_sources::py_spy::find::{TrustedProgram, is_binary};

/// The first version with `sys.remote_exec`.
const OLDEST_MINOR: u32 = 14;
/// What the kernel adds to the path of a file that is gone.
const DELETED: &str = " (deleted)";
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
    pub(super) program: PathBuf,
    /// Where it may have temporary files, the likeliest first.
    pub(super) places: Vec<PathBuf>,
    /// Its rights.
    pub(super) rights: JobRights,
    /// Its folder below `/proc`.
    folder: PathBuf,
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
        let denied = |error: io::Error| match error.kind() {
            io::ErrorKind::PermissionDenied => InjectError::Denied(pid),
            _ => InjectError::Ended(pid),
        };
        let program = fs::read_link(folder.join("exe")).map_err(denied)?;
        check_program(pid, &program)?;
        if !sees_the_same(proc_root, &folder) {
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
            program,
            places: places(&environ),
            rights,
            folder,
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

    /// Its interpreter, opened, if it may be run from here: with more rights than the job's user, only where that user cannot have
    /// written it.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn interpreter(&self) -> Result<TrustedProgram, InjectError> {
        let replaced = || InjectError::Replaced { pid: self.pid, program: fit(&self.program.to_string_lossy(), 160) };
        let privileged = trust::privileged();
        let file = if privileged { self.trusted()? } else { File::open(&self.program).map_err(|_| replaced())? };
        let theirs = fs::metadata(self.folder.join("exe"));
        let is_theirs = theirs
            .and_then(|theirs| Ok((theirs, file.metadata()?)))
            .is_ok_and(|(theirs, file)| (theirs.dev(), theirs.ino()) == (file.dev(), file.ino()));
        if !is_theirs || !is_binary(&file) {
            return Err(replaced());
        }
        Ok(TrustedProgram { path: self.program.clone(), held: Some(file.into()), clean: true })
    }

    /// The same for root: the interpreter, and the library beside it that it imports from.
    fn trusted(&self) -> Result<File, InjectError> {
        let file = trust::open(&self.program);
        let library = self.program.parent().and_then(Path::parent).map(|place| place.join("lib"));
        let checked = file.and_then(|file| library.map_or(Ok(()), |library| trust::folder(&library)).map(|()| file));
        checked.map_err(|why| {
            let command = sudo_command(&format!("profile --pid {} --inject", self.pid));
            let fix = match why.fix() {
                Some(fix) if self.user == 0 => fix,
                _ => command.replacen("sudo ", &format!("sudo -u '#{}' ", self.user), 1),
            };
            InjectError::Untrusted { why: why.to_string(), fix }
        })
    }
}

/// Whether the program is an interpreter that could have what is needed, as far as its name says.
fn check_program(pid: u32, program: &Path) -> Result<(), InjectError> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let shown = || fit(&name, 60);
    let Some(version) = name.strip_prefix("python") else {
        return Err(InjectError::NotPython { pid, program: shown() });
    };
    if version.ends_with(DELETED) {
        let program = program.to_string_lossy();
        let program = fit(program.strip_suffix(DELETED).unwrap_or(&program), 160);
        return Err(InjectError::Replaced { pid, program });
    }
    match minor_of(&name) {
        Some(minor) if minor < OLDEST_MINOR => Err(InjectError::OldPython { pid, version: format!("3.{minor}") }),
        _ => Ok(()),
    }
}

/// The minor version in the name of an interpreter: 14 of `python3.14t`.
fn minor_of(name: &str) -> Option<u32> {
    name.strip_prefix("python3.")?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
}

/// Whether a process has an interpreter that could be asked, by its name.
pub fn may_be_asked(proc_root: &Path, pid: u32) -> bool {
    let program = fs::read_link(proc_root.join(format!("{pid}/exe"))).unwrap_or_default();
    let name = program.file_name().and_then(OsStr::to_str).and_then(minor_of);
    name.is_some_and(|minor| minor >= OLDEST_MINOR)
}

/// Whether a process sees the files and the processes that are seen here.
fn sees_the_same(proc_root: &Path, folder: &Path) -> bool {
    let namespace = |kind| namespaces::is_same(proc_root, folder, kind) == Some(true);
    let roots = (fs::metadata("/"), fs::metadata(folder.join("root")));
    let same_root =
        matches!(roots, (Ok(ours), Ok(theirs)) if (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino()));
    namespace("mnt") && namespace("pid") && same_root
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
            let said = check_program(7, Path::new(program)).err().map(|error| error.to_string());
            assert_eq!(said.is_some(), refused.is_some(), "{program}: {said:?}");
            assert!(said.unwrap_or_default().contains(refused.unwrap_or_default()), "{program}");
        }
        assert_eq!(["python3.14", "python3.9", "python3", "perl"].map(minor_of), [Some(14), Some(9), None, None]);
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
