//! The account of a timeline.

use serde_json::Value;

use super::account::{DeviceAccount, IdleReason, LaunchAccount, ProfileAccount, RequestAccount};
use super::gpu_time::{GpuTime, gpus, median, pending, spans};
use super::host_time::{self, HostTime};
use super::intervals::{Intervals, Lengths};
use super::scope::Scope;
use super::timeline::{GpuKind, HostKind, HostSpan, TraceTimeline};
use super::{copies, drawing, idle_rows, kernels, operators, roofline, syncs};

/// What an account is computed from.
#[derive(Debug)]
pub struct AccountParts<'a> {
    pub timeline: &'a TraceTimeline,
    pub scope: &'a Scope,
    pub host: &'a HostTime,
    /// The GPU with most kernels.
    pub gpu: Option<&'a GpuTime>,
    /// Its idle time by reason.
    pub idle: Option<&'a [Intervals; IdleReason::COUNT]>,
}

/// Most lengths of steps that are kept.
const LENGTHS: usize = 1000;

/// The account; `None` if nothing in the trace lasts.
pub fn account(timeline: &TraceTimeline) -> Option<ProfileAccount> {
    account_and(timeline, |_| ()).map(|(account, ())| account)
}

/// The account, and what else is taken from the same parts.
pub fn account_and<T>(
    timeline: &TraceTimeline,
    also: impl FnOnce(&AccountParts<'_>) -> T,
) -> Option<(ProfileAccount, T)> {
    let scope = Scope::find(timeline)?;
    let host = HostTime::new(timeline, &scope);
    let gpus = gpus(timeline, &scope);
    let first = gpus.first();
    let parts: Vec<[Intervals; IdleReason::COUNT]> =
        gpus.iter().map(|gpu| idle_rows::divided(&gpu.idle, &host)).collect();
    let copying = calls_that_copy(timeline, &scope);
    let in_copies = |parts: &[Intervals]| {
        parts.get(IdleReason::Launch.index()).map_or(0, |part| Lengths::new(part).common(&copying))
    };
    let devices = gpus.iter().zip(&parts).map(|(gpu, parts)| DeviceAccount {
        idle_by: idle_rows::shares(parts, &scope),
        idle_in_copies: scope.share(in_copies(parts)),
        pending: scope.share(Lengths::new(&gpu.idle).common(&pending(timeline, &scope, gpu, &host))),
        ..named(gpu, timeline, &scope)
    });
    let taken = also(&AccountParts { timeline, scope: &scope, host: &host, gpu: first, idle: parts.first() });
    let mut account = ProfileAccount {
        window_ms: scope.length() as f64 / 1e6,
        devices: devices.collect(),
        of_loop: host_time::of_loop(timeline, &scope),
        with_stack: timeline.host.iter().any(|span| span.kind == HostKind::Python),
        with_shapes: timeline.has_shapes(),
        overhead: scope.share(timeline.overhead_ns).min(1.0),
        rank: run_fact(timeline, "rank"),
        world_size: run_fact(timeline, "world_size"),
        requests: requests(&scope),
        gpu_unrecorded: gpus.is_empty() && uses_gpu(timeline),
        cut_off: timeline.end.cut_off || timeline.horizon.is_some(),
        captures: captures(timeline, &scope),
        compiling: scope.share(compiling(timeline, &scope).length()),
        ..ProfileAccount::default()
    };
    steps(&mut account, &scope);
    account.drawn = drawing::drawn(timeline, &scope, &gpus, &parts);
    let none = Default::default();
    (account.operators, account.modules) =
        operators::rows(timeline, &scope, first, &host, parts.first().unwrap_or(&none));
    if let (Some(gpu), Some(parts)) = (first, parts.into_iter().next()) {
        let blocking = syncs::blocking_copies(timeline, &host);
        let waiting = parts.get(IdleReason::InputWait.index()).cloned().unwrap_or_default();
        account.kernels = kernels::rows(timeline, &scope, gpu);
        account.collectives = kernels::collectives(timeline, &scope, gpu);
        account.copies = copies::rows(timeline, &scope, gpu, &host);
        account.syncs = syncs::rows(timeline, &scope, &blocking, &gpu.idle.minus(&waiting));
        account.efficiency = roofline::account(timeline, &scope, gpu);
        account.launches = Some(launches(timeline, &scope, gpu, &host));
        account.idle_at = idle_rows::rows(timeline, &scope, &gpu.idle, parts);
    } else {
        // Without a GPU, all of the loop's time is told.
        let all = Intervals::one(scope.window.0, scope.window.1);
        let alone = Scope { threads: scope.of_loop.into_iter().collect(), ..scope };
        account.idle_at = idle_rows::rows(timeline, &alone, &all, idle_rows::divided(&all, &host));
    }
    notes(&mut account, timeline);
    Some((account, taken))
}

fn steps(account: &mut ProfileAccount, scope: &Scope) {
    account.steps = scope.steps.len() as u64;
    account.steps_by = scope.steps_by;
    if !scope.steps.is_empty() {
        let lengths = || scope.steps.iter().map(|(start, end)| (end - start) as f64 / 1e6);
        account.step_ms = Some(lengths().sum::<f64>() / scope.steps.len() as f64);
        account.longest_step_ms = Some(lengths().fold(0.0, f64::max));
        let all: Vec<f64> = lengths().collect();
        let means =
            all.chunks(all.len().div_ceil(LENGTHS)).map(|steps| steps.iter().sum::<f64>() / steps.len() as f64);
        account.step_lengths_ms = means.collect();
    }
}

fn requests(scope: &Scope) -> Option<RequestAccount> {
    let (name, all) = scope.requests.as_ref()?;
    let mut lengths: Vec<i64> = all.iter().map(|(start, end)| end - start).collect();
    lengths.sort_unstable();
    let median_ms = median(&lengths)? as f64 / 1e6;
    Some(RequestAccount { name: name.clone(), count: lengths.len() as u64, median_ms })
}

/// The account of a GPU, with what the file says of it.
fn named(gpu: &GpuTime, timeline: &TraceTimeline, scope: &Scope) -> DeviceAccount {
    let all = timeline.facts.get("deviceProperties").and_then(Value::as_array);
    let of = all.and_then(|all| all.iter().find(|one| one.get("id").and_then(Value::as_i64) == Some(gpu.index)));
    let multiprocessors =
        of.and_then(|of| u32::try_from(of.get("numSms")?.as_u64()?).ok()).filter(|count| *count > 0);
    let name = of.and_then(|of| of.get("name")?.as_str()).filter(|name| !name.is_empty());
    DeviceAccount {
        name: name.map(|name| name.chars().take(80).collect()),
        multiprocessors,
        few_blocks: multiprocessors.and_then(|count| kernels::few_blocks(timeline, scope, gpu, count)),
        ..gpu.account(scope)
    }
}

/// Whether the host calls a GPU's runtime, or the file names a GPU.
fn uses_gpu(timeline: &TraceTimeline) -> bool {
    let named = timeline.facts.get("deviceProperties").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
    let of_gpu =
        |span: &HostSpan| span.kind == HostKind::Runtime || timeline.names.text(span.name).starts_with("nccl:");
    named || timeline.host.iter().any(of_gpu)
}

/// The moments in which a thread of the job was in a call that copies or sets memory.
fn calls_that_copy(timeline: &TraceTimeline, scope: &Scope) -> Intervals {
    let copies = |span: &&HostSpan| span.kind == HostKind::Runtime && timeline.names.facts(span.name).copies;
    let calls = scope.threads.iter().flat_map(|lane| timeline.of_thread(*lane)).filter(copies);
    Intervals::union(calls.map(|span| (span.start, span.end)), scope.window)
}

/// The moments in which a thread compiled code.
fn compiling(timeline: &TraceTimeline, scope: &Scope) -> Intervals {
    let compiles = timeline.host.iter().filter(|span| timeline.names.facts(span.name).compiles);
    Intervals::union(compiles.map(|span| (span.start, span.end)), scope.window)
}

/// CUDA graphs that were recorded in the window.
fn captures(timeline: &TraceTimeline, scope: &Scope) -> u64 {
    let captures = |span: &&HostSpan| {
        let name = timeline.names.text(span.name);
        span.kind == HostKind::Runtime && (name.contains("BeginCapture") || name.contains("GraphInstantiate"))
    };
    timeline.host.iter().filter(|span| scope.sees(span.start, span.end)).filter(captures).count() as u64
}

fn run_fact(timeline: &TraceTimeline, key: &str) -> Option<u32> {
    timeline.facts.get("distributedInfo")?.get(key)?.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn launches(timeline: &TraceTimeline, scope: &Scope, gpu: &GpuTime, host: &HostTime) -> LaunchAccount {
    let mut queues = Vec::new();
    let mut graph_kernels = 0;
    for span in spans(gpu.index, timeline, scope).filter(|span| span.kind == GpuKind::Kernel) {
        let Some(call) = host.call_of(span.link, 0) else { continue };
        queues.push((span.start - call.start).max(0));
        graph_kernels += u64::from(timeline.names.text(call.name).contains("GraphLaunch"));
    }
    queues.sort_unstable();
    let mut calls = Vec::new();
    let mut graph_launches = 0;
    let runtime =
        timeline.host.iter().filter(|span| span.kind == HostKind::Runtime && scope.sees(span.start, span.end));
    for span in runtime.filter(|span| timeline.names.facts(span.name).launches) {
        calls.push(span.end - span.start);
        graph_launches += u64::from(timeline.names.text(span.name).contains("GraphLaunch"));
    }
    calls.sort_unstable();
    let steps = scope.steps.len().max(1) as f64;
    let us = |ns: i64| ns as f64 / 1e3;
    LaunchAccount {
        kernels_per_step: gpu.kernel_lengths.len() as f64 / steps,
        calls_per_step: calls.len() as f64 / steps,
        call_us: median(&calls).map(us),
        queue_us: median(&queues).map(us),
        graph_launches,
        graph_kernels,
    }
}

/// What makes the account partial.
fn notes(account: &mut ProfileAccount, timeline: &TraceTimeline) {
    let mut note = |sentence: String| account.notes.push(sentence);
    if timeline.end.cut_off {
        note("The file ends early, or is too long: the account covers the part before.".to_owned());
    }
    for (category, count) in &timeline.others {
        note(format!("{count} events of `{category}` are of a kind that trainmon does not read."));
    }
    let damaged = timeline.end.damaged + timeline.untimed;
    if damaged > 0 {
        let events = if damaged == 1 { "event" } else { "events" };
        note(format!("{damaged} {events} could not be read, and count as missing."));
    }
    if timeline.end.goes_on {
        note("The file goes on after the trace's end: what follows is left out.".to_owned());
    }
    if timeline.is_doubled() {
        note("The file has nearly all events twice: rows of it count too much.".to_owned());
    }
    if timeline.has_no_work() {
        note(
            "The trace has no operator: torch records only the thread that starts the profiler. Start it in the thread that runs \
             the model."
                .to_owned(),
        );
    }
    if timeline.horizon.is_some() {
        note("The file has more events than trainmon keeps: the account covers the earlier part of it.".to_owned());
    }
    if timeline.names.left_out > 0 {
        note("Some names are too long or too many and are cut or left out.".to_owned());
    }
}
