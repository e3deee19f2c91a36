//! What the stacks of a loop's thread say of its job: its kind, and how long it is in what libraries do for it.

use super::{LoopStacks, TRAINS};
use crate::diagnosis::job::JobDoes;
use trainmon_libraries::{JobKind, Library, LibraryPart};
use trainmon_waits::stacks::{Activity, CallTree, CodeCall};

/// The smallest part of the samples in the forward pass that learning takes beside it: a backward pass alone takes longer than the
/// forward pass.
const OF_FORWARD: f64 = 0.2;

impl LoopStacks {
    /// What the job does.
    pub fn job(&self) -> JobDoes {
        let seen = |wanted: &[Activity]| wanted.iter().map(|activity| self.sum.main.get(*activity)).sum::<u32>();
        let learned = f64::from(seen(&[Activity::Backward, Activity::Optimizer]));
        // In a loop that waits most of the time, few samples show the model at all.
        let learns = self.trains() || learned > 0.0 && learned >= OF_FORWARD * f64::from(seen(&[Activity::Forward]));
        // Steps of environments may take a small part of a loop that learns from them.
        let acts = seen(&[Activity::Environment]) > 0 || self.waits_for_environments();
        let generates = f64::from(seen(&[Activity::Generate])) >= TRAINS;
        let by_code = match (learns, acts) {
            (true, true) => Some(JobKind::ReinforcementLearning),
            (true, false) => Some(JobKind::Training),
            (false, _) if self.predicts() || generates => Some(JobKind::Inference),
            (false, _) => None,
        };
        let mut does = JobDoes::new(|library| self.part_in(library), by_code);
        let fits = f64::from(seen(&[Activity::Fit])) >= TRAINS;
        does.kind = does.kind.or(fits.then_some(JobKind::Fitting));
        does
    }

    /// Whether it was seen waiting for environments in other processes.
    fn waits_for_environments(&self) -> bool {
        let waits = |call: &CodeCall| Library::part(&call.file, &call.function) == Some(LibraryPart::EnvironmentWait);
        self.sum.calls.calls.iter().any(waits)
    }

    /// The part of the samples in which a library of the table runs the loop.
    pub fn part_in(&self, library: &str) -> f64 {
        let samples = self.sum.libraries.get(library).copied().unwrap_or(0);
        f64::from(samples) / f64::from(self.samples.max(1))
    }

    /// The part of the time in functions of the user's that a library calls for each row or group: of the loop's own time, or of that of
    /// threads that make its batches.
    pub fn for_each_row(&self) -> f64 {
        let calls_each = |call: &CodeCall| Library::part(&call.file, &call.function) == Some(LibraryPart::EachRow);
        let part = |calls: &CallTree| f64::from(calls.called_by(calls_each)) / f64::from(calls.samples.max(1));
        part(&self.sum.calls).max(part(&self.sum.calls_aside))
    }

    /// The part of the loop's own time in which a library waits for tasks in other processes.
    pub fn for_tasks(&self) -> f64 {
        let waits = |call: &&CodeCall| Library::part(&call.file, &call.function) == Some(LibraryPart::TaskWait);
        let samples: u32 = self.sum.calls.calls.iter().filter(waits).map(|call| call.samples).sum();
        f64::from(samples) / f64::from(self.sum.calls.samples.max(1))
    }
}
