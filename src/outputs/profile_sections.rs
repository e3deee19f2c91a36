//! What a report says about a profile: its window, what each GPU did, why it was idle, and where its time went.

use super::report::{Column, Point, Section, SectionBody, point, whole};
use crate::profiles::account::{
    Bound, CopyDirection, DeviceAccount, EfficiencyAccount, LaunchAccount, LoopAccount, ProfileAccount, ProfileSource, StepMark,
};
use crate::profiles::drawn::SliceKind;
use crate::text::format::{UNMEASURED, bytes, precise, step_time, whole_percent as percent};

/// Rows of a table that is not shown in full, and the most rows of any table: the JSON has more.
const BRIEF: usize = 5;
const ROWS: usize = 30;
/// Most GPUs with a section of their own; a table has all of them.
const GPUS: usize = 8;
/// Smaller shares of the window are not worth a line.
const SHARE_TOLD: f64 = 0.0005;

/// Where a profile that was read from a file comes from, as a head says it: `trace.json.gz · window of 1.05 s, 6 steps`.
pub(super) fn from_file(account: &ProfileAccount) -> Option<String> {
    if account.source != ProfileSource::Trace {
        return None;
    }
    let rank = match (account.rank, account.world_size) {
        (Some(rank), Some(all)) if all > 1 => format!(" · rank {rank} of {all}"),
        _ => String::new(),
    };
    let steps = match account.steps {
        0 => String::new(),
        1 => ", 1 step".to_owned(),
        steps => format!(", {steps} steps"),
    };
    let file = account.file.as_deref().unwrap_or("trace");
    Some(format!("{file}{rank} · window of {}{steps}", step_time(account.window_ms)))
}

/// All that there is to say about a profile.
pub(super) fn sections(account: &ProfileAccount) -> Vec<Section> {
    let mut all = vec![Section::new("Window", SectionBody::Text(window(account)))];
    all.extend(account.devices.iter().take(GPUS).enumerate().map(|(nth, device)| gpu(account, device, nth)));
    all.push(gpus(&account.devices));
    all.push(loop_time(account));
    all.extend([syncs(account), idle_at(account), kernels(account), collectives(account), copies(account)]);
    all.extend([operators(account), modules(account), efficiency(account), notes(account)]);
    all
}

/// The window, its steps, and how kernels get to the GPU.
fn window(account: &ProfileAccount) -> String {
    let by = account.steps_by.map(|mark| match mark {
        StepMark::ProfilerStep => "marked for the profiler",
        StepMark::Batch => "from one batch to the next",
        StepMark::Optimizer => "from one step of the optimizer to the next",
        StepMark::Annotation => "by the longest annotation",
    });
    let by = by.map(|by| format!(" {by}")).unwrap_or_default();
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let mean = finite(account.step_ms).map(|ms| format!(" of {} on average", step_time(ms)));
    let longest = finite(account.longest_step_ms).map(|ms| format!(", the longest {}", step_time(ms)));
    let steps = match account.steps {
        0 => "no steps".to_owned(),
        1 => format!("1 step{by}"),
        steps => format!("{steps} steps{by},{}{}", mean.unwrap_or_default(), longest.unwrap_or_default()),
    };
    let requests = account.requests.as_ref().map(|requests| {
        format!("; {} times `{}`, median {}", requests.count, requests.name, step_time(requests.median_ms))
    });
    let share = |share: f64, what: &str| {
        let told = share >= SHARE_TOLD;
        told.then(|| format!("; {what} {}% of it", percent(share)))
    };
    let taken = [share(account.compiling, "compiling takes"), share(account.overhead, "the profiler takes")];
    let taken: String = taken.into_iter().flatten().collect();
    format!("{}, {steps}{}{taken}.", step_time(account.window_ms), requests.unwrap_or_default())
}

/// Where the time of a GPU goes; the parts add up to the window.
fn gpu(account: &ProfileAccount, device: &DeviceAccount, nth: usize) -> Section {
    let busy = [
        (SliceKind::Compute, "computing", device.compute),
        (SliceKind::Collective, "in collectives, not computing", device.exposed),
        (SliceKind::Copy, "only copying", device.copy_alone),
    ];
    let idle = device.idle_by.iter().map(|(reason, share)| (reason.drawn(), reason.drawn().words(), share));
    let told = |share: f64| share >= SHARE_TOLD || !share.is_finite();
    let parts: Vec<_> = busy.into_iter().chain(idle).filter(|(.., share)| told(*share)).collect();
    let title = format!("{}: {} busy, {} idle", gpu_name(device), whole(device.busy), whole(device.idle()));
    let launches = account.launches.as_ref().filter(|_| nth == 0);
    let notes = [collectives_note(device), kernels_note(device), launches.map(|of| launches_note(of, account.steps > 0))];
    let section = Section::new(title, SectionBody::Parts(parts)).noting(notes.into_iter().flatten());
    Section { detail: nth > 0, ..section }
}

fn gpu_name(device: &DeviceAccount) -> String {
    let name = device.name.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
    format!("GPU {}{name}", device.index)
}

fn collectives_note(device: &DeviceAccount) -> Option<String> {
    let beside = device.communication - device.exposed;
    (device.communication >= SHARE_TOLD).then(|| {
        format!("Collectives run {} of the time, {} beside other kernels.", whole(device.communication), whole(beside))
    })
}

fn kernels_note(device: &DeviceAccount) -> Option<String> {
    let median = device.median_kernel_us.filter(|us| us.is_finite())?;
    let streams = if device.streams == 1 { "1 stream".to_owned() } else { format!("{} streams", device.streams) };
    let few = device.few_blocks.zip(device.multiprocessors).filter(|(share, _)| *share >= 0.01).map(|(share, count)| {
        format!(" For {} of their time they have fewer blocks than the GPU's {count} multiprocessors.", whole(share))
    });
    let few = few.unwrap_or_default();
    Some(format!("{} kernels on {streams}, median {} µs.{few}", device.kernels, precise(median)))
}

fn launches_note(launches: &LaunchAccount, has_steps: bool) -> String {
    let per = if has_steps { " a step" } else { "" };
    let length = launches.call_us.filter(|us| us.is_finite()).map(|us| format!(", median {} µs", precise(us)));
    let graphs = (launches.graph_launches > 0)
        .then(|| format!(" CUDA graphs: {} launches of {} kernels.", launches.graph_launches, launches.graph_kernels));
    let queue = launches.queue_us.filter(|us| us.is_finite());
    let queue = queue.map(|us| format!(" A kernel starts {} after its launch.", step_time(us / 1000.0)));
    format!(
        "{}{per} {} launched by {} calls{}.{}{}",
        precise(launches.kernels_per_step),
        "kernels are",
        precise(launches.calls_per_step),
        length.unwrap_or_default(),
        queue.unwrap_or_default(),
        graphs.unwrap_or_default()
    )
}

/// All GPUs of a profile with several.
fn gpus(devices: &[DeviceAccount]) -> Section {
    let columns = ["busy", "computing", "collectives", "copies", "data", "sync", "launch", "operator", "Python"];
    let mut columns = columns.map(Column::right).to_vec();
    columns.insert(0, Column::right("GPU"));
    let row = |device: &DeviceAccount| {
        let idle = device.idle_by.iter().map(|(_, share)| share);
        let busy = [device.busy, device.compute, device.communication, device.copy];
        let shares = busy.into_iter().chain(idle).map(whole);
        std::iter::once(device.index.to_string()).chain(shares).collect()
    };
    let rows = if devices.len() > 1 { devices.iter().map(row).collect() } else { Vec::new() };
    brief("GPUs: busy, and idle by what the host did", columns, rows)
}

fn loop_time(account: &ProfileAccount) -> Section {
    let parts = account.of_loop.as_ref().map(|of| {
        let LoopAccount { input_wait, sync, collective, blocked, launch, operator, python, nothing, .. } = *of;
        [
            (SliceKind::Data, SliceKind::Data.words(), input_wait),
            (SliceKind::Sync, SliceKind::Sync.words(), sync),
            (SliceKind::Collective, "in collectives on the host", collective),
            (SliceKind::Annotation, "sleeping, or at a lock", blocked),
            (SliceKind::Launch, SliceKind::Launch.words(), launch),
            (SliceKind::Operator, "in operators", operator),
            (SliceKind::Python, "in Python", python),
            (SliceKind::Annotation, "nothing recorded", nothing),
        ]
    });
    let parts = parts.into_iter().flatten().filter(|(.., share)| *share >= SHARE_TOLD).collect();
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
    Section::detail("The thread of the loop", SectionBody::Parts(parts)).noting(notes.into_iter().flatten())
}

/// A table whose first rows are enough for a short report.
fn brief(title: &str, columns: Vec<Column>, rows: Vec<Vec<String>>) -> Section {
    let more = rows.len().saturating_sub(ROWS);
    let rows = rows.into_iter().take(ROWS).collect();
    Section { brief: BRIEF, more, ..Section::new(title, SectionBody::Table(columns, rows)) }
}

/// The same, shown only in full.
fn in_detail(title: &str, columns: Vec<Column>, rows: Vec<Vec<String>>) -> Section {
    Section { detail: true, ..brief(title, columns, rows) }
}

/// Numbers of a column, with as many decimals as the largest one needs.
fn numbers(values: impl Iterator<Item = f64> + Clone) -> impl Iterator<Item = String> {
    let largest = values.clone().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let decimals = match largest {
        1000.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    };
    let number = move |value: f64| if value.is_finite() { format!("{value:.decimals$}") } else { UNMEASURED.to_owned() };
    values.map(number)
}

/// The columns of a table, turned into rows.
fn rows<const N: usize>(mut cells: [Box<dyn Iterator<Item = String> + '_>; N]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    while let Some(row) = cells.iter_mut().map(Iterator::next).collect::<Option<Vec<String>>>() {
        rows.push(row);
    }
    rows
}

/// What is not there is a dash.
fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNMEASURED.to_owned())
}

/// `cudaStreamSynchronize in aten::item, train.py:41 (step)`.
fn place(name: &str, operator: Option<&str>, at: Option<&str>, function: Option<&str>) -> String {
    let operator = operator.map(|operator| format!(" in {operator}")).unwrap_or_default();
    let function = function.filter(|function| *function != "<module>").map(|function| format!(" ({function})"));
    let at = at.map(|at| format!(", {at}{}", function.unwrap_or_default())).unwrap_or_default();
    format!("{name}{operator}{at}")
}

fn syncs(account: &ProfileAccount) -> Section {
    let all = &account.syncs;
    let count = |per_step: Option<f64>, count: u64| per_step.map_or_else(|| count.to_string(), precise);
    let has_steps = account.steps > 0;
    let columns = vec![
        Column::right(if has_steps { "per step" } else { "calls" }),
        Column::right("waits ms"),
        Column::right("GPU idle ms"),
        Column::left("call"),
    ];
    let rows = rows([
        Box::new(all.iter().map(|row| count(row.per_step, row.count))),
        Box::new(numbers(all.iter().map(|row| row.wait_ms))),
        Box::new(numbers(all.iter().map(|row| row.idle_ms))),
        Box::new(all.iter().map(|row| {
            let copied = row.copies.map(|direction| {
                let size = row.bytes.map(|size| format!(" of {}", bytes(Some(size)))).unwrap_or_default();
                format!(", copies {}{size}", direction_words(Some(direction)))
            });
            let place = place(&row.call, row.operator.as_deref(), row.at.as_deref(), row.function.as_deref());
            place + &copied.unwrap_or_default()
        })),
    ]);
    let mut section = brief("Calls that wait for the GPU", columns, rows);
    if !section.is_empty() {
        section.notes.push("GPU idle: at most this much is gained without the call.".to_owned());
    }
    section
}

fn idle_at(account: &ProfileAccount) -> Section {
    let all = &account.idle_at;
    let columns = vec![
        Column::right("idle ms"),
        Column::right("share"),
        Column::right("longest ms"),
        Column::left("what the host did"),
    ];
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.idle_ms))),
        Box::new(all.iter().map(|row| share_of(row.idle_ms, account.window_ms))),
        Box::new(numbers(all.iter().map(|row| row.longest_ms))),
        Box::new(all.iter().map(|row| {
            let place = place(&row.name, row.operator.as_deref(), row.at.as_deref(), row.function.as_deref());
            row.reason.map_or_else(|| place.clone(), |reason| format!("{}: {place}", reason.drawn().words()))
        })),
    ]);
    brief("Where the host was while the GPU was idle", columns, rows)
}

/// A part of a whole, both in the same unit.
fn share_of(part: f64, whole_ms: f64) -> String {
    let share = part / whole_ms;
    if share.is_finite() { whole(share) } else { UNMEASURED.to_owned() }
}

fn kernels(account: &ProfileAccount) -> Section {
    let all = &account.kernels;
    let busy_ms = account.devices.first().map_or(f64::NAN, |device| device.busy * account.window_ms);
    let columns = ["ms", "of busy", "runs", "median µs", "blocks", "occupancy"];
    let mut columns = columns.map(Column::right).to_vec();
    columns.push(Column::left("kernel"));
    let occupancy = |pct: f64| if pct.is_finite() { format!("{pct:.0}%") } else { UNMEASURED.to_owned() };
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.total_ms))),
        Box::new(all.iter().map(|row| share_of(row.total_ms, busy_ms))),
        Box::new(all.iter().map(|row| row.count.to_string())),
        Box::new(numbers(all.iter().map(|row| row.median_us))),
        Box::new(all.iter().map(|row| or_dash(row.blocks.map(|blocks| blocks.to_string())))),
        Box::new(all.iter().map(|row| or_dash(row.occupancy_pct.map(occupancy)))),
        Box::new(all.iter().map(|row| row.name.clone())),
    ]);
    let in_full = all.iter().take(ROWS).map(|row| row.raw.clone()).collect();
    Section { in_full, ..brief("Kernels", columns, rows) }
}

fn collectives(account: &ProfileAccount) -> Section {
    let all = &account.collectives;
    let columns = ["ms", "exposed ms", "runs", "sent", "ranks"];
    let mut columns = columns.map(Column::right).to_vec();
    columns.push(Column::left("collective"));
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.total_ms))),
        Box::new(numbers(all.iter().map(|row| row.exposed_ms))),
        Box::new(all.iter().map(|row| row.count.to_string())),
        Box::new(all.iter().map(|row| bytes(row.bytes))),
        Box::new(all.iter().map(|row| or_dash(row.group_size.map(|size| size.to_string())))),
        Box::new(all.iter().map(|row| row.name.clone())),
    ]);
    let mut section = brief("Collectives", columns, rows);
    if !section.is_empty() {
        section.notes.push("Exposed: no other kernel runs meanwhile.".to_owned());
    }
    section
}

fn direction_words(direction: Option<CopyDirection>) -> &'static str {
    match direction {
        Some(CopyDirection::HostToDevice) => "to the GPU",
        Some(CopyDirection::DeviceToHost) => "to the host",
        Some(CopyDirection::DeviceToDevice) => "within the GPU",
        Some(CopyDirection::PeerToPeer) => "between GPUs",
        Some(CopyDirection::Other) | None => "unknown",
    }
}

fn copies(account: &ProfileAccount) -> Section {
    let all = &account.copies;
    let columns = ["ms", "overlapped ms", "blocking ms", "copies", "size", "GB/s"];
    let mut columns = columns.map(Column::right).to_vec();
    columns.push(Column::left("direction"));
    let speed = |bytes: u64, ms: f64| Some(bytes as f64 / ms / 1e6).filter(|speed| speed.is_finite());
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.ms))),
        Box::new(numbers(all.iter().map(|row| row.overlapped_ms))),
        Box::new(numbers(all.iter().map(|row| row.blocked_ms))),
        Box::new(all.iter().map(|row| row.count.to_string())),
        Box::new(all.iter().map(|row| bytes(Some(row.bytes)))),
        Box::new(numbers(all.iter().map(move |row| speed(row.bytes, row.ms).unwrap_or(f64::NAN)))),
        Box::new(all.iter().map(|row| {
            let memory = row.pageable.map(|pageable| if pageable { ", pageable memory" } else { ", pinned memory" });
            format!("{}{}", direction_words(row.direction), memory.unwrap_or_default())
        })),
    ]);
    in_detail("Copies", columns, rows)
}

fn operators(account: &ProfileAccount) -> Section {
    let all = &account.operators;
    let columns = ["GPU ms", "host ms", "GPU idle ms", "calls"];
    let mut columns = columns.map(Column::right).to_vec();
    columns.push(Column::left("operator"));
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.device_ms))),
        Box::new(numbers(all.iter().map(|row| row.host_ms))),
        Box::new(numbers(all.iter().map(|row| row.idle_ms))),
        Box::new(all.iter().map(|row| row.count.to_string())),
        Box::new(all.iter().map(|row| row.name.clone())),
    ]);
    brief("Operators", columns, rows)
}

fn modules(account: &ProfileAccount) -> Section {
    let all = &account.modules;
    let mut columns = ["GPU ms", "host ms", "calls"].map(Column::right).to_vec();
    columns.push(Column::left("module"));
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.device_ms))),
        Box::new(numbers(all.iter().map(|row| row.host_ms))),
        Box::new(all.iter().map(|row| row.count.to_string())),
        Box::new(all.iter().map(|row| row.name.clone())),
    ]);
    in_detail("Modules of the model", columns, rows)
}

/// How well the busy time is used.
fn efficiency(account: &ProfileAccount) -> Section {
    let Some(efficiency) = &account.efficiency else { return brief("", Vec::new(), Vec::new()) };
    let EfficiencyAccount { tflop_per_s, peak_tflop_per_s, number, of_peak, known, operators: all, .. } = efficiency;
    let finite = |value: &Option<f64>| value.filter(|value| value.is_finite());
    let number = number.as_deref().map(|number| format!(" in {number}")).unwrap_or_default();
    let peak = finite(peak_tflop_per_s).map(|peak| format!(" of the GPU's {}{number}", precise(peak))).unwrap_or_default();
    let used = finite(of_peak).map(|share| format!(": {} of its peak (MFU)", whole(share))).unwrap_or_default();
    let columns = ["GPU ms", "TFLOP/s", "TB/s", "of peak"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("bound by"), Column::left("operator")]].concat();
    let bound = |bound: Option<Bound>| match bound {
        Some(Bound::Compute) => "arithmetic",
        Some(Bound::Memory) => "memory",
        Some(Bound::Neither) => "neither",
        None => UNMEASURED,
    };
    let rows = rows([
        Box::new(numbers(all.iter().map(|row| row.device_ms))),
        Box::new(numbers(all.iter().map(|row| row.tflop_per_s))),
        Box::new(numbers(all.iter().map(|row| row.tb_per_s))),
        Box::new(all.iter().map(|row| or_dash(finite(&row.of_peak).map(whole)))),
        Box::new(all.iter().map(|row| bound(row.bound).to_owned())),
        Box::new(all.iter().map(|row| format!("{} {}", row.name, row.shape))),
    ]);
    let mut section = brief("How well the GPU's busy time is used", columns, rows);
    section.notes.insert(0, format!("{} TFLOP/s over the window{peak}{used}.", precise(*tflop_per_s)));
    section.notes.push(format!("The work is known of {} of the kernels' time.", whole(*known)));
    section
}

fn notes(account: &ProfileAccount) -> Section {
    let told = account.notes.iter().map(|note| point("", note));
    let has_lines = account.syncs.iter().any(|row| row.at.is_some()) || account.idle_at.iter().any(|row| row.at.is_some());
    let stack = !account.with_stack && !has_lines && account.of_loop.is_some();
    let stack = stack.then(|| point("", "Python functions were not recorded: with_stack=True names the lines."));
    let shapes = !account.with_shapes && !account.devices.is_empty();
    let shapes = shapes
        .then(|| point("", "Shapes were not recorded: record_shapes=True tells how well the GPU's busy time is used."));
    let points: Vec<Point> = told.chain(stack).chain(shapes).collect();
    Section::new("What the profile does not show", SectionBody::Points(points))
}
