//! The tables of a profile: calls that wait, idle moments, kernels, collectives, copies, operators, modules, efficiency.

use super::section::{Column, Section, SectionBody, whole};
use crate::profiles::account::{Bound, CopyDirection, EfficiencyAccount, IdleReason, IdleRow, ProfileAccount};
use crate::text::format::{UNMEASURED, Unit, bytes, precise, precise_in_unit};
use crate::text::named_enum;

/// Rows of a table that is not shown in full.
const ROWS_IN_BRIEF: usize = 5;
/// Most rows of a table: the JSON has more.
const ROWS_IN_FULL: usize = 30;

named_enum! {
    /// A table of a profile. Its word is its name where there is room for one word.
    pub enum TableName {
        /// Calls that wait for the GPU.
        Waits = "Waits",
        /// Where the host was while the GPU was idle.
        Idle = "Idle",
        /// Kernels by time.
        Kernels = "Kernels",
        /// Collectives by kind.
        Collectives = "Collectives",
        /// Copies by direction.
        Copies = "Copies",
        /// Operators by time.
        Operators = "Operators",
        /// Modules of the model.
        Modules = "Modules",
        /// Operators by how well they use the GPU.
        Efficiency = "Efficiency",
    }
}

/// All tables, the most useful first; those without rows are empty.
pub fn tables(account: &ProfileAccount) -> impl Iterator<Item = (TableName, Section)> {
    TableName::ALL.into_iter().map(|name| {
        let section = match name {
            TableName::Waits => syncs(account),
            TableName::Idle => idle_at(account),
            TableName::Kernels => kernels(account),
            TableName::Collectives => collectives(account),
            TableName::Copies => copies(account),
            TableName::Operators => operators(account),
            TableName::Modules => modules(account),
            TableName::Efficiency => efficiency(account),
        };
        (name, section)
    })
}

/// A table whose first rows are enough for a short report.
pub(super) fn brief(title: &str, columns: Vec<Column>, rows: Vec<Vec<String>>) -> Section {
    let more = rows.len().saturating_sub(ROWS_IN_FULL);
    let rows = rows.into_iter().take(ROWS_IN_FULL).collect();
    Section { brief: ROWS_IN_BRIEF, more, ..Section::new(title, SectionBody::Table(columns, rows)) }
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

pub(super) fn finite(value: Option<f64>) -> Option<f64> {
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
    if same.is_some_and(|same| name.ends_with(&same)) {
        at_function
    } else {
        format!("{name}{operator}, {at_function}")
    }
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
    // Without a GPU all of the loop's time is told.
    let (title, time) = if account.devices.is_empty() {
        ("Where the time of the loop went", "ms")
    } else {
        ("Where the host was while the GPU was idle", "idle ms")
    };
    let columns = [time, "share", "longest ms"].map(Column::right).to_vec();
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
    brief(title, columns, rows.collect())
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
    let in_full = all.iter().take(ROWS_IN_FULL).map(|row| row.raw.clone()).collect();
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
    let EfficiencyAccount { tflop_per_s, peak_tflop_per_s, number: format, of_peak, known, operators: all, .. } =
        efficiency;
    let format = format.as_deref().map(|format| format!(" in {format}")).unwrap_or_default();
    let peak = finite(*peak_tflop_per_s).map(|peak| format!(" of the GPU's {}{format}", precise(peak)));
    let used =
        finite(*of_peak).map(|share| format!(": {} of its peak (MFU)", precise_in_unit(Some(share), Unit::Share)));
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
