//! Reads traces of torch.profiler, each as it is.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use super::whole::ZSTD_FRAME;
use trainmon_diagnosis::diagnosis::verdict::Context;
use trainmon_diagnosis::diagnosis::{Verdict, profiled};
use trainmon_profiles::account::ProfileAccount;
use trainmon_profiles::ranks::{self, RANKS_MAX, RanksError};
use trainmon_profiles::{self as profiles, ProfileError};
use trainmon_sources::{regular_file, unpacked};

/// As much of a file shows whether it can be a trace, bytes.
const PEEKED: u64 = 4096;

/// Whether a file begins like a trace, or is another profiler's: [`verdict`] says how it goes.
///
/// # Errors
/// It cannot be read, whatever it should be.
pub fn is_trace(path: &Path) -> anyhow::Result<bool> {
    let begin = begin_of(path)?;
    let text = begin.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&begin);
    let mut first = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    // A section of TOML begins with a bracket as well.
    let is_json = matches!((first.next(), first.next()), (Some(b'{'), Some(b'"' | b'}')) | (Some(b'['), Some(b'{')));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(is_json || begin.starts_with(&unpacked::GZIP) || profiles::other_format(&begin, &name).is_some())
}

/// The first bytes of a file, if it can be a trace, a recording or a log.
fn begin_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let read = || -> io::Result<Vec<u8>> {
        let mut begin = Vec::new();
        regular_file::opened(path)?.take(PEEKED).read_to_end(&mut begin)?;
        unpacked::no_text(&begin).map_or(Ok(begin), |why| Err(io::Error::new(io::ErrorKind::InvalidData, why)))
    };
    read().with_context(|| format!("cannot read {}", path.display()))
}

/// Refuses a trace where only a recording has what is asked for.
pub fn refuse(path: &Path) -> anyhow::Result<()> {
    let name = path.display();
    anyhow::ensure!(!is_trace(path)?, "{name} is a trace, not a recording: trainmon diagnose {name}");
    Ok(())
}

/// The verdict on a trace, or on the traces of a run's ranks.
pub fn verdict(paths: &[&Path]) -> anyhow::Result<Arc<Verdict>> {
    verdict_while(paths, &|| true)
}

/// The same. `wanted` says whether to go on reading.
pub fn verdict_while(paths: &[&Path], wanted: &dyn Fn() -> bool) -> anyhow::Result<Arc<Verdict>> {
    let account = account(paths, wanted)?;
    let context = Context { command: account.file.clone().unwrap_or_default(), ..Context::default() };
    Ok(Arc::new(profiled::verdict(account, &context)))
}

/// The account of a trace, or of the traces of a run's ranks.
pub fn account(paths: &[&Path], wanted: &dyn Fn() -> bool) -> anyhow::Result<ProfileAccount> {
    Ok(match paths {
        [path] => ProfileAccount { file: name_of(path), ..read(path, wanted, profiles::read)? },
        paths if paths.len() > RANKS_MAX => return Err(RanksError::TooMany(paths.len()).into()),
        paths => {
            let named = |path: &&Path| Ok((path.display().to_string(), read(path, wanted, profiles::read_rank)?));
            let account = ranks::side_by_side(paths.iter().map(named).collect::<anyhow::Result<_>>()?)?;
            ProfileAccount { file: account.file.as_deref().and_then(|file| name_of(Path::new(file))), ..account }
        }
    })
}

fn name_of(path: &Path) -> Option<String> {
    path.file_name().map(|name| name.to_string_lossy().into_owned())
}

fn read<'w, T>(
    path: &Path,
    wanted: &'w dyn Fn() -> bool,
    take: impl FnOnce(WhileWanted<'w, Box<dyn BufRead>>) -> Result<T, ProfileError>,
) -> anyhow::Result<T> {
    let file = path.display();
    anyhow::ensure!(
        !begin_of(path)?.starts_with(&ZSTD_FRAME),
        "{file} is a recording, not a trace: trainmon diagnose --replay {file}"
    );
    let read = || {
        let mut input = unpacked::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        profiles::other_format(input.fill_buf()?, &name).map_or(Ok(()), Err)?;
        take(WhileWanted { input, wanted })
    };
    read().with_context(|| format!("trace {}", path.display()))
}

/// Fails once it is not wanted any more.
struct WhileWanted<'w, R> {
    input: R,
    wanted: &'w dyn Fn() -> bool,
}

impl<R: Read> Read for WhileWanted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if (self.wanted)() { self.input.read(buffer) } else { Err(io::Error::other("given up")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_recognized_by_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for (bytes, trace) in [
            (&b"{\"traceEvents\": []}"[..], true),
            (b"\xef\xbb\xbf \n [{}]", true),
            (&[0x1f, 0x8b, 8, 0], true),
            (&[0x28, 0xb5, 0x2f, 0xfd], false),
            (b"timestamp,elapsed_s\n", false),
            (b"[package]\n", false),
        ] {
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(is_trace(&path).unwrap(), trace, "{bytes:?}");
        }
        let of_xla = folder.path().join("run.xplane.pb");
        std::fs::write(&of_xla, b"\n\x04").unwrap();
        assert!(is_trace(&of_xla).unwrap());
    }

    #[test]
    fn what_cannot_be_read_is_no_other_kind_of_file() {
        let folder = tempfile::tempdir().unwrap();
        let (missing, empty) = (folder.path().join("missing"), folder.path().join("empty"));
        std::fs::write(&empty, "").unwrap();
        for (path, why) in [
            (folder.path(), "it is a directory; name a file in it"),
            (&missing, "no such file or directory"),
            (&empty, "it is empty"),
        ] {
            let said = format!("cannot read {}: {why}", path.display());
            assert_eq!(trainmon_base::errors::sentence(&is_trace(path).unwrap_err()), said);
            assert_eq!(trainmon_base::errors::sentence(&verdict(&[path]).unwrap_err()), said);
        }
    }
}
