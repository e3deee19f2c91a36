//! Why there are no stacks, and the fix.

use ratatui::style::Style;

use crate::widgets::{Scene, Text};
use trainmon_diagnosis::diagnosis::verdict::Subject;
use trainmon_sample::SourceState;

/// Says so, with a blank line below.
pub fn text(width: u16, scene: &Scene<'_>) -> Text {
    let (why, fix) = reason(scene);
    let mut text = Text::new(width.saturating_sub(2), scene.theme);
    text.wrapped("  ", 2, &why, Style::new());
    if let Some(fix) = fix {
        text.width += 2;
        text.wrapped("  → ", 4, &fix, scene.theme.strong());
    }
    text.line("", Style::new());
    text
}

/// The reason, and the command that fixes it.
fn reason(scene: &Scene<'_>) -> (String, Option<String>) {
    let told = scene.not_seen(Subject::Stacks);
    if !scene.job.is_live() {
        // The source's current state says nothing about that moment.
        let none = "No stacks in the 30 s before this moment";
        return match told {
            Some(missing) => (format!("No stacks at this moment: {}.", missing.why), missing.fix.clone()),
            None if scene.job.replay.is_some() => (format!("{none}."), None),
            None => (format!("{none}: they are sampled more often while this page is open."), None),
        };
    }
    if scene.job.ended.is_some() && told.is_none() {
        return ("No stacks in the 30 s before the job ended.".to_owned(), None);
    }
    let status = &scene.job.sources.stacks;
    let why = status.reason.as_deref().or(told.map(|missing| missing.why.as_str()));
    let fix = status.fix.as_deref().or(told.and_then(|missing| missing.fix.as_deref())).map(str::to_owned);
    let why = match (status.state, why) {
        (SourceState::Pending | SourceState::Fresh, None) => {
            "No stacks yet: the first ones arrive within seconds, one process at a time.".to_owned()
        }
        (SourceState::Hung, None) => "No stacks: what reads them does not answer.".to_owned(),
        (_, why) => format!("No stacks: {}.", why.unwrap_or("the reason is unknown")),
    };
    (why, fix)
}
