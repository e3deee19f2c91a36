//! Where the py-spy program may be: on PATH, beside the target's own interpreter, or in the user's folder.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::sample::ProcessId;
use crate::sources::kept;

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
    let own = env::split_paths(&path).map(|place| (place, true));
    let theirs = beside_interpreter(&folder).into_iter().map(|place| (place, false));
    let home = env::var_os("HOME").map(|home| (Path::new(&home).join(".local/bin"), true));
    let runs_as_us = !rustix::process::geteuid().is_root()
        && fs::metadata(&folder).is_ok_and(|folder| folder.uid() == rustix::process::geteuid().as_raw());

    let mut seen = BTreeSet::new();
    own.chain(theirs)
        .chain(home)
        .filter(|(place, _)| place.is_absolute())
        .map(|(place, own)| (place.join(NAME), own))
        .filter(|(program, _)| is_program(program) && seen.insert(program.clone()))
        .map(|(program, own)| {
            let trusted = own || runs_as_us || belongs_to_us(&program);
            Candidate { program, trusted }
        })
        .collect()
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
    let mut buffer = Vec::new();
    let mut read = |name: &str| {
        let read = kept::open(&folder.join(name)).and_then(|file| kept::read_into(&file, &mut buffer));
        if read.is_ok() { buffer.clone() } else { Vec::new() }
    };
    if let Ok(program) = fs::read_link(folder.join("exe")) {
        places.extend(program.parent().map(Path::to_path_buf));
    }
    let command = read("cmdline");
    let first = command.split(|&byte| byte == 0).next().unwrap_or_default();
    if first.contains(&b'/')
        && let Ok(current) = fs::read_link(folder.join("cwd"))
    {
        // The link to the interpreter in a virtual environment; `join` takes an absolute one as it is.
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
