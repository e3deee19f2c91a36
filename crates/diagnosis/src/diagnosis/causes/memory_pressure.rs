//! Memory is short, and the kernel swaps or reclaims.

use super::*;

thresholds! {
    SWAP_IN = 100.0, "pages/s", "400 KiB/s of random page-ins keeps a disk busy";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "memory is short",
    brief: "memory is short: the kernel swaps or reclaims",
    meaning: "memory is short, and the kernel swaps or reclaims",
    rule: &[
        LOOP_LOSES,
        "some task waits for memory at least `memory_pressure` of the time, or at least `swap_in` are swapped in",
        "the job feels it: what the loop waits for spends at least `hardly` of the time waiting for memory or a \
         disk",
    ],
    judge: |case| {
        let short = swaps(case) || case.window.io.psi_memory.is_some_and(|pct| pct >= MEMORY_PRESSURE);
        (short && starvation::may_starve(case) && feels_it(case)).then(|| case.found(Cause::MemoryPressure, 1.0))
    },
    signals: &[MEMORY, MAIN_WAIT, WORKER_TIME],
    source: "kernel Documentation/accounting/psi.rst: `some` is the share of time in which a task waits for memory",
    limits: "the numbers cover the whole machine: another job may be the one that is short of memory",
    advice: advice![
        Tuning "Lower num_workers or prefetch_factor"
            => "each worker keeps batches in memory", if with_workers;
        "Use a machine with more memory"
            => "data that is needed again then stays in memory";
        "Keep sample lists as NumPy arrays or tensors, not as lists"
            => "reference counts make every forked worker copy the pages of Python lists and dicts";
    ],
    sharpen: |first, window| {
        if window.workers.as_ref().is_some_and(|workers| workers.count == 1) {
            first.title = "Lower prefetch_factor, or give the job more memory".into();
        }
    },
    ..CauseSpec::in_class(Class::Io)
};

/// Whether the kernel swaps in, and the job feels it. What that takes of a CPU counts as work of whoever needs the page.
pub(super) fn swaps_for_the_job(case: &RuleInput<'_>) -> bool {
    swaps(case) && feels_it(case)
}

fn swaps(case: &RuleInput<'_>) -> bool {
    case.window.io.swap_in.is_some_and(|pages| pages >= SWAP_IN)
}

/// A job that never waits for memory or a disk does not suffer from the swapping of other processes.
fn feels_it(case: &RuleInput<'_>) -> bool {
    let threads = case.window.chain.as_ref().map_or(0.0, |chain| chain.own_threads().disk);
    case.slow_workers().map_or(case.main.disk() + threads, |workers| workers.disk_wait) >= HARDLY
}
