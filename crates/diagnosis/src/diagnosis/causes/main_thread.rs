//! The loop's own Python work keeps the GPU waiting.

use super::*;

thresholds! {
    AHEAD_OF_MODEL = 0.10, "share", "code outside the model takes this much more of the loop, and more than the standard error";
    STANDARD_ERRORS = 2.0, "of the difference of two shares that add up to one, 1 / sqrt(n)", "19 of 20 lie within";
    SEEN_MODEL = 0.05, "share", "the model has frames of its own, so the time in other code is not the model's";
    WORTH_NAMING = 0.30, "share", "a third of the loop in one function is where to begin";
}

const BY_LEAD_OVER_MODEL: ConfidenceRamp =
    ConfidenceRamp { least: 0.50, most: 0.75, from: AHEAD_OF_MODEL, to: PHASE };
const BY_HOST_WORK: ConfidenceRamp = ConfidenceRamp { least: 0.80, most: 1.0, from: HOST_WORK, to: ALL_ALONG };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the loop's own work",
    brief: "the loop's own Python work",
    meaning: "the loop's own work on the host keeps the GPU waiting",
    rule: &[
        RUNS_DRY,
        "the loop works on the host at least `host_work` of the time, or at least `clearly_lost` in pieces of at \
         least `piece_of_work` between two waits for the GPU",
        "with stacks: the time spreads over many lines, and no single line is a wait for the GPU",
        "without a GPU, with stacks: code outside the model takes at least `ahead_of_model` of the loop more than \
         the model, and more than the sampling error; if several CPUs compute, the model is seen at least \
         `seen_model` of the time",
        "less sure where at least `swap_in` are swapped in and the job waits for memory",
    ],
    judge: |case| {
        // Spinning while it waits for the GPU is not work.
        let host = case.main.shares.host_busy;
        let works = host >= HOST_WORK || host_device_sync::works_in_long_pieces(case);
        if case.gpu_idle_by_host().is_some() && works {
            let words =
                "memory is swapped in for the job, and the CPU time that this takes counts as the loop's own work";
            let found = case.found(Cause::MainThread, BY_HOST_WORK.at(host)).less_sure_if(
                memory_pressure::swaps_for_the_job(case),
                INFERRED,
                words,
            );
            return Some(or_loading(case, found));
        }
        on_the_cpu(case)
    },
    signals: &[MAIN_WAIT, MAIN_TIME, MAIN_STACKS, DEVICE],
    source: "the GPU runs dry when the host launches nothing, so what the loop does meanwhile is what to change. A \
        thread that spins stays on one line; Python work moves over many",
    limits: "without stacks and without workers, loading in the loop looks the same \
        (data-loader/in-process-loading), and so does a wait for the GPU that spins",
    advice: advice![
        "Validate less often" => "validation takes a good part of the loop's time", if validates, of Validation, gains without_validation;
        "Validate less often, or on part of the set"
            => "validation takes a good part of the loop's time", if validates_by_its_own_code, gains without_validation;
        "Generate faster" => "generating takes most of the time", if generates, of Generation, gains without_generation;
        "Step environments in processes"
            => "the loop steps them one after the other, and nothing else runs meanwhile", if steps_environments, of Environments, gains environments_in_processes;
        "Use another algorithm" => "it takes nearly all of the time", of Algorithm;
        "Make the loop's own work cheaper, or move it out of the step"
            => "nothing else of the step runs meanwhile";
        Nothing "Find the lines with `py-spy top --pid PID`"
            => "it names the functions that take the loop's time", if without_stacks;
        Nothing "Log and compute metrics only every N steps"
            => "each call delays the step by all of its time", if may_report;
        Nothing "Keep metrics as tensors, and read them once in a while"
            => "each .item() or .cpu() waits for the GPU and then computes on the host", if may_report_with_gpu;
    ],
    against: &[WAITS_FOR_BATCHES],
    place: CulpritPlace::Loop,
    sharpen,
    special_case: |window| (window.does.kind == Some(JobKind::DataPreparation)).then_some(&PREPARES_DATA),
    ..CauseSpec::in_class(Class::Cpu)
};

/// The job prepares data.
const PREPARES_DATA: CauseSpec = CauseSpec {
    headline: "preparing data",
    brief: "the job's own code prepares data",
    meaning: "the job's own code prepares data",
    advice: advice![
        "Compute on whole columns"
            => "a Python function is called for each row or group", if calls_for_each_row, of Columns;
        "Use more processes" => "one process works, and CPUs are free", if leaves_cpus_free, of Threads, gains on_all_cpus;
        "Make that work cheaper, or share it among processes" => "the job does one thing after the other";
        Nothing "Find the lines with `py-spy top --pid PID`"
            => "it names the functions that take the time", if without_stacks;
    ],
    sharpen: |first, window| {
        let place = window.loop_stacks().and_then(LoopStacks::place_of_work);
        if let Some(place) = place.filter(|place| place.share >= WORTH_NAMING) {
            first.title = format!("Make it cheaper, or share it among processes: {place}");
            first.limit(window.without(place.share));
        }
    },
    special_case: |_| None,
    ..CAUSE
};

/// Without a GPU: the loop's stacks are mostly in code outside the model. A loop that computes on several CPUs may run a model that
/// has no frames of its own, so in that case the model must be seen too.
fn on_the_cpu(case: &RuleInput<'_>) -> Option<Judgment> {
    let stacks = case.main.stacks.as_ref()?;
    if case.window.does.kind == Some(JobKind::DataPreparation) && case.computes_on_cpu() {
        return Some(Judgment::new(Cause::MainThread, LIKELY));
    }
    // Without a GPU, a sync is a wait for the model, and so is a compiled step.
    let compiled = stacks.shares.get(Activity::Sync) + stacks.shares.get(Activity::Graph);
    let (outside, model) = (stacks.shares.outside(), stacks.shares.of_model() + compiled);
    let lead = (outside - model) - model;
    let error = STANDARD_ERRORS.value / f64::from(stacks.samples.max(1)).sqrt();
    let several = case.main.cores() >= COMPUTE_THREADS;
    let seen = model >= SEEN_MODEL;
    let leads = outside >= BUSY && lead >= error.max(AHEAD_OF_MODEL.value);
    if !case.computes_on_cpu() || !leads || (several && !seen) {
        return None;
    }
    if cpu_training::may_be_set_up(case) {
        // No model was seen at all, and it saves what a function of its own makes.
        let own = stacks.own_function().is_some_and(|(_, share)| share >= WORTH_NAMING);
        let makes = own && case.main.shares.checkpoint >= LOST_WAIT && case.window.goes_round();
        let judgment = Judgment::new(Cause::MainThread, EVEN_CHANCE).meaning("its own code takes most of its time");
        return makes.then(|| judgment.other(Cause::CpuTraining, PERHAPS, "its code may be the model"));
    }
    let sure = if seen { BY_LEAD_OVER_MODEL.at(lead) } else { BY_LEAD_OVER_MODEL.at(lead).min(EVEN_CHANCE.value) };
    let judgment =
        Judgment::new(Cause::MainThread, sure).meaning("Python code outside the model takes most of its time");
    Some(judgment.other(Cause::CpuTraining, PERHAPS, "no GPU is in use"))
}

/// Names the function that does most of the work, and what its end would gain.
fn sharpen(first: &mut Advice, window: &Features) {
    if validates_by_its_own_code(window) {
        return;
    }
    // What a rank does while the others wait costs each of them the same time.
    let waits = communication::late_in_turn(window).unwrap_or(0.0);
    let place = window.loop_stacks().and_then(LoopStacks::place_of_work);
    if let Some(place) = place.filter(|place| place.share + waits >= WORTH_NAMING) {
        // All that is done in each step beside the model is left out then, not only what takes most of it.
        let own = |seen: &LoopStacks| seen.shares.of_own_code();
        let reports = if reports_long(window) { window.loop_stacks().map(own) } else { None };
        let less = if reports.is_some() { "do it only every N steps" } else { "move it out of the step" };
        first.title = format!("Make it cheaper, or {less}: {place}");
        if window.gpu.is_none() {
            first.why = "it makes each step longer, wherever the model runs".into();
        }
        first.limit(window.without_own(place.share.max(reports.unwrap_or(0.0)) + waits));
    }
}

/// Less sure without stacks, which show what the loop does: a spinning wait for the GPU looks the same, and so does a copy from
/// pageable memory. The loop may also make the batches itself, or receive them from workers other than torch's.
pub(super) fn or_loading(case: &RuleInput<'_>, judgment: Judgment) -> Judgment {
    let (cause, words) = match &case.window.workers {
        _ if case.main.stacks.is_some() => return judgment,
        None => (Cause::InProcessLoading, "the job has no workers, so the loop may be making the batches itself"),
        Some(workers) if workers.unnamed => (Cause::HandOver, "the loop may be receiving batches"),
        Some(_) => {
            return judgment.less_sure(GUESSED, "without stacks, trainmon cannot see what the loop works on");
        }
    };
    let judgment = judgment.less_sure(GUESSED, "without stacks, getting batches in the loop looks the same");
    judgment.other(cause, PERHAPS, words)
}
