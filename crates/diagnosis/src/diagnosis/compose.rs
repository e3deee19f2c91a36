//! Judgment and numbers → the verdict that people and scripts read.

use trainmon_base::text::sanitize;
use trainmon_libraries::StepUnit;
use trainmon_sample::Sample;
use trainmon_sample::locals::LOOPS;

use super::advice::advice;
use super::calibration::calibrated;
use super::causes::{Cause, Judgment};
use super::ceiling::Ceiling;
use super::class::{Class, Phase};
use super::evidence::evidence;
use super::features::{Features, LoopStacks};
use super::loop_parts::{LoopWait, WaitFor};
use super::named_waits::named;
use super::plan::plan;
use super::shown_place::shown;
use super::stalls;
use super::subject::Subject;
use super::summary::summary;
use super::thresholds::*;
use super::verdict::{Context, Finding, MainThread, OwnCost, StepSource, Steps, Unavailable, Verdict, WorkerVerdict};
use super::visibility::Visibility;
use super::what_if::Capacity;
use trainmon_base::stats::{percent, round};
use trainmon_waits::stacks::Activity;
use trainmon_waits::time_split::TimeSplit;

thresholds! {
    NOTHING_LEFT = 0.97, "share", "the waits leave too little to judge the rest by";
}

/// Builds the verdict. Session counters (`observed_s`, `first_verdict_s`, `steps.count`) are for the caller.
pub(super) fn verdict(context: &Context, judgment: &Judgment, window: &Features, sample: &Sample) -> Verdict {
    let spec = judgment.cause.map(|cause| cause.spec_in(judgment.class).for_window(window));
    let Visibility { seen, mut not_seen } = Visibility::from_sample(sample, context.pid, &window.accelerators);
    if judgment.class == Class::Unknown {
        for doubt in &judgment.doubts {
            not_seen.insert(0, Unavailable { what: Subject::Verdict.into(), why: doubt.clone(), fix: None });
        }
    }
    let stacks = window.loop_stacks();
    let mut culprits = judgment.culprits(spec, window);
    let summary = summary(context.pid, judgment, spec, window, &culprits);
    culprits.extend(judgment.culprits_outside(window));
    let ceiling =
        if is_training(judgment) { Ceiling::from_window(window, spec, &Capacity::left(&window.cpu)) } else { None };
    let advice = advice((judgment, context.pid), spec, window, ceiling);
    let plan = plan(judgment, &advice, window);
    let (place_of, place) = shown(window);
    let (shares, waits) = loop_time(judgment, window);
    let evidence = evidence(judgment, spec, window, shares);
    Verdict {
        schema: 1,
        trainmon: env!("CARGO_PKG_VERSION").into(),
        pid: context.pid,
        command: context.command.clone(),
        started: context.started.clone(),
        phase: judgment.phase,
        class: judgment.class,
        cause: judgment.cause,
        confidence: round(calibrated(judgment), 2),
        confidence_by_rules: round(judgment.confidence, 2),
        summary,
        shares,
        waits,
        gpu_idle: window.gpu.as_ref().map(|gpu| gpu.idle),
        steps: steps(judgment, window),
        main_thread: stacks.map(main_thread),
        job: window.does.clone(),
        place,
        place_of,
        workers: workers(judgment, window),
        evidence,
        advice,
        ceiling,
        other_findings: findings(judgment, window),
        plan,
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

/// Where the loop's time went, and what it waits for during the fifth kind.
fn loop_time(judgment: &Judgment, window: &Features) -> (Option<TimeSplit>, Vec<LoopWait>) {
    let Some(mut shares) = window.main.as_ref().map(|main| main.shares) else { return (None, Vec::new()) };
    let blamed = judgment.cause.and_then(|cause| cause.spec_in(judgment.class).followed).map(|wait| wait.part);
    let waits = window.chain.as_ref().map(|chain| named(&mut shares, chain, blamed));
    let mut waits = waits.unwrap_or_default();
    if judgment.cause == Some(Cause::Communication) && window.gpu.is_none() {
        let collectives = window.main.as_ref().map_or(0.0, |main| main.share(Activity::Collective));
        wait_in_collectives(&mut shares, &mut waits, collectives);
    }
    (Some(shares), waits)
}

/// Makes what the loop does in collectives a wait for the other ranks, as the verdict says: between CPUs, waiting and exchanging both
/// look like work.
fn wait_in_collectives(shares: &mut TimeSplit, waits: &mut Vec<LoopWait>, collectives: f64) {
    let known = waits.iter_mut().find(|wait| wait.on == WaitFor::Ranks);
    let missing = collectives - known.as_ref().map_or(0.0, |wait| wait.share);
    let moved = missing.clamp(0.0, shares.host_busy.max(0.0));
    shares.host_busy -= moved;
    shares.other += moved;
    match known {
        Some(wait) => wait.share += moved,
        None if moved > 0.0 => waits.push(LoopWait { on: WaitFor::Ranks, pid: None, share: moved }),
        None => {}
    }
}

/// The loop by its stacks.
fn main_thread(stacks: &LoopStacks) -> MainThread {
    MainThread {
        activities: stacks
            .shares
            .iter()
            .map(|(activity, share)| (activity.word().to_owned(), round(share, 3)))
            .filter(|(_, share)| *share > 0.0)
            .collect(),
        hottest: stacks.hottest.clone(),
        sync_lines: stacks.sync_lines.clone(),
        samples: stacks.samples,
    }
}

/// Whether it trains and a verdict was possible.
fn is_training(judgment: &Judgment) -> bool {
    judgment.phase == Phase::Training && !matches!(judgment.class, Class::Unknown | Class::Idle)
}

/// What else was found, what would be the next limit, and what makes the verdict less certain.
fn findings(judgment: &Judgment, window: &Features) -> Vec<Finding> {
    let class = judgment.class;
    let doubts = if class == Class::Unknown { &[][..] } else { &judgment.doubts };
    let doubts = doubts.iter().map(|doubt| {
        let text = format!("Less certain: {doubt}");
        Finding { class, text, ..Finding::default() }
    });
    judgment.others.iter().cloned().chain(next_limit(judgment, window)).chain(doubts).collect()
}

/// What would limit the loop if it did not wait for data.
fn next_limit(judgment: &Judgment, window: &Features) -> Option<Finding> {
    let main = window.main.as_ref()?;
    let lost = window.lost_wait();
    let waits = matches!(judgment.class, Class::DataLoader | Class::Io | Class::Cpu);
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
        // Its parts are told with the other limits.
        _ if judgment.others.iter().any(|other| is_of_loop(other) && other.share.is_some()) => return None,
        _ if host >= LARGER_HALF => {
            let host = percent(host.min(1.0));
            let text = format!("next limit: without these waits the loop's own work would take {host} of the time");
            (Cause::MainThread, text)
        }
        _ => return None,
    };
    Some(Finding::new(cause, judgment.confidence * GUESSED.value, text))
}

fn is_of_loop(finding: &Finding) -> bool {
    matches!(finding.cause, Some(Cause::MainThread | Cause::CpuTraining))
}

/// Steps. Turns of a loop that does not train are not steps; a server that has little to do answers requests.
fn steps(judgment: &Judgment, window: &Features) -> Steps {
    let steps = &window.steps;
    let is_of_server = steps.counted.as_ref().is_some_and(|counted| counted.unit == StepUnit::Request);
    let rate = if judgment.class != Class::Idle || is_of_server { steps.rate() } else { None };
    let by_variable = || {
        let counted = steps.counted.as_ref()?;
        let is_loop = LOOPS.iter().any(|name| counted.variable.starts_with(name));
        let what = if is_loop { "" } else { "variable " };
        Some(StepSource::Variable(format!("{what}{}", sanitize(&counted.variable))))
    };
    Steps {
        per_s: rate.map(|rate| round(rate, 3)),
        p50_ms: steps.quantile_ms(0.5).map(|ms| round(ms, 1)),
        p95_ms: steps.quantile_ms(0.95).map(|ms| round(ms, 1)),
        count: steps.count,
        unit: if steps.per_s.is_none() {
            steps.counted.as_ref().map_or_else(StepUnit::default, |counted| counted.unit)
        } else {
            StepUnit::Step
        },
        stall_every: stalls::period(&window.stalls).map(|period| period.every),
        source: rate.and_then(|_| steps.per_s.map(|_| StepSource::QueueWrites).or_else(by_variable)),
    }
}

/// Each worker. A stopped one is in no stage.
fn workers(judgment: &Judgment, window: &Features) -> Vec<WorkerVerdict> {
    let mut each = window.workers.as_ref().map(|workers| workers.each.clone()).unwrap_or_default();
    if judgment.phase == Phase::Stopped {
        each.iter_mut().for_each(|worker| (worker.stages, worker.hottest) = (None, None));
    }
    each
}
