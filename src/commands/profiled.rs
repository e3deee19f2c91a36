//! Traces of torch.profiler in place of a running job.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use crate::diagnosis::verdict::Context;
use crate::diagnosis::{Verdict, profiled};
use crate::profiles::account::ProfileAccount;
use crate::profiles::ranks::{self, RANKS_MAX, RanksError};
use crate::profiles::{self, ProfileError};
use crate::sources::unpacked;

/// The verdict on a trace, or on the traces of a run's ranks.
pub(super) fn verdict(paths: &[&PathBuf]) -> anyhow::Result<Arc<Verdict>> {
    let account = match paths {
        [path] => {
            let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
            ProfileAccount { file, ..read(path, profiles::read)? }
        }
        paths if paths.len() > RANKS_MAX => return Err(RanksError::TooMany(paths.len()).into()),
        paths => {
            let named = |path: &&PathBuf| Ok((path.display().to_string(), read(path, profiles::read_rank)?));
            ranks::side_by_side(paths.iter().map(named).collect::<anyhow::Result<_>>()?)?
        }
    };
    let context = Context { command: account.file.clone().unwrap_or_default(), ..Context::default() };
    Ok(Arc::new(profiled::verdict(account, &context)))
}

fn read<T>(path: &Path, take: impl FnOnce(Box<dyn BufRead>) -> Result<T, ProfileError>) -> anyhow::Result<T> {
    let read = || {
        let mut input = unpacked::open(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        profiles::other_format(input.fill_buf()?, &name).map_or(Ok(()), Err)?;
        take(input)
    };
    read().with_context(|| format!("trace {}", path.display()))
}
