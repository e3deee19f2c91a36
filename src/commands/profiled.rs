//! Reads traces of torch.profiler for the commands that take one as it is.

use std::io::Read;
use std::path::Path;

use anyhow::Context;

use crate::diagnosis::Verdict;
use crate::profiles;
use crate::profiles::account::ProfileAccount;
use crate::sources::{regular_file, unpacked};

/// As much of a file shows whether it can be a trace, bytes.
const PEEKED: u64 = 64;
/// What a file of gzip begins with (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Whether a file begins as a trace does: JSON, or packed by gzip. What cannot be read is no trace.
pub(super) fn is_trace(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = regular_file::opened(path).and_then(|file| file.take(PEEKED).read_to_end(&mut begin));
    let text = begin.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&begin);
    let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
    read.is_ok() && (begin.starts_with(&GZIP) || matches!(first, Some(b'{' | b'[')))
}

/// The account of a trace.
pub(super) fn account(path: &Path) -> anyhow::Result<ProfileAccount> {
    let about = || format!("trace {}", path.display());
    let input = unpacked::open(path).with_context(about)?;
    let account = profiles::read(input).with_context(about)?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(ProfileAccount { file, ..account })
}

/// The verdict on a trace.
pub(super) fn verdict(path: &Path) -> anyhow::Result<Verdict> {
    let account = account(path)?;
    Ok(Verdict {
        schema: 1,
        trainmon: env!("CARGO_PKG_VERSION").to_owned(),
        observed_s: account.window_ms / 1000.0,
        profile: Some(Box::new(account)),
        ..Verdict::default()
    })
}
