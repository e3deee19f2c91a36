//! A window's numbers → phase, class and cause with a confidence. The order is that of the question:
//!
//! 1. Is it training at all ([`phases`](super::phases))?
//! 2. Where does the loop lose its time: waiting for data, or with its GPU busy, or with its GPU idle ([`Account`](super::account::Account))?
//! 3. Which cause: the first in the order of [`Cause::ALL`] whose rule holds.
//! 4. What could not be read, or contradicts?

use trainmon_waits::stacks::Activity;

use super::account::OF_TWO;
use super::causes::starvation::{main_queues, others_hold};
use super::causes::throttled::is_held_down;
use super::causes::{Cause, Finding, Judgment, Known, RuleInput, in_words, with_gpu};
use super::class::{Class, Phase};
use super::features::{Features, LoopStacks, Workers};
use super::parts::Hottest;
use super::phases::{is_proven, not_training};
use super::thresholds::*;
use trainmon_base::stats::{percent, round};
use trainmon_libraries::JobKind;
use trainmon_waits::taxonomy::Purpose;

thresholds! {
    IDLE_OR_SLOW = 0.80, "share", "workers that poll nearly all the time";
    NOTHING_DONE = 0.02, "share", "a training step takes more of the loop than this, however slow its data is";
    SAMPLES = 15.0, "samples", "n samples give a share to within 0.5 / sqrt(n): 25 samples 10 points, 250 samples 3";
    UNEVEN = 0.40, "share", "GPUs that do the same work differ by less";
}

/// Confidence in a balanced loop: the less the GPU idles, the higher.
const BALANCED: ConfidenceRamp = ConfidenceRamp { least: EVEN_CHANCE.value, most: 0.70, from: DRY, to: DEVICE_IDLE };

/// Judges one window.
pub(super) fn judge(window: &Features, known: Known) -> Judgment {
    let main = match not_training(window, known) {
        Ok(main) => main,
        Err(judgment) => return judgment,
    };
    let case = RuleInput::new(window, main, known);
    let mut judgment = match (cause(&case), case.slow_workers()) {
        (Some(judgment), Some(workers)) => of_workers(judgment, &case, workers),
        (judgment, _) => judgment.unwrap_or_else(|| without_cause(&case)),
    };
    smaller_parts(&case, &mut judgment);
    qualify(&case, &mut judgment);
    also_found(&case, &mut judgment);
    behind_unread(&case, judgment)
}

/// Nothing is read of the job's accelerator: it may have work queued while the loop waits or computes, and then nothing of that is lost.
/// So what was found is a finding, and no verdict.
fn behind_unread(case: &RuleInput<'_>, judgment: Judgment) -> Judgment {
    let window = case.window;
    let is_read = window.gpu.is_some() || window.accelerators.is_empty();
    let is_lost = matches!(judgment.class, Class::DataLoader | Class::Io | Class::Cpu);
    let Some(cause) = judgment.cause.filter(|_| !is_read && is_lost && judgment.phase == Phase::Training) else {
        return judgment;
    };
    let (spec, shares) = (cause.spec_in(judgment.class), &case.main.shares);
    let does = match spec.followed.and_then(|wait| in_words(window, &wait, case.lost_to(wait.part))) {
        Some(words) => words,
        None if cause == Cause::CheckpointWrite => format!("saves {} of the time", percent(shares.checkpoint)),
        None if window.waits_lead() => format!("waits for data {} of the time", percent(shares.input_wait)),
        None => format!("works {} of the time", percent(shares.host_busy)),
    };
    let meaning = judgment.meaning.as_deref().unwrap_or(spec.meaning);
    let why =
        format!("the loop {does} ({meaning}), but whether that costs anything is unknown: {}", window.unread_gpu());
    let text = format!("if the accelerator idles meanwhile: {meaning}");
    let finding = Finding { class: judgment.class, ..Finding::new(cause, judgment.confidence, text) };
    let mut unknown =
        Judgment::state(Phase::Training, Class::Unknown, judgment.confidence.min(PERHAPS.value)).doubt(why);
    unknown.doubts.extend(judgment.doubts);
    unknown.others = std::iter::once(finding).chain(judgment.others).collect();
    unknown
}

/// The first cause whose rule holds.
fn cause(case: &RuleInput<'_>) -> Option<Judgment> {
    Cause::ALL.iter().find_map(|cause| cause.judge(case))
}

/// The smaller losses of the loop, each with its share: two bottlenecks at once show as two.
fn smaller_parts(case: &RuleInput<'_>, judgment: &mut Judgment) {
    for (part, lost) in case.smaller() {
        let Some((less, cause)) = cause(&part).and_then(|less| Some((less.clone(), less.cause?))) else { continue };
        let is_new = judgment.cause != Some(cause) && judgment.others.iter().all(|other| other.cause != Some(cause));
        // The whole of it, as everywhere: that the GPU is idle during a part of it is for the share.
        let waited = |part| case.window.chain.as_ref().map_or(lost, |chain| chain.share(part).max(lost));
        let followed = cause.spec().followed.and_then(|wait| in_words(case.window, &wait, waited(wait.part)));
        let words = match (followed, part.purpose) {
            (Some(words), _) => words,
            // The model's own computing is what is left, and what the CPUs are short of is told elsewhere.
            (None, Purpose::Own)
                if !matches!(cause, Cause::MainThread | Cause::HostDeviceSync | Cause::LaunchBound) =>
            {
                continue;
            }
            (None, Purpose::Own) => format!("works {} of the time", percent(case.main.shares.host_busy.max(lost))),
            (None, _) => format!("waits for data {} of the time", percent(case.main.shares.input_wait.max(lost))),
        };
        // A cause may be of two classes: a finding is of that of its judgment.
        let finding = Finding::new(cause, less.confidence * GUESSED.value, format!("the loop also {words}"));
        let share = Some(round(lost, 3));
        judgment.others.extend(is_new.then_some(Finding { class: less.class, share, ..finding }));
    }
    let beside = [beside_the_model(case, judgment), model_beside(case, judgment), own_beside(case, judgment)];
    for beside in beside.into_iter().flatten() {
        judgment.others.retain(|other| other.cause != beside.cause);
        judgment.others.push(beside);
    }
    judgment.others.extend(saving_between(case, judgment));
    judgment.others.extend(validation_between(case));
}

/// Without a GPU, the loop's own code can take a large part of its work beside the model: then it is a limit as well.
fn beside_the_model(case: &RuleInput<'_>, judgment: &Judgment) -> Option<Finding> {
    if !case.has_no_device() {
        return None;
    }
    let stacks = case.main.stacks.as_ref()?;
    let clearly = stacks.beside_the_model().map(|(own, _)| own);
    // A smaller part counts if one function has it.
    let in_one = || stacks.own_function().map(|(_, share)| share).filter(|share| *share >= OF_TWO);
    let own = clearly.or_else(in_one)?;
    let (share, text) = match judgment.cause? {
        Cause::CpuTraining => (own, outside_the_model(own)),
        _ => return None,
    };
    let finding = Finding::new(Cause::MainThread, judgment.confidence * GUESSED.value, text);
    Some(Finding { share: Some(round(share, 3)), ..finding })
}

fn outside_the_model(share: f64) -> String {
    format!("code outside the model takes {} of the loop's time", percent(share))
}

/// Without a GPU, what the model computes beside another limit is one as well.
fn model_beside(case: &RuleInput<'_>, judgment: &Judgment) -> Option<Finding> {
    let loses = matches!(judgment.class, Class::DataLoader | Class::Io)
        || matches!(judgment.cause?, Cause::MainThread | Cause::WaitsForProcess);
    let model = case.main.stacks.as_ref().map_or(0.0, |stacks| stacks.shares.of_model());
    if !loses || judgment.phase != Phase::Training || with_gpu(case.window) || model < OF_TWO {
        return None;
    }
    let text = format!("the model also computes on the CPU {} of the time", percent(model));
    let finding = Finding::new(Cause::CpuTraining, judgment.confidence * GUESSED.value, text);
    Some(Finding { share: Some(round(model, 3)), ..finding })
}

/// Without a GPU, what the loop itself does beside a wait or a save: its own code, metrics, logs.
fn own_beside(case: &RuleInput<'_>, judgment: &Judgment) -> Option<Finding> {
    let shares = &case.main.stacks.as_ref()?.shares;
    let beside_model = case.main.shares.host_busy - shares.of_model();
    let own = shares.of_own_code().min(beside_model);
    let waits = matches!(judgment.class, Class::DataLoader | Class::Io) && judgment.phase == Phase::Training;
    if !waits || with_gpu(case.window) || own < OF_TWO {
        return None;
    }
    let finding = Finding::new(Cause::MainThread, judgment.confidence * GUESSED.value, outside_the_model(own));
    Some(Finding { share: Some(round(own, 3)), ..finding })
}

/// The time that saving takes beside a larger loss.
fn saving_between(case: &RuleInput<'_>, judgment: &Judgment) -> Option<Finding> {
    let share = case.main.shares.checkpoint.min(case.window.device_idle());
    if share < LOST_WAIT || judgment.cause == Some(Cause::CheckpointWrite) {
        return None;
    }
    let text = format!("the loop also saves {} of the time", percent(share));
    Some(Finding { share: Some(round(share, 3)), ..Finding::new(Cause::CheckpointWrite, PERHAPS.value, text) })
}

/// A validation that takes much of the loop's time and alternates with training too often to be a phase.
fn validation_between(case: &RuleInput<'_>) -> Option<Finding> {
    let lost = case.main.stacks.as_ref()?.validates();
    if lost < CLEARLY_LOST {
        return None;
    }
    let share = percent(lost);
    let text = format!("validation takes {share} of the loop's time: validate less often, or on part of the set");
    Some(Finding {
        class: Class::Idle,
        confidence: PERHAPS.value,
        text,
        share: Some(round(lost, 3)),
        ..Finding::default()
    })
}

/// The judgment where no cause's rule holds.
fn without_cause(case: &RuleInput<'_>) -> Judgment {
    let training = |class: Class, sure: f64| Judgment::state(Phase::Training, class, sure);
    let (other, unknown) = (case.main.shares.other, || training(Class::Unknown, PERHAPS.value));
    let elsewhere = "the loop waits for something that is neither data nor the GPU";
    if case.window.profiled && other >= CLEARLY_LOST.value.max(case.lost) {
        return unknown().doubt(format!(
            "{} of the loop's time is neither operators nor a wait for data or the GPU; a trace with with_stack=True, or \
             `trainmon record`, shows what it is",
            percent(other)
        ));
    }
    if case.is_unrecorded() {
        return training(Class::DataLoader, case.sure)
            .doubt("the imported files do not show what makes the batches, so why they are late is unknown");
    }
    if case.waits_elsewhere() {
        return unknown().doubt(elsewhere);
    }
    match case.dry_device() {
        Some(gpu) if case.gpu_kept_idle().is_none() => {
            return training(Class::Balanced, BALANCED.at(1.0 - gpu.job_busy));
        }
        Some(gpu) if other >= CLEARLY_LOST || gpu.idle.while_other >= LOST_WAIT.value => {
            return unknown().doubt(format!("{elsewhere}{}", seen_in(case)));
        }
        _ => {}
    }
    if !case.has_no_device() {
        training(Class::Balanced, EVEN_CHANCE.value)
    } else if case.main.stacks.as_ref().is_some_and(LoopStacks::is_compiled) {
        unknown().doubt(
            "the step is one compiled TensorFlow call, so stacks cannot separate its waits for data from its work: time the data set \
             alone, by a loop over it that does nothing",
        )
    } else if case.window.load_unknown() {
        unknown().doubt(format!("{}, so the loop may be waiting for it", case.window.unread_gpu()))
    } else if case.computes_on_cpu() {
        Judgment::state(Phase::Unknown, Class::Unknown, PERHAPS).doubt(
            "one thread computes, without workers, steps or a GPU: the job is still starting, or it trains on one CPU",
        )
    } else if case.window.does.kind == Some(JobKind::Serving) {
        unknown().doubt(
            "the server's first thread waits, while threads or processes that it hands requests to work or wait",
        )
    } else {
        unknown().doubt("the loop neither computes nor waits for data, and no GPU of the job can be read")
    }
}

/// The lines in which the loop spends most of its time; one of them may be the wait. Empty without stacks.
fn seen_in(case: &RuleInput<'_>) -> String {
    let places = case.main.stacks.iter().flat_map(|stacks| &stacks.hottest).take(2);
    let places: Vec<String> = places.map(Hottest::with_share).collect();
    if places.is_empty() {
        String::new()
    } else {
        format!("; it spends most of its time in {}", places.join(" and "))
    }
}

/// What it may mean if batches arrive and neither the CPUs nor a GPU do anything with them.
fn only_fetches(case: &RuleInput<'_>) -> Option<&'static str> {
    let shares = &case.main.shares;
    let used = case.window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= DEVICE_UNUSED);
    let steps = case.window.steps.rate().is_some_and(|rate| rate > 0.0);
    let own_processes = case.slow_workers().is_some_and(|workers| workers.unnamed);
    match () {
        () if used => None,
        () if own_processes && case.main.cores() < LOST_WAIT => {
            Some("the loop does almost nothing with what it receives, so its processes may be training, not loading")
        }
        () if steps && shares.host_busy + shares.device_sync < NOTHING_DONE => Some(
            "the loop takes batches and does almost nothing with them; a resumed run looks the same while it skips to where it \
             stopped",
        ),
        () => None,
    }
}

/// Slow workers may be waiting for a slow source: adds that.
fn of_workers(judgment: Judgment, case: &RuleInput<'_>, workers: &Workers) -> Judgment {
    if judgment.class != Class::DataLoader || judgment.cause == Some(Cause::TooManyWorkers) {
        return judgment;
    }
    // Its meaning already says what the slow batches do.
    if judgment.cause == Some(Cause::SlowSamples) && judgment.meaning.is_some() {
        return judgment;
    }
    let restarts = judgment.cause == Some(Cause::WorkerRestart);
    if !case.main.exact && workers.idle > IDLE_OR_SLOW && !restarts {
        return judgment.less_sure(GUESSED, "the workers wait in a poll, either for work or for a slow source");
    }
    let part = if workers.active() > 0.0 { workers.io_wait / workers.active() } else { 0.0 };
    if part > CLEARLY_LOST {
        let words = format!("the workers wait for data {} of the time", percent(workers.io_wait));
        return judgment.other(Cause::DiskBandwidth, part, words);
    }
    judgment
}

/// Lowers the confidence for what could not be read and for contradictions.
fn qualify(case: &RuleInput<'_>, judgment: &mut Judgment) {
    let (window, main) = (case.window, case.main);
    let mut less_sure = |factor: Threshold, why: &str| {
        judgment.confidence *= factor.value;
        judgment.doubts.push(why.to_owned());
    };
    if !main.exact {
        let why = if case.waits_elsewhere() {
            "cannot read /proc/PID/syscall, so what a thread waits for is guessed from its open files"
        } else {
            "cannot read /proc/PID/syscall, so any poll counts as a wait for data"
        };
        less_sure(INFERRED, why);
    }
    if judgment.phase == Phase::Training && !is_proven(window, case.known) {
        let why = "neither an optimizer's steps, workers, GPU use nor frames of a model were seen, so the job may still be starting";
        less_sure(GUESSED, why);
    }
    if matches!(judgment.class, Class::DataLoader | Class::Io)
        && let Some(why) = only_fetches(case)
    {
        less_sure(GUESSED, why);
    }
    if main.share(Activity::Graph) >= PHASE {
        let why =
            "the step is one compiled TensorFlow call, so stacks cannot separate its waits for data from its work";
        less_sure(GUESSED, why);
    }
    if window.load_unknown() && judgment.phase == Phase::Training && judgment.class != Class::Unknown {
        less_sure(INFERRED, &format!("{}, so it may be busy meanwhile", window.unread_gpu()));
    }
    if window.gpu.as_ref().is_some_and(|gpu| gpu.lost) {
        less_sure(GUESSED, "one of the job's GPUs no longer responds");
    }
    let samples = f64::from(window.samples);
    judgment.confidence *= samples / (samples + SAMPLES.value);
    judgment.confidence = judgment.confidence.clamp(0.0, CERTAIN.value);
}

/// Adds findings that hold whatever the cause is.
fn also_found(case: &RuleInput<'_>, judgment: &mut Judgment) {
    let (window, class) = (case.window, judgment.class);
    let mut add = |cause: Cause, text: String| judgment.others.push(Finding::new(cause, PERHAPS.value, text));
    if let Some(gpu) = &window.gpu {
        if gpu.spread > UNEVEN && gpu.users.len() > 1 {
            let points = gpu.spread * 100.0;
            add(Cause::Communication, format!("GPU use differs by {points:.0} points between the job's GPUs"));
        }
        if class != Class::Gpu && is_held_down(gpu) {
            add(Cause::Throttled, "the GPU is throttled while it works".into());
        }
    }
    if window.cpu.steal.is_some_and(|steal| steal > LOST_WAIT) {
        add(Cause::NoisyNeighbour, "the hypervisor takes more than 10% of the CPU time (steal)".into());
    }
    let resting = window.workers.as_ref().filter(|workers| class == Class::Gpu && workers.idle > ALL_ALONG);
    if let Some(workers) = resting.filter(|workers| workers.count as f64 > window.cpu.cores.unwrap_or(f64::MAX)) {
        let text = format!("{} workers are idle {} of the time", workers.count, percent(workers.idle));
        add(Cause::TooManyWorkers, text);
    }
    let mut causes = judgment.others.iter().map(|other| other.cause).chain([judgment.cause]);
    let is_named = causes.any(|cause| cause == Some(Cause::NoisyNeighbour));
    let loses = matches!(class, Class::Cpu | Class::DataLoader | Class::Io);
    let cpu = &case.window.cpu;
    if is_named || !loses || !others_hold(cpu) {
        return;
    }
    let others = cpu.others.unwrap_or(0.0);
    let full = cpu.full.is_some_and(|full| full >= CORES_FULL);
    let text = match main_queues(case).map(percent) {
        Some(queues) => format!(
            "other processes take {others:.1} CPUs; the loop, or what it waits for, queues for a CPU {queues} of the \
             time it wants one"
        ),
        None if full => format!("other processes take {others:.1} of the {:.1} CPUs, and none is free", cpu.usable()),
        None => return,
    };
    judgment.others.insert(0, Finding::new(Cause::NoisyNeighbour, PERHAPS.value, text));
}
