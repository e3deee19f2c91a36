//! Why no GPU can be shown, and how to fix that: a job without a GPU is still watched.

use ratatui::style::Style;

use crate::widgets::{Scene, Text};
use trainmon_base::text::sanitize;
use trainmon_diagnosis::diagnosis::verdict::{Missing, Subject};
use trainmon_sample::SourceState;

/// The page without GPUs.
pub fn text(scene: &Scene<'_>, width: u16) -> Text {
    let theme = scene.theme;
    let mut text = Text::new(width, theme);
    let status = &scene.job.sources.gpu;
    if scene.frame().is_none() || status.state == SourceState::Pending && scene.verdict().is_none() {
        text.wrapped("", 0, "waiting for the first sample of the GPUs", theme.dim());
        return text;
    }
    text.wrapped("", 0, "No GPU is visible here.", theme.strong());
    let told = scene.not_seen(Subject::Nvml);
    let why = status.reason.as_deref().or(told.map(|entry| entry.why.as_str()));
    let why = why.unwrap_or(match status.state {
        SourceState::Hung => "the driver does not answer",
        SourceState::Denied => "cannot ask the driver",
        SourceState::Fresh => "the driver lists no GPU",
        _ => "no reason is known",
    });
    text.wrapped("", 0, &format!("Why: {why}"), Style::new());
    let fix = match status.fix.as_deref().or(told.and_then(|entry| entry.fix.as_deref())) {
        Some(fix) => &format!("Fix: {fix}"),
        None => "For what works here and how to fix the rest: trainmon doctor",
    };
    text.wrapped("", 0, fix, theme.strong());
    let not_seen = scene.verdict().map(|verdict| verdict.not_seen.as_slice()).unwrap_or_default();
    for entry in not_seen.iter().filter(|entry| matches!(entry.what, Missing::Gpu(_))) {
        let fix = entry.fix.as_deref().map(|fix| format!(" ({fix})")).unwrap_or_default();
        let line = format!("{}: {}{fix}", entry.what.title(), sanitize(&entry.why));
        text.wrapped("", 0, &line, theme.warning());
    }
    let rest = "Everything else works without a GPU: the loop's time, CPUs, storage and workers.";
    text.wrapped("", 0, rest, theme.dim());
    text
}
