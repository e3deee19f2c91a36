//! Kernels and collectives by their names.

use std::collections::HashMap;

use super::account::{CollectiveRow, KernelRow};
use super::gpu_time::{GpuTime, median};
use super::intervals::Lengths;
use super::kernel_names::kernel_name;
use super::names::NameId;
use super::parts::AccountParts;
use super::timeline::{GpuSpan, TraceTimeline};

/// Most rows.
const ROWS: usize = 200;

/// The rows of a GPU's kernels, those with most time first.
pub fn rows(parts: &AccountParts<'_>, gpu: &GpuTime) -> Vec<KernelRow> {
    let mut runs: Vec<&GpuSpan> = parts.kernels(gpu).collect();
    runs.sort_unstable_by_key(|span| (span.name, span.end - span.start));
    let mut kinds: Vec<(i64, &[&GpuSpan])> = runs
        .chunk_by(|a, b| a.name == b.name)
        .map(|kind| (kind.iter().map(|span| span.end - span.start).sum(), kind))
        .collect();
    kinds.sort_by_key(|(total, kind)| (std::cmp::Reverse(*total), kind.first().map(|span| span.name)));
    kinds.into_iter().take(ROWS).map(|(total, kind)| row(parts.timeline, total, kind)).collect()
}

fn row(timeline: &TraceTimeline, total: i64, kind: &[&GpuSpan]) -> KernelRow {
    let raw = kind.first().map_or("", |span| timeline.names.text(span.name));
    let lengths: Vec<i64> = kind.iter().map(|span| span.end - span.start).collect();
    let details = || kind.iter().filter_map(|span| Some((span, timeline.detail(span)?)));
    let mut blocks: Vec<i64> = details().filter_map(|(_, detail)| i64::try_from(detail.blocks?).ok()).collect();
    blocks.sort_unstable();
    let occupied =
        details().filter_map(|(span, detail)| Some(((span.end - span.start) as f64, detail.occupancy_pct? as f64)));
    let (sum, weight) =
        occupied.fold((0.0, 0.0), |(sum, weight), (length, pct)| (sum + length * pct, weight + length));
    KernelRow {
        name: kernel_name(raw),
        raw: raw.to_owned(),
        count: kind.len() as u64,
        total_ms: total as f64 / 1e6,
        median_us: median(&lengths).unwrap_or_default() as f64 / 1e3,
        blocks: median(&blocks).and_then(|blocks| u64::try_from(blocks).ok()),
        occupancy_pct: (weight > 0.0).then(|| sum / weight),
    }
}

/// Share of the kernels' time in which a kernel had fewer blocks than the GPU has multiprocessors.
pub fn few_blocks(parts: &AccountParts<'_>, gpu: &GpuTime, multiprocessors: u32) -> Option<f64> {
    let (mut few, mut all) = (0, 0);
    for span in parts.kernels_that(false, gpu) {
        let Some(blocks) = parts.timeline.detail(span).and_then(|detail| detail.blocks) else { continue };
        let length = span.end - span.start;
        all += length;
        few += if blocks < u64::from(multiprocessors) { length } else { 0 };
    }
    (all > 0).then(|| few as f64 / all as f64)
}

/// The rows of a GPU's collectives, those with most time first.
pub fn collectives(parts: &AccountParts<'_>, gpu: &GpuTime) -> Vec<CollectiveRow> {
    let compute = Lengths::new(&gpu.compute);
    let mut names: HashMap<NameId, String> = HashMap::new();
    let mut rows: HashMap<String, CollectiveRow> = HashMap::new();
    for span in parts.kernels_that(true, gpu) {
        let name = names.entry(span.name).or_insert_with(|| kernel_name(parts.text(span.name)));
        let row = rows.entry(name.clone()).or_default();
        let length = span.end - span.start;
        row.count += 1;
        row.total_ms += length as f64 / 1e6;
        row.exposed_ms += (length - compute.within(span.start, span.end)) as f64 / 1e6;
        if let Some(detail) = parts.timeline.detail(span) {
            let sent = detail.elements.map(|(sent, _)| sent.saturating_mul(element_bytes(&detail.element)));
            if let Some(sent) = sent {
                row.bytes = Some(row.bytes.unwrap_or_default().saturating_add(sent));
            }
            row.group_size = detail.group.as_ref().and_then(|(size, _)| u32::try_from(*size).ok()).or(row.group_size);
        }
    }
    let mut rows: Vec<CollectiveRow> = rows.into_iter().map(|(name, row)| CollectiveRow { name, ..row }).collect();
    rows.sort_by(|a, b| b.total_ms.total_cmp(&a.total_ms).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(ROWS);
    rows
}

/// Bytes of an element, by the name that c10d or the list of an operator's types gives it; 0 if it is unknown.
pub(crate) fn element_bytes(name: &str) -> u64 {
    match name.strip_prefix("c10::").unwrap_or(name) {
        "Byte" | "Char" | "Bool" | "UInt8" | "Int8" | "unsigned char" | "signed char" | "bool" => 1,
        float if float.starts_with("Float8_") => 1,
        "Half" | "BFloat16" | "Short" | "short int" => 2,
        "Float" | "Int" | "float" | "int" => 4,
        "Double" | "Long" | "double" | "long int" | "long" => 8,
        _ => 0,
    }
}
