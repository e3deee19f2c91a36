//! What the names of variables and the numbers of loops say.

use trainmon_sample::FrameLocals;
use trainmon_sample::locals::{COUNTS, LOOPS, UNKNOWN_TURNS};

/// Part of the readings in which it must be known how far a loop has come.
const KNOWN_OFTEN: f64 = 0.25;
/// Part of a name that marks passes over the data, which are not steps.
pub(in super::super) const EPOCH: &str = "epoch";
/// Part of a name that marks what an iterator has handed out.
pub(super) const YIELDED: &str = "yielded";
/// Part of a name of what changes the learning rate: it may do so with each step or with each epoch.
const SCHEDULER: &str = "sched";
/// Words in names of numbers that the system hands out in ascending order.
const HANDED_OUT: [&str; 3] = ["pid", "tid", "inode"];

/// Whether a variable of this name may count steps.
pub(super) fn may_count_steps(name: &str) -> bool {
    let lower = name.to_lowercase();
    let counts_passes = lower.contains(EPOCH) || lower.contains(SCHEDULER);
    !LOOPS.contains(&name) && !counts_passes && !lower.split('_').any(|word| HANDED_OUT.contains(&word))
}

/// Without the moments in which it was not known how far a loop had come, if that is known often enough: not while a generator makes the
/// next item, for example.
pub(super) fn known_turns(values: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
    let known: Vec<(u64, i64)> = values.iter().copied().filter(|(_, value)| *value != UNKNOWN_TURNS).collect();
    if known.len() as f64 >= KNOWN_OFTEN * values.len() as f64 { known } else { values }
}

/// Whether it is not known how far a loop has come.
pub(super) fn is_unknown(values: &[(u64, i64)]) -> bool {
    values.iter().any(|(_, value)| *value == UNKNOWN_TURNS)
}

/// Whether it is a call of a model, whose loops are over its layers.
pub(super) fn is_in_model(frame: &FrameLocals) -> bool {
    frame.function.rsplit('.').next() == Some("forward") || frame.file.ends_with("torch/nn/modules/module.py")
}

/// Whether its name says that it counts.
pub(in super::super) fn is_named_as_count(name: &str) -> bool {
    let lower = name.to_lowercase();
    COUNTS.iter().any(|part| lower.contains(part))
}
