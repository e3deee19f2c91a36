//! Why there is no device to show, and what would mend it: a job without a GPU is still watched.

use ratatui::style::Style;

use crate::sample::SourceState;
use crate::text::{sanitise, wrap};
use crate::tui::app::App;

/// The lines of the page without devices.
pub fn lines(app: &App, width: u16) -> Vec<(String, Style)> {
    let theme = app.theme();
    let mut lines = Vec::new();
    let mut add = |text: &str, style: Style| {
        lines.extend(wrap(text, usize::from(width)).into_iter().map(|line| (line, style)));
    };
    let status = &app.sources().gpu;
    if app.frame().is_none() || status.state == SourceState::Pending && app.verdict().is_none() {
        add("waiting for the first sample of the GPUs", theme.dim());
        return lines;
    }
    add("No GPU is seen from here.", theme.strong());
    let not_seen = app.verdict().map(|verdict| verdict.not_seen.as_slice()).unwrap_or_default();
    let told = not_seen.iter().find(|entry| entry.what == "nvml");
    let why = status.reason.as_deref().or(told.map(|entry| entry.why.as_str()));
    let why = match (why, status.state) {
        (Some(why), _) => sanitise(why).into_owned(),
        (None, SourceState::Hung) => "NVML does not answer".to_owned(),
        (None, SourceState::Denied) => "NVML may not be read".to_owned(),
        (None, SourceState::Fresh) => "NVML answers and names no device".to_owned(),
        (None, _) => "nothing says why".to_owned(),
    };
    add(&format!("Why: {why}"), Style::new());
    let mend = status.mend.as_deref().or(told.and_then(|entry| entry.mend.as_deref()));
    match mend {
        Some(mend) => add(&format!("What mends it: {}", sanitise(mend)), theme.advice()),
        None => add("What can be seen, and what would mend the rest: trainmon doctor", theme.advice()),
    }
    for entry in not_seen.iter().filter(|entry| entry.what.starts_with("gpu")) {
        let mend = entry.mend.as_deref().map(|mend| format!(" ({mend})")).unwrap_or_default();
        add(&format!("{}: {}{mend}", sanitise(&entry.what), sanitise(&entry.why)), theme.warning());
    }
    add(
        "Everything else goes on: where the main thread's time goes, CPUs, storage and the loader do not need a GPU.",
        theme.dim(),
    );
    lines
}
