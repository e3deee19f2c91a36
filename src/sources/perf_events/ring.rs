//! The ring into which the kernel writes the records of an event: which bytes are new, and what they say. Formats are those
//! of perf_event_open(2) and include/uapi/linux/perf_event.h.

use std::ops::Range;

use perf_event_open_sys::bindings::{PERF_RECORD_LOST, PERF_RECORD_SAMPLE};

/// Bytes of `perf_event_header`: type (4), misc (2), size of the whole record (2).
const HEADER: usize = 8;

/// A record that matters; all others are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record {
    /// With PERF_SAMPLE_IP and PERF_SAMPLE_TID.
    Sample { address: u64, tid: u32 },
    /// So many records found no room.
    Lost(u64),
}

/// Where the bytes from `tail` to `head` stand in a ring of `size` bytes: up to its end, and on from its start. `None`
/// where that is more than a ring holds, so that what stands in it cannot be told.
pub fn pieces(tail: u64, head: u64, size: usize) -> Option<[Range<usize>; 2]> {
    let length = usize::try_from(head.checked_sub(tail)?).ok().filter(|length| *length <= size)?;
    let start = usize::try_from(tail.checked_rem(size as u64)?).ok()?;
    let first = length.min(size - start);
    Some([start..start + first, 0..length - first])
}

/// The records of these bytes, up to the first that is torn or lies about its size.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
    std::iter::from_fn(move || {
        loop {
            let (header, _) = bytes.split_first_chunk::<HEADER>()?;
            let [a, b, c, d, _, _, low, high] = *header;
            let size = usize::from(u16::from_ne_bytes([low, high]));
            let (record, rest) = bytes.split_at_checked(size.max(HEADER)).filter(|_| size >= HEADER)?;
            bytes = rest;
            let body = record.get(HEADER..).unwrap_or_default();
            let found = match u32::from_ne_bytes([a, b, c, d]) {
                PERF_RECORD_SAMPLE => sample(body),
                // Its first word is the event's number.
                PERF_RECORD_LOST => word(body, 8).map(Record::Lost),
                _ => None,
            };
            if found.is_some() {
                return found;
            }
        }
    })
}

/// The address, then the PID and the TID.
fn sample(body: &[u8]) -> Option<Record> {
    let [a, b, c, d] = *body.get(12..)?.first_chunk()?;
    Some(Record::Sample { address: word(body, 0)?, tid: u32::from_ne_bytes([a, b, c, d]) })
}

fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*body.get(at..)?.first_chunk()?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(kind: u32, size: u16, body: &[u8]) -> Vec<u8> {
        [&kind.to_ne_bytes()[..], &[2, 0], &size.to_ne_bytes(), body].concat()
    }

    fn sample_of(address: u64, tid: u32) -> Vec<u8> {
        let body = [&address.to_ne_bytes()[..], &7_u32.to_ne_bytes(), &tid.to_ne_bytes()].concat();
        record(PERF_RECORD_SAMPLE, 24, &body)
    }

    /// What is read of a ring of `size` bytes after `written` has been written to it from position `tail` on.
    fn through_a_ring(written: &[u8], tail: u64, size: usize) -> Vec<u8> {
        let mut ring = vec![0xee; size];
        for (at, byte) in written.iter().enumerate() {
            ring[((tail + at as u64) % size as u64) as usize] = *byte;
        }
        let [first, second] = pieces(tail, tail + written.len() as u64, size).unwrap();
        [&ring[first], &ring[second]].concat()
    }

    #[test]
    fn samples_between_records_of_other_kinds() {
        let lost = record(PERF_RECORD_LOST, 24, &[1_u64.to_ne_bytes(), 5_u64.to_ne_bytes()].concat());
        let unknown = record(999, 16, &[9; 8]);
        let throttled = record(5, 32, &[0; 24]);
        let bytes = [unknown, sample_of(0x7f00, 42), throttled, lost, sample_of(1, 43)].concat();
        let wanted =
            [Record::Sample { address: 0x7f00, tid: 42 }, Record::Lost(5), Record::Sample { address: 1, tid: 43 }];
        assert_eq!(records(&bytes).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_lying_size_ends_the_reading() {
        for size in [0, 7, 25, u16::MAX] {
            let mut bytes = [sample_of(1, 1), sample_of(2, 2)].concat();
            bytes[24 + 6..24 + 8].copy_from_slice(&size.to_ne_bytes());
            assert_eq!(records(&bytes).count(), 1, "{size}");
        }
        // Too short for what its kind holds: passed over, and what follows is read.
        let bytes = [record(PERF_RECORD_SAMPLE, 16, &[0; 8]), sample_of(2, 2)].concat();
        assert_eq!(records(&bytes).count(), 1);
        let torn = sample_of(1, 1);
        assert_eq!(records(&torn[..23]).count(), 0);
    }

    #[test]
    fn a_head_that_cannot_be_is_not_followed() {
        assert_eq!(pieces(10, 9, 4096), None);
        assert_eq!(pieces(0, 4097, 4096), None);
        assert_eq!(pieces(0, 0, 0), None);
        assert_eq!(pieces(u64::MAX - 3, u64::MAX, 4096), Some([4092..4095, 0..0]));
        assert_eq!(pieces(4090, 4100, 4096), Some([4090..4096, 0..4]));
        assert_eq!(pieces(8192, 8192 + 4096, 4096), Some([0..4096, 0..0]));
    }

    proptest! {
        #[test]
        fn records_survive_the_end_of_the_ring(
            samples in proptest::collection::vec((any::<u64>(), any::<u32>()), 0..100),
            tail in 0..u64::MAX / 2,
        ) {
            let written: Vec<u8> = samples.iter().flat_map(|(address, tid)| sample_of(*address, *tid)).collect();
            let read = through_a_ring(&written, tail, 4096);
            let wanted: Vec<Record> = samples.iter().map(|&(address, tid)| Record::Sample { address, tid }).collect();
            prop_assert_eq!(records(&read).collect::<Vec<_>>(), wanted);
        }

        #[test]
        fn pieces_lie_in_the_ring_and_hold_all(tail: u64, head: u64, pages in 0_usize..9) {
            let size = pages * 4096;
            if let Some([first, second]) = pieces(tail, head, size) {
                prop_assert!(first.end <= size && second.end <= first.start);
                prop_assert_eq!((first.len() + second.len()) as u64, head - tail);
            }
        }

        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            prop_assert!(records(&bytes).count() <= bytes.len() / HEADER);
        }
    }
}
