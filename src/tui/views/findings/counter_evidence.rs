//! What speaks against the verdict, and what else was found, for a person to weigh as the diagnosis has.

use ratatui::style::Style;

use super::sources::{self, Trouble};
use super::{MOST, PageOfText};
use crate::diagnosis::counter_evidence::{counter_evidence, rests_on};
use crate::diagnosis::verdict::Verdict;
use crate::text::sanitise;
use crate::tui::app::App;
use crate::tui::format;

/// Adds the section.
pub fn add(page: &mut PageOfText, verdict: &Verdict, app: &App) {
    page.heading("What speaks against it, and what else was found");
    let before = page.lines.len();
    for (e, side, means) in counter_evidence(verdict).take(MOST) {
        let unit = sanitise(&e.unit);
        let (value, threshold) = (format::in_unit(e.value, &unit), format::in_unit(e.threshold, &unit));
        let text = format!("{} {value} is {} {threshold}: {means}", e.signal, side.word());
        page.text("  against: ", 11, &text, Style::new());
    }
    for Trouble { name, state, why } in sources::stale(verdict, app) {
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let rests = if rests_on(verdict, name) {
            "the verdict rests on its old values"
        } else {
            "the verdict does without it"
        };
        page.text("  source:  ", 11, &format!("{name} {state}{why}: {rests}"), page.theme.strong());
    }
    for f in verdict.other_findings.iter().take(MOST) {
        let cause = f.cause.map(|c| format!(": {c}")).unwrap_or_default();
        let text =
            format!("{}{cause} ({}) – {}", f.class.word(), format::share(Some(f.confidence)), sanitise(&f.text));
        page.text("  besides: ", 11, &text, Style::new());
    }
    if page.lines.len() == before {
        page.text("", 2, "Nothing that was measured.", Style::new());
    }
}
