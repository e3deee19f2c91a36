//! The state of each source.

use std::borrow::Cow;

use ratatui::style::Style;

use super::hanging;
use crate::format;
use crate::widgets::{Scene, Text};
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::verdict::{Subject, Verdict};
use trainmon_sample::{SourceId, SourceState, SourceStatus};

/// Sources whose last value is old at the moment shown: their states in a word, with reason and age.
pub fn stale<'s>(verdict: &'s Verdict, scene: &Scene<'s>) -> Vec<(SourceId, Cow<'s, str>, String)> {
    let old = [SourceState::Stale, SourceState::Hung, SourceState::Gone];
    let found = scene.job.sources.all().into_iter().filter_map(|(source, status)| {
        if scene.job.is_live() {
            return old.contains(&status.state).then(|| (source, status.state.seen().into(), why(status)));
        }
        // Only the verdict of that moment knows the state at that time.
        let then = verdict.seen.get(&Subject::from_source(source)?)?;
        old.iter().any(|state| state.seen() == then).then(|| (source, sanitize(then), String::new()))
    });
    found.collect()
}

/// Reason and age.
fn why(status: &SourceStatus) -> String {
    let age = status.age_ms.map(|ms| format!("last value {} old", format::duration(ms as f64 / 1000.0)));
    let reason = status.reason.as_deref().map(|reason| sanitize(reason).into_owned());
    reason.into_iter().chain(age).collect::<Vec<_>>().join(", ")
}

/// Adds the table of sources, and the files in the verdict's `seen`.
pub fn add(page: &mut Text, verdict: &Verdict, scene: &Scene<'_>) {
    page.heading("Sources");
    if scene.job.is_live() {
        for (source, status) in scene.job.sources.all() {
            let why = if status.state == SourceState::Fresh { String::new() } else { why(status) };
            row(page, source.title(), status.state.seen(), &why, status.fix.as_deref());
        }
        // It is read with the processes: its state comes from the verdict.
        if let Some(state) = verdict.seen.get(&Subject::Connections) {
            let missing = scene.not_seen(Subject::Connections);
            let why = missing.map(|missing| sanitize(&missing.why)).unwrap_or_default();
            row(
                page,
                Subject::Connections.word(),
                &sanitize(state),
                &why,
                missing.and_then(|missing| missing.fix.as_deref()),
            );
        }
    }
    let seen = verdict.seen.iter().take(super::MOST_FINDINGS);
    let seen: Vec<String> = seen.map(|(source, state)| format!("{} {}", source.word(), sanitize(state))).collect();
    if !seen.is_empty() {
        page.wrapped("  read for the verdict: ", 24, &seen.join(", "), page.theme.dim());
    }
}

fn row(page: &mut Text, name: &str, state: &str, why: &str, fix: Option<&str>) {
    let fine = [SourceState::Fresh, SourceState::Pending].iter().any(|fine| fine.seen() == state);
    let style = if fine { Style::new() } else { page.theme.strong() };
    hanging(page, [(format!("  {name:<12}{state:<9}"), style)], 23, 20, why);
    if let Some(fix) = fix {
        page.wrapped("              → ", 16, fix, page.theme.strong());
    }
}
