//! Which Python runs the demo, and with what environment.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainmon_base::trust;
use trainmon_sources::py_spy::find::{USUAL_PATH, is_program};
use trainmon_sources::trusted_program::is_binary;

/// The first `python3` on PATH. With more rights than ordinary users, as for py-spy: the first binary that only trusted users
/// can have put there.
///
/// # Errors
/// Why no Python was found, in words.
pub fn find() -> Result<PathBuf, String> {
    let path = if trust::is_secure() { USUAL_PATH.into() } else { env::var_os("PATH").unwrap_or_default() };
    let programs = env::split_paths(&path).filter(|folder| folder.is_absolute()).map(|folder| folder.join("python3"));
    let mut refusal = None;
    for program in programs.filter(|program| is_program(program)) {
        match refused(&program) {
            None => return Ok(program),
            why => refusal = refusal.or(why),
        }
    }
    Err(refusal.unwrap_or_else(|| "no python3 on PATH".to_owned()))
}

/// Why a program is not run with these rights.
fn refused(program: &Path) -> Option<String> {
    if !trust::privileged() {
        return None;
    }
    match trust::open(program) {
        Ok(file) if is_binary(&file) => None,
        Ok(_) => Some(format!("{} is a script, and root runs only a binary", program.display())),
        Err(why) => Some(format!("{why}, so trainmon does not run it")),
    }
}

/// A command that runs a program of `folder`, and writes nothing beside it.
pub fn command(python: &Path, folder: &Path, program: &str) -> Command {
    let mut command = Command::new(python);
    if trust::privileged() {
        command.env_clear().env("PATH", USUAL_PATH).env("LANG", "C.UTF-8");
    }
    command.env("TRAINMON_DEMO_PID", std::process::id().to_string());
    command.env("PYTHONDONTWRITEBYTECODE", "1").env_remove("PYTHONSAFEPATH").env_remove("PYTHONINSPECT");
    command.arg(program).current_dir(folder);
    command
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn root_runs_no_script() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("python3");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let why = refused(&script);
        assert_eq!(why.is_some(), trust::privileged(), "{why:?}");
    }
}
