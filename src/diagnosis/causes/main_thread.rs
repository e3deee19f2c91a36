//! The loop's own Python work keeps the device waiting.

use super::*;

thresholds! {
    AHEAD_OF_MODEL = 0.10, "share", "so much more of the loop in other code than in the model, and no less than its standard error allows";
    STANDARD_ERRORS = 2.0, "of the difference of two shares that add up to one, 1 / sqrt(n)", "19 of 20 lie within";
    SEEN_MODEL = 0.05, "share", "the model has frames of its own: what other code takes is none of it";
    WORTH_NAMING = 0.30, "share", "a third of the loop in one function is where to begin";
}

const BY_LEAD_OVER_MODEL: ConfidenceRamp =
    ConfidenceRamp { least: 0.50, most: 0.75, from: AHEAD_OF_MODEL, to: PHASE };
const BY_HOST_WORK: ConfidenceRamp = ConfidenceRamp { least: 0.80, most: 1.0, from: HOST_WORK, to: ALL_ALONG };

pub(super) const CAUSE: CauseSpec = CauseSpec {
    headline: "the main thread's own work",
    brief: "Python work between launches",
    meaning: "the loop's own work on the host keeps the GPU waiting",
    rule: &[
        RUNS_DRY,
        "the main thread works on the host at least `host_work` of its time, or `clearly_lost` in pieces of \
         `piece_of_work` and more between two waits for the device",
        "with stacks: the time spreads over many lines, and no single line is a wait for the device",
        "without a device, with stacks: other code than the model's takes at least `ahead_of_model` of the loop more than the \
         model, and more than the stacks may be wrong by; where several CPUs compute, the model is seen at least `seen_model`",
    ],
    judge: |case| {
        // Spinning while it waits for the device is not work.
        let host = case.main.shares.host_busy;
        let works = host >= HOST_WORK || host_device_sync::works_in_long_pieces(case);
        if case.device_idle_by_host().is_some() && works {
            return Some(or_loading(case, case.found(Cause::MainThread, BY_HOST_WORK.at(host))));
        }
        on_the_cpu(case)
    },
    signals: &[MAIN_WAIT, MAIN_TIME, MAIN_STACKS, DEVICE],
    source: "the device runs dry when the host does not launch; what the main thread does meanwhile is what to \
             change. A thread that waits spinning stays on one line, Python work moves over many",
    confirmed: Confirmed::FakeDeviceOnly,
    limits: "without stacks, and without workers, loading in the main thread looks the same \
             (data-loader/in-process-loading), and so does a wait for the device that spins",
    advice: advice![
        "Do metrics and logging every N steps only, and on the device"
            => "the device idles while the main thread runs Python";
        "Profile the loop with `py-spy top --pid`" => "it names the lines";
        "Where these are metrics: accumulate them as tensors, and read them once in a while"
            => "each .item() or .cpu() waits for the device and then computes on the host";
    ],
    against: &[WAITS_FOR_BATCHES],
    place: CulpritPlace::Loop,
    sharpen,
    ..CauseSpec::in_class(Class::Cpu)
};

/// Without a device: the loop's stacks are mostly in code other than the model's. A loop that computes on several CPUs may be
/// running a model that has no frames of its own, so in that case the model must be seen as well.
fn on_the_cpu(case: &RuleInput<'_>) -> Option<Judgement> {
    let stacks = case.main.stacks.as_ref()?;
    // Without a GPU, a wait for the device is a wait for the model, and so is a compiled step.
    let compiled = stacks.shares.get(Activity::Sync) + stacks.shares.get(Activity::Graph);
    let (outside, model) = (stacks.shares.outside(), stacks.shares.of_model() + compiled);
    let lead = (outside - model) - model;
    let error = STANDARD_ERRORS.value / f64::from(stacks.samples.max(1)).sqrt();
    let several = case.main.cores() >= COMPUTE_THREADS;
    let seen = model >= SEEN_MODEL;
    let leads = outside >= BUSY && lead >= error.max(AHEAD_OF_MODEL.value);
    if !case.computes_on_cpu() || !leads || (several && !seen) || cpu_training::may_be_set_up(case) {
        return None;
    }
    let sure = if seen { BY_LEAD_OVER_MODEL.at(lead) } else { BY_LEAD_OVER_MODEL.at(lead).min(EVEN_CHANCE.value) };
    let judgement = Judgement::new(Cause::MainThread, sure).meaning("Python work takes most of its time");
    Some(judgement.other(Cause::CpuTraining, PERHAPS, "no device is in use"))
}

/// Names the function that does most of the work, and what would be gained without it.
fn sharpen(first: &mut Advice, window: &Features) {
    // What a rank does while the others wait for it costs each of them as much.
    let waits = communication::late_in_turn(window).unwrap_or(0.0);
    let place = window.loop_stacks().and_then(|stacks| stacks.hottest_own.as_ref());
    if let Some(place) = place.filter(|place| place.share + waits >= WORTH_NAMING) {
        first.title = format!("Make it cheaper, or take it out of the step: {place}");
        if window.gpu.is_none() {
            first.why = "the step takes that much longer, wherever the model runs".into();
        }
        first.limit(window.without(place.share + waits));
    }
}

/// Less sure without stacks, which tell what the main thread does: a spinning wait for the GPU looks the same, and so does a copy
/// from pageable memory. It may also be making the batches itself, or taking over those of workers other than torch's.
pub(super) fn or_loading(case: &RuleInput<'_>, judgement: Judgement) -> Judgement {
    let (cause, words) = match &case.window.workers {
        _ if case.main.stacks.is_some() => return judgement,
        None => {
            (Cause::InProcessLoading, "there are no data workers: the main thread may be making the batches itself")
        }
        Some(workers) if workers.unnamed => (Cause::HandOver, "the main thread may be taking batches over"),
        Some(_) => {
            return judgement.less_sure(GUESSED, "without stacks it is not seen what the main thread works at");
        }
    };
    let judgement = judgement.less_sure(GUESSED, "without stacks, getting batches in the main thread looks the same");
    judgement.other(cause, PERHAPS, words)
}
