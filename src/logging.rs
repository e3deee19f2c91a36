//! trainmon's own messages: to a file, never onto the screen. The names in them may be hostile, and the file is read
//! with `cat` and `tail`, so each message is one line of safe text.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Mutex;

use rustix::fs::OFlags;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::state_folder;
use trainmon_base::errors::{self, Failure};
use trainmon_base::trust;

/// Sends messages to `file`, or, if only `RUST_LOG` is set, to `$XDG_STATE_HOME/trainmon/trainmon.log`. `RUST_LOG` sets
/// the level; the default is `info`.
///
/// # Errors
/// One line, if the file cannot be opened or `RUST_LOG` is invalid.
pub fn start(file: Option<&Path>) -> Result<(), Failure> {
    let level = std::env::var("RUST_LOG").ok().filter(|level| !level.is_empty());
    let own = || state_folder(&|name| std::env::var_os(name)).map(|folder| folder.join("trainmon.log"));
    let Some(path) = file.map(Path::to_path_buf).or_else(|| level.as_ref().and_then(|_| own())) else {
        return Ok(());
    };
    // Root would write wherever links in another user's home lead.
    let folder = if file.is_none() { path.parent() } else { None };
    if trust::privileged()
        && let Some(Err(why)) = folder.map(trust::folder)
    {
        errors::note(&format!("cannot log messages: {why}; choose another file with --log-file FILE"));
        return Ok(());
    }
    let filter = level
        .as_deref()
        .unwrap_or("info")
        .parse::<Targets>()
        .map_err(|error| Failure::usage(format!("RUST_LOG: {error}")))?;
    let made = folder.map_or(Ok(()), |folder| DirBuilder::new().recursive(true).mode(0o700).create(folder));
    let out = made.and_then(|()| open(&path, file.is_none()));
    let out = out.map_err(|error| Failure::usage(format!("cannot open log file {}: {error}", path.display())))?;
    // A second start in one process (tests) keeps the first file. A message that cannot be written is lost: standard
    // error, where it could be reported, is the screen.
    let messages = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .log_internal_errors(false)
        .with_writer(Mutex::new(OneLine(out)));
    let _ = tracing_subscriber::registry().with(messages).with(filter).try_init();
    Ok(())
}

/// Opens a log file for appending; a new file is readable only by its owner. A pipe without a reader is an error, and
/// one with a stalled reader loses messages: logging never waits. If trainmon chose the name, a link is not followed.
fn open(path: &Path, is_ours: bool) -> io::Result<File> {
    let link = if is_ours { OFlags::NOFOLLOW } else { OFlags::empty() };
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | link;
    File::options().create(true).append(true).mode(0o600).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Writes each message, which arrives in one piece, as one safe line.
struct OneLine<W>(W);

impl<W: Write> Write for OneLine<W> {
    fn write(&mut self, message: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(message);
        let line = format!("{}\n", trainmon_base::text::sanitize(text.trim_end_matches('\n')));
        self.0.write_all(line.as_bytes())?;
        Ok(message.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::fmt::MakeWriter as _;

    use super::*;

    #[test]
    fn a_message_is_one_safe_line() {
        let out = Mutex::new(OneLine(Vec::new()));
        out.make_writer().write_all("the theme a\u{1b}[2J\n\u{9b}b\u{202e} is ignored\n".as_bytes()).unwrap();
        let written = String::from_utf8(out.into_inner().unwrap().0).unwrap();
        assert_eq!(written, "the theme a\u{FFFD}[2J \u{FFFD}b\u{FFFD} is ignored\n");
    }
}
