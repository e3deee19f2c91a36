//! `trainmon profile --probe`: counts the calls of a running job from outside.

use std::time::Duration;

use serde_json::Value;

use crate::cli::ProfileArgs;
use crate::config::Settings;
use trainmon_attach::jobs::profile_taker::ProfileTaker;
use trainmon_attach::jobs::session::{Session, block_on};
use trainmon_base::errors::{ExitCode, Failure};
use trainmon_diagnosis::diagnosis::profiled::probed;
use trainmon_diagnosis::diagnosis::verdict::Context;
use trainmon_outputs::text;
use trainmon_profiles::asked::ProfileAsker;
use trainmon_profiling::probes::{self, ProbeError, ProbeTarget};
use trainmon_sources::Roots;

/// How long calls are counted unless the command says so.
const LENGTH: Duration = Duration::from_secs(3);
/// What only a trace has.
const OF_TRACES: [&str; 11] = [
    "devices",
    "loop",
    "launches",
    "kernels",
    "copies",
    "operators",
    "modules",
    "idle_at",
    "collectives",
    "step_lengths_ms",
    "steps",
];

/// Counts the calls of a process, and prints them with the verdict of the run.
pub(super) fn run(settings: &Settings, arguments: &ProfileArgs, pid: u32) -> anyhow::Result<ExitCode> {
    let roots = Roots { proc: settings.proc_root.clone(), sys: settings.sys_root.clone() };
    // Before trainmon looks at the job in any other way: py-spy traces it for moments.
    let target = ProbeTarget::find(&roots, pid).map_err(failure)?;
    let length = arguments.length.unwrap_or(LENGTH);
    let count = move |asker: &dyn ProfileAsker| {
        probes::count(&roots.proc, &target, length, &|| asker.wanted()).map_err(failure)
    };
    let session = Session::attach(super::attach_options(settings, pid, None))?;
    let (counts, live) = block_on(ProfileTaker::beside(session, count, |_| ()))?;
    let live = live.as_deref().map(|tick| &*tick.verdict);
    let context = Context { pid, ..Context::default() };
    let verdict = probed(&counts, live, &context);
    if arguments.json {
        let mut value = serde_json::to_value(&verdict)?;
        let profile = value.get_mut("profile").and_then(Value::as_object_mut);
        profile.into_iter().flatten().filter(|(key, _)| OF_TRACES.contains(&key.as_str())).for_each(|(_, value)| {
            *value = Value::Null;
        });
        return super::print_json(&value);
    }
    super::print(text::page(&verdict, super::diagnose::style(settings, arguments.full)))
}

fn failure(error: ProbeError) -> anyhow::Error {
    match error {
        ProbeError::Ended(_) => Failure::no_process(error.to_string()).into(),
        error => error.into(),
    }
}
