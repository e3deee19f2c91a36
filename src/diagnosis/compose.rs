//! Judgement and numbers → the verdict that people and scripts read.

use crate::rates::time_split::LoopActivity;
use crate::sample::Sample;
use crate::text::sanitise;

use super::calibration::calibrated;
use super::causes::{AdviceRow, Cause, CauseSpec, CulpritPlace, Judgement, Promise, in_words};
use super::ceiling::Ceiling;
use super::class::{Class, Phase};
use super::culprits::{self, Culprit, CulpritKind, NAMED};
use super::evidence::evidence;
use super::features::Features;
use super::parts::Hottest;
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
    NOTHING_LEFT = 0.97, "share", "the waits leave too little to judge the rest by";
}

/// Most culprits that a sentence names.
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
    let summary = summary(context.pid, judgement, spec, window, &culprits);
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

/// Whether it trains and a verdict was possible.
fn is_training(judgement: &Judgement) -> bool {
    judgement.phase == Phase::Training && !matches!(judgement.class, Class::Unknown | Class::Idle)
}

/// What else was found, what would be the next limit, and what makes the verdict less certain.
fn findings(judgement: &Judgement, window: &Features) -> Vec<Finding> {
    let class = judgement.class;
    let doubts = judgement.doubts.iter().filter(|_| class != Class::Unknown);
    let doubts = doubts.map(|doubt| {
        let text = format!("Less certain: {doubt}");
        Finding { class, cause: None, confidence: 0.0, text }
    });
    judgement.others.iter().cloned().chain(next_limit(judgement, window)).chain(doubts).collect()
}

/// What would limit the loop if it did not wait for data.
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
            (Cause::ComputeBound, format!("next limit: without these waits the GPU would be busy {busy} of the time"))
        }
        _ if host >= LARGER_HALF => {
            let host = percent(host.min(1.0));
            let text = format!("next limit: without these waits the loop's own work would take {host} of the time");
            (Cause::MainThread, text)
        }
        _ => return None,
    };
    Some(Finding::new(cause, judgement.confidence * GUESSED.value, text))
}

/// One or two sentences: what is lost, with its share of the time, and why; then where in the code.
fn summary(
    pid: u32,
    judgement: &Judgement,
    spec: Option<&CauseSpec>,
    window: &Features,
    culprits: &[Culprit],
) -> String {
    let lost = match judgement.class {
        Class::Unknown => {
            let doubt = judgement.doubts.first().map_or("too little could be read", String::as_str);
            return format!("No verdict: {doubt}.");
        }
        Class::Idle => return not_training(pid, judgement, window),
        Class::Balanced => return "Nothing costs the loop more than a few percent of its time. Healthy.".into(),
        Class::Cpu if !window.waits_lead() => works(window),
        Class::DataLoader | Class::Io | Class::Cpu => waits(window),
        Class::Gpu => match &window.gpu {
            Some(gpu) if judgement.cause == Some(Cause::ComputeBound) => {
                return format!("The GPU computes {} of the time. Healthy.", percent(gpu.busy));
            }
            Some(gpu) => format!("The GPU is busy {} of the time", percent(gpu.busy)),
            None if window.communicates || window.trainers > 1 => "The ranks wait for each other".into(),
            None => "The GPU is busy".into(),
        },
    };
    if let Some(text) = elsewhere(spec, window) {
        return text;
    }
    let Some(spec) = spec else { return lost + "." };
    let meaning = judgement.meaning.as_deref().unwrap_or(spec.meaning);
    let mut text = format!("{lost}: {meaning}{}.", in_brackets(culprits, meaning));
    let line = spec.line(window);
    let line = match workers_sentence(judgement.class, line, window) {
        Some(sentence) => {
            text += &sentence;
            line.filter(|(place, _)| *place != CulpritPlace::Workers)
        }
        None => line,
    };
    text + &line.map(line_sentence).unwrap_or_default()
}

/// What the job does instead of training.
fn not_training(pid: u32, judgement: &Judgement, window: &Features) -> String {
    match judgement.phase {
        Phase::Stopped if window.frozen.is_some() => frozen(window),
        Phase::Stopped => {
            format!("A signal or a debugger has stopped the process. Resume it with `kill -CONT {pid}`.")
        }
        Phase::Hung => hung(window),
        Phase::Finished => "The process has ended.".into(),
        Phase::Init => starting(window),
        Phase::Compile => "The model is being compiled. The loop takes no steps meanwhile.".into(),
        Phase::Validation => "The job is validating. The loop takes no steps meanwhile.".into(),
        _ => match &judgement.meaning {
            Some(words) => format!("The job is not training: it {words}."),
            None => "The job is alive but idle: it neither computes nor waits for data. It may be done, hung or \
                     waiting for input."
                .into(),
        },
    }
}

/// That no step has been taken yet, and the line that takes the time.
fn starting(window: &Features) -> String {
    let hottest =
        window.loop_stacks().and_then(|seen| seen.hottest_own.as_ref()).filter(|place| place.share >= NAMED);
    let place = hottest.map(|place| line_sentence((CulpritPlace::Loop, place))).unwrap_or_default();
    format!("The job is starting: it takes no steps yet.{place}")
}

/// ` (rustc, PID 24077, 0.9 CPUs; …)`: the culprits other than code, GPUs, and processes that the meaning names.
fn in_brackets(culprits: &[Culprit], meaning: &str) -> String {
    let is_told = |culprit: &Culprit| culprit.pid.is_some_and(|pid| meaning.contains(&pid.to_string()));
    let named =
        |culprit: &&Culprit| !matches!(culprit.kind, CulpritKind::Line | CulpritKind::Gpu) && !is_told(culprit);
    let mut words: Vec<String> = culprits.iter().filter(named).map(Culprit::in_brackets).collect();
    let more = words.len().saturating_sub(IN_A_SENTENCE);
    words.truncate(IN_A_SENTENCE);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    if words.is_empty() { String::new() } else { format!(" ({})", words.join("; ")) }
}

/// ` The 4 workers are 97% busy, mostly in burn (common.py:234).`, where the loop waits for workers.
fn workers_sentence(class: Class, line: Option<(CulpritPlace, &Hottest)>, window: &Features) -> Option<String> {
    let waits = matches!(class, Class::DataLoader | Class::Io) && window.waits_lead();
    let workers = window.workers.as_ref().filter(|_| waits)?;
    let (subject, wait) = match workers.count {
        1 => ("The worker is".to_owned(), "waits"),
        count => (format!("The {count} workers are"), "wait"),
    };
    let source = match workers.io_wait {
        io if io > HARDLY => format!(" and {wait} for data {} of the time", percent(io)),
        _ => String::new(),
    };
    let place = match line {
        Some((CulpritPlace::Workers, line)) if line.share >= LARGER_HALF => format!(", mostly in {line}"),
        Some((CulpritPlace::Workers, line)) => format!(", {} of that in {line}", percent(line.share)),
        _ => String::new(),
    };
    Some(format!(" {subject} {} busy{source}{place}.", percent(workers.busy)))
}

/// ` The loop spends most of its time in train (train.py:44).`
fn line_sentence((place, line): (CulpritPlace, &Hottest)) -> String {
    let share = match line.share {
        share if share >= LARGER_HALF => "most".to_owned(),
        share => percent(share),
    };
    match place {
        CulpritPlace::Nowhere => String::new(),
        CulpritPlace::Sync => format!(" The loop waits in {line}."),
        CulpritPlace::Sleep => format!(" The loop sleeps at {line}."),
        CulpritPlace::Loop => format!(" The loop spends {share} of its time in {line}."),
        CulpritPlace::Workers => format!(" The workers spend {share} of their time in {line}."),
    }
}

/// That the job is frozen, and the command that resumes it.
fn frozen(window: &Features) -> String {
    let paused = "The job is paused: its control group is frozen, as by `docker pause`.";
    match window.frozen.iter().flatten().next() {
        Some(thaw) => format!("{paused} Resume it with `{}`.", sanitise(thaw)),
        None => paused.to_owned(),
    }
}

/// That the job makes no progress, and which ranks are missing.
fn hung(window: &Features) -> String {
    let ranks: Vec<String> = window.ranks_gone.iter().take(culprits::MOST_CULPRITS).map(u32::to_string).collect();
    let more = if window.ranks_gone.len() > ranks.len() { " and more" } else { "" };
    match ranks.len() {
        0 => "The job hangs: nothing that the loop waits for makes progress.".to_owned(),
        1 => format!("The job hangs: rank {} has ended, and the others wait for it.", ranks.concat()),
        _ => format!("The job hangs: ranks {}{more} have ended, and the others wait for them.", ranks.join(", ")),
    }
}

/// The sentence on a wait that was traced.
fn elsewhere(spec: Option<&CauseSpec>, window: &Features) -> Option<String> {
    let wait = spec?.followed?;
    let share = window.chain.as_ref()?.share(wait.part);
    Some(format!("The loop {}.", in_words(window, &wait, share)?))
}

/// How long the loop waits for data, or saves. The share is that of the split.
fn waits(window: &Features) -> String {
    let shares = window.main.as_ref().map(|main| main.shares).unwrap_or_default();
    if shares.checkpoint > window.lost_wait() {
        return format!("The loop is {} {} of the time", LoopActivity::Checkpoint.word(), percent(shares.checkpoint));
    }
    if shares.input_wait < LOST_WAIT {
        return idle(window).unwrap_or_else(|| "The loop loads its own batches".into());
    }
    let lead = if window.gpu.is_some() { "The GPU sits idle while the loop" } else { "The loop" };
    format!("{lead} {} {} of the time", LoopActivity::InputWait.verb(), percent(shares.input_wait))
}

/// How long the loop's own work leaves the GPU idle, or how long it works where no GPU is in use.
fn works(window: &Features) -> String {
    if let Some(idle) = idle(window) {
        return idle;
    }
    if window.load_unknown() {
        return match window.accelerators.is_empty() {
            true => "The GPU's load cannot be read".to_owned(),
            false => "The job uses an accelerator that trainmon cannot read".to_owned(),
        };
    }
    let work = window.main.as_ref().map_or(0.0, |main| main.shares.host_busy);
    format!("The loop {} {} of the time", LoopActivity::HostBusy.verb(), percent(work))
}

/// How long the GPU is idle, where there is one.
fn idle(window: &Features) -> Option<String> {
    window.gpu.as_ref().map(|gpu| format!("The GPU sits idle {} of the time", percent(1.0 - gpu.job_busy)))
}

/// Steps. Turns of a loop that does not train are not steps.
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

/// Each worker. A stopped one is in no stage.
fn workers(judgement: &Judgement, window: &Features) -> Vec<WorkerVerdict> {
    let mut each = window.workers.as_ref().map(|workers| workers.each.clone()).unwrap_or_default();
    for worker in each.iter_mut().filter(|_| judgement.phase == Phase::Stopped) {
        (worker.stages, worker.hottest) = (None, None);
    }
    each
}

/// Puts the advice with the largest gain first. One that only changes a number stays first, and says why.
fn most_first(advice: &mut [Advice], first_tunes: bool) {
    let bound = |advice: &Advice| advice.speedup_at_most.unwrap_or(1.0);
    let Some((first, rest)) = advice.split_first_mut() else { return };
    let most = rest.iter().map(bound).fold(1.0, f64::max);
    match first.speedup_at_most {
        Some(brings) if first_tunes => {
            if most > brings {
                first.why += "; it comes first because changing a number is the least work";
            }
        }
        _ => advice.sort_by(|a, b| bound(b).total_cmp(&bound(a))),
    }
}

/// Resumes a frozen job.
fn resume(thaw: &str) -> Advice {
    let why = "its control group is frozen, so none of its processes run";
    Advice { title: format!("Resume it: {}", sanitise(thaw)), why: why.into(), ..Advice::default() }
}

fn advice(
    judgement: &Judgement,
    spec: Option<&CauseSpec>,
    window: &Features,
    ceiling: Option<Ceiling>,
) -> Vec<Advice> {
    // While the job trains, the advice of its cause; otherwise only what lets it continue.
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
