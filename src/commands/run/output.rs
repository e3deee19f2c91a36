//! The output of the program while the screen has the terminal: a private file, of which the end is shown at the end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::Stdio;

use anyhow::Context;
use tempfile::NamedTempFile;

use crate::errors;
use crate::streams::tell;
use crate::text::sanitise;

/// This much of the output is shown, bytes.
const TAIL: u64 = 4096;
/// And no more lines.
const OUTPUT_LINES: usize = 20;

/// The file. It has a name that nobody can guess, is readable by its owner alone, and is removed unless something was
/// written to it.
pub(super) struct Output(NamedTempFile);

impl Output {
    pub(super) fn create() -> anyhow::Result<Self> {
        // O_EXCL and mode 0600.
        let file = tempfile::Builder::new().prefix("trainmon-run-").suffix(".out").tempfile();
        let folder = std::env::temp_dir();
        let file = file.with_context(|| {
            format!("cannot create a file for the program's output in {} (set TMPDIR)", folder.display())
        })?;
        Ok(Self(file))
    }

    /// What the program gets as its standard output or error.
    pub(super) fn for_program(&self) -> anyhow::Result<Stdio> {
        Ok(self.0.as_file().try_clone()?.into())
    }

    /// Shows the last lines, and keeps the file if there is something in it.
    pub(super) fn show(mut self) {
        let Some(text) = tail(self.0.as_file_mut()) else { return };
        let Ok((_, path)) = self.0.keep() else { return };
        errors::note(&format!("the program's output is in {}; its last lines:", path.display()));
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(OUTPUT_LINES)) {
            tell(&sanitise(line));
        }
    }
}

/// The end of the file, if there is anything in it.
fn tail(file: &mut File) -> Option<String> {
    let length = file.metadata().ok()?.len();
    if length == 0 {
        return None;
    }
    let mut bytes = Vec::new();
    // What cannot be read back is still worth keeping.
    let _ = file.seek(SeekFrom::Start(length.saturating_sub(TAIL)));
    let _ = file.take(TAIL).read_to_end(&mut bytes);
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
