//! A training loop's time as another tool recorded it: a profiler's trace, or stacks taken all along. `trainmon import`
//! makes it; nothing that trainmon watches itself fills it.

use serde::{Deserialize, Serialize};

use super::StackWindow;
use super::private::{Private, Visit};

/// A file name of frames that stand for what a tool recorded rather than for a place in the code.
pub const TRACE_FILE: &str = "<trace>";
/// Its function: waits for a batch …
pub const NEXT_BATCH: &str = "next_batch";
/// … in the loader's iterator.
pub const DATA_LOADER: &str = "data_loader";
/// Its function: makes a batch in the loop's own thread.
pub const MAKE_BATCH: &str = "make_batch";
/// Its function: waits for the GPU.
pub const SYNCHRONIZE: &str = "synchronize";
/// Its function: in a collective.
pub const COLLECTIVE: &str = "collective";
/// Its function: in a call that only waits (a sleep, a poll, a lock).
pub const BLOCKED: &str = "blocked";
/// Its function: saves a state.
pub const SAVING: &str = "saving";
/// Its function: works.
pub const OWN_WORK: &str = "own_work";
/// Its function: the tool shows nothing at all.
pub const NOTHING_RECORDED: &str = "nothing_recorded";
/// One sample of a profile stands for this much of the loop's time, milliseconds.
pub const SAMPLE_MS: u64 = 1;

/// One loop since the last tick.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProfileSample {
    /// The stacks of the thread that runs the loop. Together their samples stand for [`Self::seconds`], so they say how long
    /// as well as where.
    pub stacks: StackWindow,
    /// The loop's time that was recorded, seconds.
    pub seconds: f64,
    /// Steps that ended; `None` if the tool does not show them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Length of each of them, seconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub step_lengths_s: Vec<f32>,
}

impl Private for ProfileSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        self.stacks.visit_texts(visit);
    }
}
