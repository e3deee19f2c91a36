//! What an advice gains at most that ends something else than its cause.

use super::*;

/// What sharing the work among all CPUs that others leave gains at most.
pub(super) fn on_all_cpus(window: &Features) -> Option<f64> {
    let used = window.cpu.job.filter(|used| *used > 0.0)?;
    Some(round(window.cpu.left() / used.max(1.0), 2))
}

/// What is gained without validation, which may start workers of its own.
pub(super) fn without_validation(window: &Features) -> Option<f64> {
    let stacks = window.loop_stacks()?;
    Some(window.without(stacks.validates() + stacks.shares.get(Activity::LoaderStart)))
}

/// What is gained without generating.
pub(super) fn without_generation(window: &Features) -> Option<f64> {
    Some(window.without(window.loop_stacks()?.shares.get(Activity::Generate)))
}

/// What is gained if environments step in a process for each CPU that others leave.
pub(super) fn environments_in_processes(window: &Features) -> Option<f64> {
    let share = window.loop_stacks()?.shares.get(Activity::Environment);
    Some(window.without(share * (1.0 - 1.0 / window.cpu.left().max(1.0))))
}

/// What is gained without callbacks, logs and metrics.
pub(super) fn without_reports(window: &Features) -> Option<f64> {
    Some(window.without_own(window.loop_stacks()?.shares.get(Activity::Report)))
}

/// What is gained without the loop's own code beside its model.
pub(super) fn without_own_work(window: &Features) -> Option<f64> {
    Some(window.without_own(window.loop_stacks()?.beside_the_model()?.0))
}
