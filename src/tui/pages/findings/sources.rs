//! How each source stands.

use std::borrow::Cow;

use ratatui::style::Style;

use super::hanging;
use crate::diagnosis::verdict::Verdict;
use crate::sample::{SourceState, SourceStatus};
use crate::text::sanitise;
use crate::tui::format;
use crate::tui::widgets::scene::Scene;
use crate::tui::widgets::text::Text;

/// Names of the sources, with what the verdict's `seen` calls them.
fn all<'s>(scene: &Scene<'s>) -> [(&'static str, &'static str, &'s SourceStatus); 5] {
    let s = scene.sources();
    [
        ("processes", "", &s.job),
        ("host", "", &s.host),
        ("disks", "disks", &s.storage),
        ("GPU", "nvml", &s.gpu),
        ("stacks", "stacks", &s.stacks),
    ]
}

/// Sources whose last value is old, at the moment shown: names, states in a word, and why and since when.
pub fn stale<'s>(verdict: &'s Verdict, scene: &Scene<'s>) -> Vec<(&'static str, Cow<'s, str>, String)> {
    let old = [SourceState::Stale, SourceState::Hung, SourceState::Gone];
    let found = all(scene).into_iter().filter_map(|(name, seen, status)| {
        if scene.job.is_live() {
            return old.contains(&status.state).then(|| (name, status.state.seen().into(), why(status)));
        }
        // Only the verdict of that moment knows how it was then.
        let then = verdict.seen.get(seen)?;
        old.iter().any(|state| state.seen() == then).then(|| (name, sanitise(then), String::new()))
    });
    found.collect()
}

/// Reason and age.
fn why(status: &SourceStatus) -> String {
    let age = status.age_ms.map(|ms| format!("last value {} old", format::duration(ms as f64 / 1000.0)));
    let reason = status.reason.as_deref().map(|reason| sanitise(reason).into_owned());
    reason.into_iter().chain(age).collect::<Vec<_>>().join(", ")
}

/// Adds the table of sources, and the files that the verdict's `seen` names.
pub fn add(page: &mut Text, verdict: &Verdict, scene: &Scene<'_>) {
    page.heading("Sources");
    if scene.job.is_live() {
        for (name, _, status) in all(scene) {
            let start = format!("  {name:<11}{:<9}", status.state.seen());
            let fine = matches!(status.state, SourceState::Fresh | SourceState::Pending);
            let style = if fine { Style::new() } else { page.theme.strong() };
            let text = if status.state == SourceState::Fresh { String::new() } else { why(status) };
            hanging(page, [(start, style)], 22, 20, &text);
            if let Some(mend) = &status.mend {
                page.wrapped("             → ", 15, mend, page.theme.advice());
            }
        }
    }
    let seen = verdict.seen.iter().take(super::MOST);
    let seen: Vec<String> = seen.map(|(source, state)| format!("{} {}", sanitise(source), sanitise(state))).collect();
    if !seen.is_empty() {
        page.wrapped("  read for the verdict: ", 24, &seen.join(", "), page.theme.dim());
    }
}
