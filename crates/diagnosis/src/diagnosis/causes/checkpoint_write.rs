//! The loop takes no step while it saves state.

use super::*;

thresholds! {
    CHECKPOINT = 0.10, "share", "a tenth of the loop is the least worth fixing";
    WRITTEN = 0.30, "of the saving", "a save ends with waits for the disk; anything far from that may be a log";
}

const BY_SAVING: ConfidenceRamp = ConfidenceRamp { least: 0.55, most: 0.95, from: CHECKPOINT, to: CLEARLY_LOST };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "saving to disk",
    brief: "the loop saves state while the GPU idles",
    meaning: "no step runs while the loop saves state",
    rule: &[
        "the loop saves state at least `checkpoint` of the time while the GPU is idle, and longer than it waits \
         for data",
        "saving means waiting for a disk to take data, or writing far more than logs and metrics do; with stacks: \
         frames of torch/serialization.py or torch.distributed.checkpoint",
        "a log that is flushed to disk (fsync) at each step waits the same way; with stacks, its line is named",
    ],
    judge,
    signals: &[MAIN_WAIT, "/proc/PID/task/TID/io of the loop's thread (wchar)", MAIN_STACKS, DEVICE, CPUS],
    source: "torch.save runs in the calling thread: it copies from the GPU, pickles and writes",
    limits: "saves that come less often than the observation lasts are missed or look large. Without stacks, other \
        large writes of the loop count as saving",
    advice: advice![
        "Save less often" => "the loop takes no step while state is written", of Saving;
        "Save less often, or asynchronously"
            => "the loop takes no step while state is written; torch.distributed.checkpoint.async_save writes in the \
                background";
        "Save to a faster disk"
            => "the write itself takes the time";
        "Copy the state to host memory and write it from a thread"
            => "the loop then waits only for the copy";
    ],
    bound: |_, window| Some(window.without_own(window.main.as_ref()?.shares.checkpoint)),
    sharpen,
    place: CulpritPlace::Loop,
    culprits: &[culprits::written_disk],
    ..CauseSpec::in_class(Class::Io)
};

fn judge(case: &RuleInput<'_>) -> Option<Judgment> {
    let main = case.main;
    let saving = main.shares.checkpoint.min(case.window.device_idle());
    if !(saving >= CHECKPOINT && saving > case.lost.max(prepared(case))) {
        return None;
    }
    let mut judgment = Judgment::new(Cause::CheckpointWrite, BY_SAVING.at(saving));
    if flushes(main) {
        judgment = judgment.meaning("the loop waits for its writes to reach the disk; its stacks show no checkpoint");
    } else if main.shares.checkpoint > LARGER_HALF {
        judgment.phase = Phase::Checkpoint;
    }
    // Without stacks and without waits for the disk, a loop that writes a long log looks the same, all the more if it never stops
    // writing.
    if main.stacks.is_none() && main.waits(Wait::DiskWrite) < WRITTEN.value * main.shares.checkpoint {
        let words = "the loop writes a lot, which may be a log rather than a checkpoint";
        let other = "the loop may be writing a log: check which files grow";
        judgment = judgment.less_sure(if main.saving >= ALL_ALONG { GUESSED } else { INFERRED }, words).other(
            Cause::MainThread,
            PERHAPS,
            other,
        );
    }
    Some(judgment)
}

/// The loop's own work, if no model and no GPU was ever seen: what it saves is then what it makes.
fn prepared(case: &RuleInput<'_>) -> f64 {
    let trains =
        |stacks: &LoopStacks| stacks.trains() || stacks.shares.of_model() >= HARDLY || case.known.has_trained;
    let makes = case.main.stacks.as_ref().is_some_and(|stacks| !trains(stacks)) && !case.window.uses_gpu();
    if makes && case.window.workers.is_none() { case.main.shares.host_busy } else { 0.0 }
}

/// The loop waits for the disk to take what it writes, but its stacks are hardly ever in code that saves state.
fn flushes(main: &LoopThread) -> bool {
    let saving = main.shares.checkpoint;
    let saves = |stacks: &LoopStacks| stacks.shares.get(Activity::Checkpoint) >= WRITTEN.value * saving;
    main.waits(Wait::DiskWrite) >= LARGER_HALF.value * saving
        && main.stacks.as_ref().is_some_and(|stacks| !saves(stacks))
}

/// Names the function that flushes, if it does not save state.
fn sharpen(first: &mut Advice, window: &Features) {
    if !window.main.as_ref().is_some_and(flushes) {
        return;
    }
    if let Some(place) = window.loop_stacks().and_then(|stacks| stacks.hottest_own.as_ref()) {
        first.title = format!("Flush (fsync, sync) less often, or from a thread: {place}");
        first.why = "the loop waits until the disk has taken each write".into();
    }
}
