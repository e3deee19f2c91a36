//! There are too few workers to keep up.

use super::*;

thresholds! {
    STAGE_TOO = 0.80, "of its part", "a cheaper stage would help too, but raising a number is less work";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "too few workers",
    brief: "all workers busy, CPUs left over",
    meaning: "all workers are busy and cannot keep up",
    rule: &[
        LOOP_LOSES,
        "the workers have work most of the time: they are idle less than `workers_idle` of it",
        "they spend less than `workers_io` waiting for a source",
        "CPUs are free: less than `cores_full` of them is in use, and threads queue less than `run_delay` of the \
         time they could run",
        "no stage takes `stage`, or more workers could carry it. If only other processes' use of the CPUs leaves \
         no room for more workers, it stays this cause, with less certainty",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        let mut judgment = case.found(Cause::TooFewWorkers, stages::sureness(workers)).meaning(meaning(workers));
        if stages::more_workers_help_undisturbed(case) && !stages::more_workers_help(Loop::from_window(case.window)) {
            let (others, cores) = (case.window.cpu.others.unwrap_or(0.0), case.window.cpu.cores.unwrap_or(1.0));
            let words = format!(
                "other processes use {others:.1} of the {cores:.1} CPUs that the job may use, so more workers would \
                 have to share them"
            );
            judgment = judgment.less_sure(INFERRED, words);
        }
        let Some((stage, part)) = stages::clearly_largest(workers) else { return Some(judgment) };
        let words = format!("{} of the workers' active time goes into {}", percent(part), stages::doing(stage));
        let confidence = (part * STAGE_TOO.value).min(judgment.confidence);
        Some(judgment.other(stage, confidence, words))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, WORKER_BATCHES, CPUS, STEPS],
    source: "if one worker takes T seconds per batch and a step without waits takes C seconds, N workers leave an \
        average wait of T/N - C; measured on torch 2.15 with 0, 4 and 8 workers",
    limits: "once the workers outnumber the allowed CPUs, each gets slower, so the advised number stops there. \
        More workers also take more memory",
    advice: advice![
        Ceiling "Make batches in more processes"
            => "the workers are busy, and CPUs are free", if with_unnamed_workers;
        Ceiling "Raise num_workers"
            => "the workers are busy, and CPUs are free", if without_unnamed_workers;
        "Make transforms cheaper: crop early, drop unused steps"
            => "less work per batch needs fewer workers", if transforms;
        "Decode less: store images at the size training needs"
            => "decoding takes most of the workers' time, and it costs by the pixel", if decodes_most;
        "Move augmentation to the GPU, over whole batches"
            => "the workers then only read and decode", if transforms_beside_a_gpu;
        "Decode on the GPU: decode_jpeg(device=\"cuda\") or DALI"
            => "that frees the CPUs, and pays off while the GPU has idle time", if decodes_beside_a_gpu;
    ],
    against: &[
        WORKERS_ARE_SLOW,
        &[(Signal::CpuFull, Side::Over, "the CPUs are full: more workers would have to share them")],
    ],
    place: CulpritPlace::Workers,
    sharpen,
    ..CauseSpec::in_class(Class::DataLoader)
};

/// That the workers cannot keep up, and whether all of them are busy.
fn meaning(workers: &Workers) -> String {
    let busy = workers.busy >= ALL_ALONG;
    match (workers.count, busy) {
        (1, true) => "the only worker is busy and cannot keep up".to_owned(),
        (1, false) => "a single worker cannot keep up".to_owned(),
        (count, true) => format!("all {count} workers are busy and cannot keep up"),
        (count, false) => format!("{count} workers cannot keep up"),
    }
}

/// Says how many workers it takes, and what they gain.
pub(super) fn sharpen(first: &mut Advice, window: &Features) {
    let Some(workers) = &window.workers else { return };
    let more = |fed: Loop| Some(fed.enough_workers()).filter(|found| found.workers > workers.count);
    let fed = Loop::from_window(window);
    let now = fed.and_then(more);
    // While other processes use the CPUs, the bound is what is possible once they end, and no step time is predicted.
    let found = now.or_else(|| more(fed?.undisturbed(window)));
    let Some(Prediction { workers: needed, capped, step_s, speedup }) = found else {
        first.title = more_workers(window, workers, workers.count + 1);
        return;
    };
    first.title = more_workers(window, workers, needed);
    first.limit(speedup);
    first.predicted_step_ms = now.map(|_| round(step_s * 1000.0, 1));
    if now.is_none() {
        first.why = "the workers are busy, and more can run as far as other processes leave CPUs free".into();
    }
    if capped {
        first.why = format!("{}; beyond {needed}, the CPUs are full and only cheaper transforms help", first.why);
    }
}

/// In torch's terms, if they are torch's workers.
fn more_workers(window: &Features, workers: &Workers, wanted: usize) -> String {
    let now = workers.count;
    if workers.unnamed {
        format!("Make batches in {wanted} processes instead of {now} (num_workers)")
    } else {
        let each = if window.ranks > 1 { " in each rank" } else { "" };
        format!("Raise num_workers from {now} to {wanted}{each}")
    }
}
