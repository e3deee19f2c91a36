//! The main thread makes the batches itself.

use super::*;

thresholds! {
    MOSTLY_READING = 0.60, "share of samples", "most of the time, with room for a step that reads nothing";
    BY_READS = 0.85, "of the confidence", "without stacks the loop's own work cannot be told from loading";
    ON_ONE_CPU = 0.60, "confidence", "a small model that trains on the CPU looks much the same";
    TRAINING_INSTEAD = 0.40, "confidence", "nothing but the CPU is in use";
}

pub(super) const CAUSE: Spec = Spec {
    headline: "batches are loaded in the main thread",
    brief: "the main thread loads the batches itself",
    meaning: "the main thread makes the batches itself (num_workers=0)",
    rule: &[
        "the job has no data workers",
        "with stacks: at least `lost_wait` of the main thread's time lies below torch's _SingleProcessDataLoaderIter",
        "without stacks: the main thread waits for a disk, a pipe or a socket, or reads at least `inline_read` in \
         `mostly_reading`, while the device idles at least `dry`",
    ],
    judge: |case| {
        let by_reads = if case.main.stacks.is_some() { 1.0 } else { BY_READS.value };
        match case.loss {
            Loss::InProcess => Some(case.of(Cause::InProcessLoading, by_reads)),
            Loss::Dry(_) if reads(case) => Some(case.of(Cause::InProcessLoading, by_reads)),
            Loss::NoDevice if case.computes_on_cpu() && reads(case) && case.trainer_cores() < COMPUTE_THREADS => {
                let words = "no device is in use";
                let judgement = Judgement::of(Cause::InProcessLoading, ON_ONE_CPU);
                Some(judgement.other(Cause::CpuTraining, TRAINING_INSTEAD, words))
            }
            _ => None,
        }
    },
    signals: &[MAIN_STACKS, MAIN_WAIT, READS, DEVICE],
    source: "torch.utils.data documentation: with num_workers=0 loading is done in the calling process, so it never \
             overlaps the step",
    confirmed: Confirmed::LabelledWorkloads,
    limits: "without stacks, batches that are made from memory look like the loop's own Python work (cpu/main-thread)",
    advice: advice![
        "Set num_workers to at least 1 in the DataLoader" => "loading then overlaps the training step";
        "Use persistent_workers=True" => "workers then live on over the epochs";
        "Keep a data set that fits in memory as tensors on the device"
            => "tiny samples cost more to send between processes than to make";
    ],
    place: Place::Loop,
    bound,
    shares,
    sharpen,
    ..Spec::of(Class::DataLoader)
};

/// No workers, and the trainer reads data all the time. Stacks know better where there are some.
fn reads(case: &Case<'_>) -> bool {
    case.window.workers.is_none() && case.main.reading >= MOSTLY_READING && case.main.stacks.is_none()
}

/// With stacks, what loading beside the step leaves of it.
fn bound(window: &Features) -> Option<f64> {
    let main = window.main.as_ref()?;
    let Some(stacks) = &main.stacks else {
        return window.gpu.as_ref().map(|gpu| window.without(1.0 - gpu.job_busy));
    };
    let used = main.cpu_pct.unwrap_or(100.0) / 100.0;
    let device = window.gpu.as_ref().map_or(0.0, |gpu| gpu.job_busy.max(DEVICE_UNUSED.value));
    let (_, speedup) = what_if::workers_for_inline(stacks.loading(), used, window.cpu.cores.unwrap_or(1.0), device);
    Some(round(speedup, 2))
}

/// A main thread that loads the batches itself waits for them while it works: without stacks its own work cannot be told
/// from loading, so all of it counts as loading.
fn shares(main: &LoopThread) -> TimeSplit {
    let mut shares = main.shares;
    if main.stacks.is_none() {
        shares.input_wait += main.running;
        shares.host_busy -= main.running;
    }
    shares
}

fn sharpen(first: &mut Advice, window: &Features) {
    let Some(stacks) = window.main.as_ref().and_then(|main| main.stacks.as_ref()) else { return };
    let (workers, _) = what_if::workers_for_inline(stacks.loading(), 1.0, window.cpu.cores.unwrap_or(1.0), 0.0);
    first.title = format!("Set num_workers to {workers} in the DataLoader");
}
