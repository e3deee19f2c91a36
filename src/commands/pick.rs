//! Which process to attach to when no PID is given: the list of those that may be training, best first.
//!
//! The list and the choice are pure; only [`target`] looks at the machine and asks the person. The live screen asks with
//! a screen of its own ([`super::pick_screen`]).

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use unicode_width::UnicodeWidthStr;

use crate::config::Settings;
use trainmon_attach::jobs::JobCandidate;
use trainmon_attach::jobs::candidates::scan::Scan;
use trainmon_base::errors::{Failure, note};
use trainmon_base::streams::tell;
use trainmon_base::text::format::duration;
use trainmon_base::text::{fit, sanitize};
use trainmon_tui::jobs::facts;

/// How long the list waits for a driver: one that hangs must not keep it from being shown.
const GPU_WAIT: Duration = Duration::from_secs(2);

/// Columns of the line that names the only candidate.
const LONGEST_ANSWER: usize = 200;

/// The list for a person, numbered from 1, each line at most `width` columns wide.
pub fn lines(list: &[JobCandidate], width: usize) -> Vec<String> {
    let digits = list.iter().map(|candidate| candidate.pid.to_string().len()).max().unwrap_or(1);
    list.iter()
        .enumerate()
        .map(|(position, candidate)| cut(&format!("{:>3}) {}", position + 1, described(candidate, digits)), width))
        .collect()
}

/// A candidate's PID in so many digits, what is known of it, and its command line.
fn described(candidate: &JobCandidate, digits: usize) -> String {
    let mut facts = facts(candidate);
    facts.extend(candidate.age_s.map(|age_s| format!("for {}", duration(age_s as f64))));
    format!("{:>digits$}  {}  {}", candidate.pid, facts.join(", "), sanitize(&candidate.command))
}

/// The text cut to so many columns, in ASCII: what the terminal can show is not known yet.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    fit(text, width.saturating_sub(2)).trim_end_matches('…').to_owned() + "..."
}

/// Reads an answer: nothing for the first, a number of the list, a PID of the list; none for q.
///
/// # Errors
/// The line with which to ask again.
pub fn answer(list: &[JobCandidate], text: &str) -> Result<Option<u32>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(list.first().map(|candidate| candidate.pid));
    }
    if text.eq_ignore_ascii_case("q") {
        return Ok(None);
    }
    let number = text.parse::<usize>().ok();
    let by_place = number.and_then(|number| list.get(number.checked_sub(1)?));
    let by_pid = || list.iter().find(|candidate| Some(candidate.pid as usize) == number);
    let again = || format!("type a number from 1 to {}, Enter for the first, or q to quit", list.len());
    by_place.or_else(by_pid).map(|candidate| Some(candidate.pid)).ok_or_else(again)
}

/// The PID that needs no question: the one given, or the only candidate, which is named on standard error.
///
/// # Errors
/// The candidates, where there is not exactly one.
pub fn certain(settings: &Settings) -> Result<u32, Vec<JobCandidate>> {
    if let Some(pid) = settings.call.pid {
        return Ok(pid);
    }
    let list = Scan::new(super::sources(settings, None), GPU_WAIT).candidates();
    let [only] = list.as_slice() else { return Err(list) };
    note(&format!("watching the only training process found: {}", cut(&described(only, 0), LONGEST_ANSWER)));
    Ok(only.pid)
}

/// The PID to attach to: the one given, the only candidate, or the one chosen at the terminal.
///
/// # Errors
/// No training process found (3), or several and no terminal to ask on (2).
pub fn target(settings: &Settings) -> anyhow::Result<u32> {
    choose(settings, true)
}

/// [`target`], which asks only where it `may_ask`.
pub(super) fn choose(settings: &Settings, may_ask: bool) -> anyhow::Result<u32> {
    let list = match certain(settings) {
        Ok(pid) => return Ok(pid),
        Err(list) => list,
    };
    match list.as_slice() {
        [] => {
            Err(Failure::no_process("no training process found: give its PID (trainmon PID), or try trainmon demo")
                .into())
        }
        _ if may_ask && std::io::stdin().is_terminal() && std::io::stdout().is_terminal() => ask(&list),
        _ => {
            lines(&list, 120).iter().for_each(|line| tell(line));
            Err(Failure::usage("several processes may be training: give the PID of one (trainmon diagnose PID)")
                .into())
        }
    }
}

/// A person has left the question, or the screen that asks it, without an answer.
pub fn nothing_chosen() -> Failure {
    Failure::usage("no process chosen: give its PID (trainmon PID)")
}

fn ask(list: &[JobCandidate]) -> anyhow::Result<u32> {
    let width = crossterm::terminal::size().map_or(80, |(columns, _)| usize::from(columns));
    let mut out = std::io::stdout().lock();
    writeln!(out, "These processes may be training:")?;
    for line in lines(list, width.max(20)) {
        writeln!(out, "{line}")?;
    }
    loop {
        write!(out, "Watch which one? [1] ")?;
        out.flush()?;
        let mut text = String::new();
        if std::io::stdin().lock().read_line(&mut text)? == 0 {
            return Err(nothing_chosen().into());
        }
        match answer(list, &text) {
            Ok(pid) => return pid.ok_or_else(|| nothing_chosen().into()),
            Err(again) => writeln!(out, "{again}")?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let list = [10, 71, 20].map(|pid| JobCandidate { pid, ..JobCandidate::default() });
        assert_eq!(answer(&list, "\n"), Ok(Some(10)));
        assert_eq!(answer(&list, " 2\n"), Ok(Some(71)));
        assert_eq!(answer(&list, "10"), Ok(Some(10)));
        assert_eq!(answer(&list, "q"), Ok(None));
        for bad in ["0", "4", "-1", "x", "99999999999999999999999"] {
            assert!(answer(&list, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lines_fit_and_are_safe() {
        let hostile = JobCandidate {
            pid: 5,
            command: "python \u{1b}[2J\nx 日本語日本語".repeat(9),
            gpu_memory_bytes: Some(3 << 29),
            workers: 1,
            library: Some("libtorch_cpu.so".to_owned()),
            age_s: Some(90_000),
            ..JobCandidate::default()
        };
        assert!(described(&hostile, 0).starts_with("5  GPU 1.5 GiB, 1 worker"));
        let lines = lines(&[hostile], 60);
        assert!(lines[0].starts_with("  1) 5  GPU 1.5 GiB, 1 worker, torch, for 1d01h  python"), "{lines:?}");
        assert!(lines[0].width() <= 60 && !lines[0].contains(['\u{1b}', '\n']));
    }
}
