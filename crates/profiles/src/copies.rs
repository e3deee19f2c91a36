//! Copies by direction, and by what memory the host's side is.

use super::account::{CopyDirection, CopyRow};
use super::gpu_time::GpuTime;
use super::intervals::{Intervals, Lengths};
use super::parts::AccountParts;
use super::timeline::{GpuKind, GpuSpan, TraceTimeline};

/// From where to where a copy goes: `Memcpy HtoD (Pageable -> Device)`, or roctracer's `kind`.
pub fn direction(timeline: &TraceTimeline, copy: &GpuSpan) -> CopyDirection {
    let name = timeline.names.text(copy.name);
    let kind = timeline.detail(copy).map_or("", |detail| &*detail.copy_kind);
    let is = |word: &str| name.contains(word) || kind.eq_ignore_ascii_case(word);
    if is("HtoD") {
        CopyDirection::HostToDevice
    } else if is("DtoH") {
        CopyDirection::DeviceToHost
    } else if is("DtoD") {
        CopyDirection::DeviceToDevice
    } else if is("PtoP") {
        CopyDirection::PeerToPeer
    } else {
        CopyDirection::Other
    }
}

/// Whether the host's side is pageable memory, if it is told.
pub fn pageable(name: &str) -> Option<bool> {
    match name {
        _ if name.contains("Pageable") => Some(true),
        _ if name.contains("Pinned") => Some(false),
        _ => None,
    }
}

/// The rows of a GPU, those with most time first.
pub fn rows(parts: &AccountParts<'_>, gpu: &GpuTime) -> Vec<CopyRow> {
    let timeline = parts.timeline;
    let kernels = Intervals::union(gpu.compute.iter().chain(gpu.communication.iter()), parts.scope.window);
    let kernels = Lengths::new(&kernels);
    let mut rows: Vec<CopyRow> = Vec::new();
    for copy in parts.spans(gpu).filter(|span| span.kind == GpuKind::Copy) {
        let direction = Some(direction(timeline, copy));
        let pageable = pageable(parts.text(copy.name));
        let at =
            rows.iter().position(|row| row.direction == direction && row.pageable == pageable).unwrap_or_else(|| {
                rows.push(CopyRow { direction, pageable, ..CopyRow::default() });
                rows.len() - 1
            });
        let Some(row) = rows.get_mut(at) else { continue };
        let blocked = parts.host.call_of(copy.link, 0).map(|call| call.end - call.start);
        row.count += 1;
        row.bytes =
            row.bytes.saturating_add(timeline.detail(copy).and_then(|detail| detail.bytes).unwrap_or_default());
        row.ms += (copy.end - copy.start) as f64 / 1e6;
        row.overlapped_ms += kernels.within(copy.start, copy.end) as f64 / 1e6;
        row.blocked_ms += blocked.unwrap_or_default() as f64 / 1e6;
    }
    rows.sort_by(|a, b| {
        b.ms.total_cmp(&a.ms).then_with(|| (a.direction, a.pageable).cmp(&(b.direction, b.pageable)))
    });
    rows
}
