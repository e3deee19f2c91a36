//! `trainmon explain`: what the causes of verdicts mean, what to do, how each is recognized, and how to read a wait chain.
//! Needs no process.

use crate::diagnosis::causes::{self, CauseSpec};
use crate::errors::ExitCode;
use crate::outputs::explanation;

/// Prints the list of classes and causes, those of one class, or everything about one cause or topic.
pub fn run(cause: Option<&str>, as_json: bool) -> anyhow::Result<ExitCode> {
    if let Some(topic) = cause.and_then(explanation::topic) {
        return match as_json {
            true => super::print_json(&explanation::topic_json(topic)),
            false => super::print(explanation::topic_page(topic)),
        };
    }
    // A name that does not exist was refused by the command line.
    let asked: Vec<&CauseSpec> = match cause {
        Some(text) => causes::named(text),
        None => causes::all().chain(causes::states()).collect(),
    };
    if as_json {
        return super::print_json(&explanation::json(asked));
    }
    let first = asked.first().map(|cause| cause.name);
    let text = if asked.iter().any(|cause| Some(cause.name) != first) {
        explanation::list(asked)
    } else {
        asked.into_iter().map(explanation::page).collect::<Vec<_>>().join("\n")
    };
    super::print(text)
}
