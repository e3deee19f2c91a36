//! Which Python runs the demo, and with what environment.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::sources::py_spy::find::{USUAL_PATH, is_binary, is_program};
use crate::trust;

/// The first `python3` on PATH. With more rights than ordinary users, as for py-spy: the first binary that only trusted users
/// can have put there.
pub fn find() -> Option<PathBuf> {
    let path = if trust::is_secure() { USUAL_PATH.into() } else { env::var_os("PATH")? };
    let trusted = |program: &PathBuf| !trust::privileged() || trust::open(program).is_ok_and(|file| is_binary(&file));
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join("python3"))
        .find(|program| is_program(program) && trusted(program))
}

/// A command that runs a program of `folder`, and writes nothing beside it.
pub fn command(python: &Path, folder: &Path, program: &str) -> Command {
    let mut command = Command::new(python);
    if trust::privileged() {
        command.env_clear().env("PATH", USUAL_PATH).env("LANG", "C.UTF-8");
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONSAFEPATH").env_remove("PYTHONINSPECT");
    command.arg(program).current_dir(folder);
    command
}
