//! What kind of job it is, and which library runs its loop: by the functions in its stacks.

use serde::{Deserialize, Serialize};

use trainmon_libraries::{JobKind, Library};

use super::thresholds::*;

thresholds! {
    RUNS_THE_LOOP = 0.30, "of the loop's samples", "a library that is called now and then takes less of the time";
}

/// What a job does, and with what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobDoes {
    /// Its kind; null if nothing shows it.
    pub kind: Option<JobKind>,
    /// The library that runs its loop, as its users write it; null if that is the user's own code, or not in the table.
    pub library: Option<String>,
    /// The library that runs the other again and again: a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

impl JobDoes {
    /// By the libraries that run the loop, each with the part of the loop's samples in which `part_in` saw it, or by what the code
    /// itself does.
    pub(super) fn new(part_in: impl Fn(&str) -> f64, by_code: Option<JobKind>) -> Self {
        // In the order of the table: outer ones first.
        // A training loop that predicts now and then stays one.
        let only_predicts =
            |library: &Library| library.kind == JobKind::Inference && by_code == Some(JobKind::Training);
        let runs = |library: &&Library| part_in(library.name) >= RUNS_THE_LOOP && !only_predicts(library);
        let mut running = Library::ALL.iter().filter(runs);
        let outermost = running.next();
        let innermost = running.next_back().or(outermost);
        let name = |library: &Library| library.name.to_owned();
        let is_around = |outer: &&Library| {
            innermost.is_some_and(|inner| inner.name != outer.name) && outer.kind == JobKind::Search
        };
        let within = outermost.filter(is_around);
        Self {
            kind: within.or(innermost).map(|library| library.kind).or(by_code),
            library: innermost.map(name),
            within: within.map(name),
        }
    }

    /// The row of the library that runs the loop.
    pub fn library(&self) -> Option<&'static Library> {
        Library::named(self.library.as_deref()?)
    }
}
