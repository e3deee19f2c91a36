//! `trainmon diagnose`: watch, or read a recording; print one verdict, exit.

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

use crate::cli::DiagnoseArgs;
use crate::config::{DIAGNOSE_DURATION, Settings};
use crate::diagnosis::Verdict;
use crate::errors::Exit;
use crate::outputs::{json, text};
use crate::sources::recording::Recording;

use super::fold::{self, Standing};
use super::session::{Ending, Session, block_on};

/// Watches the target, or replays a recording of it, and prints the verdict.
///
/// # Errors
/// One line.
pub fn run(settings: &Settings, arguments: &DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let verdict = match &arguments.replay {
        Some(path) => replay(settings, path)?,
        None => live(settings)?,
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        json::pretty(&mut out, &verdict)?;
    } else {
        let color = settings.color && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let style = text::Style { ascii: settings.ascii, color: color && out.is_terminal() };
        text::write(&mut out, &verdict, style)?;
    }
    out.flush()?;
    let matched = arguments.fail_on.contains(&verdict.class);
    Ok(if matched { Exit::FailOn } else { Exit::Done }.into())
}

/// The verdict of a recording. What is missing at its end is told on standard error.
fn replay(settings: &Settings, path: &Path) -> anyhow::Result<Verdict> {
    let which = || format!("recording {}", path.display());
    let mut recording = Recording::open(path).with_context(which)?;
    let verdict = fold::replay(&mut recording, settings.gpus.as_deref()).with_context(which)?;
    if let Some(note) = recording.note() {
        eprintln!("trainmon: {}: {note}", crate::text::sanitise(&which()));
    }
    verdict.ok_or_else(|| anyhow::anyhow!("{}: no samples in it: it was stopped before the first", which()))
}

fn live(settings: &Settings) -> anyhow::Result<Verdict> {
    let pid = super::pick::target(settings)?;
    let mut settings = settings.clone();
    if settings.call.duration.is_none() && settings.call.iterations.is_none() {
        settings.call.duration = Some(DIAGNOSE_DURATION);
    }
    let session = Session::attach(&settings, pid, None)?;
    block_on(watch(session))
}

/// Watches until the time is over, the target ends or a signal comes; what was learned until then is the verdict.
async fn watch(mut session: Session) -> anyhow::Result<Verdict> {
    let mut ending = Ending::listen()?;
    let mut standing = Standing::default();
    while let Some(tick) = session.next_before_end(&mut ending).await {
        let first = tick.frame.seconds <= 0.0;
        let alive = session.take(&mut standing, tick);
        if !alive || (!first && session.is_over()) {
            break;
        }
    }
    standing.verdict().ok_or_else(|| anyhow::anyhow!("nothing was seen: stopped before the first sample"))
}
