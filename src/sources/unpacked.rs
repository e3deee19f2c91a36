//! A file as it is, or unpacked where gzip packed it, with a bound on its length.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::regular_file;

/// More than this is not read: no tool writes such files in a day, bytes.
pub const LENGTH_MAX: u64 = 16 << 30;
/// Bytes that are read at a time.
const CHUNK: usize = 256 << 10;

/// Opens a file for reading.
///
/// # Errors
/// The system's.
pub fn open(path: &Path) -> io::Result<Box<dyn BufRead>> {
    reader(regular_file::opened(path)?)
}

/// The bytes of a file, from its begin.
///
/// # Errors
/// The system's.
pub fn reader<'a>(mut file: impl Read + Seek + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    file.seek(SeekFrom::Start(0))?;
    let mut file = BufReader::with_capacity(CHUNK, file);
    let packed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if packed {
        Box::new(BufReader::with_capacity(CHUNK, Limited { from: MultiGzDecoder::new(file), left: LENGTH_MAX }))
    } else {
        Box::new(BufReader::with_capacity(CHUNK, Limited { from: file, left: LENGTH_MAX }))
    })
}

/// Fails rather than reads on for ever.
struct Limited<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.from.read(buffer)?;
        self.left = self.left.checked_sub(length as u64).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "more than 16 GiB once unpacked, which no tool writes")
        })?;
        Ok(length)
    }
}
