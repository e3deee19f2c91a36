//! Checks a library's file before the loader maps it.
//!
//! The loader opens whatever is at a path: it waits forever for a FIFO while holding its lock, and it maps a file by
//! its program headers, so that the first access beyond the end of a truncated file kills the process with SIGBUS.
//! Therefore the file is opened here, without waiting, its kind and length are checked, and the loader gets the opened
//! file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::regular_file;
use trainmon_base::errors::without_number;
use trainmon_base::trust::{self, Untrusted};

/// Most program headers read; shared libraries have about ten.
const MOST_HEADERS: usize = 256;
/// Size of the header of a 64-bit ELF file, bytes (`Elf64_Ehdr`).
const HEADER: usize = 64;
/// Size of one program header, bytes (`Elf64_Phdr`).
const PROGRAM_HEADER: usize = 56;
/// `p_type` of a mapped part.
const PT_LOAD: u32 = 1;
/// `e_type` of a shared library.
const ET_DYN: u64 = 3;
/// `e_machine` of this program: EM_X86_64, EM_AARCH64.
const MACHINE: Option<u64> = match () {
    () if cfg!(target_arch = "x86_64") => Some(62),
    () if cfg!(target_arch = "aarch64") => Some(183),
    () => None,
};

/// Opens and checks a library's file. If trainmon has more rights than other users, a file named by a person or the
/// environment is opened `by_trusted_only`: only trusted users can have put it there. While the file is open, the
/// loader gets this very file.
///
/// # Errors
/// Why it is not a loadable library.
pub(super) fn open(path: &Path, by_trusted_only: bool) -> Result<File, Unusable> {
    let file = if by_trusted_only {
        trust::open(path)
            .map_err(|why| if why.is_missing() { Unusable::Missing } else { Unusable::Untrusted(why) })?
    } else {
        regular_file::open(path)?.map_err(|_| Unusable::NotRegular)?
    };
    check(&file)?;
    Ok(file)
}

/// The path by which the loader takes an opened file.
pub(super) fn loader_path(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Why a file cannot be loaded; completes a sentence that names the file.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    #[error("no such file")]
    Missing,
    #[error("it is not a regular file")]
    NotRegular,
    #[error("it is not a shared library (ELF)")]
    NotElf,
    #[error("it is a library of another architecture")]
    OtherMachine,
    #[error("it is truncated: {length} bytes, but its program headers need {needed}")]
    Truncated { length: u64, needed: u64 },
    #[error("{0}, so it is not loaded as root")]
    Untrusted(Untrusted),
    #[error("{}", without_number(.0).to_lowercase())]
    Unreadable(io::Error),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Missing,
            _ => Self::Unreadable(error),
        }
    }
}

/// Rejects files that are not shared libraries for this machine, or shorter than their program headers say.
fn check(file: &File) -> Result<(), Unusable> {
    let length = file.metadata()?.len();
    let mut header = [0; HEADER];
    file.read_exact_at(&mut header, 0).map_err(|_| Unusable::NotElf)?;
    let (offset, count) = program_headers(&header)?;
    let mut headers = vec![0; count * PROGRAM_HEADER];
    let needed = offset.saturating_add(headers.len() as u64);
    file.read_exact_at(&mut headers, offset).map_err(|_| Unusable::Truncated { length, needed })?;
    match mapped_end(&headers) {
        None => Err(Unusable::NotElf),
        Some(needed) if needed > length => Err(Unusable::Truncated { length, needed }),
        Some(_) => Ok(()),
    }
}

/// Offset and number of the program headers, from the header of a shared library that this machine can load.
fn program_headers(header: &[u8; HEADER]) -> Result<(u64, usize), Unusable> {
    if !header.starts_with(b"\x7fELF") {
        return Err(Unusable::NotElf);
    }
    let field = |at, width| number(header, at, width).unwrap_or_default();
    // ELFCLASS64, ELFDATA2LSB; `e_machine`.
    if field(4, 2) != 0x0102 || MACHINE.is_some_and(|machine| field(18, 2) != machine) {
        return Err(Unusable::OtherMachine);
    }
    let (offset, size, count) = (field(32, 8), field(54, 2), field(56, 2) as usize);
    if field(16, 2) != ET_DYN || size != PROGRAM_HEADER as u64 || !(1..=MOST_HEADERS).contains(&count) {
        return Err(Unusable::NotElf);
    }
    Ok((offset, count))
}

/// The end of the last mapped part in the file, bytes; `None` if no part is mapped.
fn mapped_end(headers: &[u8]) -> Option<u64> {
    let parts = headers.chunks_exact(PROGRAM_HEADER);
    let mapped = parts.filter(|part| number(part, 0, 4) == Some(u64::from(PT_LOAD)));
    mapped.filter_map(|part| Some(number(part, 8, 8)?.saturating_add(number(part, 32, 8)?))).max()
}

/// The little-endian number of `width` bytes at an offset.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(width)?)?;
    Some(part.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A library with one part that is mapped, which ends at `end`.
    fn library(end: u64) -> Vec<u8> {
        let mut bytes = vec![0; HEADER + PROGRAM_HEADER];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01\x01");
        put(16, &(ET_DYN as u16).to_le_bytes());
        put(18, &(MACHINE.unwrap_or_default() as u16).to_le_bytes());
        put(32, &(HEADER as u64).to_le_bytes());
        put(54, &(PROGRAM_HEADER as u16).to_le_bytes());
        put(56, &1_u16.to_le_bytes());
        put(HEADER, &PT_LOAD.to_le_bytes());
        put(HEADER + 32, &end.to_le_bytes());
        bytes
    }

    fn opened(bytes: &[u8]) -> Result<File, Unusable> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::write(&path, bytes).unwrap();
        open(&path, false)
    }

    #[test]
    fn a_file_shorter_than_its_program_headers_say_is_refused() {
        let whole = [library(4096), vec![0; 4096]].concat();
        assert!(opened(&whole).is_ok());
        for length in [4095, 1000, HEADER + PROGRAM_HEADER] {
            let why = opened(&whole[..length]).unwrap_err().to_string();
            assert_eq!(why, format!("it is truncated: {length} bytes, but its program headers need 4096"));
        }
        for bytes in [&whole[..HEADER], &library(u64::MAX)] {
            assert!(matches!(opened(bytes), Err(Unusable::Truncated { .. })));
        }
    }

    #[test]
    fn what_is_no_library_is_refused() {
        for bytes in [&b""[..], b"#!/bin/sh\n", &[0; 200], &library(0)[..HEADER - 1]] {
            assert!(matches!(opened(bytes), Err(Unusable::NotElf)), "{bytes:?}");
        }
        let changed = |at: usize, value| {
            let mut bytes = library(0);
            bytes[at] = value;
            opened(&bytes)
        };
        assert!(matches!(changed(16, 2), Err(Unusable::NotElf)), "a program");
        assert!(matches!(changed(4, 1), Err(Unusable::OtherMachine)), "32 bits");
        assert!(matches!(changed(18, 3), Err(Unusable::OtherMachine)), "of an i386");
    }

    #[test]
    fn nothing_but_a_regular_file_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [fifo.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert!(matches!(open(path, false), Err(Unusable::NotRegular)), "{}", path.display());
        }
        assert!(matches!(open(Path::new("/nonexistent/x.so"), true), Err(Unusable::Missing)));
    }

    #[test]
    fn a_file_that_others_may_write_to_is_not_opened_by_trusted_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::write(&path, library(0)).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        assert!(open(&path, false).is_ok());
        assert!(matches!(open(&path, true), Err(Unusable::Untrusted(_))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_checked_without_harm(
            start in proptest::collection::vec(any::<u8>(), 0..200),
            end in any::<u64>(),
            at in 0_usize..120,
            byte in any::<u8>(),
        ) {
            let _ = opened(&start);
            let mut damaged = library(end);
            damaged[at] = byte;
            let _ = opened(&damaged);
        }
    }
}
