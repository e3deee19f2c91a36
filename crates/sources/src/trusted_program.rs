//! A program that may be run: what was checked is what is executed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The first bytes of a binary (elf(5)).
pub(crate) const ELF: &[u8; 4] = b"\x7fELF";

/// A program chosen for execution.
#[derive(Debug)]
pub struct TrustedProgram {
    /// Absolute path.
    pub path: PathBuf,
    /// The opened binary, which is executed. `None` for a script, which must be executed by path.
    pub held: Option<OwnedFd>,
    /// Whether it gets a clean environment instead of the caller's.
    pub clean: bool,
}

/// Whether the file is an ELF binary.
pub fn is_binary(file: &File) -> bool {
    let mut begin = [0; ELF.len()];
    file.read_exact_at(&mut begin, 0).is_ok() && begin == *ELF
}
