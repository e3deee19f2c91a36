//! `trainmon diagnose`: watch, print one verdict, exit.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use crate::cli::DiagnoseArgs;
use crate::config::{DIAGNOSE_DURATION, Settings};
use crate::diagnosis::Verdict;
use crate::errors::Exit;
use crate::history::History;
use crate::outputs::{json, text};

use super::session::{Ending, Session, block_on};

/// Watches the target and prints its verdict.
///
/// # Errors
/// One line.
pub fn run(settings: &Settings, arguments: &DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let pid = super::pick::target(settings)?;
    let mut settings = settings.clone();
    if settings.duration.is_none() && settings.iterations.is_none() {
        settings.duration = Some(DIAGNOSE_DURATION);
    }
    let session = Session::attach(&settings, pid, None)?;
    let verdict = block_on(watch(session))?;
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

/// Watches until the time is over, the target ends or a signal comes; what was learned until then is the verdict.
async fn watch(mut session: Session) -> anyhow::Result<Verdict> {
    let mut ending = Ending::listen()?;
    let mut history = History::default();
    let mut verdict: Option<Verdict> = None;
    loop {
        let remaining = session.remaining();
        let time_over = async {
            match remaining {
                // A tick that is due at the very end shall still be taken.
                Some(remaining) => tokio::time::sleep(remaining + std::time::Duration::from_millis(150)).await,
                None => std::future::pending().await,
            }
        };
        let tick = tokio::select! {
            biased;
            () = ending.signalled() => break,
            tick = session.next() => tick,
            () = time_over => break,
        };
        let alive = tick.alive();
        let first = tick.frame.seconds <= 0.0;
        if !alive && verdict.is_some() {
            // The run's own verdict says more than that it has ended.
            break;
        }
        history.push(tick.frame);
        let judged = session.judge(&history, &tick.sample);
        verdict = Some(judged);
        if !alive || (!first && session.is_over()) {
            break;
        }
    }
    verdict.ok_or_else(|| anyhow::anyhow!("nothing was seen: stopped before the first sample"))
}
