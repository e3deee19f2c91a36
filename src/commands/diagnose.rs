//! `trainmon diagnose`: watch, or read a recording; print one verdict, exit.

use std::convert::Infallible;
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use crate::cli::DiagnoseArgs;
use crate::config::{DIAGNOSE_DURATION, Settings};
use crate::diagnosis::Verdict;
use crate::errors::{self, ExitCode};
use crate::jobs::session::{EndSignals, Session, block_on};
use crate::outputs::text;
use crate::pipeline::Pipeline;
use crate::sources::recording::Recording;

/// Watches the target, or replays a recording of it, and prints the verdict.
pub fn run(settings: &Settings, arguments: &DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let verdict = match &arguments.replay {
        Some(path) => replay(settings, path)?,
        None => live(settings)?,
    };
    if arguments.json {
        super::print_json(&verdict)?;
    } else {
        let color = settings.color && std::io::stdout().is_terminal();
        super::print(text::page(&verdict, text::Style { ascii: settings.ascii, color }))?;
    }
    let matched = arguments.fail_on.contains(&verdict.class);
    Ok(if matched { ExitCode::FAIL_ON } else { ExitCode::DONE })
}

/// The verdict of a recording. What is missing at its end is told on standard error.
fn replay(settings: &Settings, path: &Path) -> anyhow::Result<Arc<Verdict>> {
    let which = || format!("recording {}", path.display());
    let mut recording = Recording::open(path).with_context(which)?;
    let pipeline = Pipeline::of_recording(&recording.header, settings.gpus.as_deref());
    let mut damage = None;
    let whole = recording.by_ref().map_while(|sample| sample.map_err(|error| damage = Some(error)).ok());
    let Ok(verdict) = pipeline.last_verdict(whole.map(Ok::<_, Infallible>));
    // One line, whether there is a verdict or not.
    match (verdict, recording.ended_early(damage.as_ref())) {
        (Some(verdict), Some(why)) => {
            errors::note(&format!("{}: {why}", which()));
            Ok(verdict)
        }
        (Some(verdict), None) => Ok(verdict),
        (None, Some(why)) => anyhow::bail!("{}: {why}", which()),
        (None, None) => anyhow::bail!("{}: no samples in it: it was stopped before the first", which()),
    }
}

fn live(settings: &Settings) -> anyhow::Result<Arc<Verdict>> {
    let pid = super::pick::target(settings)?;
    let mut options = super::attach_options(settings, pid, None);
    if options.duration.is_none() && options.iterations.is_none() {
        options.duration = Some(DIAGNOSE_DURATION);
    }
    block_on(watch(Session::attach(options)?))
}

/// Watches until the time is over, the target ends or a signal comes; what was learned until then is the verdict.
async fn watch(mut session: Session) -> anyhow::Result<Arc<Verdict>> {
    let mut ending = EndSignals::listen()?;
    let mut verdict = None;
    while let Some(tick) = session.next_before_end(&mut ending).await {
        verdict = Some(Arc::clone(&tick.verdict));
    }
    if let (true, Some(verdict)) = (session.has_ended(), &verdict) {
        errors::note(&format!(
            "process {} ended {:.0} s after trainmon was attached: the verdict is of that time",
            verdict.pid, verdict.observed_s
        ));
    }
    verdict.ok_or_else(|| anyhow::anyhow!("nothing was seen: stopped before the first sample"))
}
