//! The findings page: everything the verdict rests on, with thresholds, what else was found, and what was not seen.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::bound;
use crate::diagnosis::verdict::{Evidence, Hottest, Stages, Verdict};
use crate::text::{sanitise, wrap};
use crate::tui::app::App;
use crate::tui::format;
use crate::tui::theme::Theme;

/// All lines of the page.
pub fn lines(app: &App, width: u16) -> Vec<Line<'static>> {
    let Some(verdict) = app.verdict() else {
        return vec![Line::from("Nothing has been found yet: the first verdict takes a few seconds.")];
    };
    let mut page = PageOfText { lines: Vec::new(), width: usize::from(width), theme: app.theme() };
    page.advice(verdict);
    page.evidence(verdict);
    page.others(verdict);
    page.not_seen(verdict);
    page.numbers(verdict);
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
            self.text("", 2, "Nothing: no advice belongs to this verdict.", Style::new());
        }
        for (n, advice) in verdict.advice.iter().enumerate() {
            let title = format!("{}{}", sanitise(&advice.title), bound(advice));
            self.text(&format!("  {}. ", n + 1), 5, &title, self.theme.advice());
            self.text("", 5, &advice.why, Style::new());
        }
    }

    fn evidence(&mut self, verdict: &Verdict) {
        self.heading("Evidence");
        for e in &verdict.evidence {
            self.text("  •", 4, &evidence_line(e), Style::new());
        }
        if verdict.evidence.is_empty() {
            self.text("", 2, "No number speaks for a verdict yet.", Style::new());
        }
    }

    fn others(&mut self, verdict: &Verdict) {
        if verdict.other_findings.is_empty() {
            return;
        }
        self.heading("Also found");
        for f in &verdict.other_findings {
            let cause = f.cause.as_deref().map(|c| format!(": {}", sanitise(c))).unwrap_or_default();
            let text =
                format!("{}{cause} ({}) – {}", f.class.word(), format::share(Some(f.confidence)), sanitise(&f.text));
            self.text("  •", 4, &text, Style::new());
        }
    }

    fn not_seen(&mut self, verdict: &Verdict) {
        self.heading("Not seen, and what mends it");
        for n in &verdict.not_seen {
            self.text("  •", 4, &format!("{}: {}", sanitise(&n.what), sanitise(&n.why)), Style::new());
            if let Some(mend) = &n.mend {
                self.text("    → ", 6, mend, self.theme.advice());
            }
        }
        if verdict.not_seen.is_empty() {
            self.text("", 2, "Everything that is looked for could be seen.", Style::new());
        }
        let seen: Vec<String> =
            verdict.seen.iter().map(|(source, state)| format!("{} {}", sanitise(source), sanitise(state))).collect();
        if !seen.is_empty() {
            self.text("  sources: ", 11, &seen.join(", "), self.theme.dim());
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
        self.code(verdict);
        let s = &verdict.steps;
        let steps = format!(
            "{} a second, median {} ms, 95th percentile {} ms{}",
            format::number(s.per_s),
            format::number(s.p50_ms),
            format::number(s.p95_ms),
            s.stall_every.map(|n| format!(", a stall every {n} steps")).unwrap_or_default()
        );
        self.text("  steps:       ", 15, &steps, Style::new());
        let own = format!(
            "{} % of one core, {} MiB; watched for {}",
            format::number(verdict.own.cpu_pct),
            format::number(verdict.own.rss_mib),
            format::duration(verdict.observed_s)
        );
        self.text("  trainmon:    ", 15, &own, self.theme.dim());
    }
}

/// What stacks say, as lines: a label and a text.
impl PageOfText {
    fn code(&mut self, verdict: &Verdict) {
        let percent = |share: f64| format::share(Some(share));
        let place = |hottest: &Hottest| {
            let Hottest { function, file, line, share } = hottest;
            format!("{} {} ({}:{line})", percent(*share), sanitise(function), sanitise(file))
        };
        if let Some(main) = &verdict.main_thread {
            let mut activities: Vec<(&String, &f64)> = main.activities.iter().collect();
            activities.sort_by(|a, b| b.1.total_cmp(a.1));
            let words = activities.iter().filter(|(_, share)| **share >= 0.01);
            let words: Vec<String> = words
                .map(|(name, share)| format!("{} {}", sanitise(name).replace('_', " "), percent(**share)))
                .collect();
            self.text("  it does:     ", 15, &words.join(", "), Style::new());
            let list = |places: &[Hottest]| places.iter().map(place).collect::<Vec<_>>().join(", ");
            if !main.hottest.is_empty() {
                self.text("  hottest:     ", 15, &list(&main.hottest), Style::new());
            }
            if !main.sync_lines.is_empty() {
                self.text("  sync lines:  ", 15, &list(&main.sync_lines), Style::new());
            }
        }
        for worker in &verdict.workers {
            let Some(stages) = &worker.stages else { continue };
            let Stages { load, decode, transform, collate, hand_over } = *stages;
            let mut text = format!(
                "load {}, decode {}, transform {}, collate {}, hand over {}",
                percent(load),
                percent(decode),
                percent(transform),
                percent(collate),
                percent(hand_over)
            );
            if let Some(hottest) = &worker.hottest {
                text.push_str(&format!("; hottest {}", place(hottest)));
            }
            self.text(&format!("  {:<13}", worker.pid), 15, &text, Style::new());
        }
    }
}

/// A number that speaks for the verdict, with its threshold.
pub fn evidence_line(e: &Evidence) -> String {
    let text = format!("{}: {}", sanitise(&e.signal), value(e));
    if e.text.is_empty() { text } else { format!("{text} – {}", sanitise(&e.text)) }
}

/// A value against its threshold.
fn value(e: &Evidence) -> String {
    let shown = format::in_unit(e.value, &sanitise(&e.unit));
    match e.threshold {
        Some(t) => format!("{shown} (threshold {})", format::in_unit(Some(t), &sanitise(&e.unit))),
        None => shown,
    }
}
