//! Estimates the memory that a line of a recording takes once parsed, from its bytes, before parsing it.
//!
//! `{}` takes three bytes in a list, and next to nothing in a compressed file; as a value it takes more than a hundred.

use std::io::{self, Read};

/// For a list or an object, with everything in it except text. The largest one that needs no field in the text, an
/// observation of the sampler, has 120 bytes; a growing list briefly takes up to three times its size.
const CONTAINER: u64 = 192;
/// For a text that is not a key: a reference-counted allocation.
const TEXT: u64 = 64;
/// For any other value.
const VALUE: u64 = 16;

/// Any recording may weigh this much, bytes, however short …
const FREE: u64 = 16 << 20;
/// … plus this much per byte of it. The test recordings weigh up to 100 per byte; a job of thousands of sleeping
/// threads reaches 310.
const PER_BYTE: u64 = 2000;
/// Upper bound for a single line, bytes: the longest line trainmon writes weighs half as much.
pub(super) const WEIGHT_MAX: u64 = 128 << 20;

/// An upper estimate of the memory, bytes, that a line of JSON takes once parsed.
pub(super) fn estimate(line: &[u8]) -> u64 {
    let (mut containers, mut texts, mut keys, mut values) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => containers += 1,
            b',' => values += 1,
            b':' => keys += 1,
            b'"' => {
                texts += 1;
                // Skip to its end; an escaped character does not end it.
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'"' => break,
                        b'\\' => {
                            bytes.next();
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    line.len() as u64 + containers * CONTAINER + texts.saturating_sub(keys) * TEXT + values * VALUE
}

/// A reader that counts the bytes read through it.
pub(super) struct Counted<R> {
    from: R,
    bytes: u64,
}

impl<R> Counted<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, bytes: 0 }
    }

    /// How much the samples read so far may weigh, bytes.
    pub(super) fn bearable(&self) -> u64 {
        self.bytes.saturating_mul(PER_BYTE).saturating_add(FREE)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(room)?;
        self.bytes += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_weigh_nothing_and_marks_within_texts_are_none() {
        assert_eq!(estimate(b"[]"), 2 + CONTAINER);
        assert_eq!(estimate(br#"{"a":1,"b":2}"#), 13 + CONTAINER + VALUE);
        assert_eq!(estimate(br#"["a,[{\"\\",1]"#), 14 + CONTAINER + TEXT + VALUE);
        assert_eq!(estimate(b"\"never ended \\"), 14 + TEXT);
    }
}
