//! Traces of torch.profiler in place of a running job.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;

use crate::diagnosis::verdict::Context;
use crate::diagnosis::{Verdict, profiled};
use crate::profiles::account::ProfileAccount;
use crate::profiles::ranks::{self, RANKS_MAX};
use crate::profiles::{self, ProfileError};
use crate::sources::unpacked;

/// The verdict on a trace, or on the traces of a run's ranks.
pub(super) fn verdict(paths: &[&PathBuf]) -> anyhow::Result<Arc<Verdict>> {
    let account = match paths {
        [path] => {
            read(path, profiles::read).map(|account| ProfileAccount { file: Some(name_of(path)), ..account })?
        }
        paths => {
            let ranks = paths
                .iter()
                .take(RANKS_MAX + 1)
                .map(|path| Ok((path.display().to_string(), read(path, profiles::read_rank)?)));
            ranks::side_by_side(ranks.collect::<anyhow::Result<_>>()?)?
        }
    };
    let context = Context { command: account.file.clone().unwrap_or_default(), ..Context::default() };
    Ok(Arc::new(profiled::verdict(account, &context)))
}

fn read<T>(path: &Path, take: impl FnOnce(Box<dyn BufRead>) -> Result<T, ProfileError>) -> anyhow::Result<T> {
    unpacked::open(path)
        .map_err(ProfileError::from)
        .and_then(take)
        .with_context(|| format!("trace {}", path.display()))
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
