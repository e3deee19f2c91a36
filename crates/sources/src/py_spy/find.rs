//! Which py-spy to execute: where to look, and what to check.
//!
//! trainmon looks beside its own program, on PATH, beside the target's interpreter, and in the user's folder. The
//! decision is made once: the file is opened and checked, and that descriptor is executed in every window, whatever its
//! name refers to by then. With more rights than ordinary users, trainmon executes only a binary that only trusted
//! users can have put there ([`trainmon_base::trust`]); a script's interpreter would open the script again by name.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::install::{as_root, install_command};
use super::refusal::Refusal;
use super::shown;
use crate::environ::variable;
use crate::files::{READ_LIMIT, read_once};
use crate::trusted_program::{TrustedProgram, is_binary};
use trainmon_base::text::shell_word;
use trainmon_base::trust::{self, Untrusted};
use trainmon_sample::{ProcessId, SourceState};

/// The program's name.
pub(super) const NAME: &str = "py-spy";
/// Where programs are if the caller's PATH must not be used.
pub const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A place where the program was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executable {
    /// Absolute path.
    pub path: PathBuf,
    /// Whether the target's process names this place, so that even ordinary users check who can have put it there.
    pub of_target: bool,
}

/// The programs named py-spy, in the order to try them. `path` is PATH.
pub fn candidates(
    proc_root: &Path,
    target: Option<ProcessId>,
    path: Option<OsString>,
    privileged: bool,
) -> Vec<Executable> {
    let secure = trust::is_secure();
    let path = if secure { USUAL_PATH.into() } else { path.unwrap_or_default() };
    let ours = beside_us(privileged).and_then(|program| Some(program.parent()?.to_path_buf()));
    let own = ours.into_iter().chain(env::split_paths(&path)).map(|place| (place, false));
    // The caller may be able to choose any target.
    let folder = if secure { None } else { target.map(|target| proc_root.join(target.pid.to_string())) };
    let runs_as_us = folder.as_ref().is_some_and(|folder| {
        let us = rustix::process::geteuid().as_raw();
        !privileged && fs::metadata(folder).is_ok_and(|folder| folder.uid() == us)
    });
    let theirs = folder.iter().flat_map(|folder| beside_interpreter(folder)).map(|place| (place, !runs_as_us));
    let home = if !secure { env::var_os("HOME") } else { None };
    let home = home.map(|home| (Path::new(&home).join(".local/bin"), false));
    programs(own.chain(theirs).chain(home))
}

/// The programs in these folders, each once; a folder comes with whether only the target names it.
fn programs(places: impl Iterator<Item = (PathBuf, bool)>) -> Vec<Executable> {
    let mut seen = BTreeSet::new();
    places
        .filter(|(place, _)| place.is_absolute())
        .map(|(place, of_target)| Executable { path: place.join(NAME), of_target })
        .filter(|candidate| is_program(&candidate.path) && seen.insert(candidate.path.clone()))
        .collect()
}

/// Decides whether a candidate may be executed, and how: by the opened binary or, for ordinary users, a script's path.
///
/// # Errors
/// Why not, and how to fix it.
pub fn choose(candidate: &Executable, privileged: bool) -> Result<TrustedProgram, Refusal> {
    let Executable { path, of_target } = candidate;
    let program =
        |held: Option<File>| TrustedProgram { path: path.clone(), held: held.map(Into::into), clean: privileged };
    if !privileged && !of_target {
        // What the user names, or has on PATH, runs as it would in a shell.
        return Ok(program(open(path).filter(is_binary)));
    }
    match trust::open(path) {
        Ok(file) if is_binary(&file) => Ok(program(Some(file))),
        Ok(_) if !privileged => Ok(program(None)),
        Ok(_) => Err(refused(format!("{} is a script, but root runs only a binary", shown(path)), install_command())),
        Err(why) if privileged => Err(refused(format!("{why}, so {NAME} is not run as root"), fix(&why))),
        Err(why) => {
            let reason = format!("{why}, so {NAME} runs from there only if you name it");
            Err(refused(reason, format!("--py-spy {}", shell_word(path))))
        }
    }
}

fn refused(reason: String, fix: String) -> Refusal {
    Refusal::lasting(SourceState::Absent, reason).fixed_by(fix)
}

fn fix(why: &Untrusted) -> String {
    why.fix().map_or_else(install_command, |command| as_root(&command))
}

/// The py-spy installed together with trainmon: pip puts all programs of an environment into one folder, which need not
/// be on PATH (`pipx`, `uvx`, an inactive virtual environment).
fn beside_us(privileged: bool) -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    // Then every candidate is checked for who can have put it there.
    if privileged { Some(own.parent()?.join(NAME)) } else { beside(&own) }
}

/// The py-spy in a program's folder, if it has the same owner. The owner of trainmon's own program can make us run
/// anything anyway. A file that another user put beside it, possible in /tmp, is ignored.
fn beside(program: &Path) -> Option<PathBuf> {
    let found = program.parent()?.join(NAME);
    let owner = fs::metadata(program).ok()?.uid();
    let theirs = [fs::symlink_metadata(&found), fs::metadata(&found)];
    let known = theirs
        .into_iter()
        .all(|file| file.is_ok_and(|file| file.uid() == owner && (file.is_symlink() || file.mode() & 0o002 == 0)));
    (known && is_program(&found)).then_some(found)
}

/// Whether it is a regular file that trainmon may execute.
pub fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
        && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The folders where the target's interpreter and its virtual environment keep programs.
fn beside_interpreter(folder: &Path) -> Vec<PathBuf> {
    let mut places = Vec::new();
    let read = |name: &str| read_once(folder.join(name), READ_LIMIT).unwrap_or_default();
    if let Ok(program) = fs::read_link(folder.join("exe")) {
        places.extend(program.parent().map(Path::to_path_buf));
    }
    let command = read("cmdline");
    let first = command.split(|&byte| byte == 0).next().unwrap_or_default();
    if first.contains(&b'/') {
        // The link to the interpreter in a virtual environment; `join` keeps an absolute one unchanged. If the
        // process's working folder cannot be read, a relative one stays relative and is skipped.
        let current = fs::read_link(folder.join("cwd")).unwrap_or_default();
        places.extend(current.join(OsStr::from_bytes(first)).parent().map(Path::to_path_buf));
    }
    if let Some(place) = variable(&read("environ"), "VIRTUAL_ENV") {
        places.push(Path::new(OsStr::from_bytes(place)).join("bin"));
    }
    places
}

/// Opens a file without ever waiting.
fn open(path: &Path) -> Option<File> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

    use super::*;
    use crate::trusted_program::ELF;

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
        let places = ["plain", "folder", "pipe", "none", "good", "good"].map(|name| (at(name), false));
        let places = places.into_iter().chain([(PathBuf::from("relative"), false)]);
        let found = programs(places);
        assert_eq!(found, [Executable { path: at("good/py-spy"), of_target: false }]);
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

    /// What is decided about a py-spy with this content.
    fn chosen(path: &Path, content: &[u8], of_target: bool, privileged: bool) -> Result<TrustedProgram, Refusal> {
        fs::write(path, content).unwrap();
        choose(&Executable { path: path.to_path_buf(), of_target }, privileged)
    }

    #[test]
    fn a_binary_is_held_open_and_a_script_is_run_by_ordinary_users_only() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bin/py-spy");
        program(&path, 0o755);
        for (privileged, of_target) in [(false, false), (false, true), (true, false), (true, true)] {
            let found = chosen(&path, b"\x7fELF rest", of_target, privileged).unwrap();
            assert!(found.held.is_some() && found.clean == privileged);
            let script = chosen(&path, b"#!/bin/sh\n", of_target, privileged);
            if privileged {
                let refusal = script.unwrap_err();
                assert!(
                    refusal.status.to_string().ends_with("is a script, but root runs only a binary"),
                    "{refusal:?}"
                );
                assert_eq!(refusal.status.fix.as_deref().unwrap(), install_command());
            } else {
                assert!(script.unwrap().held.is_none());
            }
        }
    }

    #[test]
    fn what_others_could_have_replaced_is_not_run_by_root_nor_where_the_target_names_it() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bin/py-spy");
        program(&path, 0o755);
        for (name, mode, bad) in
            [("bin/py-spy", 0o775, "g"), ("bin/py-spy", 0o757, "o"), ("bin", 0o775, "g"), ("bin", 0o777, "go")]
        {
            let changed = root.path().join(name);
            fs::set_permissions(&changed, fs::Permissions::from_mode(mode)).unwrap();
            let refusal = chosen(&path, ELF, false, true).unwrap_err();
            assert!(refusal.status.to_string().contains("can be written by") && refusal.last, "{refusal:?}");
            assert_eq!(refusal.status.fix.as_deref().unwrap(), format!("chmod {bad}-w {}", changed.display()));
            let refusal = chosen(&path, ELF, true, false).unwrap_err();
            assert_eq!(refusal.status.fix.as_deref().unwrap(), format!("--py-spy {}", path.display()));
            assert!(chosen(&path, ELF, false, false).is_ok(), "an ordinary user's own choice");
            fs::set_permissions(&changed, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(chosen(&path, ELF, true, false).is_ok());
    }

    #[test]
    fn root_runs_nothing_of_other_users_nor_through_their_links() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        program(&at("theirs/py-spy"), 0o755);
        std::os::unix::fs::chown(at("theirs/py-spy"), Some(65534), None).unwrap();
        let refusal = chosen(&at("theirs/py-spy"), ELF, false, true).unwrap_err();
        assert!(refusal.status.to_string().contains("belongs to user 65534, not to root"), "{refusal:?}");
        assert_eq!(refusal.status.fix.as_deref().unwrap(), install_command());
        program(&at("good/py-spy"), 0o755);
        fs::write(at("good/py-spy"), ELF).unwrap();
        fs::create_dir(at("door")).unwrap();
        symlink(at("good/py-spy"), at("door/py-spy")).unwrap();
        let link = Executable { path: at("door/py-spy"), of_target: true };
        assert!(choose(&link, true).is_ok());
        std::os::unix::fs::chown(at("door"), Some(65534), None).unwrap();
        assert!(choose(&link, true).is_err(), "whoever owns the folder chooses among the programs of root");
    }

    #[test]
    fn the_decision_outlives_the_name() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bin/py-spy");
        program(&path, 0o755);
        let found = chosen(&path, b"\x7fELF one", false, false).unwrap();
        fs::rename(&path, root.path().join("bin/old")).unwrap();
        fs::write(&path, b"\x7fELF two").unwrap();
        let mut text = [0; 8];
        File::from(found.held.unwrap()).read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"\x7fELF one");
    }
}
