//! What kind of job it is, and which library runs its loop: by the functions in its stacks.

use serde::{Deserialize, Serialize};

use trainmon_libraries::{JobKind, Library};

use super::features::LoopStacks;
use super::thresholds::*;

thresholds! {
    RUNS_THE_LOOP = 0.30, "of the loop's samples", "a library that is called once in a while takes less of the time";
}

/// What a job does, and with what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobDoes {
    /// Its kind; null if nothing shows it.
    pub kind: Option<JobKind>,
    /// The library that runs its loop, as its users write it; null if that is the user's own code, or not in the table.
    pub library: Option<String>,
    /// The library that runs that one, again and again: a search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

impl JobDoes {
    /// By the stacks of the loop.
    pub(super) fn by_stacks(stacks: &LoopStacks) -> Self {
        // In the order of the table: outer ones first.
        let runs = |library: &&Library| stacks.part_in(library.name) >= RUNS_THE_LOOP;
        let mut running = Library::ALL.iter().filter(runs);
        let outermost = running.next();
        let innermost = running.next_back().or(outermost);
        let by_code = || {
            let predicts = stacks.predicts().then_some(JobKind::Inference);
            if stacks.trains() { Some(JobKind::Training) } else { predicts }
        };
        let name = |library: &Library| library.name.to_owned();
        let is_around = |outer: &&Library| {
            innermost.is_some_and(|inner| inner.name != outer.name) && outer.kind == JobKind::Search
        };
        Self {
            kind: outermost.map(|library| library.kind).or_else(by_code),
            library: innermost.map(name),
            within: outermost.filter(is_around).map(name),
        }
    }

    /// The row of the library that runs the loop.
    pub fn library(&self) -> Option<&'static Library> {
        Library::named(self.library.as_deref()?)
    }
}
