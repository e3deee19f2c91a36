//! The one reader of small text files: configuration, themes, the stored layout. None of them may keep anybody waiting or
//! fill the memory, whatever is in its place. With more rights than ordinary users, trainmon reads only those that trusted
//! users can have put there: HOME may be another user's under sudo.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use trainmon_base::errors::Failure;
use trainmon_base::text::shell_word;
use trainmon_base::trust::{self, Untrusted};

/// A longer file was not written for trainmon, bytes.
const LENGTH_MAX: u64 = 1 << 20;
/// Often named where an empty file is meant.
const EMPTY: &str = "/dev/null";

/// The text of a file.
///
/// # Errors
/// The system's, and for what is no file, is too long or is no UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    read_as(trust::privileged(), path)
}

fn read_as(privileged: bool, path: &Path) -> io::Result<String> {
    let file = if privileged && path != Path::new(EMPTY) {
        trust::open(path).map_err(|why| {
            // Nothing is ignored where there is nothing.
            let exists = std::fs::symlink_metadata(path);
            exists.err().filter(|error| error.kind() == io::ErrorKind::NotFound).unwrap_or_else(|| why.into())
        })?
    } else {
        // Opening a pipe waits for its other end otherwise.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(path)?
    };
    let kind = file.metadata()?.file_type();
    // For the sake of /dev/null.
    if !kind.is_file() && !kind.is_char_device() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    if file.take(LENGTH_MAX + 1).read_to_string(&mut text)? as u64 > LENGTH_MAX {
        return Err(io::Error::other("larger than 1 MiB"));
    }
    Ok(text)
}

/// Why a file that was asked for could not be read, and the command that lets it be read where it is not trusted.
pub fn cannot_read(path: &Path, why: &io::Error) -> Failure {
    let fix = untrusted(why).map_or_else(String::new, |untrusted| match untrusted.fix() {
        Some(command) => format!("; {command}"),
        None => format!("; make a copy that root trusts: install -m 644 {} /etc/", shell_word(path)),
    });
    Failure::usage(format!("cannot read {}: {why}{fix}", path.display()))
}

/// Whether a file is there and was not read because it is not trusted.
pub fn untrusted(error: &io::Error) -> Option<&Untrusted> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_is_no_small_file_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let huge = folder.path().join("huge");
        File::create(&huge).unwrap().set_len(1 << 40).unwrap();
        for (path, part) in [
            (pipe.as_path(), "not a regular file"),
            (folder.path(), "not a regular file"),
            (&huge, "larger than 1 MiB"),
            (Path::new("/dev/zero"), "larger than 1 MiB"),
            (Path::new("/nonexistent"), "No such file"),
        ] {
            let why = read_as(false, path).unwrap_err().to_string();
            assert!(why.contains(part), "{}: {why}", path.display());
        }
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
    }

    #[test]
    fn with_more_rights_only_trusted_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.toml");
        std::fs::write(&file, "x").unwrap();
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert_eq!(read_as(true, &file).unwrap(), "x");
        assert_eq!(read_as(true, Path::new("/dev/null")).unwrap(), "");
        mode(0o664);
        assert_eq!(read_as(false, &file).unwrap(), "x");
        let why = read_as(true, &file).unwrap_err();
        assert!(untrusted(&why).is_some() && why.kind() == io::ErrorKind::PermissionDenied);
        let line = cannot_read(&file, &why).to_string();
        assert!(line.ends_with(&format!("(mode 0664); chmod g-w {}", file.display())), "{line}");
        let why = read_as(true, &folder.path().join("none")).unwrap_err();
        assert!(untrusted(&why).is_none() && why.kind() == io::ErrorKind::NotFound);
    }
}
