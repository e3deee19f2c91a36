//! Where a trace goes: a file as it is, or compressed with gzip, which Perfetto opens too.

use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::log::Existing;
use crate::whole_file::WholeFile;

/// Packets are written in pieces of about this size, bytes.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// An open trace.
#[derive(Debug)]
pub enum TraceOut {
    /// As it is.
    Plain(BufWriter<WholeFile>),
    /// Compressed, as its name ends in `.gz`.
    Compressed(Box<GzEncoder<WholeFile>>),
}

impl TraceOut {
    /// Opens a place to write to.
    ///
    /// # Errors
    /// Those of [`WholeFile::create`].
    pub fn open(path: &Path, existing: Existing) -> anyhow::Result<Self> {
        let out = WholeFile::create("trace", path, existing)?;
        let is_compressed = path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("gz"));
        Ok(if is_compressed {
            Self::Compressed(Box::new(GzEncoder::new(out, Compression::default())))
        } else {
            Self::Plain(BufWriter::with_capacity(WRITTEN_AT_ONCE, out))
        })
    }

    /// Writes what is left. The file is then ready for [`WholeFile::finish`].
    ///
    /// # Errors
    /// What the file answers.
    pub fn finish(self) -> io::Result<WholeFile> {
        match self {
            Self::Plain(out) => out.into_inner().map_err(IntoInnerError::into_error),
            Self::Compressed(out) => out.finish(),
        }
    }
}

impl Write for TraceOut {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Compressed(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Compressed(out) => out.flush(),
        }
    }
}
