//! The findings page: what to do, everything the verdict rests on with thresholds, what speaks against it, what was not
//! seen and what mends that, and the numbers of the run.

mod code;
mod counter_evidence;
mod sources;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{bound, cells};
use crate::diagnosis::Side;
use crate::diagnosis::verdict::{Class, Evidence, Rank, Verdict};
use crate::text::{fit, sanitise, wrap};
use crate::tui::app::App;
use crate::tui::format;
use crate::tui::theme::Theme;

/// Most entries of any list: no verdict has more, but for one that nobody wrote in earnest.
const MOST: usize = 64;

/// All lines of the page.
pub fn lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let Some(verdict) = app.verdict() else {
        return vec![Line::from("Nothing has been found yet: the first verdict takes a few seconds.")];
    };
    let mut page = PageOfText { lines: Vec::new(), width: usize::from(width), theme: app.theme() };
    page.advice(verdict);
    page.evidence(verdict);
    counter_evidence::add(&mut page, verdict, app);
    page.not_seen(verdict);
    page.ranks(verdict);
    page.numbers(verdict);
    code::add(&mut page, verdict);
    sources::add(&mut page, verdict, app);
    page.lines
}

struct PageOfText {
    lines: Vec<Line<'static>>,
    width: usize,
    theme: Theme,
}

impl PageOfText {
    fn heading(&mut self, text: &str) {
        if !self.lines.is_empty() {
            self.lines.push(Line::default());
        }
        self.lines.push(Line::from(Span::styled(text.to_owned(), self.theme.strong())));
    }

    /// Text wrapped behind `indent` blanks, its first row led by `lead`.
    fn text(&mut self, lead: &str, indent: usize, text: &str, style: Style) {
        let mut lead = format!("{lead:<indent$}");
        let mut rows = wrap(text, self.width.saturating_sub(indent).max(20));
        if rows.is_empty() {
            rows.push(String::new());
        }
        for row in rows {
            self.lines.push(Line::from(Span::styled(format!("{lead}{row}"), style)));
            lead = " ".repeat(indent);
        }
    }

    fn advice(&mut self, verdict: &Verdict) {
        self.heading("What to do");
        if verdict.advice.is_empty() {
            let text = match verdict.class {
                Class::Unknown => "Too little is seen to advise anything: what mends that stands below.",
                _ => "Nothing: no advice belongs to this verdict.",
            };
            self.text("", 2, text, Style::new());
        }
        for (n, advice) in verdict.advice.iter().take(MOST).enumerate() {
            let title = format!("{}{}", sanitise(&advice.title), bound(advice));
            self.text(&format!("  {}. ", n + 1), 5, &title, self.theme.advice());
            self.text("", 5, &advice.why, Style::new());
        }
    }

    /// A table: signal, value, threshold, on which side of it the value lies, what it means.
    fn evidence(&mut self, verdict: &Verdict) {
        self.heading("Evidence");
        if verdict.evidence.is_empty() {
            self.text("", 2, "No number speaks for a verdict yet.", Style::new());
            return;
        }
        let wide = self.width >= 100;
        let (signal_cells, value_cells) = if wide { (20, 14) } else { (17, 11) };
        let lead = format!("  {:<signal_cells$}{:>value_cells$}{:>value_cells$}  ", "SIGNAL", "VALUE", "THRESHOLD");
        let heading = format!("{:<1$}", format!("{lead}{:<7}MEANS", "SIDE"), self.width);
        self.lines.push(Line::from(Span::styled(heading, self.theme.heading())));
        for e in verdict.evidence.iter().take(MOST) {
            let unit = sanitise(&e.unit);
            let right = |text: String| {
                let text = fit(&text, value_cells - 1);
                format!("{}{text}", " ".repeat(value_cells.saturating_sub(usize::from(cells(&text)))))
            };
            let signal = fit(&e.signal, signal_cells - 1);
            let pad = signal_cells.saturating_sub(usize::from(cells(&signal)));
            let value = right(format::in_unit(e.value, &unit));
            let threshold = right(e.threshold.map_or_else(String::new, |t| format::in_unit(Some(t), &unit)));
            let start = format!("  {signal}{:pad$}{value}", "");
            let mark = e.side().map_or("", Side::word);
            let behind = format!("  {mark:<7}");
            let indent = usize::from(cells(&start) + cells(&threshold) + cells(&behind));
            let rows = wrap(&e.text, self.width.saturating_sub(indent).max(16));
            let mut rows = rows.into_iter();
            let strong = if mark == Side::Over.word() { self.theme.strong() } else { Style::new() };
            self.lines.push(Line::from(vec![
                Span::raw(start),
                Span::styled(threshold, self.theme.dim()),
                Span::styled(behind, strong),
                Span::raw(rows.next().unwrap_or_default()),
            ]));
            self.lines.extend(rows.map(|row| Line::from(format!("{:indent$}{row}", ""))));
        }
    }

    fn not_seen(&mut self, verdict: &Verdict) {
        self.heading("Not seen, and what mends it");
        for n in verdict.not_seen.iter().take(MOST) {
            self.text("  •", 4, &format!("{}: {}", sanitise(&n.what), sanitise(&n.why)), Style::new());
            if let Some(mend) = &n.mend {
                self.text("    → ", 6, mend, self.theme.advice());
            }
        }
        if verdict.not_seen.is_empty() {
            self.text("", 2, "Everything that is looked for could be seen.", Style::new());
        }
    }

    /// A table of the ranks, where there are several.
    fn ranks(&mut self, verdict: &Verdict) {
        if verdict.ranks.is_empty() {
            return;
        }
        self.heading("Ranks: where their main threads' time goes");
        let columns = ["WAIT", "GPU WAIT", "HOST", "SAVING", "OTHER", "COLLECT."];
        let mut heading = format!("  {:>4} {:>8}", "RANK", "PID");
        columns.iter().for_each(|column| heading.push_str(&format!("{column:>10}")));
        self.lines.push(Line::from(Span::styled(format!("{heading:<0$}", self.width), self.theme.heading())));
        for (place, rank) in verdict.ranks.iter().take(MOST).enumerate() {
            let Rank { pid, shares: s, collectives, straggler } = rank;
            let mut line = format!("  {place:>4} {pid:>8}");
            let known = s.values().map(Some);
            for share in known.into_iter().chain([*collectives]) {
                line.push_str(&format!("{:>9}", format::share(share)));
            }
            let late = if *straggler { "  late" } else { "" };
            self.lines.push(Line::from(vec![Span::raw(line), Span::styled(late, self.theme.advice())]));
        }
        if let Some(place) = verdict.ranks.iter().position(|rank| rank.straggler) {
            self.text("", 2, &format!("late: the others wait for rank {place} in collectives."), self.theme.dim());
        }
    }

    fn numbers(&mut self, verdict: &Verdict) {
        self.heading("Numbers");
        let percent = |v: f64| format::share(Some(v));
        if let Some(s) = &verdict.shares {
            let text = format!(
                "waits for a batch {}, for the GPU {}, works {}, saves {}, other {}",
                percent(s.input_wait),
                percent(s.device_sync),
                percent(s.host_busy),
                percent(s.checkpoint),
                percent(s.other)
            );
            self.text("  main thread: ", 15, &text, Style::new());
        }
        if let Some(g) = &verdict.gpu_idle {
            let text = format!(
                "{}: while it waits for a batch {}, works {}, syncs {}, other {}",
                percent(g.total),
                percent(g.while_input_wait),
                percent(g.while_host_busy),
                percent(g.while_sync),
                percent(g.while_other)
            );
            self.text("  GPU idle:    ", 15, &text, Style::new());
        }
        let s = &verdict.steps;
        let count = s.count.map(|n| format!(", {n} seen")).unwrap_or_default();
        let source =
            s.source.as_deref().map(|source| format!(", counted by {}", sanitise(source))).unwrap_or_default();
        let steps = format!(
            "{} a second, median {} ms, 95th percentile {} ms{count}{source}",
            format::number(s.per_s),
            format::number(s.p50_ms),
            format::number(s.p95_ms),
        );
        self.text("  steps:       ", 15, &steps, Style::new());
        if let Some(every) = s.stall_every {
            self.text("  stalls:      ", 15, &format!("one every {every} steps"), Style::new());
        }
        let own = format!(
            "{} % of one core, {} MiB; watched for {}",
            format::number(verdict.own.cpu_pct),
            format::number(verdict.own.rss_mib),
            format::duration(verdict.observed_s)
        );
        self.text("  trainmon:    ", 15, &own, self.theme.dim());
    }
}

/// A number that speaks for the verdict, with its threshold, on one line.
pub fn evidence_line(e: &Evidence) -> String {
    let unit = sanitise(&e.unit);
    let shown = format::in_unit(e.value, &unit);
    let threshold =
        e.threshold.map(|t| format!(" (threshold {})", format::in_unit(Some(t), &unit))).unwrap_or_default();
    let label = e.label();
    let text = format!("{}: {shown}{threshold}", sanitise(&label));
    if e.text.is_empty() || e.text == label { text } else { format!("{text} – {}", sanitise(&e.text)) }
}
