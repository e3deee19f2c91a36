//! The tables of a profile: calls that wait, idle moments, kernels, collectives, copies, operators, modules, efficiency.

use super::section::{Column, Section, SectionBody, whole};
use trainmon_base::text::format::{UNMEASURED, Unit, bytes, counted, precise, precise_in_unit};
use trainmon_base::text::named_enum;
use trainmon_profiles::account::{
    Bound, CopyDirection, CopyRow, EfficiencyAccount, EfficiencyRow, IdleReason, IdleRow, ProfileAccount, SyncRow,
};
use trainmon_profiles::calls::CallRow;

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

/// A length of time with three digits: `6.5 µs`, `175 ms`, `1.05 s`.
pub fn length(ms: f64) -> String {
    match ms.abs() {
        ..1.0 if ms != 0.0 => format!("{} µs", precise(ms * 1000.0)),
        1000.0.. => format!("{} s", precise(ms / 1000.0)),
        _ => format!("{} ms", precise(ms)),
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
pub fn brief(title: &str, columns: Vec<Column>, rows: Vec<Vec<String>>) -> Section {
    let more = rows.len().saturating_sub(ROWS_IN_FULL);
    let rows = rows.into_iter().take(ROWS_IN_FULL).collect();
    Section { brief: ROWS_IN_BRIEF, more, ..Section::new(title, SectionBody::Table(columns, rows)) }
}

/// A table on its way: a column after the other of the same things.
struct TableOf<'a, R> {
    all: &'a [R],
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl<'a, R> TableOf<'a, R> {
    fn new(all: &'a [R]) -> Self {
        Self { all, columns: Vec::new(), rows: vec![Vec::new(); all.len()] }
    }

    fn column(mut self, column: Column, cell: impl Fn(&R) -> String) -> Self {
        self.columns.push(column);
        self.rows.iter_mut().zip(self.all).for_each(|(row, of)| row.push(cell(of)));
        self
    }

    /// Words.
    fn left(self, name: &'static str, cell: impl Fn(&R) -> String) -> Self {
        self.column(Column::left(name), cell)
    }

    /// Numbers in words.
    fn right(self, name: &'static str, cell: impl Fn(&R) -> String) -> Self {
        self.column(Column::right(name), cell)
    }

    /// Columns whose numbers are compared: all have the decimals that the largest one needs.
    fn numbers<const N: usize>(self, names: [&'static str; N], of: fn(&R) -> [f64; N]) -> Self {
        let decimals = decimals(self.all.iter().flat_map(of));
        let columns = names.into_iter().enumerate();
        columns.fold(self, |table, (place, name)| {
            table.right(name, |row| number(of(row).get(place).copied().unwrap_or(f64::NAN), decimals))
        })
    }

    fn section(self, title: &str) -> Section {
        brief(title, self.columns, self.rows)
    }

    /// The same, with what its numbers mean.
    fn explained(self, title: &str, note: &str) -> Section {
        let note = (!self.all.is_empty()).then(|| note.to_owned());
        self.section(title).noting(note)
    }
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

pub(crate) fn finite(value: Option<f64>) -> Option<f64> {
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
    let per_step = if account.steps > 0 { "per step" } else { "calls" };
    let call = |row: &SyncRow| {
        let copied = row.copies.map(|direction| {
            let size = row.bytes.map(|size| format!("{} ", bytes(Some(size)))).unwrap_or_default();
            format!(", copies {size}{}", direction_words(Some(direction)))
        });
        let place = place(&row.call, row.operator.as_deref(), row.at.as_deref(), row.function.as_deref());
        place + &copied.unwrap_or_default()
    };
    // Of calls that were counted from outside, the idle GPU is not known, and another table has the rest.
    let rows: &[SyncRow] = if account.calls.is_some() { &[] } else { &account.syncs };
    TableOf::new(rows)
        .right(per_step, |row| row.per_step.map_or_else(|| row.count.to_string(), precise))
        .numbers(["waits ms", "GPU idle ms"], |row| [row.wait_ms, row.idle_ms])
        .left("call", call)
        .explained("Calls that wait for the GPU", "GPU idle: at most this much is gained without the call.")
}

/// Calls that were counted from outside.
pub(crate) fn counted_calls(account: &ProfileAccount) -> Section {
    let title = "Calls of the GPU's runtime, counted from outside";
    let Some(calls) = &account.calls else { return brief(title, Vec::new(), Vec::new()) };
    let error = |row: &CallRow| finite(row.error).map_or_else(String::new, |error| format!(" ±{}", whole(error)));
    let section = TableOf::new(&calls.rows)
        .right("a second", |row| precise(row.calls_per_s) + &error(row))
        .right("a step", |row| or_dash(finite(row.per_step).map(precise)))
        .right("in it", |row| or_dash(finite(row.waits).map(whole)))
        .left("call", |row| row.call.clone())
        .left("thread", |row| format!("{} {}", row.tid, row.thread).trim_end().to_owned())
        .section(title);
    let windows = counted(calls.windows, "window", "windows");
    let counted = format!(
        "Counted for {} in {windows}, calls that wait for {}. It cost the job {} of the time at most.",
        length(calls.counted_ms),
        length(calls.waits_counted_ms),
        precise_in_unit(Some(calls.cost), Unit::Share),
    );
    section.noting([counted])
}

fn idle_at(account: &ProfileAccount) -> Section {
    // Without a GPU all of the loop's time is told.
    let (title, time) = if account.devices.is_empty() {
        ("Where the time of the loop went", "ms")
    } else {
        ("Where the host was while the GPU was idle", "idle ms")
    };
    let places = decimals(account.idle_at.iter().flat_map(|row| [row.idle_ms, row.longest_ms]));
    TableOf::new(&account.idle_at)
        .right(time, |row| number(row.idle_ms, places))
        .right("share", |row| share_of(row.idle_ms, account.window_ms))
        .right("longest ms", |row| number(row.longest_ms, places))
        .left("what the host did", idle_words)
        .section(title)
}

/// `waiting for data: aten::to in enumerate(DataLoader), train.py:42`.
fn idle_words(row: &IdleRow) -> String {
    let waits_for_data = row.reason == Some(IdleReason::InputWait);
    // The class of the loader says no more than that.
    let loader = if waits_for_data { row.name.split_once('#') } else { None };
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
    let busy_ms = account.devices.first().map_or(f64::NAN, |gpu| gpu.busy * account.window_ms);
    let section = TableOf::new(&account.kernels)
        .numbers(["ms"], |row| [row.total_ms])
        .right("of busy", |row| share_of(row.total_ms, busy_ms))
        .right("runs", |row| row.count.to_string())
        .numbers(["median µs"], |row| [row.median_us])
        .right("blocks", |row| or_dash(row.blocks.map(|blocks| blocks.to_string())))
        .right("occupancy", |row| or_dash(finite(row.occupancy_pct).map(|pct| format!("{pct:.0}%"))))
        .left("kernel", |row| row.name.clone())
        .section("Kernels");
    let in_full = account.kernels.iter().take(ROWS_IN_FULL).map(|row| row.raw.clone()).collect();
    Section { in_full, ..section }
}

fn collectives(account: &ProfileAccount) -> Section {
    TableOf::new(&account.collectives)
        .numbers(["ms", "exposed ms"], |row| [row.total_ms, row.exposed_ms])
        .right("runs", |row| row.count.to_string())
        .right("sent", |row| bytes(row.bytes))
        .right("ranks", |row| or_dash(row.group_size.map(|size| size.to_string())))
        .left("collective", |row| row.name.clone())
        .explained("Collectives", "Exposed: no other kernel runs meanwhile.")
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
    let direction = |row: &CopyRow| {
        let memory = row.pageable.map(|pageable| if pageable { ", pageable memory" } else { ", pinned memory" });
        format!("{}{}", direction_words(row.direction), memory.unwrap_or_default())
    };
    let section = TableOf::new(&account.copies)
        .numbers(["ms", "overlapped ms", "blocking ms"], |row| [row.ms, row.overlapped_ms, row.blocked_ms])
        .right("copies", |row| row.count.to_string())
        .right("size", |row| bytes(Some(row.bytes)))
        .right("GB/s", |row| number(row.bytes as f64 / row.ms / 1e6, 1))
        .left("direction", direction)
        .section("Copies");
    Section { detail: true, ..section }
}

fn operators(account: &ProfileAccount) -> Section {
    TableOf::new(&account.operators)
        .numbers(["GPU ms", "host ms", "GPU idle ms"], |row| [row.device_ms, row.host_ms, row.idle_ms])
        .right("calls", |row| row.count.to_string())
        .left("operator", |row| row.name.clone())
        .section("Operators")
}

fn modules(account: &ProfileAccount) -> Section {
    let section = TableOf::new(&account.modules)
        .numbers(["GPU ms", "host ms"], |row| [row.device_ms, row.host_ms])
        .right("calls", |row| row.count.to_string())
        .left("module", |row| row.name.clone())
        .section("Modules of the model");
    Section { detail: true, ..section }
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
    let bound = |row: &EfficiencyRow| match row.bound {
        Some(Bound::Compute) => "arithmetic",
        Some(Bound::Memory) => "memory",
        Some(Bound::Neither) => "neither",
        None => UNMEASURED,
    };
    let reached = format!(
        "{} TFLOP/s over the window{}{}.",
        precise(*tflop_per_s),
        peak.unwrap_or_default(),
        used.unwrap_or_default()
    );
    let known = format!("The work is known of {} of the kernels' time.", whole(*known));
    TableOf::new(all)
        .numbers(["GPU ms"], |row| [row.device_ms])
        .right("TFLOP/s", |row| number(row.tflop_per_s, 1))
        .right("TB/s", |row| number(row.tb_per_s, 2))
        .right("of peak", |row| or_dash(finite(row.of_peak).map(whole)))
        .left("bound by", |row| bound(row).to_owned())
        .left("operator", |row| format!("{} {}", row.name, row.shape))
        .section(title)
        .noting([reached, known])
}
