//! The sentence on what the job reads, and the numbers below it.

use ratatui::style::Style;

use super::cause;
use crate::widgets::{Scene, Text};
use trainmon_base::text::fit;
use trainmon_diagnosis::diagnosis::verdict::Subject;
use trainmon_views::storage_facts;
use trainmon_waits::Frame;

/// Adds them.
pub fn add(text: &mut Text, frame: &Frame, scene: &Scene<'_>) {
    let theme = scene.theme;
    match storage_facts::reads(frame) {
        Some(reads) => text.wrapped("", 0, &reads, theme.strong()),
        None => {
            let told = scene.not_seen(Subject::Io);
            let why = told.map_or("cannot read its counters", |missing| cause(&missing.why));
            let fix = told.and_then(|missing| missing.fix.as_deref());
            text.missing(&format!("Cannot tell what the job reads: {why}."), fix);
        }
    }
    let (numbers, quiet) = storage_facts::numbers(frame);
    text.pieces(" · ", &numbers.into_iter().map(|number| (number, Style::new())).collect::<Vec<_>>());
    if !quiet.is_empty() {
        text.line(&fit(&format!("none: {}", quiet.join(", ")), text.width), theme.dim());
    }
}

/// Adds the interfaces on one line.
pub fn network(text: &mut Text, frame: &Frame) {
    let name = "Network  ";
    let line = fit(&storage_facts::network(frame), text.width.saturating_sub(name.len()));
    text.spans([(name.to_owned(), text.theme.strong()), (line, Style::new())]);
}
