//! What a report says about a profile: its window, what each GPU did, why it was idle, and where its time went.

use jiff::tz::TimeZone;

pub use super::profile_tables::length;
use super::profile_tables::{brief, counted_calls, finite, tables};
use super::section::{Column, Point, Section, SectionBody, point, whole};
use trainmon_base::text::format::{counted, duration, precise};
use trainmon_base::zone;
use trainmon_diagnosis::diagnosis::Verdict;
use trainmon_profiles::account::{GpuAccount, IdleReason, LaunchAccount, LoopAccount, ProfileAccount, StepMark};
use trainmon_profiles::drawn::SliceKind;

/// Most GPUs with a section of their own; a table has all of them.
const GPUS_TOLD: usize = 8;
/// Smaller shares of the window would read as 0%.
const SHARE_TOLD: f64 = 0.005;

/// Where a profile that was read from a file comes from, as a head says it: `trace.json.gz · window 1.05 s · 6 steps of 175 ms`.
pub fn from_file(account: &ProfileAccount) -> Option<String> {
    if !account.is_of_file() {
        return None;
    }
    let file = account.file.clone().unwrap_or_else(|| "trace".to_owned());
    Some([vec![file], window_facts(account)].concat().join(" · "))
}

/// A profile that trainmon took: when, how long before the run's end, its window and its steps. A file is told of in the head, and calls
/// that were counted in their own section.
pub fn taken(verdict: &Verdict, zone: &TimeZone, ended_unix_ms: Option<i64>) -> Section {
    let facts = match verdict.profile.as_deref() {
        Some(account) if !account.is_of_file() && account.calls.is_none() => window_facts(account).join(" · "),
        _ => String::new(),
    };
    let taken = verdict.profile_unix_ms;
    let age_s = match (taken, ended_unix_ms) {
        (Some(taken), Some(ended)) => Some(ended.saturating_sub(taken) as f64 / 1000.0),
        _ => verdict.profile_age_s,
    };
    let of = taken.map(|taken| format!(" of {}", zone::clock(taken, zone))).unwrap_or_default();
    let before = match age_s {
        None => String::new(),
        Some(..1.0) => ", at the end".to_owned(),
        Some(age_s) => format!(", {} before the end", duration(age_s)),
    };
    Section::new(format!("Profile{of}{before}"), SectionBody::Text(facts))
}

/// All that there is to say about a profile.
pub fn sections(account: &ProfileAccount) -> Vec<Section> {
    let mut all = Vec::new();
    all.extend(account.devices.iter().take(GPUS_TOLD).enumerate().map(|(nth, device)| gpu(account, device, nth)));
    all.push(gpus(&account.devices));
    all.push(loop_time(account));
    all.push(counted_calls(account));
    all.extend(tables(account).map(|(_, section)| section));
    all.push(notes(account));
    all
}

/// The window, its steps, and what is not the program's own, in a few words each.
pub fn window_facts(account: &ProfileAccount) -> Vec<String> {
    let rank = account.rank.zip(account.world_size.filter(|all| *all > 1));
    let each = finite(account.step_ms).map(|ms| format!(" of {}", length(ms))).unwrap_or_default();
    let steps = match account.steps {
        0 => "no steps".to_owned(),
        1 => format!("1 step{each}"),
        steps => format!("{steps} steps{each}"),
    };
    let longest = if account.steps > 1 { finite(account.longest_step_ms) } else { None };
    let steps_by = if account.steps > 0 { account.steps_by } else { None };
    let requests = account.requests.as_ref().map(|requests| {
        let (name, median) = (&requests.name, length(requests.median_ms));
        let (times, usual) = if requests.count == 1 {
            ("once".to_owned(), "")
        } else {
            (format!("{} times", requests.count), "median ")
        };
        format!("{times} `{name}`, {usual}{median}")
    });
    let share = |share: f64, what: &str| (share >= SHARE_TOLD).then(|| format!("{what} {}", whole(share)));
    let facts = [
        rank.map(|(rank, all)| format!("rank {rank} of {all}")),
        Some(format!("window {}", length(account.window_ms))),
        Some(steps),
        longest.map(|ms| format!("longest {}", length(ms))),
        requests,
        share(account.compiling, "compiling"),
        share(account.overhead, "profiler"),
        steps_by.map(|by| format!("steps {}", mark(by))),
    ];
    facts.into_iter().flatten().collect()
}

/// What counts as a step.
pub fn mark(mark: StepMark) -> &'static str {
    match mark {
        StepMark::ProfilerStep => "marked for the profiler",
        StepMark::Batch => "from one batch to the next",
        StepMark::Optimizer => "from one step of the optimizer to the next",
        StepMark::Annotation => "by the longest annotation",
    }
}

/// Calls of the runtime that copy: most of their time is a wait for the GPU.
const IN_COPIES: &str = "in calls that copy";
/// A step or an annotation, and no operator, call or function within it.
const ANNOTATED: &str = "in annotations alone";

/// A part of a whole, 0–1, with its color and its words.
pub type ProfilePart = (SliceKind, &'static str, f64);

/// The parts of a GPU's time that are large enough to be seen, as they are drawn. All of them add up to the window.
pub fn gpu_parts(gpu: &GpuAccount) -> Vec<ProfilePart> {
    let busy = [
        (SliceKind::Compute, "computing", gpu.compute),
        (SliceKind::Collective, "in collectives, not computing", gpu.exposed),
        (SliceKind::Copy, "only copying", gpu.copy_alone),
    ];
    let copying = (SliceKind::Sync, IN_COPIES, gpu.idle_in_copies);
    let idle = gpu.idle_by.iter().map(|(reason, share)| {
        let apart = match reason {
            IdleReason::Launch => gpu.idle_in_copies,
            IdleReason::Operator => gpu.idle_in_annotations,
            _ => 0.0,
        };
        (reason.drawn(), reason.drawn().words(), share - apart)
    });
    let annotated = (SliceKind::Annotation, ANNOTATED, gpu.idle_in_annotations);
    let told = |share: f64| share >= SHARE_TOLD || !share.is_finite();
    busy.into_iter().chain([copying]).chain(idle).chain([annotated]).filter(|(.., share)| told(*share)).collect()
}

/// The same of the thread that runs the loop.
pub fn loop_parts(of: &LoopAccount) -> Vec<ProfilePart> {
    let LoopAccount { input_wait, sync, collective, blocked, saving, .. } = *of;
    let LoopAccount { in_copies, launch, operator, annotation, python, nothing, .. } = *of;
    let parts = [
        (SliceKind::Data, SliceKind::Data.words(), input_wait),
        (SliceKind::Sync, SliceKind::Sync.words(), sync),
        (SliceKind::Collective, "in collectives on the host", collective),
        (SliceKind::Annotation, "sleeping, or at a lock", blocked),
        (SliceKind::Copy, "saving a state", saving),
        (SliceKind::Sync, IN_COPIES, in_copies),
        (SliceKind::Launch, SliceKind::Launch.words(), launch),
        (SliceKind::Operator, "in operators", operator),
        (SliceKind::Python, "in Python", python),
        (SliceKind::Annotation, ANNOTATED, annotation),
        (SliceKind::Annotation, "nothing recorded", nothing),
    ];
    parts.into_iter().filter(|(.., share)| *share >= SHARE_TOLD).collect()
}

/// Where the time of a GPU goes.
fn gpu(account: &ProfileAccount, device: &GpuAccount, nth: usize) -> Section {
    let parts = gpu_parts(device);
    let title = format!("{}: {} busy, {} idle", gpu_name(device), whole(device.busy), whole(device.idle()));
    let launches = if nth == 0 { account.launches.as_ref() } else { None };
    let pending = (device.pending >= SHARE_TOLD).then(|| {
        format!("For {} of the time the GPU was idle although work had been launched.", whole(device.pending))
    });
    let notes = [
        collectives_note(device),
        pending,
        kernels_note(device),
        launches.map(|of| launches_note(of, account.steps > 0)),
    ];
    let section = Section::new(title, SectionBody::Parts(parts)).noting(notes.into_iter().flatten());
    Section { detail: nth > 0, ..section }
}

fn gpu_name(gpu: &GpuAccount) -> String {
    let name = gpu.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("GPU {}{name}", gpu.index)
}

fn collectives_note(gpu: &GpuAccount) -> Option<String> {
    let beside = gpu.communication - gpu.exposed;
    (gpu.communication >= SHARE_TOLD).then(|| {
        format!("Collectives run {} of the time, {} beside other kernels.", whole(gpu.communication), whole(beside))
    })
}

fn kernels_note(gpu: &GpuAccount) -> Option<String> {
    let median = finite(gpu.median_kernel_us)?;
    let streams = counted(gpu.streams, "stream", "streams");
    let few = gpu.few_blocks.zip(gpu.multiprocessors).filter(|(share, _)| *share >= 0.01).map(|(share, count)| {
        format!(" For {} of their time they have fewer blocks than the GPU's {count} multiprocessors.", whole(share))
    });
    let few = few.unwrap_or_default();
    Some(format!("{} kernels on {streams}, of {} (median).{few}", gpu.kernels, length(median / 1000.0)))
}

fn launches_note(launches: &LaunchAccount, has_steps: bool) -> String {
    let per = if has_steps { " a step" } else { "" };
    let each = finite(launches.call_us).map(|us| format!(" of {}", length(us / 1000.0)));
    let graphs = match launches.graph_launches {
        0 => String::new(),
        1 => format!(" A CUDA graph launches {} of them.", launches.graph_kernels),
        graphs => format!(" CUDA graphs launch {} of them, {graphs} times.", launches.graph_kernels),
    };
    let queue =
        finite(launches.queue_us).map(|us| format!(" A kernel starts {} after its launch.", length(us / 1000.0)));
    format!(
        "{} kernels{per}, launched by {} calls{}.{}{}",
        precise(launches.kernels_per_step),
        precise(launches.calls_per_step),
        each.unwrap_or_default(),
        graphs,
        queue.unwrap_or_default(),
    )
}

/// All GPUs of a profile with several.
fn gpus(devices: &[GpuAccount]) -> Section {
    let columns = ["busy", "compute", "collectives", "copies", "data", "sync", "launch", "operator", "Python"];
    let mut columns = columns.map(Column::right).to_vec();
    columns.insert(0, Column::right("GPU"));
    let row = |device: &GpuAccount| {
        let idle = device.idle_by.iter().map(|(_, share)| share);
        let busy = [device.busy, device.compute, device.communication, device.copy];
        let shares = busy.into_iter().chain(idle).map(whole);
        std::iter::once(device.index.to_string()).chain(shares).collect()
    };
    let rows = if devices.len() > 1 { devices.iter().map(row).collect() } else { Vec::new() };
    brief("GPUs: busy, and idle by what the host did", columns, rows)
}

fn loop_time(account: &ProfileAccount) -> Section {
    let parts = account.of_loop.as_ref().map(loop_parts).unwrap_or_default();
    let of = account.of_loop.as_ref();
    let share = |share: f64, what: &str| {
        let told = share >= SHARE_TOLD;
        told.then(|| format!("{what} {} of the time.", whole(share)))
    };
    let notes = [
        of.and_then(|of| share(of.backward, "The backward pass runs")),
        of.and_then(|of| share(of.optimizer, "The optimizer's step runs")),
        of.filter(|of| of.makes_batches).map(|_| "The loop loads its batches without workers.".to_owned()),
    ];
    let section =
        Section::new("The thread of the loop", SectionBody::Parts(parts)).noting(notes.into_iter().flatten());
    Section { detail: !account.devices.is_empty(), ..section }
}

fn notes(account: &ProfileAccount) -> Section {
    let told = account.notes.iter().map(|note| point("", note));
    let unrecorded = account.gpu_unrecorded;
    let unrecorded = unrecorded.then(|| point("", "A GPU was used, and nothing that ran on it was recorded."));
    let shapes = !account.with_shapes && !account.devices.is_empty();
    let shapes = shapes.then(|| {
        let told = if account.is_of_file() {
            "Shapes were not recorded: record_shapes=True tells how well the GPU's busy time is used."
        } else {
            "Shapes were not recorded, so how well the GPU's busy time is used is not known."
        };
        point("", told)
    });
    let points: Vec<Point> = told.chain(unrecorded).chain(shapes).collect();
    Section::new("What the profile does not show", SectionBody::Points(points))
}
