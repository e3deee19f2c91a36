//! What a report says about a verdict, section by section in reading order. Text and Markdown lay out the same sections.

use jiff::tz::TimeZone;

use super::chain::{self, ROWS};
pub use super::section::{Column, Point, Section, SectionBody};
use super::section::{and_more, point, whole};
use super::{profile_sections, rank_profile_section, ranks};
use trainmon_base::stats::quantile;
use trainmon_base::text::format::{
    SURE, UNMEASURED, largest_first, precise, precise_in_unit, step_time, sureness, whole_percent as percent,
};
use trainmon_diagnosis::diagnosis::loop_parts::{LEAST_LISTED, LoopPart};
use trainmon_diagnosis::diagnosis::verdict::{
    Advice, Class, Evidence, Finding, GpuIdle, Hottest, MainThread, Phase, PlaceOf, Rank, Stages, StepSource, Steps,
    Subject, Unavailable, WorkerVerdict,
};
use trainmon_diagnosis::diagnosis::{Verdict, causes};
use trainmon_profiles::account::ProfileSource;
use trainmon_waits::time_split::LoopActivity;

/// Up to this many workers get a row each; more are summarized.
const WORKERS_LISTED: usize = 8;
/// Most functions of the workers that are listed.
const WORKER_FUNCTIONS: usize = 3;

/// What opens the advice of a healthy run.
pub const NOTHING_HOLDS: &str = "Nothing is holding this run back.";

/// `DATA LOADER · too few workers (93% sure)`.
pub fn headline(verdict: &Verdict) -> String {
    let sure = if verdict.class != Class::Unknown { sureness(verdict.confidence) } else { None };
    verdict.heading() + &sure.map(|sure| format!(" ({sure})")).unwrap_or_default()
}

/// All that there is to say below headline and summary: in this zone, of a run that ended at this time if that is known better than the
/// verdict knows it.
pub fn sections(verdict: &Verdict, zone: &TimeZone, ended_unix_ms: Option<i64>) -> Vec<Section> {
    let (doubts, findings): (Vec<_>, Vec<_>) = verdict.other_findings.iter().partition(|finding| finding.is_doubt());
    // The account of a file says the same, exactly.
    let is_file = verdict.profile.as_deref().is_some_and(|profile| profile_sections::from_file(profile).is_some());
    let told_steps = if is_file { String::new() } else { steps(&verdict.steps) };
    let doubtful = verdict.class == Class::Unknown || verdict.confidence < SURE;
    let mut all = vec![
        advice(verdict),
        plan(verdict),
        job(verdict),
        loop_time(verdict),
        place(verdict),
        profile_sections::taken(verdict, zone, ended_unix_ms),
    ];
    all.extend(verdict.profile.iter().flat_map(|profile| profile_sections::sections(profile)));
    all.extend([
        Section::new(capitalized(verdict.steps.unit.word()), SectionBody::Text(told_steps)),
        gpu_idle(if is_file { None } else { verdict.gpu_idle }),
        ranks(&verdict.ranks),
        rank_profiles(verdict),
        wait_chain(verdict),
        workers(&verdict.workers),
        stages(&verdict.workers),
        functions("Hottest functions of the workers", hottest(&verdict.workers)),
    ]);
    all.extend(verdict.main_thread.iter().flat_map(loop_stacks));
    all.extend([
        Section::detail(
            "To blame",
            SectionBody::Points(
                verdict.culprits.iter().map(|culprit| point(culprit.kind.word(), culprit.to_string())).collect(),
            ),
        ),
        evidence(&verdict.evidence),
        Section {
            detail: !doubtful,
            ..Section::detail("Counter-evidence", SectionBody::Points(doubts.into_iter().map(finding).collect()))
        },
        Section::detail("Other findings", SectionBody::Points(findings.into_iter().map(finding).collect())),
        Section { detail: !doubtful, ..unavailable(verdict) },
    ]);
    all.retain(|section| !section.is_empty());
    all
}

/// `PID 1234`; an imported recording may know no process.
pub fn pid_words(pid: u32) -> String {
    if pid == 0 { "no PID".to_owned() } else { format!("PID {pid}") }
}

/// What the job is doing, in a few words.
pub fn phase_words(phase: Phase) -> &'static str {
    match phase {
        Phase::Unknown => "unknown",
        Phase::Training => "training",
        Phase::Checkpoint => "saving a checkpoint",
        state => causes::spec_of(Class::Idle, None, state).map_or(state.word(), |spec| spec.headline),
    }
}

/// The command that explains the cause.
pub fn explain_command(verdict: &Verdict) -> Option<String> {
    verdict.cause.map(|cause| format!("trainmon explain {}/{cause}", verdict.class.word()))
}

/// What trainmon itself used: `trainmon 0.1.0 used 0.4% of a CPU and 14 MiB`.
pub fn own_cost(verdict: &Verdict) -> String {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let cpu = finite(verdict.own.cpu_pct).map(|cpu| format!("{cpu:.1}% of a CPU"));
    let memory = finite(verdict.own.rss_mib).map(|mib| format!("{mib:.0} MiB"));
    let used: Vec<_> = cpu.into_iter().chain(memory).collect();
    let used = if used.is_empty() { String::new() } else { format!(" used {}", used.join(" and ")) };
    format!("trainmon {}{used}", verdict.trainmon)
}

/// An advice's title with what it is worth.
pub fn with_worth(advice: &Advice) -> String {
    advice.title.clone() + &advice.worth().map(|worth| format!(": {worth}")).unwrap_or_default()
}

fn advice(verdict: &Verdict) -> Section {
    let points = verdict.advice.iter().map(|advice| Point {
        reason: advice.why.clone(),
        ..point(&advice.title, advice.worth().unwrap_or_default())
    });
    let title = if verdict.is_healthy() { "What you could still try" } else { "What to do" };
    Section::detail(title, SectionBody::Steps(points.collect()))
        .noting(verdict.ceiling.map(|ceiling| ceiling.words()))
}

/// What to do one after the other, with the step time that is left.
fn plan(verdict: &Verdict) -> Section {
    let unit = verdict.steps.unit;
    let points = verdict.plan.iter().map(|step| point(&step.title, step.left(unit)));
    Section::new("Plan: one after the other", SectionBody::Steps(points.collect()))
}

/// What kind of job it is, and which library runs its loop.
fn job(verdict: &Verdict) -> Section {
    let does = &verdict.job;
    let within = does.within.as_ref().map(|outer| format!(", again and again by {outer}")).unwrap_or_default();
    let computes = does.computes.as_ref().map(|row| format!(", which runs {row}")).unwrap_or_default();
    let kind = capitalized(&does.kind.map_or("run", |kind| kind.word()).replace('-', " "));
    let by_library = does
        .library()
        .zip(does.library.as_deref())
        .map(|(row, library)| format!("{kind}: the loop is run by {library}{computes}{within} ({})", row.page));
    let fed =
        || does.feeder().map(|loader| format!("{kind}: the batches come from {} ({})", loader.name, loader.page));
    let text = by_library.or_else(fed);
    Section::detail("Kind of job", SectionBody::Text(text.unwrap_or_default()))
}

/// The path of the time, from the user's line inwards.
fn place(verdict: &Verdict) -> Section {
    let indent = |depth: usize| if depth == 0 { String::new() } else { format!("{}└ ", "  ".repeat(depth - 1)) };
    let line = |(depth, place): (usize, &Hottest)| {
        (format!("{:>3}%  {}", percent(place.share), indent(depth)), place.to_string())
    };
    let lines = verdict.place.iter().enumerate().map(line);
    let title = match verdict.place_of {
        PlaceOf::Loop => "Where the loop is in the code, outside waits for data and the GPU",
        PlaceOf::Workers => "Where the workers are in the code, whose batches the loop waits for",
        PlaceOf::Threads => "Where the threads that the loop waits for are in the code",
    };
    Section::new(title, SectionBody::Tree(lines.collect()))
}

fn capitalized(words: &str) -> String {
    let mut rest = words.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

fn loop_time(verdict: &Verdict) -> Section {
    let parts = verdict.loop_parts().into_iter();
    let shares = parts.map(|(part, share)| (part.word().into_owned(), part, share)).collect();
    let late = verdict.ranks.iter().enumerate().find(|(_, rank)| rank.straggler);
    let (title, gpu) = match late {
        Some((at, rank)) => (format!("Where the time of rank {}'s loop goes", rank.number(at)), "Its GPU"),
        None => (format!("Where the training loop's time goes{}", seen_from(verdict)), "The GPU"),
    };
    let idle = verdict.gpu_idle.filter(|idle| idle.total.is_finite());
    let idle = idle.map(|idle| format!("{gpu} sits idle {}% of the time.", percent(idle.total)));
    Section::new(title, SectionBody::Shares(shares)).noting(idle)
}

/// Whether the loop's time was measured from outside or counted in the profile, of a verdict that has both.
fn seen_from(verdict: &Verdict) -> &'static str {
    let Some(profile) = &verdict.profile else { return "" };
    match profile.source {
        ProfileSource::Trace | ProfileSource::Probe => "",
        _ if verdict.profile_age_s.is_some() => ", from outside",
        _ => ", in the profile",
    }
}

fn gpu_idle(idle: Option<GpuIdle>) -> Section {
    let parts = |idle: GpuIdle| {
        vec![
            ("loop waits for data", LoopActivity::InputWait, idle.while_input_wait),
            ("loop waits for GPU", LoopActivity::DeviceSync, idle.while_sync),
            ("loop works", LoopActivity::HostBusy, idle.while_host_busy),
            ("another reason", LoopActivity::Other, idle.while_other),
        ]
    };
    let shares = idle.filter(|idle| idle.total.is_finite()).map(parts).into_iter().flatten();
    let shares = shares.filter(|(.., share)| *share >= LEAST_LISTED);
    let shares = shares.map(|(words, activity, share)| (words.to_owned(), LoopPart::Activity(activity), share));
    Section::detail("While the GPU is idle, of all time", SectionBody::Shares(shares.collect()))
}

fn steps(steps: &Steps) -> String {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let slow = finite(steps.p95_ms).map(|ms| format!(" (95% within {})", step_time(ms))).unwrap_or_default();
    let how = steps.source.as_ref().map(StepSource::how).unwrap_or_default();
    let counted = steps.count.map(|count| format!("{count} counted{how}"));
    let known = [
        finite(steps.per_s).map(|rate| format!("{} a second", precise(rate))),
        finite(steps.p50_ms).map(|ms| format!("median {}{slow}", step_time(ms))),
        steps.stall_every.filter(|&every| every > 1).map(|every| format!("a stall every {every} steps")),
        counted,
    ];
    known.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn ranks(ranks: &[Rank]) -> Section {
    let shares = LoopActivity::ALL.map(|activity| Column::right(activity.short()));
    let mut columns = vec![Column::left("rank"), Column::right("PID")];
    columns.extend(shares.into_iter().chain([Column::right("steps/s"), Column::left("hottest line")]));
    let rows = ranks::rows(ranks);
    let more = ranks.len().saturating_sub(rows.len());
    Section::new("Ranks: where the time of each goes", SectionBody::Table(columns, rows)).noting(and_more(more))
}

fn rank_profiles(verdict: &Verdict) -> Section {
    let across = verdict.profile.as_ref().and_then(|profile| profile.across_ranks.as_ref());
    let rows = across.map(rank_profile_section::rows).unwrap_or_default();
    Section::new(
        "Ranks: which waits for which in collectives",
        SectionBody::Table(rank_profile_section::COLUMNS.to_vec(), rows),
    )
    .noting(across.map(rank_profile_section::notes).unwrap_or_default())
}

fn wait_chain(verdict: &Verdict) -> Section {
    let rows = chain::rows(&verdict.chain);
    let lines = rows.iter().take(ROWS);
    let lines = lines.map(|row| (format!("{:>3}%  {}", percent(row.node.share), row.branch), row.text.clone()));
    let title = "Wait chain: what the loop waits for, and what that waits for";
    Section::new(title, SectionBody::Tree(lines.collect())).noting(and_more(rows.len().saturating_sub(ROWS)))
}

fn workers(workers: &[WorkerVerdict]) -> Section {
    let columns = ["busy", "waits for data", "waits for a CPU", "idle", "batches/s"].map(Column::right);
    let mut columns = columns.to_vec();
    columns.insert(0, Column::left("PID"));
    let title = match workers.len() {
        1 => "Where the worker's time goes".to_owned(),
        count => format!("Where the time of the {count} workers goes"),
    };
    let rows = if workers.len() <= WORKERS_LISTED {
        workers.iter().map(|worker| worker_row(&worker.pid.to_string(), |value| value(worker))).collect()
    } else {
        columns.first_mut().into_iter().for_each(|column| column.name = "");
        [("lowest", 0.0), ("median", 0.5), ("highest", 1.0)]
            .map(|(name, part)| worker_row(name, |value| quantile(workers.iter().filter_map(value), part)))
            .to_vec()
    };
    Section::new(title, SectionBody::Table(columns, rows))
}

/// The row of a worker, or of several, of which `take` gives one of the values.
fn worker_row(name: &str, take: impl Fn(fn(&WorkerVerdict) -> Option<f64>) -> Option<f64>) -> Vec<String> {
    let shown = |value: Option<f64>, words: fn(f64) -> String| {
        value.filter(|value| value.is_finite()).map_or(UNMEASURED.to_owned(), words)
    };
    let share = |value| shown(take(value), whole);
    vec![
        name.to_owned(),
        share(|worker| worker.busy),
        share(|worker| worker.io_wait),
        share(|worker| worker.runnable),
        share(|worker| worker.idle),
        shown(take(|worker| worker.batches_per_s), precise),
    ]
}

/// The stages of the workers' time.
fn stages(workers: &[WorkerVerdict]) -> Section {
    let rows = workers.iter().filter_map(|worker| {
        let Stages { load, decode, transform, collate, hand_over } = worker.stages?;
        let shares = [load, decode, transform, collate, hand_over].map(whole);
        Some([vec![worker.pid.to_string()], shares.to_vec()].concat())
    });
    let mut columns = ["load", "decode", "transform", "collate", "send"].map(Column::right).to_vec();
    columns.insert(0, Column::left("PID"));
    Section::detail("What the workers do", SectionBody::Table(columns, rows.take(WORKERS_LISTED).collect()))
}

/// The functions that take most of the workers' time, each once.
fn hottest(workers: &[WorkerVerdict]) -> Vec<Hottest> {
    let mut hottest: Vec<&Hottest> = workers.iter().filter_map(|worker| worker.hottest.as_ref()).collect();
    hottest.sort_by(|a, b| (&a.file, &a.function).cmp(&(&b.file, &b.function)).then(b.share.total_cmp(&a.share)));
    hottest.dedup_by(|a, b| a.function == b.function && a.file == b.file);
    hottest.sort_by(|a, b| b.share.total_cmp(&a.share));
    hottest.into_iter().take(WORKER_FUNCTIONS).cloned().collect()
}

fn functions(title: &str, functions: impl IntoIterator<Item = Hottest>) -> Section {
    let rows = functions.into_iter().map(|place| vec![whole(place.share), place.to_string()]);
    let columns = vec![Column::right("share"), Column::left("where")];
    Section::detail(title, SectionBody::Table(columns, rows.collect()))
}

/// What the stacks say about the loop: activities beyond waiting, its hottest functions, the lines that wait for the GPU.
fn loop_stacks(main: &MainThread) -> [Section; 3] {
    let activities = main.activities.iter().map(|(name, share)| (name.replace('_', " "), *share));
    let title = format!("What the loop does, in {} stack samples", main.samples);
    [
        Section::detail(title, SectionBody::Text(largest_first(activities, 0.01))),
        functions("Hottest functions of the loop", main.hottest.iter().cloned()),
        functions("Lines that wait for the GPU", main.sync_lines.iter().cloned()),
    ]
}

fn evidence(evidence: &[Evidence]) -> Section {
    let rows = evidence.iter().map(|item| {
        let limit = item.threshold.map_or(String::new(), |limit| precise_in_unit(Some(limit), item.unit));
        vec![precise_in_unit(item.value, item.unit), limit, item.words()]
    });
    let columns = vec![Column::right("value"), Column::right("limit"), Column::left("what")];
    Section::detail("Evidence", SectionBody::Table(columns, rows.collect()))
}

fn finding(finding: &Finding) -> Point {
    if finding.is_doubt() {
        return point("", &finding.text);
    }
    let class = finding.class.title();
    let cause = finding.cause.map(|cause| format!(" · {}", cause.spec_in(finding.class).headline));
    let sure = sureness(finding.confidence).map(|sure| format!(" ({sure})"));
    point(format!("{class}{}{}", cause.unwrap_or_default(), sure.unwrap_or_default()), &finding.text)
}

/// What could not be read. Why there is no verdict is not said twice.
fn unavailable(verdict: &Verdict) -> Section {
    let is_said =
        |missed: &Unavailable| missed.what == Subject::Verdict.into() && verdict.summary.contains(&missed.why);
    let unsaid = verdict.not_seen.iter().filter(|missed| !is_said(missed));
    let points: Vec<_> =
        unsaid.map(|Unavailable { what, why, fix }| Point { fix: fix.clone(), ..point(what.title(), why) }).collect();
    let fixable = points.iter().any(|point| point.fix.is_some());
    let title = if fixable { "Not available, and how to fix it" } else { "Not available" };
    Section::new(title, SectionBody::Points(points))
}
