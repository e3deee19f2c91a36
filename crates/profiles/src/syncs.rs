//! Calls that wait for the GPU, with what removing each would gain at most.
//!
//! Without such a call, the host goes on sooner by as long as the call waited, and gives the GPU its next work sooner. So no more
//! can be gained than the GPU's idle time up to the next such call, and no more than the wait.

use std::collections::HashMap;

use super::account::{CopyDirection, SyncRow};
use super::copies;
use super::intervals::{Intervals, Lengths};
use super::names::NameId;
use super::parts::AccountParts;
use super::places::UserPlace;
use super::timeline::{GpuKind, HostKind};

/// Most rows.
const ROWS: usize = 30;

/// A call that waits.
#[derive(Debug, Clone, Copy)]
struct GpuWait {
    start: i64,
    end: i64,
    name: NameId,
    operator: Option<NameId>,
    function: Option<NameId>,
    shapes: u32,
    copy: Option<(CopyDirection, u64)>,
}

/// RuntimeCall, operator, place and direction of a row.
type WaitKey = (String, Option<String>, Option<UserPlace>, Option<CopyDirection>);

/// Copies that block the thread that called them, by what ties them to the call.
fn blocking_copies(parts: &AccountParts<'_>) -> HashMap<u32, (CopyDirection, u64)> {
    let mut blocking = HashMap::new();
    for copy in parts.timeline.gpu.iter().filter(|span| span.kind == GpuKind::Copy && span.link != 0) {
        let Some(call) = parts.host.call_of(copy.link, 0) else { continue };
        let direction = copies::direction(parts.timeline, copy);
        // A call that returned only when its copy was done. Within a GPU none does.
        if call.end >= copy.end && direction != CopyDirection::DeviceToDevice {
            let bytes = parts.timeline.detail(copy).and_then(|detail| detail.bytes).unwrap_or_default();
            blocking.insert(copy.link, (direction, bytes));
        }
    }
    blocking
}

/// The rows, those with most idle time behind them first. `idle` is the first GPU's idle time without waits for batches.
pub fn rows(parts: &AccountParts<'_>, idle: &Intervals) -> Vec<SyncRow> {
    let scope = &parts.scope;
    let mut waits = waits(parts);
    waits.sort_unstable_by_key(|wait| (wait.start, wait.end));
    let lengths = Lengths::new(idle);
    let mut rows: HashMap<WaitKey, SyncRow> = HashMap::new();
    let ends = waits.iter().skip(1).map(|next| next.start).chain([scope.window.1]);
    for (wait, next) in waits.iter().zip(ends) {
        let operator = wait.operator.map(|operator| parts.shown(operator));
        let place = parts.place(wait.function, wait.shapes);
        let call = parts.shown(wait.name);
        let row = rows.entry((call, operator, place, wait.copy.map(|(direction, _)| direction))).or_default();
        let length = wait.end.min(scope.window.1) - wait.start.max(scope.window.0);
        row.count += 1;
        row.wait_ms += length as f64 / 1e6;
        row.idle_inside_ms += lengths.within(wait.start, wait.end) as f64 / 1e6;
        row.idle_ms += lengths.within(wait.start, next.max(wait.end)).min(length) as f64 / 1e6;
        if let Some((_, bytes)) = wait.copy {
            *row.bytes.get_or_insert(0) += bytes;
        }
    }
    let mut rows: Vec<SyncRow> = rows
        .into_iter()
        .map(|((call, operator, place, copies), row)| SyncRow {
            call,
            operator,
            at: place.as_ref().map(|place| place.at.clone()),
            function: place.map(|place| place.function),
            per_step: (!scope.steps.is_empty()).then(|| row.count as f64 / scope.steps.len() as f64),
            copies,
            ..row
        })
        .collect();
    let key = |row: &SyncRow| (row.call.clone(), row.operator.clone(), row.at.clone());
    rows.sort_by(|a, b| {
        b.idle_ms.total_cmp(&a.idle_ms).then(b.wait_ms.total_cmp(&a.wait_ms)).then_with(|| key(a).cmp(&key(b)))
    });
    rows.truncate(ROWS);
    rows
}

fn waits(parts: &AccountParts<'_>) -> Vec<GpuWait> {
    let blocking = blocking_copies(parts);
    let mut waits = Vec::new();
    for lane in &parts.scope.threads {
        let (mut walk, mut python) = (parts.walk(*lane), parts.python_of(*lane));
        while let Some(level) = walk.open_next(|_, _| {}) {
            let span = level.span;
            if span.kind != HostKind::Runtime || !parts.scope.sees(span.start, span.end) {
                continue;
            }
            let name = parts.text(span.name);
            let copy =
                if span.link != 0 && name.contains("emcpy") { blocking.get(&span.link).copied() } else { None };
            // A query asks, and does not wait.
            if copy.is_none() && !(level.facts.synchronizes && name.contains("Synchronize")) {
                continue;
            }
            let aside = python.as_mut().and_then(|python| python.level_at(span.start));
            waits.push(GpuWait {
                start: span.start,
                end: span.end,
                name: span.name,
                operator: level.operator.map(|operator| operator.name),
                function: level.function.or_else(|| aside.and_then(|aside| aside.function)),
                shapes: level.operator.map_or(0, |operator| operator.shapes),
                copy,
            });
        }
    }
    waits
}
