//! The rows that changed: kernels, operators, calls, copies and collectives of both accounts.

use serde::Serialize;

use super::sides::{BeforeAfter, JoinedRows, Sides};
use crate::profiles::account::CopyDirection;

/// Fewer or more than this a step are no other number of them.
const SAME_COUNT: f64 = 0.05;

/// A kernel before and after, by the name that a person reads. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelChange {
    /// Its name.
    pub name: String,
    /// Time of all of them, milliseconds.
    pub ms: BeforeAfter,
    /// How often it ran.
    pub count: BeforeAfter,
    /// Median time of one, microseconds.
    pub median_us: BeforeAfter,
    /// Change of its time, milliseconds.
    pub change_ms: f64,
}

/// An operator before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperatorChange {
    /// Its name.
    pub name: String,
    /// Calls.
    pub count: BeforeAfter,
    /// Time of what it launched on the GPU, milliseconds.
    pub device_ms: BeforeAfter,
    /// Time in which the GPU was idle while a thread was in it, milliseconds.
    pub idle_ms: BeforeAfter,
    /// Its time on the host, milliseconds.
    pub host_ms: BeforeAfter,
    /// Change of what it costs: time on the GPU and idle time of it, or without a GPU time on the host, milliseconds.
    pub change_ms: f64,
}

/// Calls of one kind that wait for the GPU, before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyncChange {
    /// The call of the runtime.
    pub call: String,
    /// The outermost operator that made it.
    pub operator: Option<String>,
    /// Calls.
    pub count: BeforeAfter,
    /// How long they waited, milliseconds.
    pub wait_ms: BeforeAfter,
    /// How long the GPU was idle because of them, milliseconds.
    pub idle_ms: BeforeAfter,
    /// Change of that idle time, milliseconds.
    pub change_ms: f64,
}

/// Copies of one direction before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CopyChange {
    /// From where to where.
    pub direction: Option<CopyDirection>,
    /// The host's memory is pageable rather than pinned.
    pub pageable: Option<bool>,
    /// Number of copies.
    pub count: BeforeAfter,
    /// Bytes.
    pub bytes: BeforeAfter,
    /// Time of all of them, milliseconds.
    pub ms: BeforeAfter,
    /// Time in which a thread was blocked by them, milliseconds.
    pub blocked_ms: BeforeAfter,
    /// Change of their time, milliseconds.
    pub change_ms: f64,
}

/// Collectives of one kind before and after. Numbers are per step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CollectiveChange {
    /// The name that a person reads.
    pub name: String,
    /// Number of them.
    pub count: BeforeAfter,
    /// Time of all of them, milliseconds.
    pub ms: BeforeAfter,
    /// Time in which no other kernel ran, milliseconds.
    pub exposed_ms: BeforeAfter,
    /// Change of the time in which no other kernel ran, milliseconds.
    pub change_ms: f64,
}

/// Rows, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ChangedRows<R> {
    /// Those that changed most.
    pub rows: Vec<R>,
    /// Others that changed.
    pub left_out: usize,
}

/// Kernels by the name that a person reads.
pub fn kernels(sides: &Sides<'_>) -> Vec<KernelChange> {
    let joined = JoinedRows::new(sides, |account| &account.kernels, |row| row.name.clone());
    joined.each(|name, of| {
        let ms = of.per_step(|row| row.total_ms);
        let count = of.per_step(|row| row.count as f64);
        let [before, after] = of.rows.map(|rows| median(rows.iter().map(|row| (row.median_us, row.count)).collect()));
        KernelChange { name, ms, count, median_us: BeforeAfter { before, after }, change_ms: ms.change() }
    })
}

/// The middle one of the runs of several kernels of one name, by their medians.
fn median(mut medians: Vec<(f64, u64)>) -> Option<f64> {
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let half = medians.iter().map(|(_, count)| count).sum::<u64>() / 2;
    let mut passed = 0;
    let middle = medians.iter().find(|(_, count)| {
        passed += count;
        passed > half
    });
    middle.map(|(median, _)| *median)
}

/// Operators by their names.
pub fn operators(sides: &Sides<'_>) -> Vec<OperatorChange> {
    let has_gpu = sides.iter().all(|side| !side.account.devices.is_empty());
    let joined = JoinedRows::new(sides, |account| &account.operators, |row| row.name.clone());
    joined.each(|name, of| {
        let device_ms = of.per_step(|row| row.device_ms);
        let idle_ms = of.per_step(|row| row.idle_ms);
        let host_ms = of.per_step(|row| row.host_ms);
        let count = of.per_step(|row| row.count as f64);
        let change_ms = if has_gpu { device_ms.change() + idle_ms.change() } else { host_ms.change() };
        OperatorChange { name, count, device_ms, idle_ms, host_ms, change_ms }
    })
}

/// Calls that wait for the GPU, by the call and the operator around it: lines move between two versions of a program.
pub fn syncs(sides: &Sides<'_>) -> Vec<SyncChange> {
    let joined = JoinedRows::new(sides, |account| &account.syncs, |row| (row.call.clone(), row.operator.clone()));
    joined.each(|(call, operator), of| {
        let idle_ms = of.per_step(|row| row.idle_ms);
        SyncChange {
            call,
            operator,
            count: of.per_step(|row| row.count as f64),
            wait_ms: of.per_step(|row| row.wait_ms),
            idle_ms,
            change_ms: idle_ms.change(),
        }
    })
}

/// Copies by direction and memory.
pub fn copies(sides: &Sides<'_>) -> Vec<CopyChange> {
    let joined = JoinedRows::new(sides, |account| &account.copies, |row| (row.direction, row.pageable));
    joined.each(|(direction, pageable), of| {
        let ms = of.per_step(|row| row.ms);
        CopyChange {
            direction,
            pageable,
            count: of.per_step(|row| row.count as f64),
            bytes: of.per_step(|row| row.bytes as f64),
            ms,
            blocked_ms: of.per_step(|row| row.blocked_ms),
            change_ms: ms.change(),
        }
    })
}

/// Collectives by their names.
pub fn collectives(sides: &Sides<'_>) -> Vec<CollectiveChange> {
    let joined = JoinedRows::new(sides, |account| &account.collectives, |row| row.name.clone());
    joined.each(|name, of| {
        let exposed_ms = of.per_step(|row| row.exposed_ms);
        CollectiveChange {
            name,
            count: of.per_step(|row| row.count as f64),
            ms: of.per_step(|row| row.total_ms),
            exposed_ms,
            change_ms: exposed_ms.change(),
        }
    })
}

/// What belongs into a table.
#[derive(Debug, Clone, Copy)]
pub struct RowLimits {
    /// Most rows.
    pub rows: usize,
    /// Smaller changes do not count.
    pub least_ms: f64,
}

impl RowLimits {
    /// The rows that changed most, in either direction, by the change of their time and their counts.
    pub fn most<R>(self, mut rows: Vec<R>, of: impl Fn(&R) -> (f64, BeforeAfter)) -> ChangedRows<R> {
        let change = |row: &R| of(row).0.abs();
        rows.retain(|row| change(row) >= self.least_ms || of(row).1.change().abs() >= SAME_COUNT);
        rows.sort_by(|a, b| change(b).total_cmp(&change(a)));
        let left_out = rows.len().saturating_sub(self.rows);
        rows.truncate(self.rows);
        ChangedRows { rows, left_out }
    }
}
