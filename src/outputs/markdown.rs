//! The verdict as Markdown, to be pasted into a ticket or a chat.
//!
//! Names, command lines and reasons come from outside: they are taken onto one line, and what Markdown would read as
//! markup is escaped (CommonMark 2.4, and GitHub's tables, strike-through and formulas). Commands stand in code spans.

use super::chain::{ROWS, rows};
use super::text::{explain_command, headline, phase_words};
use crate::diagnosis::Verdict;
use crate::diagnosis::verdict::{ChainNode, Evidence, Finding, Rank, Steps, Unavailable};
use crate::rates::time_split::TimeSplit;
use crate::text::format::{precise, precise_in_unit, whole_percent as percent};
use crate::text::{fit, sanitise};

/// A command line is cut here; the beginning tells which job it was.
const COMMAND: usize = 200;

/// `verdict` as a Markdown document.
pub fn markdown(verdict: &Verdict) -> String {
    let mut out = format!("## {}\n\n", inline(&headline(verdict)));
    if !verdict.summary.is_empty() {
        line(&mut out, &format!("{}\n", inline(&verdict.summary)));
    }
    facts(&mut out, verdict);
    let culprits = verdict.culprits.iter();
    let culprits = culprits.map(|culprit| format!("- {}: {}", culprit.kind.word(), inline(&culprit.to_string())));
    section(&mut out, "To blame", "", culprits);
    advice(&mut out, verdict);
    let above = "| Value | Threshold | What |\n| ---: | ---: | :--- |\n";
    section(&mut out, "Evidence", above, verdict.evidence.iter().map(evidence));
    shares(&mut out, verdict);
    ranks(&mut out, &verdict.ranks);
    chain(&mut out, &verdict.chain);
    section(&mut out, "Steps", "", steps(&verdict.steps));
    section(&mut out, "Also found", "", verdict.other_findings.iter().map(finding));
    section(&mut out, "Not seen", "", verdict.not_seen.iter().map(unavailable));
    line(&mut out, &format!("\ntrainmon {}, PID {}", inline(&verdict.trainmon), verdict.pid));
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A section with what stands above its lines; left out where there are none.
fn section(out: &mut String, title: &str, above: &str, lines: impl IntoIterator<Item = String>) {
    let mut lines = lines.into_iter().peekable();
    if lines.peek().is_some() {
        out.extend(["\n### ", title, "\n\n", above]);
        lines.for_each(|text| line(out, &text));
    }
}

fn facts(out: &mut String, verdict: &Verdict) {
    let cause = verdict.cause.map(|cause| format!(", {cause}")).unwrap_or_default();
    line(out, &format!("- Class: {}{cause}", verdict.class.word()));
    line(out, &format!("- Confidence: {}%", percent(verdict.confidence)));
    line(out, &format!("- Phase: {}", phase_words(verdict.phase)));
    let command = code(&fit(&verdict.command, COMMAND)).map(|command| format!(", {command}")).unwrap_or_default();
    line(out, &format!("- Job: PID {}{command}", verdict.pid));
    let since =
        if verdict.started.is_empty() { String::new() } else { format!(" from {}", inline(&verdict.started)) };
    let first =
        verdict.first_verdict_s.map(|s| format!(", first verdict after {} s", precise(s))).unwrap_or_default();
    line(out, &format!("- Watched: {} s{since}{first}", precise(verdict.observed_s)));
}

fn advice(out: &mut String, verdict: &Verdict) {
    let advice = verdict.advice.iter().zip(1..).map(|(advice, number)| {
        let lead = format!("{number}. ");
        // As far in as the item's text, so that it belongs to the item.
        let indent = " ".repeat(lead.len());
        let why = if advice.why.is_empty() { String::new() } else { format!("\n\n{indent}{}", inline(&advice.why)) };
        let worth = advice.worth().map(|worth| format!(": {worth}")).unwrap_or_default();
        format!("{lead}**{}**{worth}{why}", inline(&advice.title))
    });
    section(out, "What to do", "", advice);
    if verdict.advice.is_empty() {
        return;
    }
    if let Some(ceiling) = verdict.ceiling {
        line(out, &format!("\n{}", ceiling.words()));
    }
    if let Some(command) = explain_command(verdict) {
        line(out, &format!("\nHow this is told, and its limits: `{command}`"));
    }
}

fn evidence(item: &Evidence) -> String {
    let shown = |value: Option<f64>| inline(&precise_in_unit(value, item.unit));
    format!("| {} | {} | {} |", shown(item.value), shown(item.threshold), inline(&item.text))
}

fn shares(out: &mut String, verdict: &Verdict) {
    let rows = verdict.shares.iter().flat_map(TimeSplit::iter).map(|(activity, share)| {
        let share = if share.is_finite() { format!("{}%", percent(share)) } else { "–".to_owned() };
        format!("| {share} | {} |", activity.word())
    });
    section(out, "Where the main thread's time goes", "| Share | Doing |\n| ---: | :--- |\n", rows);
    if let Some(idle) = verdict.gpu_idle.filter(|idle| idle.total.is_finite()) {
        line(out, &format!("\nThe device is idle for {}% of the time.", percent(idle.total)));
    }
}

fn ranks(out: &mut String, ranks: &[Rank]) {
    let lines = super::ranks::lines(ranks);
    let rows = lines.iter().map(|rank| format!("| {} | {} |", inline(&rank.name), inline(&rank.text)));
    section(out, "Ranks", "| Rank | Where its time goes |\n| :--- | :--- |\n", rows);
    if ranks.len() > lines.len() {
        line(out, &format!("\nand {} more", ranks.len() - lines.len()));
    }
}

/// The tree of waits as it stands: each line begins with a number, so none of them can end the block of code.
fn chain(out: &mut String, nodes: &[ChainNode]) {
    let rows = rows(nodes);
    let end = rows.first().map(|_| "```".to_owned());
    let rows = rows.iter().take(ROWS);
    let rows = rows.map(|row| format!("{:>3}%  {}{}", percent(row.node.share), row.branch, row.text));
    section(out, "Chain", "Whom the loop waits for, and that one in turn:\n\n```text\n", rows.chain(end));
}

fn steps(steps: &Steps) -> Option<String> {
    let finite = |value: Option<f64>| value.filter(|v| v.is_finite()).map(precise);
    let known = [
        steps.count.map(|count| format!("{count} seen")),
        finite(steps.per_s).map(|rate| format!("{rate} per second")),
        finite(steps.p50_ms).map(|ms| format!("median {ms} ms")),
        finite(steps.p95_ms).map(|ms| format!("95% within {ms} ms")),
        steps.stall_every.filter(|&every| every > 1).map(|every| format!("a stall every {every} steps")),
        steps.source.as_ref().map(|source| format!("counted by {}", inline(source.as_str()))),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

fn finding(finding: &Finding) -> String {
    let Finding { class, cause, confidence, text } = finding;
    if finding.is_doubt() {
        return format!("- {}", inline(text));
    }
    let cause = cause.map(|cause| format!(", {cause}")).unwrap_or_default();
    format!("- **{}{cause}** ({}% sure): {}", class.word(), percent(*confidence), inline(text))
}

fn unavailable(Unavailable { what, why, fix }: &Unavailable) -> String {
    let fix = fix.as_deref().and_then(code).map(|fix| format!(". To mend: {fix}")).unwrap_or_default();
    format!("- **{}**: {}{fix}", inline(&what.to_string()), inline(why))
}

/// Foreign text on one line and without markup.
fn inline(text: &str) -> String {
    let text = sanitise(text.trim());
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut chars = text.trim().chars().peekable();
    // Only digits so far, as at the start of a numbered item.
    let mut number = true;
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        let markup = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '#' | '$' => true,
            // Inside a word, as in num_workers, it is none.
            '_' => !(before.is_alphanumeric() && after.is_alphanumeric()),
            // At the start of a line: an item, a rule, an underline of a heading.
            '-' | '+' | '=' => out.is_empty(),
            '.' | ')' => number && !out.is_empty() && after == ' ',
            _ => false,
        };
        if markup {
            out.push('\\');
        }
        number &= c.is_ascii_digit();
        out.push(c);
        before = c;
    }
    out
}

/// Foreign text as a code span: nothing in it is markup, and its fence is longer than any run of backticks in it. `None`
/// where there is no text.
fn code(text: &str) -> Option<String> {
    let text = sanitise(text.trim());
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    Some(format!("{fence}{blank}{text}{blank}{fence}"))
}

#[cfg(test)]
#[path = "markdown_tests.rs"]
mod tests;
