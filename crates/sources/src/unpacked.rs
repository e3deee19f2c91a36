//! A file as it is, or unpacked where gzip packed it, with a bound on its length.

use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use super::regular_file;

/// More than this is not read: no tool writes such files in a day, bytes.
pub const LENGTH_MAX: u64 = 16 << 30;
/// What a file of gzip begins with (RFC 1952, 2.3.1).
pub const GZIP: [u8; 2] = [0x1f, 0x8b];
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
    let packed = file.fill_buf()?.starts_with(&GZIP);
    let mut input: Box<dyn BufRead + 'a> = if packed {
        Box::new(BufReader::with_capacity(CHUNK, Limited { from: MultiGzDecoder::new(file), left: LENGTH_MAX }))
    } else {
        Box::new(BufReader::with_capacity(CHUNK, Limited { from: file, left: LENGTH_MAX }))
    };
    let why = match input.fill_buf()? {
        [0x1f, 0x8b, ..] => Some("it is packed twice; unpack it once with gunzip"),
        begin => no_text(begin),
    };
    why.map_or(Ok(input), |why| Err(io::Error::new(io::ErrorKind::InvalidData, why)))
}

/// Why a file that begins like this is no text that can be read, in words for a user.
pub fn no_text(begin: &[u8]) -> Option<&'static str> {
    match begin {
        [] => Some("it is empty"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("it is text in UTF-16; convert it first with iconv -f UTF-16 -t UTF-8")
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packer = GzEncoder::new(Vec::new(), Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn what_is_no_text_is_named() {
        let mut text = String::new();
        reader(Cursor::new(packed(b"{}"))).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "{}");
        let utf_16 = b"\xff\xfe{\0}\0".to_vec();
        for (bytes, why) in [
            (packed(&packed(b"{}")), "it is packed twice; unpack it once with gunzip"),
            (utf_16.clone(), "it is text in UTF-16; convert it first with iconv -f UTF-16 -t UTF-8"),
            (packed(&utf_16), "it is text in UTF-16; convert it first with iconv -f UTF-16 -t UTF-8"),
            (Vec::new(), "it is empty"),
            (packed(b""), "it is empty"),
        ] {
            assert_eq!(reader(Cursor::new(bytes)).err().unwrap().to_string(), why);
        }
    }
}
