//! Finds the digests of a recording: the last one from the end of the file, then each one's forerunner. The file may come from
//! anywhere: where anything does not fit, no digest is used, and the samples are read instead.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use trainmon_sample::recording::{DIGEST_END, DIGEST_FRAME, DIGEST_MARK};

/// The last digest ends within so many bytes of the end of the file.
const SEARCHED: u64 = 8 << 20;
/// Most bytes of a digest.
const LONGEST: u64 = 8 << 20;
/// Most bytes that a digest unpacks to: 300 intervals of a job with hundreds of workers take 2 MiB.
const UNPACKED_MAX: u64 = 16 << 20;
/// The header fits into so many bytes of a recording.
const HEAD: u64 = 1 << 20;
/// What all digests may unpack to: any file's so many bytes, and so many more for each of its own. A real one unpacks to ten.
const DIGESTS_FREE: u64 = 64 << 20;
const DIGESTS_PER_BYTE: u64 = 100;

/// Where a digest is, and where the samples begin that it sums up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    samples: u64,
    begin: u64,
    end: u64,
}

/// The digests of a file, oldest first: an iterator over their bytes. Ends early at one that cannot be unpacked.
#[derive(Debug)]
pub struct Digests<'f> {
    file: &'f File,
    places: std::vec::IntoIter<Place>,
    room: u64,
    /// Where the samples begin that the last one sums up.
    pub last_samples: u64,
    /// Where the last one ends: the samples after it are in none.
    pub end: u64,
    /// Bytes of the file.
    pub file_length: u64,
    /// Digests not given yet.
    pub left: usize,
}

impl<'f> Digests<'f> {
    /// Those of a file; `None` if it has none, or not all of them are found.
    pub fn find(file: &'f File) -> Option<Self> {
        let file_length = file.metadata().ok()?.len();
        let mut place = digest_at(file, last_end(file, file_length)?)?;
        let (end, last_samples) = (place.end, place.samples);
        let mut places = vec![place];
        let first = head_length(file)?;
        while place.samples > first {
            place = digest_at(file, place.samples)?;
            places.push(place);
        }
        if place.samples != first {
            return None;
        }
        places.reverse();
        let room = file_length.saturating_mul(DIGESTS_PER_BYTE).saturating_add(DIGESTS_FREE);
        Some(Self { file, left: places.len(), places: places.into_iter(), room, last_samples, end, file_length })
    }

    fn unpack(&mut self, place: Place) -> Option<Vec<u8>> {
        let packed =
            read_at(self.file, place.begin + 8, place.end.checked_sub(place.begin + 8 + DIGEST_END as u64)?)?;
        let (mut bytes, most) = (Vec::new(), self.room.min(UNPACKED_MAX));
        zstd::stream::read::Decoder::with_buffer(&packed[..]).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        let length = bytes.len() as u64;
        self.room -= length;
        (length < most).then_some(bytes)
    }
}

impl Iterator for Digests<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let place = self.places.next()?;
        let bytes = self.unpack(place)?;
        self.left -= 1;
        Some(bytes)
    }
}

/// Where the last digest ends.
fn last_end(file: &File, length: u64) -> Option<u64> {
    let searched = length.min(SEARCHED);
    let bytes = read_at(file, length - searched, searched)?;
    let mark = bytes.windows(DIGEST_MARK.len()).rposition(|bytes| bytes == DIGEST_MARK)?;
    Some(length - searched + (mark + DIGEST_MARK.len()) as u64)
}

/// The digest that ends here.
fn digest_at(file: &File, end: u64) -> Option<Place> {
    let last = read_at(file, end.checked_sub(DIGEST_END as u64)?, DIGEST_END as u64)?;
    let (undigested, rest) = last.split_first_chunk::<8>()?;
    let (whole, mark) = rest.split_first_chunk::<4>()?;
    let whole = u64::from(u32::from_le_bytes(*whole));
    let is_digest = mark == DIGEST_MARK && whole <= LONGEST;
    let begin = if is_digest { end.checked_sub(whole)? } else { return None };
    let head = read_at(file, begin, 8)?;
    let (frame, content) = head.split_first_chunk::<4>()?;
    let content = u64::from(u32::from_le_bytes(*content.first_chunk()?));
    if u32::from_le_bytes(*frame) != DIGEST_FRAME || content + 8 != whole {
        return None;
    }
    // Nothing between two digests would be an endless chain.
    let samples = begin.checked_sub(u64::from_le_bytes(*undigested)).filter(|samples| *samples < begin)?;
    Some(Place { samples, begin, end })
}

/// The length of the first frame.
fn head_length(file: &File) -> Option<u64> {
    let length = file.metadata().ok()?.len().min(HEAD);
    let bytes = read_at(file, 0, length)?;
    zstd::zstd_safe::find_frame_compressed_size(&bytes).ok().map(|length| length as u64)
}

fn read_at(file: &File, at: u64, length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let read: io::Result<()> = file.read_exact_at(&mut bytes, at);
    read.ok().map(|()| bytes)
}
