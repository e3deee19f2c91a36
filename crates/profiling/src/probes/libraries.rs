//! Which files of a process hold calls that are counted. A static runtime hides inside other libraries, so every mapped file is
//! looked at, not only those of known names.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::elf;
use super::symbols::{KnownCall, known_call};
use trainmon_sources::fields::lines;
use trainmon_sources::files::{ReadFailure, read_once};
use trainmon_sources::maps::mapping;
use trainmon_sources::regular_file;

/// `/proc/PID/maps` of a job with many libraries has some thousand lines.
const MAPS_LIMIT: usize = 32 << 20;
/// Most files that are looked at.
const MOST_LIBRARIES: usize = 2048;
/// Most places to probe, in all files.
const MOST_PLACES: usize = 512;

/// A file, and where the calls begin in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbedFile {
    /// Its path as the kernel is told it.
    pub path: CString,
    /// The calls, each place once.
    pub calls: Vec<ProbedCall>,
}

/// A place to probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProbedCall {
    /// Where the function begins in the file.
    pub offset: u64,
    /// What it is.
    pub call: KnownCall,
    /// The kernel steps over its first instruction, which costs more.
    pub stepped: bool,
}

/// The files of a process that hold such calls.
///
/// # Errors
/// Its maps cannot be read.
pub(crate) fn probed_files(folder: &Path) -> Result<Vec<ProbedFile>, ReadFailure> {
    let maps = read_once(folder.join("maps"), MAPS_LIMIT)?;
    let mut seen = BTreeSet::new();
    let code = lines(&maps).filter_map(mapping).filter(|found| found.is_code && found.inode != 0);
    let each_once = code.filter(|found| seen.insert((found.device, found.inode)));
    let mut files = Vec::new();
    let mut places = 0;
    for found in each_once.take(MOST_LIBRARIES) {
        let (start, end) = found.addresses;
        // The file that is mapped, even if another has its name now; without the right to that, by its name.
        let mapped = folder.join("map_files").join(format!("{start:x}-{end:x}"));
        let named = below(&folder.join("root"), found.file);
        let calls = calls_in(&mapped).map(|calls| (mapped, calls));
        let Some((path, calls)) = calls.or_else(|| calls_in(&named).map(|calls| (named, calls))) else { continue };
        places += calls.len();
        if places > MOST_PLACES {
            break;
        }
        if let Ok(path) = CString::new(path.into_os_string().into_vec())
            && !calls.is_empty()
        {
            files.push(ProbedFile { path, calls });
        }
    }
    Ok(files)
}

/// The calls in a file; `None` if it cannot be read, or is no library.
fn calls_in(path: &Path) -> Option<Vec<ProbedCall>> {
    let file = regular_file::opened(path).ok()?;
    let found = elf::exported(&file, known_call)?.into_iter().map(|(offset, call)| {
        let mut code = [0; 4];
        let stepped = file.read_exact_at(&mut code, offset).is_err() || is_stepped(&code);
        ProbedCall { offset, call, stepped }
    });
    let mut calls: Vec<_> = found.collect();
    calls.sort_unstable();
    calls.dedup_by_key(|call| call.offset);
    Some(calls)
}

fn below(root: &Path, path: &[u8]) -> PathBuf {
    root.join(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
}

/// Whether the kernel steps over a function's first instruction. It emulates `push` and `nop` (arch/x86/kernel/uprobes.c); other
/// processors have other rules, so there it is taken to step.
pub(super) fn is_stepped(code: &[u8]) -> bool {
    let code = code.strip_prefix(&[0x41]).filter(|rest| matches!(rest.first(), Some(0x50..=0x57))).unwrap_or(code);
    !(cfg!(target_arch = "x86_64") && matches!(code.first(), Some(0x50..=0x57 | 0x90)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_and_nop_are_emulated_on_x86() {
        for (code, stepped) in [
            (&[0x55, 0x48, 0x89, 0xe5][..], false),
            (&[0x41, 0x57], false),
            (&[0x90], false),
            (&[0xf3, 0x0f, 0x1e, 0xfa], true),
            (&[0x41, 0x8b], true),
            (&[0x48, 0x83, 0xec, 8], true),
            (&[], true),
        ] {
            assert_eq!(is_stepped(code), stepped || cfg!(not(target_arch = "x86_64")), "{code:x?}");
        }
    }
}
