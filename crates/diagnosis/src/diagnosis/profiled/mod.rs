//! The account of a profile → verdict. Its numbers are exact, so the largest loss decides; confidence depends on how much the
//! profile shows, not on its length.
//!
//! ```text
//! losses (what costs how much) → words (the sentence and the advice of each) → verdict
//! ```

mod beside;
mod busy_words;
mod cpu_words;
mod host_words;
mod losses;
mod probed;
mod said;
mod sync_advice;
mod taken;
mod words;

pub use beside::beside;
pub use probed::probed;
pub use taken::TakenProfile;

use std::collections::BTreeMap;
use std::sync::Arc;

use losses::{Loss, LossKind};
use said::Words;

use super::causes::{Cause, Finding};
use super::class::{Class, Phase};
use super::culprits::{Culprit, CulpritKind, ShareOf};
use super::parts::GpuIdle;
use super::signals::{Evidence, Signal};
use super::subject::Subject;
use super::thresholds::*;
use super::verdict::{Context, StepSource, Steps, Unavailable, Verdict};
use trainmon_base::stats::{percent, round};
use trainmon_profiles::account::{GpuAccount, LoopAccount, ProfileAccount};
use trainmon_profiles::ranks_account::RanksAccount;
use trainmon_waits::time_split::TimeSplit;

thresholds! {
    LOSES = 0.10, "of the window", "a loss that is worth a tenth of the time";
    COMPUTES = 0.80, "of the window", "a GPU that works this much leaves at most a fifth to gain on the host";
    CLOSE = 0.03, "of the window", "two losses that are nearer to each other than this may change places in the next steps";
    NAMED_LOSS = 0.05, "of the window", "smaller losses are not worth a line";
}

/// Confidence where the profile shows what each thread did, where only a part of it, and where two losses are as good as equal.
const EXACT: f64 = 0.95;
const IN_PART: f64 = 0.85;
const EITHER: f64 = 0.70;
/// Where several smaller losses take more than a fifth of the GPU's time.
const SEVERAL_LOSSES: f64 = 0.75;
/// From this share of the window on, compilation is what the profile shows.
const MOSTLY_COMPILES: f64 = 0.5;
/// Steps that cover less of the window leave time of which no step is told.
const STEPS_COVER: f64 = 0.95;
/// What is missing at the end of a file counts as idle.
const CUT_OFF: f64 = 0.75;
/// A cause that is not the larger part of what is lost, and one that is not the verdict.
const ONE_OF_SEVERAL: f64 = 0.85;
const OTHER: f64 = 0.80;
/// Most other findings.
const OTHERS: usize = 4;

/// The verdict on a profile.
pub fn verdict(account: impl Into<Arc<ProfileAccount>>, context: &Context) -> Verdict {
    let account = account.into();
    let mut losses = losses::find(&account);
    losses.retain(|loss| loss.share >= NAMED_LOSS.value);
    losses.sort_by(|a, b| b.share.total_cmp(&a.share));
    let lead = lead(&account, &losses);
    let mut verdict = Verdict {
        schema: 1,
        trainmon: env!("CARGO_PKG_VERSION").into(),
        pid: context.pid,
        command: context.command.clone(),
        started: context.started.clone(),
        observed_s: round(account.window_ms / 1000.0, 6),
        window_s: round(account.window_ms / 1000.0, 6),
        phase: lead.phase,
        class: lead.class,
        cause: lead.cause,
        confidence: round(lead.confidence, 2),
        confidence_by_rules: round(lead.confidence, 2),
        summary: lead.words.summary,
        shares: account.of_loop.as_ref().map(shares),
        gpu_idle: account.devices.first().map(gpu_idle),
        steps: steps(&account),
        evidence: evidence(&account),
        advice: lead.words.advice.into_iter().map(|advice| said::advice_on(&account, advice)).collect(),
        culprits: lead.words.culprits,
        other_findings: others(&account, &losses, lead.of),
        seen: seen(&account),
        not_seen: not_seen(&account, lead.class),
        ..Verdict::default()
    };
    let covered = account.step_ms.filter(|ms| ms * account.steps as f64 >= STEPS_COVER * account.window_ms);
    let step_s = covered.map(|ms| ms / 1000.0);
    for advice in &mut verdict.advice {
        advice.predicted_step_ms =
            step_s.zip(advice.speedup_at_most).map(|(step, speedup)| round(1000.0 * step / speedup, 1));
    }
    if account.cut_off {
        let file = if account.is_of_file() { "file" } else { "profile" };
        verdict.summary.insert_str(0, &format!("The {file} ends early, so this is of the part before. "));
    }
    if let [first, _, ..] = account.devices.as_slice()
        && let Some(rest) = verdict.summary.strip_prefix("The GPU ")
    {
        verdict.summary = format!("GPU {} {rest}", first.index);
    }
    if account.compiling >= NAMED_LOSS.value && verdict.phase != Phase::Compile {
        let compiling = percent(account.compiling);
        let text =
            format!("Less certain: code was compiled for {compiling} of the window, so these are no usual steps");
        verdict.other_findings.push(Finding { class: verdict.class, text, ..Finding::default() });
    }
    if let Some(across) = &account.across_ranks {
        name_late_rank(&mut verdict, across);
    }
    verdict.profile = Some(account);
    verdict
}

/// The rank that the others wait for, before what holds that rank up: the verdict is on its own profile.
fn name_late_rank(verdict: &mut Verdict, across: &RanksAccount) {
    if across.skew < NAMED_LOSS.value {
        return;
    }
    if let Some(words) = across.in_turn_words() {
        let waits = percent(across.skew);
        verdict.summary = format!(
            "The ranks wait {waits} of the time for one another, and are late in turn: {words}. {}",
            verdict.summary
        );
        return;
    }
    let (Some(late), Some(words)) = (&across.straggler, across.straggler_words()) else { return };
    verdict.summary = format!(
        "The ranks wait {} of the time for a late one: {words}. Of rank {}: {}",
        percent(across.skew),
        late.rank,
        verdict.summary
    );
    let name = late.rank.to_string();
    let (share, unit) = (Some(round(across.skew, 3)), Some(ShareOf::Time));
    verdict.culprits.insert(0, Culprit { kind: CulpritKind::Rank, pid: None, name, more: 0, share, unit });
}

/// The words for a loss.
fn words_for(loss: &Loss, account: &ProfileAccount) -> Words {
    match account.devices.first() {
        Some(gpu) => words::words_for(loss, account, gpu),
        None => cpu_words::words_for(loss, account),
    }
}

/// What the verdict is.
struct Lead {
    phase: Phase,
    class: Class,
    cause: Option<Cause>,
    confidence: f64,
    words: Words,
    /// The loss that it is.
    of: Option<LossKind>,
}

fn lead(account: &ProfileAccount, losses: &[Loss]) -> Lead {
    if account.compiling >= MOSTLY_COMPILES {
        let words = words::compiling(account);
        let confidence = shown(account);
        return Lead { phase: Phase::Compile, class: Class::Idle, cause: None, confidence, words, of: None };
    }
    let Some(gpu) = account.devices.first() else { return without_gpu(account, losses) };
    let trains = Lead {
        phase: Phase::Training,
        class: Class::Unknown,
        cause: None,
        confidence: 0.0,
        words: Words::default(),
        of: None,
    };
    let first = largest(losses).filter(|loss| loss.share >= LOSES.value);
    // Communication keeps the GPU busy, and is a loss all the same.
    let computes = gpu.compute >= COMPUTES.value;
    match first {
        Some(loss) if !computes => Lead {
            phase: if loss.kind == LossKind::StartUp { Phase::Init } else { Phase::Training },
            class: loss.class(),
            cause: loss.cause(account),
            confidence: if loss.kind == LossKind::Unrecorded { 0.0 } else { confidence(account, losses, loss) },
            words: words_for(loss, account),
            of: Some(loss.kind),
        },
        _ if gpu.busy + gpu.idle_by.operator + gpu.idle_by.launch <= 0.0 => trains,
        _ => {
            let busy = losses::busy_with(account, gpu);
            Lead {
                class: Class::Gpu,
                cause: Some(busy.cause),
                confidence: busy.confidence.min(shown(account)).min(if computes { 1.0 } else { SEVERAL_LOSSES }),
                words: busy_words::words_for(&busy, account, gpu),
                ..trains
            }
        }
    }
}

/// The loss that decides: the largest, but what the host does counts together, in whatever parts.
fn largest(losses: &[Loss]) -> Option<&Loss> {
    let of_host = |loss: &&Loss| matches!(loss.kind, LossKind::Launches | LossKind::HostWork | LossKind::Syncs);
    let host: f64 = losses.iter().filter(of_host).map(|loss| loss.share).sum();
    let first = losses.first()?;
    Some(if host > first.share { losses.iter().find(of_host).unwrap_or(first) } else { first })
}

/// A profile of the host alone.
fn without_gpu(account: &ProfileAccount, losses: &[Loss]) -> Lead {
    let largest = losses.first().filter(|loss| loss.share >= LOSES.value);
    let none = Lead {
        phase: Phase::Unknown,
        class: Class::Unknown,
        cause: None,
        confidence: 0.0,
        words: cpu_words::nothing(account),
        of: None,
    };
    let Some(loss) = largest else { return none };
    let unrecorded = loss.kind == LossKind::Unrecorded;
    Lead {
        phase: Phase::Training,
        class: loss.class(),
        cause: loss.cause(account),
        confidence: if unrecorded { 0.0 } else { confidence(account, losses, loss) },
        words: words_for(loss, account),
        of: Some(loss.kind),
    }
}

/// How much of the truth the profile shows.
fn shown(account: &ProfileAccount) -> f64 {
    if account.cut_off {
        CUT_OFF
    } else if account.notes.is_empty() && account.of_loop.is_some() {
        EXACT
    } else {
        IN_PART
    }
}

fn confidence(account: &ProfileAccount, losses: &[Loss], lead: &Loss) -> f64 {
    let next = losses.iter().find(|other| other.kind != lead.kind).map_or(0.0, |other| other.share);
    let all: f64 = losses.iter().map(|loss| loss.share).sum();
    let leads = match lead.share {
        share if share - next < CLOSE.value => EITHER,
        share if share < all / 2.0 => ONE_OF_SEVERAL,
        _ => EXACT,
    };
    shown(account).min(leads).min(lead.most_sure)
}

/// What else costs time.
fn others(account: &ProfileAccount, losses: &[Loss], lead: Option<LossKind>) -> Vec<Finding> {
    let rest = losses.iter().filter(|loss| Some(loss.kind) != lead);
    let rest = rest.filter_map(|loss| {
        let text = words_for(loss, account).summary;
        let confidence = round(shown(account).min(loss.most_sure).min(OTHER), 2);
        (!text.is_empty()).then(|| Finding {
            class: loss.class(),
            cause: loss.cause(account),
            confidence,
            text,
            share: None,
        })
    });
    rest.take(OTHERS).collect()
}

fn shares(of_loop: &LoopAccount) -> TimeSplit {
    let known = TimeSplit {
        input_wait: of_loop.input_wait,
        device_sync: of_loop.waits_for_gpu(),
        host_busy: of_loop.launch + of_loop.operator + of_loop.python,
        checkpoint: of_loop.saving,
        ..TimeSplit::default()
    };
    // What is a wait of another kind, or not recorded.
    TimeSplit { other: (1.0 - known.total()).max(0.0), ..known }.map(|share| round(share, 4))
}

fn gpu_idle(gpu: &GpuAccount) -> GpuIdle {
    let by = gpu.idle_by;
    GpuIdle {
        total: round(gpu.idle(), 4),
        while_input_wait: round(by.input_wait, 4),
        while_host_busy: round(by.launch - gpu.idle_in_copies + by.operator, 4),
        while_sync: round(by.sync + gpu.idle_in_copies, 4),
        while_other: round(by.python, 4),
    }
}

fn steps(account: &ProfileAccount) -> Steps {
    let ms = account.step_ms.filter(|ms| *ms > 0.0);
    let mut lengths = account.step_lengths_ms.clone();
    lengths.sort_by(f64::total_cmp);
    Steps {
        per_s: ms.map(|ms| round(1000.0 / ms, 3)),
        p50_ms: lengths.get(lengths.len() / 2).map(|ms| round(*ms, 3)),
        count: ms.map(|_| account.steps),
        source: ms.map(|_| StepSource::Profile),
        ..Steps::default()
    }
}

fn evidence(account: &ProfileAccount) -> Vec<Evidence> {
    let gpu = account.devices.first();
    let of_gpu = |value: fn(&GpuAccount) -> f64| gpu.map(value);
    let of_loop = |value: fn(&LoopAccount) -> f64| account.of_loop.as_ref().map(value);
    let rows = [
        (Signal::GpuBusy, of_gpu(|gpu| gpu.busy), Some(COMPUTES.value)),
        (Signal::InputWait, of_loop(|of_loop| of_loop.input_wait), None),
        (Signal::LostWait, of_gpu(|gpu| gpu.idle_by.input_wait), Some(LOSES.value)),
        (Signal::DeviceSync, of_loop(LoopAccount::waits_for_gpu), None),
        (Signal::Collectives, of_gpu(|gpu| gpu.exposed), Some(LOSES.value)),
    ];
    let evidence = |(signal, value, threshold): (Signal, Option<f64>, Option<f64>)| {
        let value = Some(round(value?, 4));
        Some(Evidence { signal, value, unit: signal.unit(), threshold, text: signal.label().to_owned(), from: None })
    };
    rows.into_iter().filter_map(evidence).collect()
}

fn seen(account: &ProfileAccount) -> BTreeMap<Subject, String> {
    let state = |has: bool| if has { "ok" } else { "absent" }.to_owned();
    BTreeMap::from([
        (Subject::Stacks, state(account.with_stack)),
        (Subject::Threads, state(account.of_loop.is_some())),
        (Subject::Accelerator, state(!account.devices.is_empty())),
    ])
}

/// What a profile of one process does not show, or was not asked to.
fn not_seen(account: &ProfileAccount, class: Class) -> Vec<Unavailable> {
    let mut all = Vec::new();
    let mut add = |what: Subject, why: String, fix: &str| {
        all.push(Unavailable { what: what.into(), why, fix: Some(said::with_pid(fix, account)) });
    };
    let (trace, is_file) = (account.noun(), account.is_of_file());
    if account.cut_off {
        let (file, fix) =
            if is_file { ("file", "copy the whole file, or record again") } else { (trace, said::AGAIN) };
        add(Subject::Accelerator, format!("the {file} ends early; a GPU's events come last in it"), fix);
    }
    if class == Class::DataLoader && account.of_loop.is_some_and(|of_loop| !of_loop.makes_batches) {
        let why =
            format!("a {trace} of the training process does not show what its workers do, so not why they are late");
        add(Subject::Processes, why, "trainmon diagnose --pid PID (while the job runs)");
    }
    if !account.with_stack {
        let why = format!("the {trace} has no Python functions, so lines of code are not named");
        let fix = if is_file { "torch.profiler.profile(with_stack=True)" } else { said::WITH_STACKS };
        add(Subject::Stacks, why, fix);
    }
    if account.of_loop.is_none() {
        let why = format!("the {trace} has nothing of the host, so what keeps the GPU waiting is not known");
        let with_host = "torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])";
        add(Subject::Threads, why, if is_file { with_host } else { said::AGAIN });
    }
    all
}
