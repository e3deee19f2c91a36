//! Where the py-spy program may be: beside our own program, on PATH, beside the target's own interpreter, or in the
//! user's folder.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sample::ProcessId;
use crate::sources::files::{READ_LIMIT, read_once};

/// The program's name.
const NAME: &str = "py-spy";

/// A place where the program stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Absolute path.
    pub program: PathBuf,
    /// False where somebody else could have put it there, so that we may not run it unasked.
    pub trusted: bool,
}

/// Programs named py-spy, in the order in which to try them.
#[must_use]
pub fn candidates(proc_root: &Path, target: ProcessId) -> Vec<Candidate> {
    let folder = proc_root.join(target.pid.to_string());
    let path = env::var_os("PATH").unwrap_or_default();
    let ours =
        beside_us().into_iter().filter_map(|program| program.parent().map(|place| (place.to_path_buf(), true)));
    let own = ours.chain(env::split_paths(&path).map(|place| (place, true)));
    let theirs = beside_interpreter(&folder).into_iter().map(|place| (place, false));
    let home = env::var_os("HOME").map(|home| (Path::new(&home).join(".local/bin"), true));
    let runs_as_us = !rustix::process::geteuid().is_root()
        && fs::metadata(&folder).is_ok_and(|folder| folder.uid() == rustix::process::geteuid().as_raw());

    programs(own.chain(theirs).chain(home), runs_as_us)
}

/// The programs that stand in some folders, each once; a folder is given with whether whoever named it is trusted.
fn programs(places: impl Iterator<Item = (PathBuf, bool)>, runs_as_us: bool) -> Vec<Candidate> {
    let mut seen = BTreeSet::new();
    places
        .filter(|(place, _)| place.is_absolute())
        .map(|(place, own)| (place.join(NAME), own))
        .filter(|(program, _)| is_program(program) && seen.insert(program.clone()))
        .map(|(program, own)| {
            let trusted = own || runs_as_us || belongs_to_us(&program);
            Candidate { program, trusted }
        })
        .collect()
}

/// The py-spy that was installed together with us: pip puts the programs of one environment into one folder, which need
/// not be on PATH (`pipx`, `uvx`, a virtual environment that is not active).
#[must_use]
pub fn beside_us() -> Option<PathBuf> {
    beside(&env::current_exe().ok()?)
}

/// The py-spy in the folder of a program, where it has the same owner. Whoever owns our own program may have us run what
/// they like anyway; a file that somebody else laid beside it, as anybody can in /tmp, is left alone.
fn beside(program: &Path) -> Option<PathBuf> {
    let found = program.parent()?.join(NAME);
    let owner = fs::metadata(program).ok()?.uid();
    let theirs = [fs::symlink_metadata(&found), fs::metadata(&found)];
    let known = theirs
        .into_iter()
        .all(|file| file.is_ok_and(|file| file.uid() == owner && (file.is_symlink() || file.mode() & 0o002 == 0)));
    (known && is_program(&found)).then_some(found)
}

/// Whether it is a regular file that we may execute.
#[must_use]
pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Folders where the target's interpreter and its virtual environment keep their programs.
fn beside_interpreter(folder: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let read = |name: &str| read_once(folder.join(name), READ_LIMIT).unwrap_or_default();
    if let Ok(program) = fs::read_link(folder.join("exe")) {
        places.extend(program.parent().map(Path::to_path_buf));
    }
    let command = read("cmdline");
    let first = command.split(|&byte| byte == 0).next().unwrap_or_default();
    if first.contains(&b'/') {
        // The link to the interpreter in a virtual environment; `join` takes an absolute one as it is. Without the right
        // to read where the process stands, a relative one stays relative and is left out.
        let current = fs::read_link(folder.join("cwd")).unwrap_or_default();
        places.extend(current.join(OsStr::from_bytes(first)).parent().map(Path::to_path_buf));
    }
    for variable in read("environ").split(|&byte| byte == 0) {
        if let Some(place) = variable.strip_prefix(b"VIRTUAL_ENV=") {
            places.push(Path::new(OsStr::from_bytes(place)).join("bin"));
        }
    }
    places
}

/// Whether only root, we, or whoever called us through sudo can have put the file there. The target names these places
/// itself, so without this a user could have root run what it likes.
fn belongs_to_us(program: &Path) -> bool {
    let Ok(program) = fs::canonicalize(program) else { return false };
    let us = rustix::process::geteuid();
    let caller = env::var("SUDO_UID").ok().filter(|_| us.is_root()).and_then(|uid| uid.parse::<u32>().ok());
    program.ancestors().all(|part| {
        fs::metadata(part).is_ok_and(|metadata| {
            let owner = metadata.uid();
            let known = owner == 0 || owner == us.as_raw() || caller == Some(owner);
            // Everybody may write to /tmp, but replace only their own files there.
            let sticky = metadata.is_dir() && metadata.mode() & 0o1000 != 0;
            known && (metadata.mode() & 0o002 == 0 || sticky)
        })
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn program(path: &Path, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_targets_interpreter_and_environment_name_places() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("7");
        fs::create_dir(&folder).unwrap();
        symlink("/opt/conda/bin/python3.11", folder.join("exe")).unwrap();
        symlink("/home/me/job", folder.join("cwd")).unwrap();
        fs::write(folder.join("cmdline"), b".venv/bin/python\0train.py\0").unwrap();
        fs::write(folder.join("environ"), b"A=1\0VIRTUAL_ENV=/srv/env\0MY_VIRTUAL_ENV=/no\0").unwrap();
        let places = beside_interpreter(&folder);
        assert_eq!(places, ["/opt/conda/bin", "/home/me/job/.venv/bin", "/srv/env/bin"].map(PathBuf::from));

        fs::write(folder.join("cmdline"), b"python\0train.py\0").unwrap();
        fs::remove_file(folder.join("environ")).unwrap();
        fs::remove_file(folder.join("cwd")).unwrap();
        assert_eq!(beside_interpreter(&folder), [PathBuf::from("/opt/conda/bin")]);
        fs::write(folder.join("cmdline"), b"/srv/venv/bin/python\0train.py\0").unwrap();
        assert_eq!(beside_interpreter(&folder), ["/opt/conda/bin", "/srv/venv/bin"].map(PathBuf::from));
        assert_eq!(beside_interpreter(&root.path().join("8")), Vec::<PathBuf>::new());
    }

    #[test]
    fn only_regular_files_that_may_be_executed_count_and_each_once() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        program(&at("plain/py-spy"), 0o644);
        program(&at("good/py-spy"), 0o755);
        fs::create_dir_all(at("folder/py-spy")).unwrap();
        fs::create_dir(at("pipe")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe/py-spy"), 0o777.into()).unwrap();
        let places = ["plain", "folder", "pipe", "none", "good", "good"].map(|name| (at(name), true));
        let places = places.into_iter().chain([(PathBuf::from("relative"), true)]);
        let found = programs(places, false);
        assert_eq!(found, [Candidate { program: at("good/py-spy"), trusted: true }]);
    }

    #[test]
    fn one_of_the_same_owner_beside_a_program_is_found() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        program(&at("trainmon"), 0o755);
        assert_eq!(beside(&at("trainmon")), None, "there is none");
        program(&at("py-spy"), 0o644);
        assert_eq!(beside(&at("trainmon")), None, "it is no program");
        fs::set_permissions(at("py-spy"), fs::Permissions::from_mode(0o757)).unwrap();
        assert_eq!(beside(&at("trainmon")), None, "anybody may write to it");
        fs::set_permissions(at("py-spy"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(beside(&at("trainmon")), Some(at("py-spy")));
        assert_eq!(beside(&at("gone")), None, "whose program?");

        // Somebody else's: root gives the file away, an ordinary user links to one of root's.
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at("py-spy"), Some(65534), None).unwrap();
        } else {
            fs::remove_file(at("py-spy")).unwrap();
            symlink("/bin/sh", at("py-spy")).unwrap();
        }
        assert_eq!(beside(&at("trainmon")), None, "it belongs to somebody else");
    }

    #[test]
    fn what_others_could_have_replaced_is_not_trusted_where_the_target_names_it() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        program(&at("safe/py-spy"), 0o755);
        program(&at("written/py-spy"), 0o757);
        program(&at("open/py-spy"), 0o755);
        fs::set_permissions(at("open"), fs::Permissions::from_mode(0o777)).unwrap();
        let places = || ["safe", "written", "open"].into_iter().map(|name| (at(name), false));
        let trusted = |runs_as_us| programs(places(), runs_as_us).iter().map(|c| c.trusted).collect::<Vec<_>>();
        assert_eq!(trusted(false), [true, false, false]);
        assert_eq!(trusted(true), [true, true, true]);
    }
}
