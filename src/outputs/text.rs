//! The verdict for a person: what holds the job back, why, and what to do first, within 80 columns.
//!
//! Long because it is one page, its parts in the order in which they are read.

use std::fmt::Display;

use unicode_width::UnicodeWidthStr;

use super::chain::{self, ROWS};
use super::ranks;
use crate::diagnosis::verdict::{
    ChainNode, Class, Evidence, Finding, GpuIdle, Hottest, Phase, Rank, Stages, StepSource, Steps, Unavailable,
    WorkerVerdict,
};
use crate::diagnosis::{Verdict, causes};
use crate::text::format::{largest_first, precise, precise_in_unit, sureness, whole_percent as percent};
use crate::text::{sanitise, wrap_hanging};

/// Widest line.
pub const WIDTH: usize = 80;
/// Up to so many workers are listed one by one; more are summed up.
const WORKERS_LISTED: usize = 8;
/// Columns for the value of a piece of evidence; a longer one stands before the text.
const VALUE: usize = 12;
/// Columns of a full bar.
const BAR: usize = 30;

/// How to draw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// ASCII characters only.
    pub ascii: bool,
    /// ANSI colours, for a terminal.
    pub color: bool,
}

/// The verdict on a page.
pub fn page(verdict: &Verdict, style: Style) -> String {
    let mut page = TextPage { lines: Vec::new(), style };
    page.head(verdict);
    page.time(verdict);
    page.ranks(&verdict.ranks);
    page.chain(&verdict.chain);
    page.main_thread(verdict);
    page.workers(&verdict.workers);
    page.stages(&verdict.workers);
    page.evidence(&verdict.evidence);
    page.advice(verdict);
    page.findings(&verdict.other_findings);
    page.unavailable(&verdict.not_seen);
    page.own(verdict);
    page.lines.join("\n") + "\n"
}

/// `DATA LOADER · too few workers (93% sure)`.
pub fn headline(verdict: &Verdict) -> String {
    let sure = sureness(verdict.confidence).filter(|_| verdict.class != Class::Unknown);
    verdict.heading() + &sure.map(|sure| format!(" ({sure})")).unwrap_or_default()
}

/// What the job is doing, in a few words.
pub(super) fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Unknown => "not training as far as can be seen",
        Phase::Training => "training",
        Phase::Checkpoint => "saving state",
        state => causes::spec_of(Class::Idle, None, state).map_or(state.word(), |spec| spec.headline),
    }
}

/// The command that says more about the verdict's cause.
pub(super) fn explain_command(verdict: &Verdict) -> Option<String> {
    verdict.cause.map(|cause| format!("trainmon explain {}/{cause}", verdict.class.word()))
}

struct TextPage {
    lines: Vec<String>,
    style: Style,
}

impl TextPage {
    fn blank(&mut self) {
        self.lines.push(String::new());
    }

    /// A section's title.
    fn title(&mut self, title: &str) {
        self.blank();
        self.lines.push(self.bold(title));
    }

    /// A list under its title, where there is anything in it.
    fn section<T>(&mut self, title: &str, items: &[T], each: impl Fn(&mut Self, &T)) {
        if !items.is_empty() {
            self.title(title);
            items.iter().for_each(|item| each(self, item));
        }
    }

    /// A paragraph of external or own text.
    fn text(&mut self, begin: &str, text: &str) {
        let text = self.plain(text);
        self.lines.extend(wrap_hanging(begin, &text, WIDTH));
    }

    /// Text made safe, and, where asked for, ASCII.
    fn plain(&self, text: &str) -> String {
        let text = sanitise(text);
        if !self.style.ascii {
            return text.into_owned();
        }
        text.chars()
            .map(|c| match c {
                c if c.is_ascii() => c.to_string(),
                '×' => "x".to_owned(),
                '–' | '—' | '−' => "-".to_owned(),
                '≤' => "<=".to_owned(),
                '≥' => ">=".to_owned(),
                '→' => "->".to_owned(),
                '←' => "<-".to_owned(),
                '…' => "...".to_owned(),
                '·' => ";".to_owned(),
                '│' | '├' | '└' => "|".to_owned(),
                _ => "?".to_owned(),
            })
            .collect()
    }

    fn bold(&self, text: &str) -> String {
        if self.style.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn head(&mut self, verdict: &Verdict) {
        let headline = self.plain(&headline(verdict));
        for line in wrap_hanging("", &headline, WIDTH) {
            let line = self.bold(&line);
            self.lines.push(line);
        }
        if !verdict.summary.is_empty() {
            self.text("", &verdict.summary);
        }
        let culprits: Vec<String> = verdict.culprits.iter().map(ToString::to_string).collect();
        if !culprits.is_empty() {
            self.text("To blame: ", &culprits.join("; "));
        }
        self.blank();
        let mut facts = format!("watched for {:.0} s", finite(verdict.observed_s));
        if let Some(seconds) = verdict.first_verdict_s {
            facts += &format!(", first verdict after {:.1} s", finite(seconds));
        }
        let mut command: String = verdict.command.chars().take(160).collect();
        if !command.is_empty() {
            command = format!(" ({command})");
        }
        self.text("", &format!("PID {}{command}, {facts}", verdict.pid));
        if verdict.phase != Phase::Training && verdict.class != Class::Idle {
            self.text("", &format!("Phase: {}", phase_words(verdict.phase)));
        }
    }

    /// Where the main thread's time went, what the device waited for, and the steps.
    fn time(&mut self, verdict: &Verdict) {
        if let Some(shares) = &verdict.shares {
            self.title("Where the main thread's time goes");
            shares.iter().for_each(|(activity, share)| self.bar(activity.word(), share));
        }
        if let Some(idle) = &verdict.gpu_idle {
            let GpuIdle { total, while_input_wait, while_host_busy, while_sync, while_other } = *idle;
            self.title(&format!("The device is idle for {}% of the time", percent(total)));
            for (name, share) in [
                ("waiting for a batch", while_input_wait),
                ("waiting for the host", while_host_busy),
                ("during a sync", while_sync),
                ("anything else", while_other),
            ] {
                self.bar(name, share);
            }
        }
        self.steps(&verdict.steps);
    }

    fn bar(&mut self, name: &str, share: f64) {
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        let full = (share * BAR as f64).round() as usize;
        let (on, off) = if self.style.ascii { ("#", ".") } else { ("█", "░") };
        let bar = on.repeat(full) + &off.repeat(BAR - full.min(BAR));
        self.lines.push(format!("  {name:<22}{:>4}% {bar}", percent(share)));
    }

    fn steps(&mut self, steps: &Steps) {
        let mut facts = Vec::new();
        facts.extend(steps.per_s.map(|rate| format!("{} per second", precise(rate))));
        let by_variable = steps.source.as_ref().filter(|source| matches!(source, StepSource::Variable(_)));
        facts.extend(by_variable.map(|variable| format!("counted by {}", variable.as_str())));
        if let Some(median) = steps.p50_ms {
            let slow = steps.p95_ms.map(|p95| format!(" (95% within {} ms)", precise(p95))).unwrap_or_default();
            facts.push(format!("median {} ms{slow}", precise(median)));
        }
        if let Some(every) = steps.stall_every.filter(|&every| every > 1) {
            facts.push(format!("a stall every {every} steps"));
        }
        if !facts.is_empty() {
            self.blank();
            self.text("Steps: ", &facts.join(", "));
        }
    }

    /// Where each rank stands.
    fn ranks(&mut self, ranks: &[Rank]) {
        let lines = ranks::lines(ranks);
        self.section("Ranks: where the time of each goes", &lines, |page, line| {
            page.text(&format!("  {}: ", line.name), &line.text);
        });
        if ranks.len() > lines.len() {
            self.text("  ", &format!("and {} more", ranks.len() - lines.len()));
        }
    }

    /// Who waits for whom, as a tree.
    fn chain(&mut self, nodes: &[ChainNode]) {
        let rows = chain::rows(nodes);
        let shown = rows.get(..ROWS).unwrap_or(&rows);
        self.section("Chain: whom the loop waits for, and that one in turn", shown, |page, row| {
            let lead = page.plain(&format!("  {:>3}%  {}", percent(row.node.share), row.branch));
            page.text(&lead, &row.text);
        });
        if rows.len() > ROWS {
            self.text("         ", &format!("and {} more", rows.len() - ROWS));
        }
    }

    /// What the stacks say of the main thread: activities beyond waiting, its hottest functions, the lines that wait for
    /// the device.
    fn main_thread(&mut self, verdict: &Verdict) {
        let Some(main) = &verdict.main_thread else { return };
        let activities = main.activities.iter().map(|(name, share)| (name.replace('_', " "), *share));
        let activities = largest_first(activities, 0.01);
        if !activities.is_empty() {
            self.title(&format!("What the main thread does ({} stack samples)", main.samples));
            self.text("  ", &activities);
        }
        self.functions("Hottest of its functions", &main.hottest);
        self.functions("Lines that wait for the device", &main.sync_lines);
    }

    fn functions(&mut self, title: &str, functions: &[Hottest]) {
        self.section(title, functions, |page, place| {
            page.text(&format!("  {:>4}% ", percent(place.share)), &place.to_string());
        });
    }

    /// The workers' stages and the function that takes most of their time.
    fn stages(&mut self, workers: &[WorkerVerdict]) {
        let known: Vec<(&WorkerVerdict, &Stages)> =
            workers.iter().filter_map(|worker| Some((worker, worker.stages.as_ref()?))).collect();
        if known.is_empty() {
            return;
        }
        self.blank();
        self.row("PID", ["load", "decode", "transform", "collate", "hand over"]);
        for (worker, stages) in known.iter().take(WORKERS_LISTED) {
            let Stages { load, decode, transform, collate, hand_over } = **stages;
            let shares = [load, decode, transform, collate, hand_over];
            self.row(&worker.pid.to_string(), shares.map(|share| format!("{}%", percent(share))));
        }
        let mut hottest: Vec<&Hottest> = known.iter().filter_map(|(worker, _)| worker.hottest.as_ref()).collect();
        hottest.sort_by(|a, b| (&a.file, &a.function).cmp(&(&b.file, &b.function)).then(b.share.total_cmp(&a.share)));
        hottest.dedup_by(|a, b| a.function == b.function && a.file == b.file);
        hottest.sort_by(|a, b| b.share.total_cmp(&a.share));
        let hottest: Vec<Hottest> = hottest.into_iter().take(3).cloned().collect();
        self.functions("Hottest of the workers' functions", &hottest);
    }

    fn workers(&mut self, workers: &[WorkerVerdict]) {
        if workers.is_empty() {
            return;
        }
        self.title(&match workers.len() {
            1 => "The worker's time".to_owned(),
            count => format!("The {count} workers' time"),
        });
        self.row("", ["busy", "waits for", "queues for", "idle", "batches"]);
        self.row("PID", ["", "data", "a CPU", "", "per second"]);
        if workers.len() <= WORKERS_LISTED {
            for worker in workers {
                self.worker(&worker.pid.to_string(), |value| value(worker));
            }
            return;
        }
        for (name, halves) in [("lowest", 0), ("median", 1), ("highest", 2)] {
            self.worker(name, |value| {
                let known = workers.iter().filter_map(value).filter(|value| value.is_finite());
                let mut sorted: Vec<f64> = known.collect();
                sorted.sort_by(f64::total_cmp);
                let place = sorted.len() * halves / 2;
                sorted.get(place.min(sorted.len().saturating_sub(1))).copied()
            });
        }
    }

    /// The row of a worker, or of several, from which `of` takes one of the values.
    fn worker(&mut self, name: &str, of: impl Fn(fn(&WorkerVerdict) -> Option<f64>) -> Option<f64>) {
        let words = |value: Option<f64>, words: fn(f64) -> String| {
            value.filter(|value| value.is_finite()).map_or("-".to_owned(), words)
        };
        let share = |value| words(of(value), |share| format!("{}%", percent(share)));
        let batches = words(of(|worker| worker.batches_per_s), precise);
        self.row(name, [share(|w| w.busy), share(|w| w.io_wait), share(|w| w.runnable), share(|w| w.idle), batches]);
    }

    /// A row of the workers' tables.
    fn row<T: Display>(&mut self, name: &str, [a, b, c, d, e]: [T; 5]) {
        self.lines.push(format!("  {name:<12}{a:>8}{b:>12}{c:>12}{d:>8}{e:>12}"));
    }

    fn evidence(&mut self, evidence: &[Evidence]) {
        self.section("Evidence", evidence, |page, item| {
            let in_unit = |value| precise_in_unit(value, item.unit);
            let held = item.threshold.map(|value| format!(" (threshold {})", in_unit(Some(value))));
            let text = format!("{}{}", item.text, held.unwrap_or_default());
            let value = page.plain(&in_unit(item.value));
            if value.width() <= VALUE {
                page.text(&format!("  {value:>VALUE$}  "), &text);
            } else {
                page.text("  ", &format!("{value}  {text}"));
            }
        });
    }

    fn advice(&mut self, verdict: &Verdict) {
        if verdict.advice.is_empty() {
            return;
        }
        self.title("What to do");
        for (number, advice) in verdict.advice.iter().enumerate() {
            let worth = advice.worth().map(|worth| format!(": {worth}")).unwrap_or_default();
            self.text(&format!("  {}. ", number + 1), &format!("{}{worth}", advice.title));
            if !advice.why.is_empty() {
                self.text("     ", &advice.why);
            }
        }
        if let Some(ceiling) = verdict.ceiling {
            self.text("  ", &ceiling.words());
        }
        if let Some(command) = explain_command(verdict) {
            self.text("  ", &format!("How this is told, and its limits: {command}"));
        }
    }

    fn findings(&mut self, findings: &[Finding]) {
        self.section("Also found", findings, |page, finding| {
            let class = finding.class.word().to_uppercase();
            let cause =
                finding.cause.map(|cause| format!(", {}", cause.spec_in(finding.class).headline)).unwrap_or_default();
            let of = format!("{class}{cause} ({}% sure): ", percent(finding.confidence));
            page.text("  - ", &format!("{}{}", if finding.is_doubt() { "" } else { &of }, finding.text));
        });
    }

    fn unavailable(&mut self, items: &[Unavailable]) {
        self.section("Not seen", items, |page, Unavailable { what, why, fix }| {
            page.text("  - ", &format!("{what}: {why}"));
            if let Some(fix) = fix {
                page.text("    to mend: ", fix);
            }
        });
    }

    fn own(&mut self, verdict: &Verdict) {
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let cpu = finite(verdict.own.cpu_pct).map(|cpu| format!("{cpu:.1}% of a core"));
        let rss = finite(verdict.own.rss_mib).map(|rss| format!("{rss:.0} MiB"));
        let facts: Vec<String> = cpu.into_iter().chain(rss).collect();
        if !facts.is_empty() {
            self.blank();
            self.text("", &format!("trainmon {} itself took {}.", verdict.trainmon, facts.join(" and ")));
        }
    }
}

fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
