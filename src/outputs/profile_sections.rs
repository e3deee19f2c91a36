//! What a report says about a profile: its window, what each GPU did, why it was idle, and where its time went.

use super::report::{Column, Point, Section, SectionBody, point, whole};
use crate::profiles::account::{
    Bound, CopyDirection, DeviceAccount, EfficiencyAccount, IdleReason, IdleRow, LaunchAccount, LoopAccount, ProfileAccount, ProfileSource, StepMark,
};
use crate::profiles::drawn::SliceKind;
use crate::text::format::{UNMEASURED, bytes, precise, whole_percent as percent};

/// Rows of a table that is not shown in full, and the most rows of any table: the JSON has more.
const BRIEF: usize = 5;
const ROWS: usize = 30;
/// Most GPUs with a section of their own; a table has all of them.
const GPUS: usize = 8;
/// Smaller shares of the window would read as 0%.
const SHARE_TOLD: f64 = 0.005;

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
    Some(format!("{file}{rank} · window of {}{steps}", length(account.window_ms)))
}

/// A length of time with three digits: `6.5 µs`, `175 ms`, `1.05 s`.
pub(super) fn length(ms: f64) -> String {
    match ms.abs() {
        ..1.0 if ms != 0.0 => format!("{} µs", precise(ms * 1000.0)),
        1000.0.. => format!("{} s", precise(ms / 1000.0)),
        _ => format!("{} ms", precise(ms)),
    }
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
    let by = by.map(|by| format!(", {by}")).unwrap_or_default();
    let mean = finite(account.step_ms).map(|ms| format!(": {} each on average", length(ms)));
    let longest = finite(account.longest_step_ms).map(|ms| format!(", {} at most", length(ms)));
    let steps = match account.steps {
        0 => "without steps".to_owned(),
        1 => format!("with 1 step{by}"),
        steps => format!("with {steps} steps{by}{}{}", mean.unwrap_or_default(), longest.unwrap_or_default()),
    };
    let requests = account.requests.as_ref().map(|requests| {
        format!("; {} times `{}`, median {}", requests.count, requests.name, length(requests.median_ms))
    });
    let share = |share: f64, what: &str| {
        let told = share >= SHARE_TOLD;
        told.then(|| format!("; {what} {}% of it", percent(share)))
    };
    let taken = [share(account.compiling, "compiling takes"), share(account.overhead, "the profiler takes")];
    let taken: String = taken.into_iter().flatten().collect();
    format!("{} {steps}{}{taken}.", length(account.window_ms), requests.unwrap_or_default())
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
    let median = finite(device.median_kernel_us)?;
    let streams = if device.streams == 1 { "1 stream".to_owned() } else { format!("{} streams", device.streams) };
    let few = device.few_blocks.zip(device.multiprocessors).filter(|(share, _)| *share >= 0.01).map(|(share, count)| {
        format!(" For {} of their time they have fewer blocks than the GPU's {count} multiprocessors.", whole(share))
    });
    let few = few.unwrap_or_default();
    Some(format!("{} kernels on {streams}, of {} (median).{few}", device.kernels, length(median / 1000.0)))
}

fn launches_note(launches: &LaunchAccount, has_steps: bool) -> String {
    let per = if has_steps { " a step" } else { "" };
    let each = finite(launches.call_us).map(|us| format!(" of {}", length(us / 1000.0)));
    let graphs = match launches.graph_launches {
        0 => String::new(),
        1 => format!(" A CUDA graph launches {} of them.", launches.graph_kernels),
        graphs => format!(" CUDA graphs launch {} of them, {graphs} times.", launches.graph_kernels),
    };
    let queue = finite(launches.queue_us).map(|us| format!(" A kernel starts {} after its launch.", length(us / 1000.0)));
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
    let section = Section::new("The thread of the loop", SectionBody::Parts(parts)).noting(notes.into_iter().flatten());
    Section { detail: !account.devices.is_empty(), ..section }
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

/// Decimals that columns which are compared share: as many as their largest number needs.
fn decimals(values: impl Iterator<Item = f64>) -> usize {
    match values.filter(|value| value.is_finite()).fold(0.0, f64::max) {
        1000.0.. => 0,
        10.0.. => 1,
        1.0.. => 2,
        _ => 3,
    }
}

/// A number with so many decimals.
fn number(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { UNMEASURED.to_owned() }
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// What is not there is a dash.
fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| UNMEASURED.to_owned())
}

/// `cudaStreamSynchronize in aten::item, train.py:41 (step)`.
fn place(name: &str, operator: Option<&str>, at: Option<&str>, function: Option<&str>) -> String {
    let operator = operator.map(|operator| format!(" in {operator}")).unwrap_or_default();
    let shown = function.filter(|function| *function != "<module>").map(|function| format!(" ({function})"));
    let Some(at) = at else { return format!("{name}{operator}") };
    let at_function = format!("{at}{}", shown.unwrap_or_default());
    // The profiler's own name of the same function.
    let same = at.rsplit_once(':').map(|(file, line)| format!("{file}({line}): {}", function.unwrap_or_default()));
    if same.is_some_and(|same| name.ends_with(&same)) { at_function } else { format!("{name}{operator}, {at_function}") }
}

fn syncs(account: &ProfileAccount) -> Section {
    let all = &account.syncs;
    let columns = vec![
        Column::right(if account.steps > 0 { "per step" } else { "calls" }),
        Column::right("waits ms"),
        Column::right("GPU idle ms"),
        Column::left("call"),
    ];
    let places = decimals(all.iter().flat_map(|row| [row.wait_ms, row.idle_ms]));
    let rows = all.iter().map(|row| {
        let copied = row.copies.map(|direction| {
            let size = row.bytes.map(|size| format!("{} ", bytes(Some(size)))).unwrap_or_default();
            format!(", copies {size}{}", direction_words(Some(direction)))
        });
        let place = place(&row.call, row.operator.as_deref(), row.at.as_deref(), row.function.as_deref());
        vec![
            row.per_step.map_or_else(|| row.count.to_string(), precise),
            number(row.wait_ms, places),
            number(row.idle_ms, places),
            place + &copied.unwrap_or_default(),
        ]
    });
    let section = brief("Calls that wait for the GPU", columns, rows.collect());
    let gain = "GPU idle: at most this much is gained without the call.".to_owned();
    if section.is_empty() { section } else { section.noting([gain]) }
}

fn idle_at(account: &ProfileAccount) -> Section {
    let all = &account.idle_at;
    let columns = ["idle ms", "share", "longest ms"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("what the host did")]].concat();
    let places = decimals(all.iter().flat_map(|row| [row.idle_ms, row.longest_ms]));
    let rows = all.iter().map(|row| {
        vec![
            number(row.idle_ms, places),
            share_of(row.idle_ms, account.window_ms),
            number(row.longest_ms, places),
            idle_words(row),
        ]
    });
    brief("Where the host was while the GPU was idle", columns, rows.collect())
}

/// `waiting for data: aten::to in enumerate(DataLoader), train.py:42`.
fn idle_words(row: &IdleRow) -> String {
    let waits_for_data = row.reason == Some(IdleReason::InputWait);
    // The class of the loader says no more than that.
    let loader = row.name.split_once('#').filter(|_| waits_for_data);
    let name = loader.map_or(row.name.as_str(), |(loader, _)| loader);
    let (name, within) = match row.operator.as_deref() {
        // An operator of the loader's own.
        Some(operator) if waits_for_data => (operator, Some(name)),
        operator => (name, operator),
    };
    let place = place(name, within, row.at.as_deref(), row.function.as_deref());
    match row.reason.map(|reason| reason.drawn().words()) {
        Some(words) if !words.ends_with(&place) => format!("{words}: {place}"),
        _ => place,
    }
}

/// A part of a whole, both in the same unit.
fn share_of(part: f64, whole_ms: f64) -> String {
    let share = part / whole_ms;
    if share.is_finite() { whole(share) } else { UNMEASURED.to_owned() }
}

fn kernels(account: &ProfileAccount) -> Section {
    let all = &account.kernels;
    let busy_ms = account.devices.first().map_or(f64::NAN, |device| device.busy * account.window_ms);
    let columns = ["ms", "of busy", "runs", "median µs", "blocks", "occupancy"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("kernel")]].concat();
    let places = [decimals(all.iter().map(|row| row.total_ms)), decimals(all.iter().map(|row| row.median_us))];
    let rows = all.iter().map(|row| {
        vec![
            number(row.total_ms, places[0]),
            share_of(row.total_ms, busy_ms),
            row.count.to_string(),
            number(row.median_us, places[1]),
            or_dash(row.blocks.map(|blocks| blocks.to_string())),
            or_dash(finite(row.occupancy_pct).map(|pct| format!("{pct:.0}%"))),
            row.name.clone(),
        ]
    });
    let in_full = all.iter().take(ROWS).map(|row| row.raw.clone()).collect();
    Section { in_full, ..brief("Kernels", columns, rows.collect()) }
}

fn collectives(account: &ProfileAccount) -> Section {
    let all = &account.collectives;
    let columns = ["ms", "exposed ms", "runs", "sent", "ranks"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("collective")]].concat();
    let places = decimals(all.iter().map(|row| row.total_ms));
    let rows = all.iter().map(|row| {
        vec![
            number(row.total_ms, places),
            number(row.exposed_ms, places),
            row.count.to_string(),
            bytes(row.bytes),
            or_dash(row.group_size.map(|size| size.to_string())),
            row.name.clone(),
        ]
    });
    let section = brief("Collectives", columns, rows.collect());
    let exposed = "Exposed: no other kernel runs meanwhile.".to_owned();
    if section.is_empty() { section } else { section.noting([exposed]) }
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
    let columns = ["ms", "overlapped ms", "blocking ms", "copies", "size", "GB/s"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("direction")]].concat();
    let places = decimals(all.iter().flat_map(|row| [row.ms, row.overlapped_ms, row.blocked_ms]));
    let rows = all.iter().map(|row| {
        let memory = row.pageable.map(|pageable| if pageable { ", pageable memory" } else { ", pinned memory" });
        vec![
            number(row.ms, places),
            number(row.overlapped_ms, places),
            number(row.blocked_ms, places),
            row.count.to_string(),
            bytes(Some(row.bytes)),
            number(row.bytes as f64 / row.ms / 1e6, 1),
            format!("{}{}", direction_words(row.direction), memory.unwrap_or_default()),
        ]
    });
    in_detail("Copies", columns, rows.collect())
}

fn operators(account: &ProfileAccount) -> Section {
    let all = &account.operators;
    let columns = ["GPU ms", "host ms", "GPU idle ms", "calls"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("operator")]].concat();
    let places = decimals(all.iter().flat_map(|row| [row.device_ms, row.host_ms, row.idle_ms]));
    let rows = all.iter().map(|row| {
        let times = [row.device_ms, row.host_ms, row.idle_ms].map(|ms| number(ms, places));
        [times.to_vec(), vec![row.count.to_string(), row.name.clone()]].concat()
    });
    brief("Operators", columns, rows.collect())
}

fn modules(account: &ProfileAccount) -> Section {
    let all = &account.modules;
    let columns = ["GPU ms", "host ms", "calls"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("module")]].concat();
    let places = decimals(all.iter().flat_map(|row| [row.device_ms, row.host_ms]));
    let rows = all.iter().map(|row| {
        let times = [row.device_ms, row.host_ms].map(|ms| number(ms, places));
        [times.to_vec(), vec![row.count.to_string(), row.name.clone()]].concat()
    });
    in_detail("Modules of the model", columns, rows.collect())
}

/// How well the busy time is used.
fn efficiency(account: &ProfileAccount) -> Section {
    let title = "How well the GPU's busy time is used";
    let Some(efficiency) = &account.efficiency else { return brief(title, Vec::new(), Vec::new()) };
    let EfficiencyAccount { tflop_per_s, peak_tflop_per_s, number: format, of_peak, known, operators: all, .. } = efficiency;
    let format = format.as_deref().map(|format| format!(" in {format}")).unwrap_or_default();
    let peak = finite(*peak_tflop_per_s).map(|peak| format!(" of the GPU's {}{format}", precise(peak)));
    let used = finite(*of_peak).map(|share| format!(": {} of its peak (MFU)", whole(share)));
    let columns = ["GPU ms", "TFLOP/s", "TB/s", "of peak"].map(Column::right).to_vec();
    let columns = [columns, vec![Column::left("bound by"), Column::left("operator")]].concat();
    let places = decimals(all.iter().map(|row| row.device_ms));
    let rows = all.iter().map(|row| {
        let bound = match row.bound {
            Some(Bound::Compute) => "arithmetic",
            Some(Bound::Memory) => "memory",
            Some(Bound::Neither) => "neither",
            None => UNMEASURED,
        };
        vec![
            number(row.device_ms, places),
            number(row.tflop_per_s, 1),
            number(row.tb_per_s, 2),
            or_dash(finite(row.of_peak).map(whole)),
            bound.to_owned(),
            format!("{} {}", row.name, row.shape),
        ]
    });
    let reached = format!(
        "{} TFLOP/s over the window{}{}.",
        precise(*tflop_per_s),
        peak.unwrap_or_default(),
        used.unwrap_or_default()
    );
    let known = format!("The work is known of {} of the kernels' time.", whole(*known));
    brief(title, columns, rows.collect()).noting([reached, known])
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
