//! The loop's process makes the batches itself: its main thread, or threads of the program's own.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "batches are made in the loop's own process",
    brief: "the trainer's own process makes the batches",
    meaning: "the main thread makes the batches itself (as with num_workers=0)",
    rule: &[
        "the job has no data workers",
        "with stacks: at least `lost_wait` of the main thread's time lies below torch's _SingleProcessDataLoaderIter",
        "without stacks: the main thread waits for a disk, a pipe or a socket, or reads at least `inline_read` in \
         `phase` of the time, while the device idles at least `dry`",
        "or the loop waits for threads of its own process, which compute more than they wait for what they read",
        "less sure where at least `larger_half` of the wait leads to somebody who could not be followed, or `clearly_lost` of \
         it is for the disk",
    ],
    judge: |case| {
        if !matches!(case.bottleneck, Bottleneck::InProcess) {
            return None;
        }
        let by_reads = if case.main.stacks.is_some() { 1.0 } else { INFERRED.value };
        let judgement = source::less_sure_of_makers(case, case.found(Cause::InProcessLoading, by_reads));
        let words = "it is not seen whom the loop waits for most of the time: it may be no batch";
        let judgement = judgement.less_sure_if(leads_to_nobody(case), GUESSED, words);
        if case.window.gpu.is_none() && case.window.loads_by_reads() {
            let words = "a model that is trained on the CPU looks the same";
            return Some(judgement.less_sure(GUESSED, words).other(Cause::CpuTraining, PERHAPS, words));
        }
        Some(with_disk(case, judgement))
    },
    signals: &[MAIN_STACKS, MAIN_WAIT, READS, DEVICE],
    source: "torch.utils.data documentation: with num_workers=0 loading is done in the calling process, so it never \
             overlaps the step",
    limits: "without stacks, batches that are made from memory look like the loop's own Python work (cpu/main-thread)",
    advice: advice![
        "Let other processes make the batches (in a DataLoader: num_workers of 1 and more, and persistent_workers=True)"
            => "loading then overlaps the training step";
        "Keep a data set that fits in memory as tensors on the device"
            => "tiny samples cost more to send between processes than to make";
    ],
    place: CulpritPlace::Loop,
    bound: |_, window| bound(window),
    sharpen,
    special_case,
    tuning_first: true,
    ..CauseSpec::in_class(Class::DataLoader)
};

/// Threads of the program's own make the batches.
const BY_THREADS: CauseSpec = CauseSpec {
    place: CulpritPlace::Nowhere,
    meaning: "threads of its own process make the batches and do not keep up",
    advice: advice![
        "Make the batches in processes instead of threads, or in more of them"
            => "Python code of one process runs in one thread at a time";
        "Make what they do for a batch cheaper, or do it once and keep the result"
            => "the loop waits for it in each step";
        "Find it with `py-spy top --pid`" => "it names the lines of these threads";
    ],
    sharpen: |_, _| {},
    ..CAUSE
};

/// The loop's own thread makes the batches, without torch's loader.
const WITHOUT_LOADER: CauseSpec = CauseSpec {
    meaning: "the loop's own thread makes the batches itself",
    advice: advice![
        "Make the batches ahead of the loop, in processes of their own (the workers of a DataLoader, or a pool)"
            => "loading then overlaps the training step";
        "Make a batch cheaper, or make it once and keep the result" => "the loop waits for it in each step";
        "Keep a data set that fits in memory as tensors on the device"
            => "tiny samples cost more to send between processes than to make";
    ],
    sharpen: |_, _| {},
    ..CAUSE
};

fn special_case(window: &Features) -> Option<&'static CauseSpec> {
    if source::makers(window).is_some() {
        return Some(&BY_THREADS);
    }
    let stacks = window.main.as_ref()?.stacks.as_ref()?;
    // If not, its stacks are at a queue instead of making anything.
    let itself = stacks.loading() >= LARGER_HALF.value * window.lost_wait();
    (!stacks.in_fetch).then_some(if itself { &WITHOUT_LOADER } else { &BY_THREADS })
}

/// Most of what is lost is waits that lead to nobody known.
fn leads_to_nobody(case: &RuleInput<'_>) -> bool {
    let chain = case.window.followed_chain();
    chain.is_some_and(|chain| chain.lost(PathPart::Unknown) >= LARGER_HALF.value * case.lost)
}

/// Adds the disk, where the loop waits for it during a good part of its loading.
fn with_disk(case: &RuleInput<'_>, judgement: Judgement) -> Judgement {
    let disk = case.main.disk();
    if case.main.stacks.is_none() || source::makers(case.window).is_some() || disk < CLEARLY_LOST.value * case.lost {
        return judgement;
    }
    let words = format!("the loop itself waits for the disk {} of the time", percent(disk));
    let judgement = judgement.less_sure(INFERRED, "the disk has a part in it");
    let sure = judgement.confidence * disk / case.lost;
    judgement.other(Cause::DiskBandwidth, sure, words)
}

/// With stacks: what is gained by loading while the step runs.
fn bound(window: &Features) -> Option<f64> {
    let main = window.main.as_ref()?;
    if source::makers(window).is_some() {
        return Some(window.without(window.lost_wait()));
    }
    let Some(stacks) = &main.stacks else {
        return window.gpu.as_ref().map(|gpu| window.without(1.0 - gpu.job_busy));
    };
    let used = main.cpu_pct.unwrap_or(100.0) / 100.0;
    let device = window.gpu.as_ref().map_or(0.0, |gpu| gpu.job_busy.max(DEVICE_UNUSED.value));
    let (_, speedup) = what_if::workers_for_inline(stacks.loading(), used, &Capacity::of(&window.cpu), device);
    Some(round(speedup, 2))
}

fn sharpen(first: &mut Advice, window: &Features) {
    let Some(stacks) = window.loop_stacks() else { return };
    let (workers, _) = what_if::workers_for_inline(stacks.loading(), 1.0, &Capacity::of(&window.cpu), 0.0);
    first.title = format!("Set num_workers to {workers} in the DataLoader, and persistent_workers=True");
}
