//! How well the GPU's busy time is used: the work of operators whose shapes were recorded, divided by the time of the kernels that
//! they launched, beside the GPU's peaks.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::account::{Bound, EfficiencyAccount, EfficiencyRow};
use super::efficiency::{
    ConvolutionResults, NumberFormat, Peak, Recorded, Work, peak_of, peak_of_unnamed, shape_of, work_of_lists,
};
use super::gpu_time::GpuTime;
use super::names::NameId;
use super::parts::AccountParts;
use super::timeline::{HostKind, HostSpan, Shapes, TraceTimeline};

/// Most rows.
const ROWS: usize = 50;
/// Below this share of both peaks an operator is bound by neither: most such kernels are too small to fill the GPU.
const FAR_FROM_BOTH: f64 = 0.20;

/// Operators with equal arguments: their name and shapes.
type EqualCalls = (NameId, u32);

/// What the kernels of equal calls took.
#[derive(Debug, Default)]
struct CallTime {
    /// Operators that launched something, by their place.
    calls: HashSet<u32>,
    gpu_ns: i64,
    /// The name of a kernel of it.
    kernel: NameId,
    /// A kernel of it multiplies in TF32.
    tf32: bool,
}

/// The account; `None` where no work is known.
pub fn account(parts: &AccountParts<'_>, gpu: &GpuTime) -> Option<EfficiencyAccount> {
    let timeline = parts.timeline;
    let known = known_work(timeline);
    let launched = launched_by(timeline, |span| {
        known.contains_key(&(span.name, span.shapes)) || is_list(timeline.names.text(span.name))
    });
    // In one order, so that sums of the same trace are the same to the last bit.
    let (mut times, mut all_ns) = (BTreeMap::<EqualCalls, CallTime>::new(), 0);
    for span in parts.kernels_that(false, gpu) {
        all_ns += span.end - span.start;
        let Some((place, operator)) = operator_of(timeline, &launched, span.link) else { continue };
        let time = times.entry((operator.name, operator.shapes)).or_default();
        let kernel = timeline.names.text(span.name);
        time.calls.insert(place);
        time.gpu_ns += span.end - span.start;
        time.tf32 |= kernel.contains("tf32") || kernel.contains("s1688");
        time.kernel = span.name;
    }
    let peak = peak(timeline, gpu);
    let mut formats: BTreeMap<NumberFormat, f64> = BTreeMap::new();
    let (mut known_ms, mut tflop, mut rows) = (0.0, 0.0, Vec::new());
    for (call, time) in times {
        let recorded = recorded(timeline, call);
        let of_lists = || work_of_lists(&recorded, timeline.names.text(time.kernel));
        let Some(work) = known.get(&call).copied().or_else(of_lists) else { continue };
        let number = if work.number == NumberFormat::F32 && time.tf32 { NumberFormat::Tf32 } else { work.number };
        let row = row(&recorded, work, &time, (peak, number));
        let flops = work.flops * time.calls.len() as f64;
        *formats.entry(number).or_default() += flops;
        known_ms += row.device_ms;
        tflop += flops;
        rows.push(row);
    }
    if known_ms <= 0.0 {
        return None;
    }
    let main = formats.into_iter().filter(|(_, flops)| *flops > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    let main = main.map(|(number, _)| number);
    tflop /= 1e12;
    let tflop_per_s = tflop / (parts.scope.length() as f64 / 1e9).max(f64::MIN_POSITIVE);
    let peak_tflop_per_s = main.and_then(|number| peak?.tflops(number));
    rows.sort_by(|a, b| {
        b.device_ms.total_cmp(&a.device_ms).then_with(|| (&a.name, &a.shape).cmp(&(&b.name, &b.shape)))
    });
    rows.truncate(ROWS);
    Some(EfficiencyAccount {
        tflop,
        tflop_per_s,
        peak_tflop_per_s,
        number: main.map(|number| number.word().to_owned()),
        of_peak: peak_tflop_per_s.map(|peak| tflop_per_s / peak),
        peak_tb_per_s: peak.map(|peak| peak.tb_per_s),
        known: known_ms / (all_ns as f64 / 1e6).max(known_ms),
        operators: rows,
    })
}

/// The work of calls, where their shapes say it.
fn known_work(timeline: &TraceTimeline) -> HashMap<EqualCalls, Work> {
    let operators = timeline.host.iter().filter(|span| span.kind == HostKind::Operator && span.shapes != 0);
    let calls: BTreeSet<EqualCalls> = operators.map(|span| (span.name, span.shapes)).collect();
    let mut results = ConvolutionResults::default();
    calls.iter().for_each(|call| results.learn(&recorded(timeline, *call)));
    let work = |call: &EqualCalls| Some((*call, results.work_of(&recorded(timeline, *call))?));
    calls.iter().filter_map(work).collect()
}

/// The row of equal calls, beside the GPU's peaks in the format of their numbers.
fn row(call: &Recorded, work: Work, time: &CallTime, (peak, number): (Option<&Peak>, NumberFormat)) -> EfficiencyRow {
    let seconds = (time.gpu_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    let count = time.calls.len() as f64;
    let tflop_per_s = work.flops * count / seconds / 1e12;
    let tb_per_s = work.bytes * count / seconds / 1e12;
    let of_compute = peak.and_then(|peak| peak.tflops(number)).map(|tflops| (Bound::Compute, tflop_per_s / tflops));
    let of_memory = peak.map(|peak| (Bound::Memory, tb_per_s / peak.tb_per_s));
    // Of equal shares, the one of compute.
    let most = of_memory.into_iter().chain(of_compute).max_by(|a, b| a.1.total_cmp(&b.1));
    EfficiencyRow {
        name: call.name.chars().take(80).collect(),
        shape: shape_of(call).unwrap_or_default(),
        count: time.calls.len() as u64,
        device_ms: time.gpu_ns as f64 / 1e6,
        tflop_per_s,
        tb_per_s,
        bound: most.map(|(bound, share)| if share < FAR_FROM_BOTH { Bound::Neither } else { bound }),
        of_peak: most.map(|(_, share)| share),
    }
}

/// What the file says of a GPU.
pub fn properties(timeline: &TraceTimeline, index: i64) -> Option<&Value> {
    let all = timeline.facts.get("deviceProperties").and_then(Value::as_array)?;
    all.iter().find(|one| one.get("id").and_then(Value::as_i64) == Some(index))
}

/// The peaks of the GPU, by its name, or by its size where the driver gives none.
fn peak(timeline: &TraceTimeline, gpu: &GpuTime) -> Option<&'static Peak> {
    // roctracer numbers GPUs in another order than the list: all of a machine are of a kind.
    let first = || timeline.facts.get("deviceProperties")?.get(0);
    let of_gpu = properties(timeline, gpu.index).or_else(first)?;
    let named = of_gpu.get("name").and_then(Value::as_str).and_then(peak_of);
    named.or_else(|| {
        let units = u32::try_from(of_gpu.get("numSms")?.as_u64()?).ok()?;
        peak_of_unnamed(units, of_gpu.get("totalGlobalMem")?.as_u64()?)
    })
}

fn recorded(timeline: &TraceTimeline, (name, shapes): EqualCalls) -> Recorded<'_> {
    let Shapes { dims, types, strides, values, .. } = timeline.shapes_of(shapes);
    Recorded { name: timeline.names.text(name), dims, types, strides, values }
}

/// Operators on lists of tensors, whose work depends on their kernels.
fn is_list(name: &str) -> bool {
    name.starts_with("aten::_foreach")
        || name.starts_with("aten::_fused")
        || name == "aten::cat"
        || name == "aten::stack"
}

/// The innermost operator of known work around each call of the runtime, by what ties the call to the GPU: in order.
fn launched_by(timeline: &TraceTimeline, has_work: impl Fn(&HostSpan) -> bool) -> Vec<(u32, u32)> {
    let mut launched = Vec::new();
    let mut open: Vec<(i64, u32)> = Vec::new();
    let mut lane = None;
    for (place, span) in (0..).zip(&timeline.host) {
        if lane != Some(span.lane) {
            lane = Some(span.lane);
            open.clear();
        }
        while open.last().is_some_and(|(end, _)| *end <= span.start) {
            open.pop();
        }
        match span.kind {
            HostKind::Operator if has_work(span) => open.push((span.end, place)),
            HostKind::Runtime if span.link != 0 => {
                launched.extend(open.last().map(|(_, operator)| (span.link, *operator)))
            }
            _ => {}
        }
    }
    launched.sort_unstable();
    launched
}

fn operator_of<'a>(timeline: &'a TraceTimeline, launched: &[(u32, u32)], link: u32) -> Option<(u32, &'a HostSpan)> {
    let at = launched.partition_point(|(other, _)| *other < link);
    let (_, place) = launched.get(at).filter(|(other, _)| *other == link && link != 0)?;
    Some((*place, timeline.host.get(usize::try_from(*place).ok()?)?))
}
