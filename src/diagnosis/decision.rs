//! A window's numbers → phase, class and cause with a confidence. The order is that of the question:
//!
//! 1. is it training at all ([`phases`](super::phases));
//! 2. where does the loop lose its time: waiting for batches, its device busy, or running dry ([`Bottleneck`]);
//! 3. which cause: the first in the order of [`Cause::ALL`] whose rule holds;
//! 4. what could not be seen, or contradicts.

use crate::rates::stacks::Activity;

use super::causes::starvation::{main_queues, others_hold};
use super::causes::throttled::is_held_down;
use super::causes::{Bottleneck, Cause, Finding, Judgement, Known, RuleInput, in_words};
use super::class::{Class, Phase};
use super::features::{Features, Workers};
use super::parts::Hottest;
use super::phases::{is_proven, not_training};
use super::stats::percent;
use super::thresholds::*;

thresholds! {
    IDLE_OR_SLOW = 0.80, "share", "workers that poll nearly all the time";
    NOTHING_DONE = 0.02, "share", "a step that trains takes more of the loop than this, however slow its batches are";
    SAMPLES = 15.0, "samples", "n samples know a share to within 0.5 / sqrt(n): 25 samples 10 points, 250 samples 3";
    UNEVEN = 0.40, "share", "devices that do the same differ by less";
}

/// Sure of a balanced loop by the device's idle time: the less of it the surer.
const BALANCED: ConfidenceRamp = ConfidenceRamp { least: EVEN_CHANCE.value, most: 0.70, from: DRY, to: DEVICE_IDLE };

/// Judges one window.
pub(super) fn judge(window: &Features, known: Known) -> Judgement {
    let main = match not_training(window, known) {
        Ok(main) => main,
        Err(judgement) => return judgement,
    };
    let case = RuleInput::new(window, main, known);
    let mut judgement = match (cause(&case), case.bottleneck) {
        (Some(judgement), Bottleneck::Workers(workers)) => of_workers(judgement, &case, workers),
        (judgement, _) => judgement.unwrap_or_else(|| without_cause(&case)),
    };
    smaller_parts(&case, &mut judgement);
    qualify(&case, &mut judgement);
    judgement
}

/// The first cause whose rule holds.
fn cause(case: &RuleInput<'_>) -> Option<Judgement> {
    Cause::ALL.iter().find_map(|cause| cause.judge(case))
}

/// The further parts of what the loop loses, each with its share: two bottlenecks at once show as two.
fn smaller_parts(case: &RuleInput<'_>, judgement: &mut Judgement) {
    for (part, lost) in case.smaller() {
        let Some((less, cause)) = cause(&part).and_then(|less| Some((less.clone(), less.cause?))) else { continue };
        let is_new =
            judgement.cause != Some(cause) && judgement.others.iter().all(|other| other.cause != Some(cause));
        let followed = cause.spec().followed.and_then(|wait| in_words(case.window, &wait, lost));
        let words = followed.unwrap_or_else(|| format!("waits for batches {} of the time", percent(lost)));
        // A cause may be of two classes: a finding is of that of its judgement.
        let finding = Finding::new(cause, less.confidence * GUESSED.value, format!("the loop {words} too"));
        judgement.others.extend(is_new.then_some(Finding { class: less.class, ..finding }));
    }
    judgement.others.extend(validation_between(case));
}

/// A validation that takes a good part of the loop, and alternates with training too often to be a phase of its own.
fn validation_between(case: &RuleInput<'_>) -> Option<Finding> {
    let stacks = case.main.stacks.as_ref()?;
    let share = stacks.validated.min(stacks.validating(case.known.has_trained));
    if share < CLEARLY_LOST {
        return None;
    }
    let share = percent(share);
    let text = format!("validation takes {share} of the loop: validate less often, or on a part of the set");
    Some(Finding { class: Class::Idle, cause: None, confidence: PERHAPS.value, text })
}

/// What is left where no cause's rule holds.
fn without_cause(case: &RuleInput<'_>) -> Judgement {
    let training = |class: Class, sure: f64| Judgement::state(Phase::Training, class, sure);
    match case.bottleneck {
        Bottleneck::Dry(gpu) if case.device_kept_idle().is_none() => {
            training(Class::Balanced, BALANCED.at(1.0 - gpu.job_busy))
        }
        Bottleneck::Dry(gpu) if case.main.shares.other >= CLEARLY_LOST || gpu.idle.while_other >= LOST_WAIT.value => {
            let words = "the main thread waits for something that is neither a batch nor the device";
            training(Class::Unknown, PERHAPS.value).doubt(format!("{words}{}", seen_in(case)))
        }
        Bottleneck::NoDevice if case.window.load_unknown() => training(Class::Unknown, PERHAPS.value)
            .doubt(format!("{}: whether the loop waits for it is not known", case.window.unread_device())),
        Bottleneck::NoDevice if case.computes_on_cpu() => Judgement::state(Phase::Unknown, Class::Unknown, PERHAPS)
            .doubt(
                "one thread computes, without workers, steps or a GPU: the job sets itself up, or trains on one CPU",
            ),
        Bottleneck::Wait(_) => training(Class::Unknown, PERHAPS.value)
            .doubt("the loop waits for something that is neither a batch nor the device"),
        Bottleneck::NoDevice => training(Class::Unknown, PERHAPS.value)
            .doubt("the main thread neither computes nor waits for batches, and no device of the job can be seen"),
        _ => training(Class::Balanced, EVEN_CHANCE.value),
    }
}

/// Where the loop's thread is seen most, in words: one of the places may be the wait. Nothing without stacks.
fn seen_in(case: &RuleInput<'_>) -> String {
    let places = case.main.stacks.iter().flat_map(|stacks| &stacks.hottest).take(2);
    let places: Vec<String> = places.map(Hottest::with_share).collect();
    if places.is_empty() { String::new() } else { format!("; it is mostly in {}", places.join(" and in ")) }
}

/// Batches come, and neither the host nor a device does anything with them: what that may mean.
fn only_fetches(case: &RuleInput<'_>) -> Option<&'static str> {
    let shares = &case.main.shares;
    let used = case.window.gpu.as_ref().is_some_and(|gpu| gpu.job_busy >= DEVICE_UNUSED);
    let steps = case.window.steps.rate().is_some_and(|rate| rate > 0.0);
    let own_processes = case.slow_workers().is_some_and(|workers| workers.unnamed);
    match () {
        () if used => None,
        () if own_processes && case.main.cores() < LOST_WAIT => {
            Some("the loop does hardly anything with what it gets: its processes may be training, and not loading")
        }
        () if steps && shares.host_busy + shares.device_sync < NOTHING_DONE => Some(
            "batches are taken and hardly anything is done with them: a run that skips what it had before it was stopped \
             looks the same, and goes on when it is there",
        ),
        () => None,
    }
}

/// What else there is to say where workers are blamed for being slow: they may be waiting for their source all the same.
fn of_workers(judgement: Judgement, case: &RuleInput<'_>, workers: &Workers) -> Judgement {
    if judgement.class != Class::DataLoader || judgement.cause == Some(Cause::TooManyWorkers) {
        return judgement;
    }
    // It says itself what the slow ones do.
    if judgement.cause == Some(Cause::SlowSamples) && judgement.meaning.is_some() {
        return judgement;
    }
    let restarts = judgement.cause == Some(Cause::WorkerRestart);
    if !case.main.exact && workers.idle > IDLE_OR_SLOW && !restarts {
        return judgement.less_sure(GUESSED, "workers wait in a poll that may be for an index or for a slow source");
    }
    let part = if workers.active() > 0.0 { workers.io_wait / workers.active() } else { 0.0 };
    if part > CLEARLY_LOST {
        let words = format!("the workers wait for their source {} of the time", percent(workers.io_wait));
        return judgement.other(Cause::DiskBandwidth, part, words);
    }
    judgement
}

/// Lowers the confidence for what could not be seen and for contradictions.
fn qualify(case: &RuleInput<'_>, judgement: &mut Judgement) {
    let (window, main) = (case.window, case.main);
    let mut less_sure = |factor: Threshold, why: &str| {
        judgement.confidence *= factor.value;
        judgement.doubts.push(why.to_owned());
    };
    if !main.exact {
        let why = match case.bottleneck {
            Bottleneck::Wait(_) => {
                "/proc/PID/syscall may not be read: whom a thread waits for is guessed from its open descriptors"
            }
            _ => "/proc/PID/syscall may not be read: any poll counts as a wait for a batch",
        };
        less_sure(INFERRED, why);
    }
    if judgement.phase == Phase::Training && !is_proven(window, case.known) {
        let why = "neither steps nor data workers, a device in use or frames of a model were seen: it may be setting itself up";
        less_sure(GUESSED, why);
    }
    if let Some(why) = only_fetches(case).filter(|_| matches!(judgement.class, Class::DataLoader | Class::Io)) {
        less_sure(GUESSED, why);
    }
    if main.share(Activity::Graph) >= PHASE {
        let why =
            "the step runs in one compiled call of TensorFlow: stacks cannot tell its waits for data from its work";
        less_sure(GUESSED, why);
    }
    if window.load_unknown() && judgement.phase == Phase::Training && judgement.class != Class::Unknown {
        less_sure(INFERRED, &format!("{}: it may work meanwhile", window.unread_device()));
    }
    if window.gpu.as_ref().is_some_and(|gpu| gpu.lost) {
        less_sure(GUESSED, "a GPU of the job does not answer any more");
    }
    let samples = f64::from(window.samples);
    judgement.confidence *= samples / (samples + SAMPLES.value);
    judgement.confidence = judgement.confidence.clamp(0.0, CERTAIN.value);

    let class = judgement.class;
    let mut other = |cause: Cause, confidence: Threshold, text: String| {
        judgement.others.push(Finding::new(cause, confidence.value, text));
    };
    if let Some(gpu) = &window.gpu {
        if gpu.spread > UNEVEN && gpu.users.len() > 1 {
            let text = format!("use differs by {:.0} points between the job's devices", gpu.spread * 100.0);
            other(Cause::Communication, PERHAPS, text);
        }
        if class != Class::Gpu && is_held_down(gpu) {
            other(Cause::Throttled, PERHAPS, "the device is throttled while it works".into());
        }
    }
    if window.cpu.steal.is_some_and(|steal| steal > LOST_WAIT) {
        let text = "the hypervisor takes more than a tenth of the CPU time (steal)";
        other(Cause::NoisyNeighbour, PERHAPS, text.into());
    }
    let named = judgement.cause == Some(Cause::NoisyNeighbour)
        || judgement.others.iter().any(|known| known.cause == Some(Cause::NoisyNeighbour));
    let loses = matches!(class, Class::Cpu | Class::DataLoader | Class::Io);
    if let Some(queues) = main_queues(case).filter(|_| !named && loses && others_hold(case)) {
        let queues = percent(queues);
        let text = format!(
            "other processes hold CPUs: the loop, or whom it waits for, queues {queues} of the runnable time"
        );
        judgement.others.insert(0, Finding::new(Cause::NoisyNeighbour, PERHAPS.value, text));
    }
    let mut other = |cause: Cause, confidence: Threshold, text: String| {
        judgement.others.push(Finding::new(cause, confidence.value, text));
    };
    let resting = window.workers.as_ref().filter(|workers| class == Class::Gpu && workers.idle > ALL_ALONG);
    if let Some(workers) = resting.filter(|workers| workers.count as f64 > window.cpu.cores.unwrap_or(f64::MAX)) {
        let text = format!("{} workers have nothing to do {} of the time", workers.count, percent(workers.idle));
        other(Cause::TooManyWorkers, PERHAPS, text);
    }
}
