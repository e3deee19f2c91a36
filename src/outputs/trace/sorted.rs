//! Sorts more than memory holds: sorted pieces go to temporary files, which are merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

/// What is sorted by, the first number first.
pub(super) type SortKey = [u64; 4];

/// Kept in memory before a piece is written, bytes.
const SORTED_AT_ONCE: usize = 24 << 20;
/// Read ahead from each piece, bytes.
const AHEAD: usize = 32 << 10;
/// What a record costs in memory beyond its content, bytes.
const OVERHEAD: usize = 96;

/// Records on their way into order. Those with the same key keep theirs.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    pending: Vec<(SortKey, Vec<u8>)>,
    bytes: usize,
    pieces: Vec<File>,
}

impl Sorted {
    pub(super) fn push(&mut self, key: SortKey, record: Vec<u8>) -> io::Result<()> {
        self.bytes += record.len() + OVERHEAD;
        self.pending.push((key, record));
        if self.bytes >= SORTED_AT_ONCE { self.put_aside() } else { Ok(()) }
    }

    fn put_aside(&mut self) -> io::Result<()> {
        self.pending.sort_by_key(|(key, _)| *key);
        let mut out = BufWriter::with_capacity(AHEAD, tempfile::tempfile()?);
        for (key, record) in self.pending.drain(..) {
            key.into_iter().try_for_each(|part| out.write_all(&part.to_le_bytes()))?;
            out.write_all(&(record.len() as u64).to_le_bytes())?;
            out.write_all(&record)?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.pieces.push(file);
        self.bytes = 0;
        Ok(())
    }

    /// All records in order.
    pub(super) fn finish(mut self) -> io::Result<Merged> {
        self.pending.sort_by_key(|(key, _)| *key);
        let pieces = self.pieces.into_iter().map(|file| SortedPiece::Aside(BufReader::with_capacity(AHEAD, file)));
        // The latest piece last, so that equal keys keep their order.
        let pieces = pieces.chain([SortedPiece::Pending(self.pending.into_iter())]).collect();
        let mut merged = Merged { pieces, heads: BinaryHeap::new() };
        (0..merged.pieces.len()).try_for_each(|piece| merged.advance(piece))?;
        Ok(merged)
    }
}

#[derive(Debug)]
enum SortedPiece {
    Aside(BufReader<File>),
    Pending(std::vec::IntoIter<(SortKey, Vec<u8>)>),
}

impl SortedPiece {
    fn next(&mut self) -> io::Result<Option<(SortKey, Vec<u8>)>> {
        let file = match self {
            Self::Pending(records) => return Ok(records.next()),
            Self::Aside(file) => file,
        };
        let mut head = [0; 40];
        match file.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let mut parts = head.chunks_exact(8).map(|part| part.try_into().map_or(0, u64::from_le_bytes));
        let mut part = || parts.next().unwrap_or(0);
        let key = [part(), part(), part(), part()];
        let mut record = vec![0; usize::try_from(part()).unwrap_or(0)];
        file.read_exact(&mut record)?;
        Ok(Some((key, record)))
    }
}

/// The records of all pieces in order.
#[derive(Debug)]
pub(super) struct Merged {
    pieces: Vec<SortedPiece>,
    /// The first record of each piece.
    heads: BinaryHeap<Reverse<(SortKey, usize, Vec<u8>)>>,
}

impl Merged {
    fn advance(&mut self, at: usize) -> io::Result<()> {
        let next = self.pieces.get_mut(at).map(SortedPiece::next).transpose()?.flatten();
        self.heads.extend(next.map(|(key, record)| Reverse((key, at, record))));
        Ok(())
    }
}

impl Iterator for Merged {
    type Item = io::Result<(SortKey, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((key, piece, record)) = self.heads.pop()?;
        Some(self.advance(piece).map(|()| (key, record)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_whether_they_fit_in_memory_or_not() {
        for bytes in [10, 100_000] {
            let mut sorted = Sorted::default();
            for number in 0..2000u64 {
                let key = [number * 7919 % 1000, 0, 0, 0];
                sorted.push(key, number.to_le_bytes().repeat(bytes / 8)).unwrap();
            }
            assert_eq!(sorted.pieces.is_empty(), bytes == 10);
            let records: Vec<_> = sorted.finish().unwrap().map(Result::unwrap).collect();
            assert_eq!(records.len(), 2000);
            // Of equal keys, the one that came first.
            let numbers = records.iter().map(|(key, record)| (key[0], record[..8].to_vec()));
            let numbers: Vec<_> =
                numbers.map(|(key, bytes)| (key, u64::from_le_bytes(bytes.try_into().unwrap()))).collect();
            assert!(numbers.is_sorted(), "{numbers:?}");
        }
    }
}
