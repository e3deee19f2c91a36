//! The loop stands while it saves state.

use super::*;

thresholds! {
    CHECKPOINT = 0.10, "share", "as lost_wait";
    WRITTEN = 0.30, "of the saving", "a save ends in waits for the disk to take it; what is far from that may be a log";
}

const BY_SAVING: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.95, from: CHECKPOINT, to: CLEARLY_LOST };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "saving to the disk",
    brief: "saving state while the GPU idles",
    meaning: "the loop stands while it saves state",
    rule: &[
        "the main thread saves state at least `checkpoint` of its time while the device is idle, and more than it \
         waits for batches",
        "saving is: waiting for a disk to take data, or writing far more than logs and metrics do; with stacks: \
         frames of torch/serialization.py or torch.distributed.checkpoint",
        "a log that is flushed to the disk (fsync) at each step waits in the same way: with stacks its line is named",
    ],
    judge,
    signals: &[MAIN_WAIT, "/proc/PID/task/TID/io of the main thread (wchar)", MAIN_STACKS, DEVICE, CPUS],
    source: "torch.save runs in the calling thread: it copies from the device, pickles and writes",
    limits: "saves that come less often than the watch lasts are missed or look large; other large writes of the \
             main thread count as saving where there are no stacks",
    advice: advice![
        "Save less often, or asynchronously (torch.distributed.checkpoint.async_save)"
            => "the device idles while state is written";
        "Save to a faster disk" => "the write itself takes the time";
        "Copy the state to host memory and write it in a thread" => "the loop then waits for the copy only";
    ],
    bound: |_, window| Some(window.without(window.main.as_ref()?.shares.checkpoint)),
    sharpen,
    culprits: &[culprits::written_disk],
    ..CauseSpec::in_class(Class::Io)
};

fn judge(case: &RuleInput<'_>) -> Option<Judgement> {
    let main = case.main;
    let saving = main.shares.checkpoint.min(case.window.device_idle());
    if !(saving >= CHECKPOINT && saving > case.lost) {
        return None;
    }
    let mut judgement = Judgement::new(Cause::CheckpointWrite, BY_SAVING.at(saving));
    if flushes(main) {
        judgement = judgement
            .meaning("the loop waits until what it has written is on the disk; no checkpoint is seen in its code");
    } else if main.shares.checkpoint > LARGER_HALF {
        judgement.phase = Phase::Checkpoint;
    }
    // Without stacks and without waits for the disk, a loop that writes a long log looks the same, even more so if it never stops
    // writing.
    if main.stacks.is_none() && main.waits(Wait::DiskWrite) < WRITTEN.value * main.shares.checkpoint {
        let words = "the main thread writes a lot, which may be a log as well as a checkpoint";
        let other = "what it writes may be a log: see which files grow";
        judgement = judgement.less_sure(if main.saving >= ALL_ALONG { GUESSED } else { INFERRED }, words).other(
            Cause::MainThread,
            PERHAPS,
            other,
        );
    }
    Some(judgement)
}

/// The loop waits for the disk to take what it writes, but its stacks are hardly ever in code that saves state.
fn flushes(main: &LoopThread) -> bool {
    let saving = main.shares.checkpoint;
    let saves = |stacks: &LoopStacks| stacks.shares.get(Activity::Checkpoint) >= WRITTEN.value * saving;
    main.waits(Wait::DiskWrite) >= LARGER_HALF.value * saving
        && main.stacks.as_ref().is_some_and(|stacks| !saves(stacks))
}

/// Names the function that flushes, if it is not saving state.
fn sharpen(first: &mut Advice, window: &Features) {
    if !window.main.as_ref().is_some_and(flushes) {
        return;
    }
    if let Some(place) = window.loop_stacks().and_then(|stacks| stacks.hottest_own.as_ref()) {
        first.title = format!("Flush to the disk (fsync, sync) less often, or in a thread: {place}");
        first.why = "the loop stands until the disk has taken each piece".into();
    }
}
