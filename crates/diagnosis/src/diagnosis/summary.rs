//! The summary of a verdict: one or two sentences, the answer first, then the number, then the reason.
//!
//! A percentage in it is one that the reader finds again: that of the split of the loop's time, or of the GPU's idle time.

use super::causes::{Cause, CauseSpec, CulpritPlace, Judgment, in_words};
use super::class::{Class, Phase};
use super::culprits::{self, Culprit, CulpritKind};
use super::features::Features;
use super::parts::Hottest;
use super::place::NAMED;
use super::thresholds::*;
use trainmon_base::stats::percent;
use trainmon_base::text::sanitize;
use trainmon_libraries::JobKind;
use trainmon_waits::time_split::LoopActivity;

/// Most culprits that a sentence names.
const IN_A_SENTENCE: usize = 2;

/// One or two sentences: what is lost, with its share of the time, and why; then where in the code.
pub(super) fn summary(
    pid: u32,
    judgment: &Judgment,
    spec: Option<&CauseSpec>,
    window: &Features,
    culprits: &[Culprit],
) -> String {
    let lost = match judgment.class {
        Class::Unknown => {
            let doubt = judgment.doubts.first().map_or("too little could be read", String::as_str);
            return format!("No verdict: {doubt}.");
        }
        Class::Idle => return not_training(pid, judgment, window),
        Class::Balanced => {
            let busy = window.gpu.as_ref().map(|gpu| format!("The GPU is busy {} of the time. ", percent(gpu.busy)));
            return busy.unwrap_or_default() + "Nothing else costs the loop much.";
        }
        Class::Cpu if !window.waits_lead() => works(window),
        Class::DataLoader if makes_batches(judgment, spec, window) => {
            let share = window.main.as_ref().map_or(0.0, |main| main.shares.input_wait);
            format!("The GPU sits idle while the loop makes its batches {} of the time", percent(share))
        }
        Class::DataLoader | Class::Io | Class::Cpu => waits(window),
        Class::Gpu => match &window.gpu {
            Some(gpu) if judgment.cause == Some(Cause::ComputeBound) => {
                return format!(
                    "The GPU computes {} of the time. Nothing else holds this run back.",
                    percent(gpu.busy)
                );
            }
            Some(gpu) => format!("The GPU is busy {} of the time", percent(gpu.busy)),
            None if window.communicates || window.ranks > 1 => "The ranks wait for each other".into(),
            None => "The GPU is busy".into(),
        },
    };
    if let Some(text) = elsewhere(spec, window) {
        let line = spec.and_then(|spec| spec.line(window)).map(|found| match found {
            (CulpritPlace::Loop, line) => format!(" Most of that is in {line}."),
            (_, line) => format!(" It waits in {line}."),
        });
        return text + &line.unwrap_or_default();
    }
    let Some(spec) = spec else { return lost + "." };
    let meaning = judgment.meaning.as_deref().unwrap_or(spec.meaning);
    let mut text = format!("{lost}: {meaning}{}.", in_brackets(culprits, meaning));
    let line = spec.line(window);
    let line = match workers_sentence(judgment.class, meaning, line, window) {
        Some(sentence) => {
            text += &sentence;
            line.filter(|(place, _)| *place != CulpritPlace::Workers)
        }
        None => line,
    };
    text + &line.map(line_sentence).unwrap_or_default()
}

/// What the job does instead of training.
fn not_training(pid: u32, judgment: &Judgment, window: &Features) -> String {
    match judgment.phase {
        Phase::Stopped if window.frozen.is_some() => frozen(window),
        Phase::Stopped => {
            format!("A signal or a debugger has stopped the process. Resume it with `kill -CONT {pid}`.")
        }
        Phase::Hung => hung(window),
        Phase::Finished => "The process has ended.".into(),
        Phase::Init => starting(window),
        Phase::Compile => "The model is being compiled. The loop takes no steps meanwhile.".into(),
        Phase::Validation => "The job is validating. The loop takes no steps meanwhile.".into(),
        _ => match &judgment.meaning {
            Some(words) if window.does.kind == Some(JobKind::Serving) => {
                format!("The server has nothing to do: it {words}.")
            }
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

/// ` (rustc, PID 24077: 0.9 CPUs; …)`: the culprits other than code, GPUs, and processes that the meaning names.
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

/// ` The 4 workers are 97% busy, mostly in burn (common.py:234).`, where the loop waits for workers. `None` if the meaning says
/// that they are busy, and they hardly wait themselves.
fn workers_sentence(
    class: Class,
    meaning: &str,
    line: Option<(CulpritPlace, &Hottest)>,
    window: &Features,
) -> Option<String> {
    let waits = matches!(class, Class::DataLoader | Class::Io) && window.waits_lead();
    let workers = if waits { window.workers.as_ref()? } else { return None };
    let (subject, are, wait) = match workers.count {
        1 => ("The worker".to_owned(), "is", "waits"),
        count => (format!("The {count} workers"), "are", "wait"),
    };
    let busy = format!("{are} {} busy", percent(workers.busy));
    let source = format!("{wait} for data {} of the time", percent(workers.io_wait));
    let does = match workers.io_wait {
        io if io > HARDLY && io > workers.busy => source,
        io if io > HARDLY => format!("{busy} and {source}"),
        _ if meaning.contains("busy") => return None,
        _ => busy,
    };
    let place = match line {
        Some((CulpritPlace::Workers, line)) if line.share >= LARGER_HALF => format!(", mostly in {line}"),
        Some((CulpritPlace::Workers, line)) => format!(", {} of that in {line}", percent(line.share)),
        _ => String::new(),
    };
    Some(format!(" {subject} {does}{place}."))
}

/// ` The loop spends most of its time in train (train.py:44).`
fn line_sentence((place, line): (CulpritPlace, &Hottest)) -> String {
    let (most, share) = (line.share >= LARGER_HALF, percent(line.share));
    match place {
        CulpritPlace::Nowhere => String::new(),
        CulpritPlace::Sync => format!(" The loop waits in {line}."),
        CulpritPlace::Sleep => format!(" The loop sleeps at {line}."),
        CulpritPlace::Loop if most => format!(" The loop spends most of its time in {line}."),
        CulpritPlace::Loop => format!(" The loop spends {share} of its time in {line}."),
        CulpritPlace::Workers if most => format!(" Most of the work is in {line}."),
        CulpritPlace::Workers => format!(" {share} of the work is in {line}."),
    }
}

/// That the job is frozen, and the command that resumes it.
fn frozen(window: &Features) -> String {
    let paused = "The job is paused: its control group is frozen, as by `docker pause`.";
    match window.frozen.iter().flatten().next() {
        Some(thaw) => format!("{paused} Resume it with `{}`.", sanitize(thaw)),
        None => paused.to_owned(),
    }
}

/// That the job makes no progress, and which ranks are missing.
fn hung(window: &Features) -> String {
    let error = window.gpu_errors.iter().find_map(|(index, xids)| Some((index, xids.words()?)));
    let error = error.map(|(index, words)| format!(" GPU {index} reported {words}.")).unwrap_or_default();
    without_progress(window) + &error
}

fn without_progress(window: &Features) -> String {
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

/// Whether the loop's thread makes the batches while a GPU waits for it: it works then, rather than waits.
fn makes_batches(judgment: &Judgment, spec: Option<&CauseSpec>, window: &Features) -> bool {
    let by_loop = spec.is_some_and(|spec| spec.place == CulpritPlace::Loop);
    let share = window.main.as_ref().map_or(0.0, |main| main.shares.input_wait);
    judgment.cause == Some(Cause::InProcessLoading) && by_loop && window.gpu.is_some() && share >= LOST_WAIT
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
    let idle = window.gpu.as_ref().map(|gpu| gpu.idle.total).filter(|idle| *idle >= LOST_WAIT.value);
    let idle = idle.map(|idle| format!(", and the GPU sits idle {}", percent(idle))).unwrap_or_default();
    format!("The loop {} {} of the time{idle}", LoopActivity::InputWait.verb(), percent(shares.input_wait))
}

/// How long the loop's own work leaves the GPU idle, or how long it works where no GPU is in use.
fn works(window: &Features) -> String {
    if let Some(idle) = idle(window) {
        return idle;
    }
    if window.load_unknown() {
        return if window.accelerators.is_empty() {
            "The GPU's load cannot be read".to_owned()
        } else {
            "The job uses an accelerator that trainmon cannot read".to_owned()
        };
    }
    let work = window.main.as_ref().map_or(0.0, |main| main.shares.host_busy);
    format!("The loop {} {} of the time", LoopActivity::HostBusy.verb(), percent(work))
}

/// How long the GPU is idle, where there is one.
fn idle(window: &Features) -> Option<String> {
    window.gpu.as_ref().map(|gpu| format!("The GPU sits idle {} of the time", percent(1.0 - gpu.job_busy)))
}
