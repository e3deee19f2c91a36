//! The findings page: advice, all evidence for the verdict with thresholds, counter-evidence, what was not available
//! and how to fix that, and the numbers of the run.

mod code;
mod counter_evidence;
mod sources;

use jiff::tz::TimeZone;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::Content;
use crate::format;
use crate::widgets::table::{self, Column};
use crate::widgets::{Drawn, Piece, Scene, Text, cells, count, scrolled};
use trainmon_base::text::{fit, sanitize, wrap};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Side;
use trainmon_diagnosis::diagnosis::loop_parts::LEAST_LISTED;
use trainmon_diagnosis::diagnosis::verdict::{Class, Evidence, Rank, Verdict};
use trainmon_views::labels::{advice_line, taken};

/// Maximum entries of any list: no real verdict has more, but a hand-made one may.
const MOST_FINDINGS: usize = 64;

/// It keeps no state.
#[derive(Debug, Clone, Copy, Default)]
pub struct Findings;

impl Content for Findings {
    fn draw(&self, buf: &mut Buffer, area: Rect, scene: &Scene<'_>, top: usize, drawn: &mut Drawn) {
        let mut text = Text::new(area.width, scene.theme);
        match scene.verdict() {
            None => text.line("No verdict yet: the first one takes a few seconds.", Style::new()),
            Some(verdict) => {
                advice(&mut text, verdict);
                plan(&mut text, verdict);
                evidence(&mut text, verdict, scene.zone);
                counter_evidence::add(&mut text, verdict, scene);
                not_seen(&mut text, verdict);
                ranks(&mut text, verdict);
                numbers(&mut text, verdict);
                code::add(&mut text, verdict);
                sources::add(&mut text, verdict, scene);
            }
        }
        scrolled(buf, area, top, drawn, |page| page.lines(&text.lines));
    }
}

fn advice(text: &mut Text, verdict: &Verdict) {
    text.heading("What to do");
    if verdict.advice.is_empty() {
        let none = match verdict.class {
            _ if verdict.is_pending() => "Still measuring: the first verdict takes a few seconds.",
            Class::Idle => "See where the loop waits: press 7 (stacks).",
            Class::Unknown => "Too little is visible to give advice. How to fix that is listed below.",
            _ => "Nothing: this verdict needs no action.",
        };
        text.wrapped("", 2, none, Style::new());
    }
    for (n, advice) in verdict.advice.iter().take(MOST_FINDINGS).enumerate() {
        let title = advice_line(&format!("  {}. ", n + 1), advice, usize::MAX);
        let style = if n == 0 { text.theme.strong() } else { Style::new() };
        text.wrapped("", 5, &title, style);
        text.wrapped("", 5, &advice.why, Style::new());
    }
    if !verdict.advice.is_empty()
        && let Some(ceiling) = verdict.ceiling
    {
        text.wrapped("  ", 2, &ceiling.words(), Style::new());
    }
}

/// What to do one after the other, if more than one thing limits the loop.
fn plan(text: &mut Text, verdict: &Verdict) {
    if verdict.plan.is_empty() {
        return;
    }
    text.heading("Plan: one after the other");
    let unit = verdict.steps.unit;
    for (n, step) in verdict.plan.iter().enumerate() {
        let line = format!("  {}. {}: {}", n + 1, sanitize(&step.title), step.left(unit));
        text.wrapped("", 5, &line, Style::new());
    }
}

/// A table: what was measured, its value, the limit that it was compared with, and on which side of that it lies. What counts for the
/// verdict comes first.
fn evidence(text: &mut Text, verdict: &Verdict, zone: &TimeZone) {
    text.heading("Evidence");
    if let (Some(taken_ms), Some(age_s)) = (verdict.profile_unix_ms, verdict.profile_age_s) {
        let text_of = format!("Profile of {}, {}.", zone::clock(taken_ms, zone), taken(age_s));
        text.wrapped("  ", 2, &text_of, Style::new());
    }
    if verdict.evidence.is_empty() {
        text.wrapped("", 2, "No evidence yet.", Style::new());
        return;
    }
    let words = |line: &Evidence| sentence(&line.words());
    let shown: Vec<&Evidence> = verdict.evidence.iter().take(MOST_FINDINGS).collect();
    let longest = shown.iter().map(|line| cells(&words(line))).max().unwrap_or(0);
    let values = 2 * VALUE_CELLS.unsigned_abs() + SIDE_CELLS.unsigned_abs() + 2;
    let room = (longest + 2).min(count(text.width).saturating_sub(values)).max(LEAST_WORDS);
    let columns: [Column; 4] =
        [("  measured", -(room as i16) - 2), ("value", VALUE_CELLS), ("limit", VALUE_CELLS), ("", SIDE_CELLS)];
    text.table_heading(&table::headings(&columns));
    for line in shown {
        let value = |value: Option<f64>| format::in_unit(value, line.unit);
        let limit = line.threshold.map_or_else(String::new, |_| value(line.threshold));
        let side = line.side().map_or("", Side::word);
        let what = format!("  {}", fit(&words(line), usize::from(room)));
        let row = table::row(&columns, [what, value(line.value), limit, format!("  {side}")]);
        let style = if line.side() == Some(Side::Over) { text.theme.strong() } else { Style::new() };
        text.spans([(row, style)]);
    }
}

/// Width of a value, and of the side of the limit on which it lies.
const VALUE_CELLS: i16 = 12;
const SIDE_CELLS: i16 = -9;
/// Fewest cells of what was measured.
const LEAST_WORDS: u16 = 24;

/// Adds text that is wrapped after a start of several styles, at least so many cells wide.
fn hanging<const N: usize>(page: &mut Text, start: [Piece; N], indent: usize, least: usize, text: &str) {
    let mut rows = wrap(text, page.width.saturating_sub(indent).max(least)).into_iter();
    page.spans(start);
    if let (Some(line), Some(first)) = (page.lines.last_mut(), rows.next()) {
        line.push_span(first);
    }
    page.lines.extend(rows.map(|row| Line::from(format!("{:indent$}{row}", ""))));
}

/// Words with a capital at their beginning.
fn sentence(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

fn not_seen(text: &mut Text, verdict: &Verdict) {
    text.heading("Not available, and how to fix it");
    for n in verdict.not_seen.iter().take(MOST_FINDINGS) {
        text.wrapped("  •", 4, &format!("{}: {}", n.what.title(), sanitize(&n.why)), Style::new());
        if let Some(fix) = &n.fix {
            text.wrapped("    → ", 6, fix, text.theme.strong());
        }
    }
    if verdict.not_seen.is_empty() {
        text.wrapped("", 2, "Everything could be read.", Style::new());
    }
}

/// A table of the ranks, if there are several.
fn ranks(text: &mut Text, verdict: &Verdict) {
    if verdict.ranks.is_empty() {
        return;
    }
    let shares = ["WAIT", "GPU WAIT", "HOST", "SAVING", "OTHER", "COLLECT."].map(|heading| (heading, 9));
    let columns: Vec<Column> = [("RANK", 6), ("PID", 9)].into_iter().chain(shares).collect();
    text.heading("Ranks: where their loops' time goes");
    text.table_heading(&table::headings(&columns));
    for (place, rank) in verdict.ranks.iter().take(MOST_FINDINGS).enumerate() {
        let Rank { pid, shares, collectives, straggler, at, .. } = rank;
        let shares = shares.values().map(Some).into_iter().chain([*collectives]).map(format::share);
        let line = table::row(&columns, [rank.number(place).to_string(), pid.to_string()].into_iter().chain(shares));
        let late = if *straggler { "  late" } else { "" };
        let at = at.as_ref().map(|at| format!("  {}", sanitize(&at.to_string()))).unwrap_or_default();
        let (advice, dim) = (text.theme.strong(), text.theme.dim());
        text.spans([(line, Style::new()), (late.to_owned(), advice), (at, dim)]);
    }
    if let Some((place, rank)) = verdict.ranks.iter().enumerate().find(|(_, rank)| rank.straggler) {
        let number = rank.number(place);
        text.wrapped(
            "",
            2,
            &format!("late: the other ranks wait for rank {number} in collectives."),
            text.theme.dim(),
        );
    }
}

fn numbers(text: &mut Text, verdict: &Verdict) {
    text.heading("Numbers");
    let mut add = |name: &str, value: &str| text.wrapped(&format!("  {name}:"), 17, value, Style::new());
    let parts = verdict.loop_parts().into_iter();
    let parts: Vec<_> =
        parts.map(|(part, share)| format!("{} {}", part.verb(), format::share(Some(share)))).collect();
    if !parts.is_empty() {
        add("training loop", &parts.join(", "));
    }
    if let Some(idle) = &verdict.gpu_idle {
        let parts = [
            ("while the loop waits for data", idle.while_input_wait),
            ("while it works", idle.while_host_busy),
            ("while it waits for the GPU", idle.while_sync),
            ("for another reason", idle.while_other),
        ];
        let parts = parts.into_iter().filter(|(_, share)| *share >= LEAST_LISTED);
        let parts: Vec<_> = parts.map(|(when, share)| format!("{} {when}", format::share(Some(share)))).collect();
        add("GPU idle", &format!("{} of the time: {}", format::share(Some(idle.total)), parts.join(", ")));
    }
    let s = &verdict.steps;
    let count = s.count.map(|n| format!(", {n} counted")).unwrap_or_default();
    let how = if s.count.is_some() { s.source.as_ref() } else { None };
    let how = how.map(|source| sanitize(&source.how()).into_owned());
    let steps = format!(
        "{} per second, median {} ms, 95th percentile {} ms{count}{}",
        format::number(s.per_s),
        format::number(s.p50_ms),
        format::number(s.p95_ms),
        how.unwrap_or_default()
    );
    add("steps", &steps);
    if let Some(every) = s.stall_every {
        add("stalls", &format!("one every {every} steps"));
    }
    let own = format!(
        "{}% of one CPU, {} MiB; watched for {}",
        format::number(verdict.own.cpu_pct),
        format::number(verdict.own.rss_mib),
        format::duration(verdict.observed_s)
    );
    text.wrapped("  trainmon:", 17, &own, text.theme.dim());
}
