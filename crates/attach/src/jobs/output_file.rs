//! The output of the program of `trainmon run` while the screen has the terminal: a private file. The screen shows its last lines, and they are
//! printed when the screen is left.

use std::fs::File;
use std::io::{IsTerminal, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use tempfile::NamedTempFile;

use super::output::OutputTail;
use trainmon_base::errors;
use trainmon_base::streams::tell;
use trainmon_base::text::sanitize;

/// This much of the output is shown, bytes.
const TAIL: u64 = 4096;
/// And no more lines.
const OUTPUT_LINES: usize = 20;
/// Between two looks at the file.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Of what was written between two looks, no more than this is read, bytes: more than all lines that are kept.
const READ_MOST: u64 = 128 << 10;

/// The file. Its name cannot be guessed, only its owner can read it, and it is removed unless something was written to it.
pub struct Output(NamedTempFile);

impl Output {
    /// An empty one.
    pub fn create() -> anyhow::Result<Self> {
        // O_EXCL and mode 0600.
        let file = tempfile::Builder::new().prefix("trainmon-run-").suffix(".out").tempfile();
        let folder = std::env::temp_dir();
        let file = file.with_context(|| {
            format!(
                "cannot create a file for the program's output in {}; set TMPDIR to another directory",
                folder.display()
            )
        })?;
        Ok(Self(file))
    }

    /// What the program gets as its standard output.
    pub fn for_program(&self) -> anyhow::Result<Stdio> {
        Ok(self.0.as_file().try_clone()?.into())
    }

    /// What it gets as its standard error: where that was redirected it goes where it would have gone.
    pub fn for_errors(&self) -> anyhow::Result<Stdio> {
        if std::io::stderr().is_terminal() { self.for_program() } else { Ok(Stdio::inherit()) }
    }

    /// Reads the file for the screen.
    pub fn reader(&self) -> anyhow::Result<OutputReader> {
        Ok(OutputReader {
            file: self.0.as_file().try_clone()?,
            at: 0,
            tail: OutputTail::default(),
            due: Instant::now(),
        })
    }

    /// Shows the last lines, and keeps the file if there is something in it.
    pub fn show(mut self) {
        let Some(text) = tail(self.0.as_file_mut()) else { return };
        let Ok((_, path)) = self.0.keep() else { return };
        errors::note(&format!("the program's output is in {}; its last lines:", path.display()));
        let lines: Vec<&str> = text.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(OUTPUT_LINES)) {
            tell(&sanitize(line));
        }
    }
}

/// Follows the file while the program writes to it.
#[derive(Debug)]
pub struct OutputReader {
    file: File,
    /// What comes before was read.
    at: u64,
    tail: OutputTail,
    /// The next look.
    due: Instant,
}

impl OutputReader {
    /// The last lines, once more was written. Cancel safe.
    pub async fn next(&mut self) -> OutputTail {
        loop {
            tokio::time::sleep_until(self.due.into()).await;
            self.due = Instant::now() + LOOK_EVERY;
            if self.look() {
                return self.tail.clone();
            }
        }
    }

    /// Reads what was written since the last look, if anything was. The program's own place in the file is not moved.
    fn look(&mut self) -> bool {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        if length <= self.at {
            return false;
        }
        let begin = self.at.max(length.saturating_sub(READ_MOST));
        let mut bytes = vec![0; usize::try_from(length - begin).unwrap_or(0)];
        let Ok(count) = self.file.read_at(&mut bytes, begin) else { return false };
        self.at = begin + count as u64;
        self.tail.push(bytes.get(..count).unwrap_or_default());
        count > 0
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
