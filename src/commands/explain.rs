//! `trainmon explain`: what the causes of verdicts mean, what to do, how each is recognized, and how to read a wait chain.
//! Needs no process.

use serde_json::Value;

use trainmon_base::errors::{ExitCode, Failure};
use trainmon_diagnosis::diagnosis::causes::{self, CauseSpec};
use trainmon_outputs::explanation;

/// Prints the list of classes and causes, those of one class, or everything about one cause or topic. Without a name it is the
/// whole list.
pub fn run(name: &str, as_json: bool) -> anyhow::Result<ExitCode> {
    let name = Some(name).filter(|name| !name.is_empty());
    if let Some(unknown) = name.and_then(explanation::unknown) {
        return Err(Failure::usage(unknown).into());
    }
    let (text, json) = explained(name);
    if as_json { super::print_json(&json) } else { super::print(text) }
}

/// The same as text and as JSON.
pub(super) fn explained(cause: Option<&str>) -> (String, Value) {
    if let Some(topic) = cause.and_then(explanation::topic) {
        return (explanation::topic_page(topic), explanation::topic_json(topic));
    }
    let asked: Vec<&CauseSpec> = match cause {
        Some(text) => causes::named(text),
        None => causes::all().chain(causes::states()).collect(),
    };
    let json = explanation::json(asked.iter().copied());
    let first = asked.first().map(|cause| cause.name);
    let text = if asked.iter().any(|cause| Some(cause.name) != first) {
        explanation::list(asked)
    } else {
        asked.into_iter().map(explanation::page).collect::<Vec<_>>().join("\n")
    };
    (text, json)
}
