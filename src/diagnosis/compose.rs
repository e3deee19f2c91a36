//! Judgement and numbers → the verdict that people and scripts read.

use crate::sample::Sample;
use crate::text::sanitise;

use super::calibration::calibrated;
use super::causes::{AdviceRow, Cause, CauseSpec, Judgement, Promise, in_words};
use super::ceiling::Ceiling;
use super::class::{Class, Phase};
use super::culprits::{self, Culprit, CulpritKind, NAMED};
use super::evidence::evidence;
use super::features::Features;
use super::stalls;
use super::stats::{percent, round};
use super::subject::Subject;
use super::thresholds::*;
use super::verdict::{
    Advice, Context, Finding, MainThread, OwnCost, StepSource, Steps, Unavailable, Verdict, WorkerVerdict,
};
use super::visibility::Visibility;
use super::what_if::Capacity;

thresholds! {
    NOTHING_LEFT = 0.97, "share", "of what waits leave so little nothing can be told";
}

/// Culprits that a sentence names one by one.
const IN_A_SENTENCE: usize = 2;

/// Builds the verdict. Session counters (`observed_s`, `first_verdict_s`, `steps.count`) are for the caller.
pub(super) fn verdict(context: &Context, judgement: &Judgement, window: &Features, sample: &Sample) -> Verdict {
    let spec = judgement.cause.map(|cause| cause.spec_in(judgement.class).for_window(window));
    let Visibility { seen, mut not_seen } = Visibility::from_sample(sample, context.pid);
    if judgement.class == Class::Unknown {
        for doubt in &judgement.doubts {
            not_seen.insert(0, Unavailable { what: Subject::Verdict.into(), why: doubt.clone(), fix: None });
        }
    }
    let main = window.main.as_ref();
    let mut culprits = judgement.culprits(spec, window);
    let summary = summary(judgement, spec, window, &culprits);
    culprits.extend(judgement.culprits_outside(window));
    let ceiling = Ceiling::from_window(window, spec, &Capacity::left(&window.cpu)).filter(|_| is_training(judgement));
    Verdict {
        schema: 1,
        trainmon: env!("CARGO_PKG_VERSION").into(),
        pid: context.pid,
        command: context.command.clone(),
        started: context.started.clone(),
        phase: judgement.phase,
        class: judgement.class,
        cause: judgement.cause,
        confidence: round(calibrated(judgement), 2),
        confidence_by_rules: round(judgement.confidence, 2),
        summary,
        shares: main.map(|main| main.shares),
        gpu_idle: window.gpu.as_ref().map(|gpu| gpu.idle),
        steps: steps(judgement, window),
        main_thread: main.and_then(|main| main.stacks.as_ref()).map(|stacks| MainThread {
            activities: stacks
                .shares
                .iter()
                .map(|(activity, share)| (activity.word().to_owned(), round(share, 3)))
                .filter(|(_, share)| *share > 0.0)
                .collect(),
            hottest: stacks.hottest.clone(),
            sync_lines: stacks.sync_lines.clone(),
            samples: stacks.samples,
        }),
        workers: workers(judgement, window),
        evidence: evidence(judgement, spec, window),
        advice: advice(judgement, spec, window, ceiling),
        ceiling,
        other_findings: findings(judgement, window),
        culprits,
        chain: super::chain::nodes(window),
        seen,
        not_seen,
        own: OwnCost {
            cpu_pct: None,
            rss_mib: sample.own.rss_bytes.map(|bytes| round(bytes as f64 / f64::from(1 << 20), 1)),
        },
        ..Verdict::default()
    }
}

/// It trains, and something is known of it.
fn is_training(judgement: &Judgement) -> bool {
    judgement.phase == Phase::Training && !matches!(judgement.class, Class::Unknown | Class::Idle)
}

/// What else was found, what would come next, and what makes the verdict less sure.
fn findings(judgement: &Judgement, window: &Features) -> Vec<Finding> {
    let class = judgement.class;
    let doubts = judgement.doubts.iter().filter(|_| class != Class::Unknown);
    let doubts = doubts.map(|doubt| {
        let text = format!("less sure because {doubt}");
        Finding { class, cause: None, confidence: 0.0, text }
    });
    judgement.others.iter().cloned().chain(next_limit(judgement, window)).chain(doubts).collect()
}

/// What would hold the loop back once its waits for batches are gone.
fn next_limit(judgement: &Judgement, window: &Features) -> Option<Finding> {
    let main = window.main.as_ref()?;
    let lost = window.lost_wait();
    let waits = matches!(judgement.class, Class::DataLoader | Class::Io | Class::Cpu);
    if !waits || !window.waits_lead() || lost > NOTHING_LEFT {
        return None;
    }
    let of_rest = |share: f64| share / (1.0 - lost);
    let host = of_rest(main.shares.host_busy);
    let (cause, text) = match window.gpu.as_ref().map(|gpu| of_rest(gpu.job_busy)) {
        Some(busy) if busy >= DEVICE_BUSY => {
            let busy = percent(busy.min(1.0));
            (Cause::ComputeBound, format!("next: without these waits the GPU would be busy {busy} of the time"))
        }
        _ if host >= LARGER_HALF => {
            let host = percent(host.min(1.0));
            let text = format!("next: without these waits the loop's own work on the host takes {host} of the time");
            (Cause::MainThread, text)
        }
        _ => return None,
    };
    Some(Finding::new(cause, judgement.confidence * GUESSED.value, text))
}

fn summary(judgement: &Judgement, spec: Option<&CauseSpec>, window: &Features, culprits: &[Culprit]) -> String {
    let doubt = judgement.doubts.first().map_or("too little has been seen", String::as_str);
    let training = match judgement.class {
        Class::Unknown => return format!("No verdict: {doubt}."),
        Class::Idle => {
            return match judgement.phase {
                Phase::Stopped if window.frozen.is_some() => return frozen(window),
                Phase::Stopped => "The process is stopped (SIGSTOP or a debugger); `kill -CONT` lets it go on.",
                Phase::Hung => return hung(window),
                Phase::Finished => "The process has ended.",
                Phase::Init => return starting(window),
                Phase::Compile => "The model is being compiled: no steps are taken meanwhile.",
                Phase::Validation => "The job validates: no steps are taken meanwhile.",
                _ => match &judgement.meaning {
                    Some(words) => return format!("The job trains nothing now: it {words}."),
                    None => {
                        "The job is alive, but neither computes nor waits for data: done, hung or waiting for input."
                    }
                },
            }
            .into();
        }
        Class::Balanced => "Nothing costs the loop more than a few percent".to_owned(),
        Class::Cpu if !window.waits_lead() => {
            let unread = || match window.accelerators.is_empty() {
                true => "How busy the GPU is cannot be read".to_owned(),
                false => "The job uses an accelerator that trainmon cannot read".to_owned(),
            };
            let unread = window.load_unknown().then(unread);
            idle(window).or(unread).unwrap_or_else(|| "The loop runs on the CPU".into())
        }
        Class::DataLoader | Class::Io | Class::Cpu => waits(window),
        Class::Gpu => match &window.gpu {
            Some(gpu) => format!("The GPU is busy {} of the time", percent(gpu.busy)),
            None if window.communicates || window.trainers > 1 => {
                "The loop goes on when all ranks have got there".into()
            }
            None => "The GPU is busy".into(),
        },
    };
    if let Some(text) = elsewhere(spec, window) {
        return text;
    }
    let mut text = match spec {
        Some(spec) => format!("{training}: {}", judgement.meaning.as_deref().unwrap_or(spec.meaning)),
        None => training,
    };
    text += &who(culprits);
    if let (Some(workers), Class::DataLoader | Class::Io) = (&window.workers, judgement.class) {
        let plural = if workers.count == 1 { "" } else { "s" };
        text += &format!("; {} worker{plural} {} busy", workers.count, percent(workers.busy));
        if workers.io_wait > HARDLY {
            text += &format!(", {} waiting for their source", percent(workers.io_wait));
        }
    }
    if let Some((words, line)) = spec.and_then(|spec| spec.line(window)) {
        text += &format!("; {words} {}", line.with_share());
    }
    text + "."
}

/// That no step has been taken yet, and the line that keeps it.
fn starting(window: &Features) -> String {
    let hottest =
        window.loop_stacks().and_then(|seen| seen.hottest_own.as_ref()).filter(|place| place.share >= NAMED);
    let place = hottest.map_or(String::new(), |place| format!("; most of it in {}", place.with_share()));
    format!("The job is starting: it does not step yet{place}.")
}

/// ` (rustc (PID 24077): 0.9 CPUs; …)`: who else than code and GPUs is to blame.
fn who(culprits: &[Culprit]) -> String {
    let named = |culprit: &&Culprit| !matches!(culprit.kind, CulpritKind::Line | CulpritKind::Gpu);
    let mut words: Vec<String> = culprits.iter().filter(named).map(ToString::to_string).collect();
    let more = words.len().saturating_sub(IN_A_SENTENCE);
    words.truncate(IN_A_SENTENCE);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) }
}

/// That the job is frozen, and what lets it go on.
fn frozen(window: &Features) -> String {
    let paused = "The job is paused: its control group is frozen, as `docker pause` does";
    match window.frozen.iter().flatten().next() {
        Some(thaw) => format!("{paused}; `{}` lets it go on.", sanitise(thaw)),
        None => format!("{paused}."),
    }
}

/// That nothing goes on, and which ranks are missing.
fn hung(window: &Features) -> String {
    let ranks: Vec<String> = window.ranks_gone.iter().take(culprits::MOST_CULPRITS).map(u32::to_string).collect();
    let more = if window.ranks_gone.len() > ranks.len() { " and more" } else { "" };
    match ranks.len() {
        0 => "The job hangs: nothing that the loop waits for moves.".to_owned(),
        1 => format!("The job hangs: rank {} has ended, and the others wait for it.", ranks.concat()),
        _ => format!("The job hangs: ranks {}{more} have ended, and the others wait for them.", ranks.join(", ")),
    }
}

/// The sentence on a wait that was followed: for whom.
fn elsewhere(spec: Option<&CauseSpec>, window: &Features) -> Option<String> {
    let wait = spec?.followed?;
    let share = window.chain.as_ref()?.share(wait.part);
    Some(format!("The loop {}.", in_words(window, &wait, share)?))
}

fn waits(window: &Features) -> String {
    let shares = window.main.as_ref().map(|main| main.shares).unwrap_or_default();
    if shares.checkpoint > window.lost_wait() {
        return format!("The loop saves state {} of the time", percent(shares.checkpoint));
    }
    if shares.input_wait < LOST_WAIT {
        return idle(window).unwrap_or_else(|| "The loop makes its own batches".into());
    }
    let who = if window.gpu.is_some() { "The GPU waits while the loop waits" } else { "The loop waits" };
    format!("{who} for batches {} of the time", percent(shares.input_wait))
}

/// How long the device idles, where there is one.
fn idle(window: &Features) -> Option<String> {
    window.gpu.as_ref().map(|gpu| format!("The GPU is idle {} of the time", percent(1.0 - gpu.job_busy)))
}

/// Steps. What goes round while the job does not train is counted as well, and is none.
fn steps(judgement: &Judgement, window: &Features) -> Steps {
    let steps = &window.steps;
    let rate = steps.rate().filter(|_| judgement.class != Class::Idle);
    let by_variable = || {
        let variable = &steps.counted.as_ref()?.variable;
        Some(StepSource::Variable(format!("variable {}", sanitise(variable))))
    };
    Steps {
        per_s: rate.map(|rate| round(rate, 3)),
        p50_ms: steps.quantile_ms(0.5).map(|ms| round(ms, 1)),
        p95_ms: steps.quantile_ms(0.95).map(|ms| round(ms, 1)),
        count: steps.count,
        stall_every: stalls::period(&window.stalls).map(|period| period.every),
        source: rate.and_then(|_| steps.per_s.map(|_| StepSource::FeederWrites).or_else(by_variable)),
    }
}

/// Each worker. Stopped ones stand somewhere, but are in no stage.
fn workers(judgement: &Judgement, window: &Features) -> Vec<WorkerVerdict> {
    let mut each = window.workers.as_ref().map(|workers| workers.each.clone()).unwrap_or_default();
    for worker in each.iter_mut().filter(|_| judgement.phase == Phase::Stopped) {
        (worker.stages, worker.hottest) = (None, None);
    }
    each
}

/// Puts the advice first that brings most. One that only changes a number stays first, and says why.
fn most_first(advice: &mut [Advice], first_tunes: bool) {
    let bound = |advice: &Advice| advice.speedup_at_most.unwrap_or(1.0);
    let Some((first, rest)) = advice.split_first_mut() else { return };
    let most = rest.iter().map(bound).fold(1.0, f64::max);
    match first.speedup_at_most {
        Some(brings) if first_tunes => {
            if most > brings {
                first.why += "; to change a number is the least work, so it comes first";
            }
        }
        _ => advice.sort_by(|a, b| bound(b).total_cmp(&bound(a))),
    }
}

/// Lets a frozen job go on.
fn resume(thaw: &str) -> Advice {
    let why = "its control group is frozen: none of its processes run";
    Advice { title: format!("Resume it: {}", sanitise(thaw)), why: why.into(), ..Advice::default() }
}

fn advice(
    judgement: &Judgement,
    spec: Option<&CauseSpec>,
    window: &Features,
    ceiling: Option<Ceiling>,
) -> Vec<Advice> {
    // Of what trains, a cause's; of what does not, only what lets it go on.
    let known = match (spec, judgement.phase) {
        (None, Phase::Stopped | Phase::Hung) => super::causes::spec_of(judgement.class, None, judgement.phase),
        _ => spec,
    };
    if let (Phase::Stopped, Some(thaw)) = (judgement.phase, &window.frozen) {
        return thaw.iter().map(|thaw| resume(thaw)).collect();
    }
    let Some(known) = known else { return Vec::new() };
    let bound = window.main.as_ref().and_then(|_| (known.bound)(known, window)).filter(|bound| *bound > 1.0);
    let of_row = |row: &AdviceRow| Advice {
        title: row.title.into(),
        why: row.why.into(),
        speedup_at_most: bound.filter(|_| row.promise != Promise::Nothing),
        predicted_step_ms: None,
    };
    let mut advice: Vec<Advice> = known.advice.iter().map(of_row).collect();
    if let Some(first) = advice.first_mut() {
        (known.sharpen)(first, window);
    }
    for (one, row) in advice.iter_mut().zip(known.advice) {
        let tunes = row.promise == Promise::Ceiling || row.is_tuning() && one.speedup_at_most.is_some();
        if let Some(ceiling) = ceiling.filter(|_| tunes) {
            one.limit(ceiling.speedup_at_most);
        }
    }
    most_first(&mut advice, known.advice.first().is_some_and(AdviceRow::is_tuning));
    advice
}
