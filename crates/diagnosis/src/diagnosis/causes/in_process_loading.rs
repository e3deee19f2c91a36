//! The loop's process makes the batches itself: the loop's thread, or other threads of the program.

use super::*;

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "batches made in the loop",
    brief: "the loop's own process makes the batches",
    meaning: "no worker makes the batches ahead of time, as with num_workers=0",
    rule: &[
        "the job has no workers",
        "with stacks: at least `lost_wait` of the loop's time is below torch's _SingleProcessDataLoaderIter",
        "without stacks: the loop waits for a disk, a pipe or a socket, or reads at least `inline_read` during \
         `phase` of the time, while the GPU is idle at least `dry` of it",
        "or the loop waits for threads of its own process that compute longer than they wait for what they read",
        "less certain if at least `larger_half` of the wait could not be traced, or `clearly_lost` of it is for \
         the disk",
    ],
    judge: |case| {
        if !case.loads_in_process() {
            return None;
        }
        let by_reads = if case.main.stacks.is_some() { 1.0 } else { INFERRED.value };
        let judgment = source::less_sure_of_makers(case, case.found(Cause::InProcessLoading, by_reads));
        let words = "most of the waiting could not be traced, so it may not be for data";
        let judgment = judgment.less_sure_if(is_mostly_untraced(case), GUESSED, words);
        if case.window.gpu.is_none() && case.window.loads_by_reads() {
            let words = "a model that trains on the CPU looks the same";
            return Some(judgment.less_sure(GUESSED, words).other(Cause::CpuTraining, PERHAPS, words));
        }
        Some(with_disk(case, judgment))
    },
    signals: &[MAIN_STACKS, MAIN_WAIT, READS, DEVICE],
    source: "torch.utils.data documentation: with num_workers=0, loading runs in the calling process, so it never \
        overlaps the step",
    limits: "without stacks, batches that are made from memory look like the loop's own Python work \
        (cpu/main-thread)",
    advice: advice![
        Ceiling "Make the batches in workers (num_workers=1 or more)"
            => "loading then overlaps the training step; persistent_workers=True keeps the workers between epochs";
        "Keep a dataset that fits in memory as tensors on the GPU"
            => "tiny samples cost more to send between processes than to make", if with_gpu;
        "Make each batch once and keep it, if the dataset fits in memory"
            => "tiny samples cost more to send between processes than to make", if without_gpu;
    ],
    place: CulpritPlace::Loop,
    bound: |_, window| bound(window),
    sharpen,
    special_case,
    ..CauseSpec::in_class(Class::DataLoader)
};

/// Other threads of the program make the batches.
const BY_THREADS: CauseSpec = CauseSpec {
    place: CulpritPlace::Nowhere,
    meaning: "threads of the loop's process make the batches and cannot keep up",
    advice: advice![
        "Do without a Python function for each sample"
            => "Python code runs in one thread of a process at a time", if calls_for_each_row, of Columns;
        Ceiling "Make the batches in worker processes (num_workers=1 or more)"
            => "Python code runs in one thread of a process at a time", if has_a_loaders_workers;
        Ceiling "Make the batches in processes instead of threads"
            => "Python code runs in one thread of a process at a time; more processes help too";
        "Make a batch cheaper, or compute it once and keep it"
            => "the loop waits for these threads in each step";
        Nothing "Find the work with `py-spy top --pid PID`"
            => "it names the lines of these threads";
    ],
    sharpen: |_, _| {},
    ..CAUSE
};

/// The operators of one batch run in many threads and fill the CPUs. How much of that is work, and how much one thread waiting for
/// another, is not known.
const WITH_MANY_THREADS: CauseSpec = CauseSpec {
    advice: advice![
        Nothing "Make the batches in workers (num_workers=1 or more)"
            => "loading then overlaps the training step, and each worker has one thread";
        Nothing "Call torch.set_num_threads(1) before the loop"
            => "small operators take longer in many threads than in one";
    ],
    bound: |_, _| None,
    wastes_cpu: true,
    ..CAUSE
};

/// The loop's thread makes the batches, without torch's loader.
const WITHOUT_LOADER: CauseSpec = CauseSpec {
    meaning: "nothing makes the batches ahead of time",
    advice: advice![
        Ceiling "Make the batches in worker processes (num_workers=1 or more)"
            => "loading then overlaps the training step", if has_a_loaders_workers;
        Ceiling "Make the batches ahead of the loop, in worker processes"
            => "loading then overlaps the training step: workers of a loader, or a pool of processes";
        "Make a batch cheaper, or make it once and keep the result"
            => "the loop waits for it in each step";
        "Keep a dataset that fits in memory as tensors on the GPU"
            => "tiny samples cost more to send between processes than to make", if with_gpu;
    ],
    sharpen: |_, _| {},
    ..CAUSE
};

fn special_case(window: &Features) -> Option<&'static CauseSpec> {
    if source::makers(window).is_some() {
        return Some(&BY_THREADS);
    }
    let stacks = window.main.as_ref()?.stacks.as_ref()?;
    // Otherwise its stacks are at a queue, and it makes nothing itself.
    let itself = stacks.loading() >= LARGER_HALF.value * window.lost_wait();
    if stacks.in_fetch && fills_the_cpus(window, window.main.as_ref()?) {
        return Some(&WITH_MANY_THREADS);
    }
    (!stacks.in_fetch).then_some(if itself { &WITHOUT_LOADER } else { &BY_THREADS })
}

/// Threads of the loop's process other than the loop's own fill the CPUs.
fn fills_the_cpus(window: &Features, main: &LoopThread) -> bool {
    let used = main.cpu_pct.unwrap_or(0.0) / 100.0;
    window.cpu.full.is_some_and(|full| full >= CORES_FULL) && used * LARGER_HALF.value > main.running
}

/// Most of the loss is waits that could not be traced.
fn is_mostly_untraced(case: &RuleInput<'_>) -> bool {
    let chain = case.window.followed_chain();
    chain.is_some_and(|chain| chain.lost(Purpose::Unknown) >= LARGER_HALF.value * case.lost)
}

/// Adds the disk, if the loop waits for it during a good part of its loading.
fn with_disk(case: &RuleInput<'_>, judgment: Judgment) -> Judgment {
    let disk = case.main.disk();
    if case.main.stacks.is_none() || source::makers(case.window).is_some() || disk < CLEARLY_LOST.value * case.lost {
        return judgment;
    }
    let words = format!("the loop itself waits for the disk {} of the time", percent(disk));
    let judgment = judgment.less_sure(INFERRED, "part of the wait is for the disk");
    let sure = judgment.confidence * disk / case.lost;
    judgment.other(Cause::DiskBandwidth, sure, words)
}

/// What is gained by loading while the step runs; exact only with stacks.
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
    let (_, speedup) = what_if::workers_for_inline(stacks.loading(), used, &Capacity::left(&window.cpu), device);
    Some(round(speedup, 2))
}

fn sharpen(first: &mut Advice, window: &Features) {
    let Some(stacks) = window.loop_stacks() else { return };
    let (workers, _) = what_if::workers_for_inline(stacks.loading(), 1.0, &Capacity::left(&window.cpu), 0.0);
    first.title = format!("Set num_workers={workers} and persistent_workers=True");
    first.why = "loading then overlaps the training step".into();
}
