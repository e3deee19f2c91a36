//! The calls of the kernel for programs that count: bpf(2). rustix and nix have no form of it.
//!
//! Every block of memory that the kernel reads or writes is a slice whose length is checked here against what the kernel was told at
//! the map's creation. Descriptors are owned, so all of it is gone with them, and so with the process.
#![allow(unsafe_code, reason = "bpf(2) has no safe form; the call says why it is sound")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Commands, and types of maps and programs (linux/bpf.h).
const MAP_CREATE: i64 = 0;
const MAP_LOOKUP_ELEM: i64 = 1;
const MAP_UPDATE_ELEM: i64 = 2;
const MAP_DELETE_ELEM: i64 = 3;
const MAP_GET_NEXT_KEY: i64 = 4;
const PROG_LOAD: i64 = 5;
const LINK_CREATE: i64 = 28;
const PROG_TYPE_KPROBE: u32 = 2;
/// Where a program can be attached: to many places of a file at once.
const TRACE_UPROBE_MULTI: u32 = 48;
/// At returns rather than at entries.
const UPROBE_MULTI_RETURN: u32 = 1;

/// `union bpf_attr` as 32-bit words; what is not set is 0, as the kernel wants it.
struct Attributes([u32; 32]);

impl Attributes {
    fn new() -> Self {
        Self([0; 32])
    }

    /// Sets the number at a byte offset.
    fn word(mut self, at: usize, value: u32) -> Self {
        if let Some(word) = self.0.get_mut(at / 4) {
            *word = value;
        }
        self
    }

    fn double(self, at: usize, value: u64) -> Self {
        let (low, high) = (value as u32, (value >> 32) as u32);
        let (first, second) = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        self.word(at, first).word(at + 4, second)
    }

    fn descriptor(self, at: usize, descriptor: impl AsFd) -> Self {
        // Descriptors are not negative.
        self.word(at, descriptor.as_fd().as_raw_fd() as u32)
    }

    fn call(mut self, command: i64) -> io::Result<i32> {
        let size = size_of_val(&self.0);
        // SAFETY: the attributes are valid for `size` bytes, and every address in them is of a slice or a terminated string that
        // the caller borrows until the call returns, as long as the kernel takes it to be (see the callers).
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_mut_ptr(), size) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    /// The same for the commands that give a descriptor.
    fn open(self, command: i64) -> io::Result<OwnedFd> {
        let descriptor = self.call(command)?;
        // SAFETY: the kernel has just opened it for this process, close-on-exec, and nothing else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

/// What a map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MapKind {
    /// Finds values by a key.
    Hash = 1,
    /// Values by their number.
    Array = 2,
}

/// A table that programs in the kernel fill.
#[derive(Debug)]
pub(super) struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    value_bytes: usize,
}

impl Map {
    pub(super) fn create(kind: MapKind, key_bytes: usize, value_bytes: usize, most: u32) -> io::Result<Self> {
        let attributes = Attributes::new().word(0, kind as u32).word(4, key_bytes as u32);
        let descriptor = attributes.word(8, value_bytes as u32).word(12, most).open(MAP_CREATE)?;
        Ok(Self { descriptor, key_bytes, value_bytes })
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> io::Result<Vec<u8>> {
        let mut value = vec![0; self.value_bytes];
        self.element(key, value.as_mut_ptr() as u64)?.call(MAP_LOOKUP_ELEM)?;
        Ok(value)
    }

    /// Sets the value of a key.
    pub(super) fn set(&self, key: &[u8], value: &[u8]) -> io::Result<()> {
        if value.len() != self.value_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.element(key, value.as_ptr() as u64)?.call(MAP_UPDATE_ELEM).map(drop)
    }

    /// Removes a key.
    pub(super) fn remove(&self, key: &[u8]) -> io::Result<()> {
        self.element(key, 0)?.call(MAP_DELETE_ELEM).map(drop)
    }

    /// The first keys.
    pub(super) fn keys(&self, most: usize) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        while keys.len() < most {
            let mut next = vec![0; self.key_bytes];
            let attributes = match keys.last() {
                Some(last) => self.element(last, next.as_mut_ptr() as u64)?,
                None => Attributes::new().descriptor(0, self).double(16, next.as_mut_ptr() as u64),
            };
            match attributes.call(MAP_GET_NEXT_KEY) {
                Ok(_) => keys.push(next),
                Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                Err(error) => return Err(error),
            }
        }
        Ok(keys)
    }

    fn element(&self, key: &[u8], other: u64) -> io::Result<Attributes> {
        if key.len() != self.key_bytes {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Attributes::new().descriptor(0, self).double(8, key.as_ptr() as u64).double(16, other))
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Checks a program and loads it into the kernel.
pub(super) fn load(instructions: &[u64]) -> io::Result<OwnedFd> {
    const LICENSE: &CStr = c"MIT";
    Attributes::new()
        .word(0, PROG_TYPE_KPROBE)
        .word(4, instructions.len() as u32)
        .double(8, instructions.as_ptr() as u64)
        .double(16, LICENSE.as_ptr() as u64)
        .word(68, TRACE_UPROBE_MULTI)
        .open(PROG_LOAD)
}

/// Runs a program wherever the process `pid` gets to one of these offsets of a file, or returns from the functions there. The
/// program is told the cookie of the offset.
pub(super) fn attach(
    program: &OwnedFd,
    file: &CStr,
    places: &[(u64, u64)],
    returns: bool,
    pid: u32,
) -> io::Result<OwnedFd> {
    let (offsets, cookies): (Vec<u64>, Vec<u64>) = places.iter().copied().unzip();
    Attributes::new()
        .descriptor(0, program)
        .word(8, TRACE_UPROBE_MULTI)
        .double(16, file.as_ptr() as u64)
        .double(24, offsets.as_ptr() as u64)
        .double(40, cookies.as_ptr() as u64)
        .word(48, places.len() as u32)
        .word(52, if returns { UPROBE_MULTI_RETURN } else { 0 })
        .word(56, pid)
        .open(LINK_CREATE)
}
