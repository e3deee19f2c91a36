//! The host waits for the device over and over.

use super::*;

thresholds! {
    PIECE_OF_WORK = 0.002, "seconds", "the time of some 300 launches of 6 µs: who works this long between two waits does something else than launching";
}

const BY_WORK_BETWEEN: ConfidenceRamp = ConfidenceRamp { least: 0.75, most: 0.95, from: HARDLY, to: CLEARLY_LOST };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the host waits for the device again and again",
    brief: "one line makes the host wait, again and again",
    meaning: "the host waits for the device over and over, and the device runs dry in between",
    rule: &[
        RUNS_DRY,
        "the main thread waits for the device at least `sync` of its time; with stacks: stands at lines that do, as far as the \
         device is busy",
        "the host works no longer than the device does: without the waits the two would overlap",
        "where it works `clearly_lost`: for less than `piece_of_work` between two waits that block",
        "what the loop waits for besides takes less than `larger_half` of the device's idle time",
        "with stacks: one line of the user's code is the innermost again and again",
    ],
    judge: |case| {
        let gpu = case.device_idle_by_host()?;
        // Without the syncs, host and device would overlap, and the longer of the two would set the pace. A wait that spins
        // looks like work, but the stacks then show one line that reads a value back. A thread that is at that line for longer
        // than the device works does something else there, such as `.tolist()` of an array or garbage collection.
        let shares = case.main.shares;
        let (sync, working) = (shares.device_sync, shares.host_busy);
        // What the loop loses to other waits is not lost to these.
        let elsewhere = shares.input_wait + shares.other;
        let by_host = elsewhere < LARGER_HALF.value * gpu.idle.total;
        let waits = sync >= SYNC && gpu.job_busy >= working && by_host && !works_in_long_pieces(case);
        let words = "without stacks it is not seen what the loop does between its waits";
        waits.then(|| {
            let judgement = case.found(Cause::HostDeviceSync, BY_WORK_BETWEEN.at(shares.host_busy));
            judgement.less_sure_if(case.main.stacks.is_none(), INFERRED, words)
        })
    },
    signals: &[MAIN_WAIT, MAIN_STACKS, DEVICE, STEPS],
    source: "CUDA programming guide, asynchronous execution: reading a value on the host waits for all work before \
             it; such an implicit wait has no Python frame of its own, the user's line repeats",
    confirmed: Confirmed::FakeDeviceOnly,
    limits: "a wait measures the queue in front of it, not the cost of the line: removing one shows the next; CUDA's \
             default wait may spin and then looks like work on one line",
    advice: advice![
        "Remove .item(), .cpu(), nonzero() and printing of tensors from the step"
            => "each of them waits for the device";
        "Read the loss every N steps only" => "the host can then run ahead";
        "Find the lines with torch.cuda.set_sync_debug_mode(\"warn\")"
            => "torch then warns at each operation that waits";
        "Replace boolean masks and nonzero by torch.where or ignore_index"
            => "results whose size depends on the values make the host wait";
    ],
    evidence: &[Signal::DeviceSync],
    against: &[WAITS_FOR_BATCHES],
    place: CulpritPlace::Sync,
    in_other_class: Some(&BESIDE_A_BUSY_DEVICE),
    ..CauseSpec::in_class(Class::Cpu)
};

/// The device runs dry because of what the host does between its waits, not because of the waits. Waits that spin leave no trace,
/// so nothing is known about the work between them.
pub(super) fn works_in_long_pieces(case: &RuleInput<'_>) -> bool {
    let shares = &case.main.shares;
    let runs_per_s =
        case.window.chain.as_ref().and_then(|chain| chain.runs_per_s).filter(|runs_per_s| *runs_per_s > 0.0);
    let piece = runs_per_s.map_or(0.0, |runs_per_s| shares.host_busy / runs_per_s);
    shares.device_sync - case.main.spins >= SYNC
        && shares.host_busy >= CLEARLY_LOST.value
        && piece >= PIECE_OF_WORK.value
}

/// The device is busy all the same.
const BESIDE_A_BUSY_DEVICE: CauseSpec = CauseSpec {
    name: "host-device-sync",
    headline: "the host waits for the device again and again",
    brief: "one line makes the host wait, again and again",
    meaning: "the host waits for the device over and over",
    rule: &[
        KEPT_BUSY,
        "with stacks: one line of the user's code in the middle of the step holds at least `sync` of the main \
         thread's time",
    ],
    signals: &[MAIN_STACKS, MAIN_WAIT, DEVICE],
    source: "a wait at the end of a step that is bound by the device is healthy; waits within it keep the host from \
             running ahead, so that the device runs dry as soon as it gets faster",
    confirmed: Confirmed::Unconfirmed,
    limits: "needs stacks; little can be gained while the device is busy, so it is mostly a finding beside another",
    advice: advice![
        "Remove .item(), .cpu() and nonzero() from the step" => "each of them waits for the device";
        "Read the loss every N steps only" => "the host can then run ahead";
    ],
    evidence: &[Signal::DeviceSync],
    place: CulpritPlace::Sync,
    ..CauseSpec::in_class(Class::Gpu)
};
