//! Evidence against the verdict, and other findings: a person can weigh what the diagnosis weighed.

use ratatui::style::Style;

use super::MOST_FINDINGS;
use super::sources;
use crate::format;
use crate::widgets::{Scene, Text};
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::causes::verdict_name;
use trainmon_diagnosis::diagnosis::counter_evidence::{counter_evidence, rests_on};
use trainmon_diagnosis::diagnosis::verdict::Verdict;

/// Adds the section.
pub fn add(page: &mut Text, verdict: &Verdict, scene: &Scene<'_>) {
    page.heading("Counter-evidence and other findings");
    let before = page.lines.len();
    for (e, side, means) in counter_evidence(verdict).take(MOST_FINDINGS) {
        let (value, threshold) = (format::in_unit(e.value, e.unit), format::in_unit(e.threshold, e.unit));
        let text = format!("{means} ({}: {value}, {} the limit of {threshold})", e.words(), side.word());
        page.wrapped("  against: ", 11, &text, Style::new());
    }
    for (source, state, why) in sources::stale(verdict, scene) {
        let why = if why.is_empty() { why } else { format!(" ({why})") };
        let rests = if rests_on(verdict, source) {
            "the verdict uses its last values"
        } else {
            "the verdict does not use it"
        };
        page.wrapped("  source:  ", 11, &format!("{} {state}{why}: {rests}", source.title()), page.theme.strong());
    }
    for f in verdict.other_findings.iter().take(MOST_FINDINGS) {
        let name = verdict_name(f.class, f.cause);
        let text = sanitize(&f.text);
        let text = if f.is_doubt() {
            text.trim_start_matches("Less certain: ").to_owned()
        } else {
            format!("{name} ({}) – {text}", format::share(Some(f.confidence)))
        };
        page.wrapped(if f.is_doubt() { "  doubt:   " } else { "  besides: " }, 11, &text, Style::new());
    }
    if page.lines.len() == before {
        page.wrapped("", 2, "No counter-evidence, no other findings.", Style::new());
    }
}
