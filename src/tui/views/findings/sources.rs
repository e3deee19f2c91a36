//! How each source stands.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::PageOfText;
use crate::diagnosis::verdict::Verdict;
use crate::sample::{SourceState, SourceStatus};
use crate::text::{sanitise, wrap};
use crate::tui::app::App;
use crate::tui::format;

/// A source that does not deliver.
pub struct Trouble {
    /// Its name.
    pub name: &'static str,
    /// Its state in a word.
    pub state: String,
    /// Why, and since when.
    pub why: String,
}

/// Names of the sources, with what the verdict's `seen` calls them.
fn all(app: &App) -> [(&'static str, &'static str, &SourceStatus); 5] {
    let s = app.sources();
    [
        ("processes", "", &s.job),
        ("host", "", &s.host),
        ("disks", "disks", &s.storage),
        ("GPU", "nvml", &s.gpu),
        ("stacks", "stacks", &s.stacks),
    ]
}

/// Sources whose last value is old, at the moment shown.
pub fn stale(verdict: &Verdict, app: &App) -> Vec<Trouble> {
    let old = [SourceState::Stale, SourceState::Hung, SourceState::Gone];
    let found = all(app).into_iter().filter_map(|(name, seen, status)| {
        if !app.job().is_live() {
            // Only the verdict of that moment knows how it was then.
            let then = verdict.seen.get(seen)?;
            let trouble = old.iter().any(|state| state.seen() == then);
            return trouble.then(|| Trouble { name, state: sanitise(then).into_owned(), why: String::new() });
        }
        old.contains(&status.state).then(|| Trouble { name, state: status.state.seen().to_owned(), why: why(status) })
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
pub fn add(page: &mut PageOfText, verdict: &Verdict, app: &App) {
    page.heading("Sources");
    if app.job().is_live() {
        for (name, _, status) in all(app) {
            let start = format!("  {name:<11}{:<9}", status.state.seen());
            let fine = matches!(status.state, SourceState::Fresh | SourceState::Pending);
            let style = if fine { Style::new() } else { page.theme.strong() };
            let text = if status.state == SourceState::Fresh { String::new() } else { why(status) };
            let mut rows = wrap(&text, page.width.saturating_sub(22).max(20)).into_iter();
            let first = rows.next().unwrap_or_default();
            page.lines.push(Line::from(vec![Span::styled(start, style), Span::raw(first)]));
            page.lines.extend(rows.map(|row| Line::from(format!("{:22}{row}", ""))));
            if let Some(mend) = &status.mend {
                page.text("             → ", 15, mend, page.theme.advice());
            }
        }
    }
    let seen = verdict.seen.iter().take(super::MOST);
    let seen: Vec<String> = seen.map(|(source, state)| format!("{} {}", sanitise(source), sanitise(state))).collect();
    if !seen.is_empty() {
        page.text("  read for the verdict: ", 24, &seen.join(", "), page.theme.dim());
    }
}
