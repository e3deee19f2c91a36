//! Traces of torch.profiler in place of a running job.

use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use crate::diagnosis::verdict::Context;
use crate::diagnosis::{Verdict, profiled};
use crate::profiles::account::ProfileAccount;
use crate::profiles::{self, ProfileError};
use crate::sources::unpacked;

/// The verdict on a trace.
pub(super) fn verdict(path: &Path) -> anyhow::Result<Arc<Verdict>> {
    let mut account = read(path).with_context(|| format!("trace {}", path.display()))?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let context = Context { command: file.clone().unwrap_or_default(), ..Context::default() };
    account.file = file;
    Ok(Arc::new(profiled::verdict(account, &context)))
}

fn read(path: &Path) -> Result<ProfileAccount, ProfileError> {
    let mut input = unpacked::open(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if let Some(error) = profiles::other_format(input.fill_buf()?, &name) {
        return Err(error);
    }
    profiles::read(input)
}
