//! The one reader of small text files: configuration, themes, the stored layout. None of them may keep anybody waiting or
//! fill the memory, whatever stands in its place.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::errors::Failure;

/// A file longer than this is none of ours.
const LENGTH_MAX: u64 = 1 << 20;

/// The text of a file.
///
/// # Errors
/// The system's, and for what is no file, is too long or is no UTF-8.
pub fn read(path: &Path) -> io::Result<String> {
    // Opening a pipe waits for its other end otherwise.
    let file = File::options()
        .read(true)
        .custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    // /dev/null is an empty file to many.
    if !kind.is_file() && !kind.is_char_device() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    if file.take(LENGTH_MAX + 1).read_to_string(&mut text)? as u64 > LENGTH_MAX {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    Ok(text)
}

/// Why a file that was asked for could not be read.
pub fn cannot_read(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::usage(format!("cannot read {}: {why}", path.display()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
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
            (&huge, "longer than 1 MiB"),
            (Path::new("/dev/zero"), "longer than 1 MiB"),
            (Path::new("/nonexistent"), "No such file"),
        ] {
            let why = read(path).unwrap_err().to_string();
            assert!(why.contains(part), "{}: {why}", path.display());
        }
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
    }
}
