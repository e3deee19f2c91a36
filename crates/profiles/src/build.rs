//! The account of a timeline.

use serde_json::Value;

use super::account::{GpuAccount, IdleReason, LaunchAccount, ProfileAccount, RequestAccount};
use super::gpu_time::{GpuTime, median};
use super::host_time;
use super::intervals::{Intervals, Lengths};
use super::parts::AccountParts;
use super::scope::Scope;
use super::timeline::{HostKind, HostSpan, TraceTimeline};
use super::{copies, drawing, idle_rows, kernels, operators, roofline, syncs};
use trainmon_base::text::format::counted;

/// Most lengths of steps that are kept.
const LENGTHS: usize = 1000;
/// Work begins so long after its launch on an idle GPU, nanoseconds: five to ten microseconds, with a margin.
const LATENCY_NS: i64 = 50_000;

/// The account.
pub fn account(parts: &AccountParts<'_>) -> ProfileAccount {
    let AccountParts { timeline, scope, host, gpus } = parts;
    let copying = calls_that_copy(timeline, scope);
    let mut account = ProfileAccount {
        window_ms: scope.length() as f64 / 1e6,
        devices: gpus.iter().map(|gpu| device(parts, gpu, &copying)).collect(),
        of_loop: host_time::of_loop(timeline, scope),
        with_stack: timeline.host.iter().any(|span| span.kind == HostKind::Python),
        with_shapes: timeline.has_shapes(),
        overhead: scope.share(timeline.overhead_ns).min(1.0),
        rank: run_fact(timeline, "rank"),
        world_size: run_fact(timeline, "world_size"),
        requests: requests(scope),
        gpu_unrecorded: gpus.is_empty() && uses_gpu(timeline),
        cut_off: timeline.end.cut_off,
        captures: captures(timeline, scope),
        compiling: scope.share(compiling(timeline, scope).length()),
        drawn: drawing::drawn(parts, &copying),
        ..ProfileAccount::default()
    };
    steps(&mut account, scope);
    (account.operators, account.modules) = operators::rows(parts);
    if let Some(gpu) = gpus.first() {
        let waiting = gpu.idle_by.get(IdleReason::InputWait.index()).cloned().unwrap_or_default();
        account.kernels = kernels::rows(parts, gpu);
        account.collectives = kernels::collectives(parts, gpu);
        account.copies = copies::rows(parts, gpu);
        account.syncs = syncs::rows(parts, &gpu.idle.minus(&waiting));
        account.efficiency = roofline::account(parts, gpu);
        account.launches = Some(launches(parts, gpu));
        account.idle_at = idle_rows::rows(parts, &scope.threads, &gpu.idle, gpu.idle_by.clone());
    } else {
        // Without a GPU, all of the loop's time is told.
        let all = Intervals::one(scope.window.0, scope.window.1);
        account.idle_at = idle_rows::rows(parts, scope.of_loop.as_slice(), &all, host.divided(&all));
    }
    notes(&mut account, timeline);
    account
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
fn device(parts: &AccountParts<'_>, gpu: &GpuTime, copying: &Intervals) -> GpuAccount {
    let of = roofline::properties(parts.timeline, gpu.index);
    let multiprocessors =
        of.and_then(|of| u32::try_from(of.get("numSms")?.as_u64()?).ok()).filter(|count| *count > 0);
    let name = of.and_then(|of| of.get("name")?.as_str()).filter(|name| !name.is_empty());
    let idle = Lengths::new(&gpu.idle);
    let idle_by = |reason: IdleReason| gpu.idle_by.get(reason.index());
    let in_copies = idle_by(IdleReason::Launch).map_or(0, |part| Lengths::new(part).common(copying));
    let annotated = idle_by(IdleReason::Operator).map_or(0, |part| part.minus(&parts.host.operated).length());
    GpuAccount {
        idle_in_copies: parts.scope.share(in_copies),
        idle_in_annotations: parts.scope.share(annotated),
        idle_while_saving: parts.scope.share(idle.common(&parts.host.saved)),
        name: name.map(|name| name.chars().take(80).collect()),
        multiprocessors,
        few_blocks: multiprocessors.and_then(|count| kernels::few_blocks(parts, gpu, count)),
        pending: parts.scope.share(idle.common(&pending(parts, gpu))),
        ..gpu.account(&parts.scope)
    }
}

/// The moments in which work was launched that had not begun: what a GPU that is idle then waits for is not its host.
fn pending(parts: &AccountParts<'_>, gpu: &GpuTime) -> Intervals {
    let waits = parts.spans(gpu).filter_map(|span| Some((parts.host.call_of(span.link, 0)?.end, span.start)));
    Intervals::union(waits.filter(|(launched, begun)| begun - launched > LATENCY_NS), parts.scope.window)
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

fn launches(parts: &AccountParts<'_>, gpu: &GpuTime) -> LaunchAccount {
    let AccountParts { timeline, scope, host, .. } = parts;
    let mut queues = Vec::new();
    let mut graph_kernels = 0;
    for span in parts.kernels(gpu) {
        let Some(call) = host.call_of(span.link, 0) else { continue };
        queues.push((span.start - call.start).max(0));
        graph_kernels += u64::from(parts.text(call.name).contains("GraphLaunch"));
    }
    queues.sort_unstable();
    let mut calls = Vec::new();
    let mut graph_launches = 0;
    let runtime =
        timeline.host.iter().filter(|span| span.kind == HostKind::Runtime && scope.sees(span.start, span.end));
    for span in runtime.filter(|span| timeline.names.facts(span.name).launches) {
        calls.push(span.end - span.start);
        graph_launches += u64::from(parts.text(span.name).contains("GraphLaunch"));
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
        let events = counted(damaged, "event", "events");
        note(format!("{events} could not be read, and count as missing."));
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
