//! Reads the configuration file. An error is one line, with line and column.

use std::io::{self, ErrorKind};
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::DeTable;

use super::{Settings, options, small_file, themes};
use trainmon_base::errors::{Failure, shorten};
use trainmon_base::text::{refused, refused_by_toml};

/// So much of a key that is not known is repeated, characters.
const KEY_SHOWN: usize = 60;

/// Reads a configuration file, or says why it is refused; one that is not `wanted` may be missing. A theme's file is looked
/// for beside it.
pub(super) fn read(path: &Path, wanted: bool) -> Result<Settings, Failure> {
    let text = match small_file::read(path) {
        Ok(text) => text,
        Err(error) if is_out_of_reach(&error) && !wanted => {
            let why = format!("ignoring the configuration {}: {error}", path.display());
            let mut settings = Settings::default();
            // Otherwise it is expected: HOME may belong to another user or to no one.
            if small_file::untrusted(&error).is_some() {
                settings.notes.push(why);
            } else if error.kind() != ErrorKind::NotFound {
                tracing::warn!("{why}");
            }
            return Ok(settings);
        }
        Err(error) => return Err(small_file::cannot_read(path, &error)),
    };
    let refuse = |why| Failure::usage(format!("configuration {}: {why}", path.display()));
    let mut settings = parse(&text).map_err(refuse)?;
    settings.layout.theme =
        settings.layout.theme.map(|theme| themes::beside(theme, path.parent().unwrap_or(Path::new(""))));
    Ok(settings)
}

/// There is no such file for this user: none, or in another user's home, which is what HOME names after `sudo -u` and in containers.
fn is_out_of_reach(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied)
}

/// Parses the text of a configuration file over the defaults.
pub(super) fn parse(text: &str) -> Result<Settings, String> {
    let table = DeTable::parse(text).map_err(|error| refused_by_toml(text, &error))?;
    let known: Vec<String> = options::of_files().iter().map(options::key).collect();
    let unknown = table.get_ref().keys().filter(|key| !known.iter().any(|known| known == key.get_ref()));
    if let Some(key) = unknown.min_by_key(|key| key.span().start) {
        let known = known.iter().map(|known| format!("`{known}`")).collect::<Vec<_>>().join(", ");
        let what = format!("unknown key `{}`, expected one of {known}", shorten(key.get_ref(), KEY_SHOWN));
        return Err(refused(text, key.span().start, &what));
    }
    let mut settings: Settings = part(text)?;
    settings.layout = part(text)?;
    Ok(settings)
}

/// The fields of `T`, of all that the file says.
fn part<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| refused_by_toml(text, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_file_out_of_reach_is_none_and_one_that_is_asked_for_is_refused() {
        // HOME=/dev/null is what users of services have.
        let path = Path::new("/dev/null/.config/trainmon/config.toml");
        assert!(read(path, false).is_ok());
        assert!(read(path, true).unwrap_err().to_string().contains("Not a directory"));
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert!(is_out_of_reach(&denied) && !is_out_of_reach(&io::Error::other("longer than 1 MiB")));
    }
}
