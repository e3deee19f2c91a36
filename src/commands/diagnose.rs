//! `trainmon diagnose`: watch, or read a recording; print one verdict, exit.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::termios::tcgetwinsize;
use tokio::time::MissedTickBehavior;

use super::progress::{ProgressLine, is_dumb};
use crate::cli::DiagnoseArgs;
use crate::config::{DIAGNOSE_DURATION, Settings};
use trainmon_attach::jobs::session::{EndSignals, Session, block_on};
use trainmon_attach::runs;
use trainmon_attach::runs::traces;
use trainmon_base::errors::{self, ExitCode};
use trainmon_base::text::format::{SURE, duration, sureness};
use trainmon_base::text::sudo_command;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_diagnosis::diagnosis::verdict::{Class, Phase};
use trainmon_diagnosis::pipeline::Tick;
use trainmon_outputs::text;
use trainmon_sources::processes;

/// `--until-sure` stops once the verdict has been sure, and the same, for so long, nanoseconds.
const SETTLED_NS: u64 = 3_000_000_000;
/// The line that says how watching goes is written anew this often.
const RENEWED: Duration = Duration::from_secs(1);

/// Watches the target, or replays a recording of it, and prints the verdict.
pub fn run(settings: &Settings, arguments: &DiagnoseArgs) -> anyhow::Result<ExitCode> {
    let traces: Vec<&Path> = arguments.traces().map(PathBuf::as_path).collect();
    let verdict = match (&*traces, &arguments.replay) {
        ([], Some(path)) if traces::is_trace(path)? => traces::verdict(&[path])?,
        ([], Some(path)) => runs::verdict(path, settings.gpus.as_deref(), |_| true)?.0,
        ([], None) => live(settings, arguments)?,
        (traces, _) => traces::verdict(traces)?,
    };
    if arguments.json {
        super::print_json(&verdict)?;
    } else if arguments.short {
        super::print(text::short(&verdict, settings.ascii))?;
    } else {
        super::print(text::page(&verdict, style(settings, arguments.full)))?;
    }
    // The object says it in `not_seen`, and a recording is what it is.
    if !arguments.json && arguments.replay.is_none() && traces.is_empty() {
        hidden_part(settings, &verdict).iter().for_each(|note| errors::note(note));
    }
    let matched = arguments.fail_on.contains(&verdict.class);
    Ok(if matched { ExitCode::FAIL_ON } else { ExitCode::DONE })
}

/// How the report is laid out: for the terminal that standard output is, or for a pipe.
pub(super) fn style(settings: &Settings, full: bool) -> text::Style {
    let plain = text::Style { ascii: settings.ascii, full, ..text::Style::default() };
    if !std::io::stdout().is_terminal() || is_dumb() {
        return plain;
    }
    let columns = tcgetwinsize(rustix::stdio::stdout()).map_or(0, |size| usize::from(size.ws_col));
    // Terminals that do not know their size say 0.
    let width = if columns == 0 { plain.width } else { columns };
    text::Style { color: settings.color, width, ..plain }
}

fn live(settings: &Settings, arguments: &DiagnoseArgs) -> anyhow::Result<Arc<Verdict>> {
    let pid = super::pick::target(settings)?;
    let mut options = super::attach_options(settings, pid, None);
    if options.duration.is_none() && options.iterations.is_none() {
        options.duration = Some(DIAGNOSE_DURATION);
    }
    block_on(watch(Session::attach(options)?, arguments.until_sure, ProgressLine::new(settings.ascii)))
}

/// Watches until the time is over, the target ends, a signal comes or, where that is asked for, the verdict is sure. What was
/// learned until then is the verdict.
async fn watch(mut session: Session, until_sure: bool, mut line: ProgressLine) -> anyhow::Result<Arc<Verdict>> {
    let mut ending = EndSignals::listen()?;
    let mut clock = tokio::time::interval(RENEWED);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let pid = session.context().pid;
    let mut verdict = None;
    let mut sure_since = None;
    loop {
        tokio::select! {
            tick = session.next_before_end(&mut ending) => {
                let Some(tick) = tick else { break };
                verdict = Some(Arc::clone(&tick.verdict));
                if until_sure && is_settled(&mut sure_since, &tick) {
                    break;
                }
            }
            _ = clock.tick(), if line.is_shown() => {}
        }
        line.show(&progress(pid, session.remaining(), verdict.as_deref()));
    }
    line.clear();
    session.check_measured()?;
    if let (true, Some(verdict)) = (session.has_ended(), &verdict) {
        errors::note(&format!(
            "process {} ended {:.0} s after trainmon attached; the verdict covers that time",
            verdict.pid, verdict.observed_s
        ));
    }
    verdict.ok_or_else(|| anyhow::anyhow!("no verdict: stopped before the first sample"))
}

/// Whether the verdict has been sure, and the same, for long enough. `since` is when it became so, CLOCK_MONOTONIC nanoseconds.
/// A job that is still starting is watched on: what holds it back shows only when it trains.
fn is_settled(since: &mut Option<u64>, tick: &Tick) -> bool {
    let verdict = &tick.verdict;
    let starting = matches!(verdict.phase, Phase::Init | Phase::Compile);
    let sure = verdict.confidence >= SURE && verdict.class != Class::Unknown && !starting && !tick.moves;
    let now = tick.frame.monotonic_ns;
    *since = sure.then(|| since.unwrap_or(now).max(tick.since_ns));
    since.is_some_and(|since| now.saturating_sub(since) >= SETTLED_NS)
}

/// How watching goes: `watching PID 1234 · 12 s left · so far: data loader · too few workers, probably`.
pub(super) fn progress(pid: u32, remaining: Option<Duration>, verdict: Option<&Verdict>) -> String {
    let left = remaining.map(|left| format!(" · {} left", duration(left.as_secs_f64().round())));
    let so_far = verdict.filter(|verdict| verdict.class != Class::Unknown).map(|verdict| {
        let heading = verdict.heading();
        let class = verdict.class.title();
        // Short ones are abbreviations.
        let quiet = if class.len() > 3 { class.to_lowercase() } else { class.to_owned() };
        let sure = sureness(verdict.confidence).map(|sure| format!(", {sure}")).unwrap_or_default();
        format!("{quiet}{}{sure}", heading.strip_prefix(class).unwrap_or_default())
    });
    let so_far = so_far.map_or(" · no verdict yet".to_owned(), |said| format!(" · so far: {said}"));
    format!("watching PID {pid}{}{so_far}", left.unwrap_or_default())
}

/// The line for a job of another user, of which only a part can be read; `None` where all of it can be, and for whoever could
/// not see more with sudo, or has asked not to.
fn hidden_part(settings: &Settings, verdict: &Verdict) -> Option<String> {
    let us = rustix::process::geteuid();
    let denied = verdict.seen.values().any(|state| state == "denied");
    if us.is_root() || !settings.ptrace || !denied {
        return None;
    }
    let pid = verdict.pid;
    let owner = processes::owner(&settings.proc_root, pid).filter(|owner| *owner != us.as_raw())?;
    let name = processes::user_names(Path::new("/etc/passwd")).remove(&owner);
    let name = name.unwrap_or_else(|| format!("user {owner}"));
    Some(format!(
        "PID {pid} belongs to {name}: run `{}` to see everything",
        sudo_command(&format!("diagnose --pid {pid}"))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::diagnosis::causes::Cause;
    use trainmon_waits::Frame;

    fn tick(at_s: u64, confidence: f64, change: impl Fn(&mut Verdict)) -> Tick {
        let mut verdict = Verdict {
            phase: Phase::Training,
            class: Class::DataLoader,
            cause: Some(Cause::TooFewWorkers),
            confidence,
            ..Verdict::default()
        };
        change(&mut verdict);
        let frame = Frame { monotonic_ns: at_s * 1_000_000_000, ..Frame::default() };
        Tick { verdict: Arc::new(verdict), frame: Arc::new(frame), ..Tick::default() }
    }

    /// The second at which watching stops, of ten.
    fn settles(tick: impl Fn(u64) -> Tick) -> Option<u64> {
        let mut since = None;
        (1..=10).find(|&at| is_settled(&mut since, &tick(at)))
    }

    #[test]
    fn a_process_that_is_killed_before_anything_was_measured_is_told_as_ended() {
        // Whether anything was measured of it is a question of microseconds: both happen.
        for _ in 0..8 {
            let mut process = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
            let call = crate::config::Call { pid: Some(process.id()), ..Default::default() };
            let interval = Duration::from_millis(100);
            let settings = Settings { interval, stacks: false, call, ..Settings::default() };
            let session = Session::attach(super::super::attach_options(&settings, process.id(), None)).unwrap();
            process.kill().unwrap();
            process.wait().unwrap();
            match block_on(watch(session, false, ProgressLine::new(false))) {
                Ok(verdict) => assert!(verdict.observed_s > 0.0, "{}", verdict.summary),
                Err(error) => {
                    assert_eq!(errors::exit_of(&error), ExitCode::NO_PROCESS);
                    assert_eq!(errors::sentence(&error), format!("process {} has ended", process.id()));
                }
            }
        }
    }

    #[test]
    fn a_verdict_settles_once_it_was_sure_for_some_seconds() {
        assert_eq!(settles(|at| tick(at, 0.9, |_| ())), Some(4));
        // It becomes sure in the fourth second.
        assert_eq!(settles(|at| tick(at, if at < 4 { 0.7 } else { 0.9 }, |_| ())), Some(7));
        // Another cause since the third.
        let since = |at: u64| Tick { since_ns: 3_000_000_000.min(at * 1_000_000_000), ..tick(at, 0.9, |_| ()) };
        assert_eq!(settles(since), Some(6));
    }

    #[test]
    fn what_is_unsure_unknown_moving_or_starting_does_not_settle() {
        assert_eq!(settles(|at| tick(at, 0.79, |_| ())), None);
        assert_eq!(settles(|at| tick(at, 0.9, |verdict| verdict.class = Class::Unknown)), None);
        assert_eq!(settles(|at| tick(at, 0.9, |verdict| verdict.phase = Phase::Init)), None);
        assert_eq!(settles(|at| Tick { moves: true, ..tick(at, 0.9, |_| ()) }), None);
    }

    #[test]
    fn progress_says_what_is_known_so_far() {
        let of = |confidence, class| {
            let tick = tick(1, confidence, |verdict| verdict.class = class);
            progress(12, Some(Duration::from_millis(12_300)), Some(&tick.verdict))
        };
        let loader = of(0.6, Class::DataLoader);
        assert_eq!(loader, "watching PID 12 · 12 s left · so far: data loader · too few workers, probably");
        assert_eq!(of(0.0, Class::Unknown), "watching PID 12 · 12 s left · no verdict yet");
        assert_eq!(progress(12, None, None), "watching PID 12 · no verdict yet");
    }
}
