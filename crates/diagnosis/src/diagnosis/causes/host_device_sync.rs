//! The loop waits for the GPU again and again.

use super::*;

thresholds! {
    PIECE_OF_WORK = 0.002, "seconds", "the time of about 300 launches of 6 µs: a thread that works this long between two waits does more than launch";
}

const BY_WORK_BETWEEN: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 0.95, from: HARDLY, to: CLEARLY_LOST };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "too many GPU syncs",
    brief: "the loop waits for the GPU again and again",
    meaning: "the loop waits for the GPU again and again, and the GPU runs dry in between",
    rule: &[
        RUNS_DRY,
        "the loop waits for the GPU at least `sync` of the time; with stacks: it is at lines that wait, for as \
         long as the GPU is busy",
        "the host works no longer than the GPU does: without the waits, the two would overlap",
        "if the host works at least `clearly_lost` of the time: less than `piece_of_work` between two waits that \
         block",
        "the loop's other waits take less than `larger_half` of the GPU's idle time",
        "with stacks: the same line of the user's code is the innermost again and again",
    ],
    judge: |case| {
        let gpu = case.gpu_idle_by_host()?;
        // Without the syncs, host and GPU would overlap, and the longer of the two would set the pace. A wait that spins
        // looks like work, but the stacks then show one line that reads a value back. A thread that is at that line for longer
        // than the GPU works does something else there, such as `.tolist()` of an array or garbage collection.
        let shares = case.main.shares;
        let (sync, working) = (shares.device_sync, shares.host_busy);
        // What the loop loses to other waits, it does not lose to these.
        let elsewhere = shares.input_wait + shares.other;
        let by_host = elsewhere < LARGER_HALF.value * gpu.idle.total;
        let waits = sync >= SYNC && gpu.job_busy >= working && by_host && !works_in_long_pieces(case);
        let words = "without stacks, trainmon cannot see what the loop does between its waits";
        waits.then(|| {
            let judgment = case.found(Cause::HostDeviceSync, BY_WORK_BETWEEN.at(shares.host_busy));
            let judgment = judgment.less_sure_if(case.main.stacks.is_none(), INFERRED, words);
            let words =
                "other virtual machines may use the rest of this GPU (a vGPU), and the loop may be waiting for them";
            judgment.less_sure_if(gpu.vgpu, GUESSED, words)
        })
    },
    signals: &[MAIN_WAIT, MAIN_STACKS, DEVICE, STEPS],
    source: "CUDA programming guide, asynchronous execution: reading a value on the host waits for all work before \
        it. Such an implicit wait has no Python frame of its own, so the user's line repeats",
    limits: "a wait measures the queue in front of it, not the cost of the line: removing one shows the next. \
        CUDA's default wait may spin, and then looks like work on one line",
    advice: advice![
        "Remove .item(), .cpu(), nonzero() and prints of tensors"
            => ".item(), .cpu(), nonzero() and printing a tensor each wait for the GPU";
        "Read the loss only every N steps"
            => "the host can then run ahead";
        Nothing "Find the lines: torch.cuda.set_sync_debug_mode(\"warn\")"
            => "torch then warns at each operation that waits";
        "Replace boolean masks and nonzero with torch.where"
            => "results whose size depends on the values make the host wait; ignore_index avoids that too";
    ],
    evidence: &[Signal::DeviceSync],
    against: &[WAITS_FOR_BATCHES],
    place: CulpritPlace::Sync,
    sharpen,
    in_other_class: Some(&BESIDE_A_BUSY_DEVICE),
    ..CauseSpec::in_class(Class::Cpu)
};

/// Names the line that waits most.
fn sharpen(first: &mut Advice, window: &Features) {
    if let Some((_, line)) = CAUSE.line(window) {
        first.title = format!("Take the wait for the GPU out of the step: {line}");
    }
}

/// The GPU runs dry because of what the host does between its waits, not because of the waits. Waits that spin leave no trace, so
/// nothing is known about the work between them.
pub(super) fn works_in_long_pieces(case: &RuleInput<'_>) -> bool {
    let shares = &case.main.shares;
    let runs_per_s =
        case.window.chain.as_ref().and_then(|chain| chain.runs_per_s).filter(|runs_per_s| *runs_per_s > 0.0);
    let piece = runs_per_s.map_or(0.0, |runs_per_s| shares.host_busy / runs_per_s);
    shares.device_sync - case.main.spins >= SYNC
        && shares.host_busy >= CLEARLY_LOST.value
        && piece >= PIECE_OF_WORK.value
}

/// The GPU is busy nevertheless.
const BESIDE_A_BUSY_DEVICE: CauseSpec = CauseSpec {
    name: "host-device-sync",
    headline: "too many GPU syncs",
    brief: "the loop waits for the GPU again and again",
    meaning: "the loop waits for the GPU again and again",
    rule: &[
        KEPT_BUSY,
        "with stacks: one line of the user's code in the middle of the step takes at least `sync` of the loop's \
         time",
    ],
    signals: &[MAIN_STACKS, MAIN_WAIT, DEVICE],
    source: "a wait at the end of a GPU-bound step is healthy. Waits within the step keep the host from running \
        ahead, so the GPU runs dry as soon as it gets faster",
    confirmed: Confirmed::Unconfirmed,
    limits: "needs stacks. Little can be gained while the GPU is busy, so this is mostly another finding",
    advice: advice![
        "Remove .item(), .cpu() and nonzero() from the step"
            => ".item(), .cpu() and nonzero() each wait for the GPU";
        "Read the loss only every N steps"
            => "the host can then run ahead";
    ],
    evidence: &[Signal::DeviceSync],
    place: CulpritPlace::Sync,
    ..CauseSpec::in_class(Class::Gpu)
};
