//! trainmon's own messages: to a file, never onto the screen.

use std::path::{Path, PathBuf};

use tracing_subscriber::EnvFilter;

use crate::errors::Failure;

/// Sends messages to `file`, or, where only `RUST_LOG` is set, to `$XDG_STATE_HOME/trainmon/trainmon.log`.
/// `RUST_LOG` sets how many; the default is `info`.
///
/// # Errors
/// One line, when the file cannot be opened or `RUST_LOG` cannot be read.
pub fn start(file: Option<&Path>) -> Result<(), Failure> {
    let level = std::env::var("RUST_LOG").ok().filter(|level| !level.is_empty());
    let path = match (file, &level) {
        (Some(file), _) => file.to_owned(),
        (None, Some(_)) => match state_file() {
            Some(path) => path,
            None => return Ok(()),
        },
        (None, None) => return Ok(()),
    };
    let fail = |why: String| Failure::usage(format!("log file {}: {why}", path.display()));
    let filter = EnvFilter::try_new(level.as_deref().unwrap_or("info"))
        .map_err(|error| Failure::usage(format!("RUST_LOG: {error}")))?;
    if file.is_none()
        && let Some(folder) = path.parent()
    {
        std::fs::create_dir_all(folder).map_err(|error| fail(error.to_string()))?;
    }
    let out =
        std::fs::File::options().create(true).append(true).open(&path).map_err(|error| fail(error.to_string()))?;
    // A second start in one process (tests) keeps the first file.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(out).try_init();
    Ok(())
}

/// The XDG state folder's log.
fn state_file() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("trainmon/trainmon.log"))
}
