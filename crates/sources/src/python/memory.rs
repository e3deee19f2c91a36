//! Another process's memory, word by word.

use std::cell::Cell;

use crate::files::KeptFile;

/// Most reads for one reading of a process, 5 to 10 ms: a loop of thirty frames takes a thousand.
const READS_OF_MEMORY: u32 = 8_000;
/// Addresses of programs have no more than these bits on x86-64 and aarch64.
const USER_BITS: u32 = 56;

/// What can be read by address.
pub(super) trait Bytes {
    /// Fills `room` with what is at `address`; false if not all of it can be read.
    fn fill(&self, address: u64, room: &mut [u8]) -> bool;
}

impl Bytes for KeptFile {
    fn fill(&self, address: u64, room: &mut [u8]) -> bool {
        self.read_at(room, address).is_ok_and(|read| read == room.len())
    }
}

/// The memory, for one reading.
pub(super) struct Memory<'a> {
    bytes: &'a dyn Bytes,
    left: Cell<u32>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(bytes: &'a dyn Bytes) -> Self {
        Self { bytes, left: Cell::new(READS_OF_MEMORY) }
    }

    /// Fills `room`; false if there is nothing at this address, or if too much was read already.
    pub(super) fn fill(&self, address: u64, room: &mut [u8]) -> bool {
        let left = self.left.get().checked_sub(1);
        self.left.set(left.unwrap_or(0));
        left.is_some() && address != 0 && address >> USER_BITS == 0 && self.bytes.fill(address, room)
    }

    /// So many bytes.
    pub(super) fn array<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut room = [0; N];
        self.fill(address, &mut room).then_some(room)
    }

    /// So many bytes; the caller bounds them.
    pub(super) fn vec(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut room = vec![0; length];
        self.fill(address, &mut room).then_some(room)
    }

    /// A word, in this machine's order of bytes.
    pub(super) fn word(&self, address: u64) -> Option<u64> {
        self.array(address).map(u64::from_ne_bytes)
    }
}

/// The word at an offset of what was read.
pub(super) fn word_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().copied().map(u64::from_ne_bytes)
}

/// The half word at an offset of what was read.
pub(super) fn half_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().copied().map(u32::from_ne_bytes)
}
