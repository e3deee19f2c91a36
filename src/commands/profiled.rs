//! Traces of torch.profiler in place of a running job.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;

use crate::diagnosis::verdict::Context;
use crate::diagnosis::{Verdict, profiled};
use crate::profiles;
use crate::sources::unpacked;

/// The verdict on a trace.
pub(super) fn verdict(path: &Path) -> anyhow::Result<Arc<Verdict>> {
    let mut account = unpacked::open(path)
        .map_err(profiles::ProfileError::from)
        .and_then(profiles::read)
        .with_context(|| format!("trace {}", path.display()))?;
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let context = Context { command: file.clone().unwrap_or_default(), ..Context::default() };
    account.file = file;
    Ok(Arc::new(profiled::verdict(account, &context)))
}
