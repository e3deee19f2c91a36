//! There are too few workers to keep up.

use super::*;

thresholds! {
    STAGE_TOO = 0.80, "of its part", "a cheaper stage would help as well, though more workers are less work";
}

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "too few workers",
    brief: "all workers busy, CPUs left over",
    meaning: "there are too few workers to keep up",
    rule: &[
        LOOP_LOSES,
        "the workers have work most of the time: less than `workers_idle` of their time is idle",
        "less than `workers_io` of their active time is waiting for a source",
        "CPUs are free: use stays below `cores_full`, queueing below `run_delay`",
        "no stage holds `stage` of the workers' time that more workers could not carry; where only other processes' \
         use of the CPUs leaves no room for more workers it stays this cause, less surely",
    ],
    judge: |case| {
        let workers = case.slow_workers()?;
        let mut judgement = case.found(Cause::TooFewWorkers, stages::sureness(workers));
        if workers.busy < ALL_ALONG {
            judgement = judgement.meaning("the workers are too few to keep up");
        }
        if stages::more_workers_help_undisturbed(case) && !stages::more_workers_help(Loop::of(case.window)) {
            let (others, cores) = (case.window.cpu.others.unwrap_or(0.0), case.window.cpu.cores.unwrap_or(1.0));
            let words = format!(
                "other processes use {others:.1} of the {cores:.1} CPUs that the job may use: more workers would \
                 have to share them"
            );
            judgement = judgement.less_sure(INFERRED, words);
        }
        let Some((stage, part)) = stages::clearly_largest(workers) else { return Some(judgement) };
        let words = format!("{} of the workers' active time is {}", percent(part), stage.name());
        let confidence = (part * STAGE_TOO.value).min(judgement.confidence);
        Some(judgement.other(stage, confidence, words))
    },
    signals: &[MAIN_WAIT, WORKER_TIME, WORKER_BATCHES, CPUS, STEPS],
    source: "with T seconds of one worker for a batch and C seconds of a step without waits, N workers leave a mean \
             wait of T/N - C; measured on torch 2.15 with 0, 4 and 8 workers",
    limits: "once the workers outnumber the allowed CPUs each gets slower, so the number advised stops there; more \
             workers also take more memory",
    advice: advice![
        "Raise num_workers" => "each worker is busy and there are free CPUs";
        "Make the transforms cheaper: crop before decoding, reorder, drop what is not needed"
            => "less work per batch needs fewer workers";
        "Move augmentation to the GPU, over whole batches" => "the workers then only read and decode";
    ],
    against: &[
        WORKERS_ARE_SLOW,
        &[(Signal::CpuFull, Side::Over, "the CPUs are full: more workers would share them")],
    ],
    place: CulpritPlace::Workers,
    sharpen,
    tuning_first: true,
    ..CauseSpec::in_class(Class::DataLoader)
};

/// Says how many workers it takes, and what they bring.
fn sharpen(first: &mut Advice, window: &Features) {
    let Some(workers) = &window.workers else { return };
    let more = |fed: Loop| Some(fed.enough_workers()).filter(|found| found.workers > workers.count);
    let fed = Loop::of(window);
    let now = fed.and_then(more);
    // While others hold the CPUs, the bound is what is possible once they leave, and no step time is predicted.
    let found = now.or_else(|| more(fed?.undisturbed(window)));
    let Some(Prediction { workers: needed, capped, step_s, speedup }) = found else {
        first.title = more_workers(workers, workers.count + 1);
        return;
    };
    first.title = more_workers(workers, needed);
    first.limit(speedup);
    first.predicted_step_ms = now.map(|_| round(step_s * 1000.0, 1));
    if now.is_none() {
        first.why = "each worker is busy, and more can run as far as other processes leave them CPUs".into();
    }
    if capped {
        first.why = format!("{}; beyond {needed} the CPUs are full and transforms must get cheaper", first.why);
    }
}

/// In torch's terms, if they are torch's workers.
fn more_workers(workers: &Workers, wanted: usize) -> String {
    let now = workers.count;
    match workers.unnamed {
        true => format!("Make batches in {wanted} processes instead of {now} (num_workers of a DataLoader)"),
        false => format!("Raise num_workers from {now} to {wanted}"),
    }
}
