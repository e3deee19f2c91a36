//! The verdict as Markdown, to paste into a ticket or a chat.
//!
//! Names, command lines and reasons come from outside: each goes onto one line, and what Markdown would read as markup is
//! escaped (CommonMark 2.4, and GitHub's tables, strikethrough and formulas). Commands are code spans.

use super::document::Document;
use trainmon_base::text::format::{Unit, in_unit, precise, whole_percent as percent};
use trainmon_base::text::{fit, sanitize};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_views::comparison::ComparisonPage;
use trainmon_views::profile_sections;
use trainmon_views::report::{
    Column, Point, Section, SectionBody, explain_command, headline, own_cost, phase_words, pid_words, sections,
};
use trainmon_views::run_report::RunReport;

/// Standard output gets it too, because it can be read there.
pub const DOCUMENT: Document = Document { endings: &["md", "markdown"], run, profile, comparison };

/// A command line is cut here; its beginning says which job it was.
const COMMAND: usize = 200;

/// `verdict` as a Markdown document.
pub fn markdown(verdict: &Verdict) -> String {
    let mut out = String::new();
    answer(&mut out, verdict);
    facts(&mut out, verdict);
    sections(verdict, &zone::local(), None).iter().for_each(|section| self::section(&mut out, section));
    end(&mut out, verdict);
    out
}

/// The verdict on a profile as a Markdown document with this title.
pub fn profile(verdict: &Verdict, title: Option<&str>) -> String {
    let title = title.map(|title| format!("# {}\n\n", inline(title)));
    title.unwrap_or_default() + &markdown(verdict)
}

/// A whole run as a Markdown document: what it is about first.
pub fn run(report: &RunReport<'_>) -> String {
    let mut out = String::new();
    let verdict = report.verdict().map(|(verdict, _)| verdict);
    report.title.iter().for_each(|title| line(&mut out, &format!("# {}\n", inline(title))));
    if let Some(verdict) = verdict {
        let summary = report.summary();
        line(&mut out, &format!("{}\n", inline(&summary.answer())));
        summary.lines().iter().for_each(|text| line(&mut out, &format!("{}\n", inline(text))));
        answer(&mut out, verdict);
    }
    let held = report.held().map(|held| format!("; the verdict {held}")).unwrap_or_default();
    line(&mut out, &format!("- Watched: {}{held}", inline(&report.when())));
    report.note.iter().for_each(|note| line(&mut out, &format!("- Note: {}", inline(note))));
    report.sections().iter().for_each(|section| self::section(&mut out, section));
    if let Some(verdict) = verdict {
        end(&mut out, verdict);
    }
    out
}

/// A comparison as a Markdown document.
pub fn comparison(comparison: &ComparisonPage) -> String {
    let mut out = String::new();
    line(&mut out, &format!("## {}\n", inline(&comparison.title)));
    line(&mut out, &inline(&comparison.answer));
    comparison.more.iter().for_each(|text| line(&mut out, &format!("\n{}", inline(text))));
    comparison.cautions.iter().for_each(|caution| line(&mut out, &format!("\n- Note: {}", inline(caution))));
    comparison.sections.iter().for_each(|section| self::section(&mut out, section));
    out
}

fn answer(out: &mut String, verdict: &Verdict) {
    line(out, &format!("## {}\n", inline(&headline(verdict))));
    if !verdict.summary.is_empty() {
        line(out, &format!("{}\n", inline(&verdict.summary)));
    }
}

fn end(out: &mut String, verdict: &Verdict) {
    if let Some(command) = explain_command(verdict) {
        line(out, &format!("\nMore: `{command}`"));
    }
    line(out, &format!("\n{}", inline(&own_cost(verdict))));
}

fn line(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

fn facts(out: &mut String, verdict: &Verdict) {
    let cause = verdict.cause.map(|cause| format!(", {cause}")).unwrap_or_default();
    line(out, &format!("- Class: {}{cause}", verdict.class.word()));
    line(out, &format!("- Confidence: {}%", percent(verdict.confidence)));
    if let Some(file) = verdict.profile.as_deref().and_then(profile_sections::from_file) {
        line(out, &format!("- Profile: {}", inline(&file)));
        return;
    }
    line(out, &format!("- Phase: {}", phase_words(verdict.phase)));
    let command = code(&fit(&verdict.command, COMMAND)).map(|command| format!(", {command}")).unwrap_or_default();
    line(out, &format!("- Job: {}{command}", pid_words(verdict.pid)));
    let since =
        if verdict.started.is_empty() { String::new() } else { format!(" from {}", inline(&verdict.started)) };
    let first =
        verdict.first_verdict_s.map(|s| format!(", first verdict after {} s", precise(s))).unwrap_or_default();
    line(out, &format!("- Watched: {} s{since}{first}", precise(verdict.observed_s)));
}

fn section(out: &mut String, section: &Section) {
    line(out, &format!("\n### {}\n", inline(&section.title)));
    match &section.body {
        SectionBody::Text(text) => line(out, &inline(text)),
        SectionBody::Shares(all) => {
            shares(out, "activity", all.iter().map(|(word, _, share)| (word.as_str(), *share)))
        }
        SectionBody::Parts(parts) => shares(out, "what", parts.iter().map(|(_, words, share)| (*words, *share))),
        SectionBody::Table(columns, rows) => table(out, columns, rows),
        SectionBody::Points(points) => points.iter().for_each(|item| point(out, "- ", item)),
        SectionBody::Steps(points) => {
            points.iter().zip(1..).for_each(|(item, number)| point(out, &format!("{number}. "), item));
        }
        // Each line begins with a number, so none of them can end the block of code.
        SectionBody::Tree(lines) => {
            line(out, "```text");
            lines.iter().for_each(|(lead, text)| line(out, &format!("{lead}{text}")));
            line(out, "```");
        }
    }
    section.below(usize::MAX).for_each(|note| line(out, &format!("\n{}", inline(&note))));
}

fn shares<'w>(out: &mut String, what: &'static str, shares: impl Iterator<Item = (&'w str, f64)>) {
    let rows = shares.map(|(words, share)| vec![in_unit(Some(share), Unit::Share), words.to_owned()]);
    table(out, &[Column::right("share"), Column::left(what)], &rows.collect::<Vec<_>>());
}

fn table(out: &mut String, columns: &[Column], rows: &[Vec<String>]) {
    let row = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    line(out, &row(columns.iter().map(|column| capitalized(column.name)).collect()));
    line(out, &row(columns.iter().map(|column| if column.right { "---:" } else { ":---" }.to_owned()).collect()));
    rows.iter().for_each(|cells| line(out, &row(cells.iter().map(|cell| inline(cell)).collect())));
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().collect::<String>() + letters.as_str()).unwrap_or_default()
}

fn point(out: &mut String, lead: &str, Point { name, text, reason, fix }: &Point) {
    let name = if name.is_empty() { String::new() } else { format!("**{}**", inline(name)) };
    let colon = if name.is_empty() || text.is_empty() { "" } else { ": " };
    let fix = fix.as_deref().and_then(code).map(|fix| format!(". Fix: {fix}")).unwrap_or_default();
    line(out, &format!("{lead}{name}{colon}{}{fix}", inline(text)));
    if !reason.is_empty() {
        // As far in as the item's text, so that it belongs to the item.
        line(out, &format!("\n{}{}", " ".repeat(lead.len()), inline(reason)));
    }
}

/// Foreign text on one line and without markup.
fn inline(text: &str) -> String {
    let text = sanitize(text.trim());
    let mut out = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut chars = text.trim().chars().peekable();
    // Only digits so far, as at the start of a numbered item.
    let mut number = true;
    while let Some(c) = chars.next() {
        let after = chars.peek().copied().unwrap_or(' ');
        let markup = match c {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '#' | '$' => true,
            // Inside a word, as in num_workers, it is no markup.
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
    let text = sanitize(text.trim());
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
