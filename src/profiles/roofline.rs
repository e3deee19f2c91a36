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
use super::scope::Scope;
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
    device_ns: i64,
    /// The name of a kernel of it.
    kernel: NameId,
    /// A kernel of it multiplies in TF32.
    tf32: bool,
}

/// The account; `None` where no work is known.
pub fn account(parts: &AccountParts<'_>, gpu: &GpuTime) -> Option<EfficiencyAccount> {
    let timeline = parts.timeline;
    let operators = timeline.host.iter().filter(|span| span.kind == HostKind::Operator && span.shapes != 0);
    let calls: BTreeSet<EqualCalls> = operators.map(|span| (span.name, span.shapes)).collect();
    let mut results = ConvolutionResults::default();
    calls.iter().for_each(|call| results.learn(&recorded(timeline, *call)));
    let work = |call: &EqualCalls| Some((*call, results.work_of(&recorded(timeline, *call))?));
    let known: HashMap<EqualCalls, Work> = calls.iter().filter_map(work).collect();
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
        time.device_ns += span.end - span.start;
        time.tf32 |= kernel.contains("tf32") || kernel.contains("s1688");
        time.kernel = span.name;
    }
    let peak = peak(timeline, gpu);
    let rows = times.into_iter().filter_map(|(call, time)| {
        let recorded = recorded(timeline, call);
        let work = known.get(&call).copied();
        let work = work.or_else(|| work_of_lists(&recorded, timeline.names.text(time.kernel)))?;
        Some(OperatorWork::new(&recorded, work, &time))
    });
    summed(rows.collect(), &parts.scope, peak, all_ns)
}

/// Equal calls with their work.
struct OperatorWork {
    row: EfficiencyRow,
    flops: f64,
    bytes: f64,
    number: NumberFormat,
    seconds: f64,
}

impl OperatorWork {
    fn new(call: &Recorded, work: Work, time: &CallTime) -> Self {
        let count = time.calls.len() as f64;
        let number = if work.number == NumberFormat::F32 && time.tf32 { NumberFormat::Tf32 } else { work.number };
        let row = EfficiencyRow {
            name: call.name.chars().take(80).collect(),
            shape: shape_of(call).unwrap_or_default(),
            count: time.calls.len() as u64,
            device_ms: time.device_ns as f64 / 1e6,
            ..EfficiencyRow::default()
        };
        let seconds = (time.device_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
        Self { row, flops: work.flops * count, bytes: work.bytes * count, number, seconds }
    }

    fn finish(mut self, peak: Option<&Peak>) -> EfficiencyRow {
        self.row.tflop_per_s = self.flops / self.seconds / 1e12;
        self.row.tb_per_s = self.bytes / self.seconds / 1e12;
        let of_compute = peak.and_then(|peak| peak.tflops(self.number)).map(|tflops| self.row.tflop_per_s / tflops);
        let of_memory = peak.map(|peak| self.row.tb_per_s / peak.tb_per_s);
        let bound = match (of_compute, of_memory) {
            (Some(compute), Some(memory)) if compute >= memory => Some((Bound::Compute, compute)),
            (_, Some(memory)) => Some((Bound::Memory, memory)),
            (Some(compute), None) => Some((Bound::Compute, compute)),
            (None, None) => None,
        };
        self.row.bound = bound.map(|(bound, share)| if share < FAR_FROM_BOTH { Bound::Neither } else { bound });
        self.row.of_peak = bound.map(|(_, share)| share);
        self.row
    }
}

fn summed(mut all: Vec<OperatorWork>, scope: &Scope, peak: Option<&Peak>, all_ns: i64) -> Option<EfficiencyAccount> {
    let known_ms: f64 = all.iter().map(|one| one.row.device_ms).sum();
    if known_ms <= 0.0 {
        return None;
    }
    let mut formats: HashMap<NumberFormat, f64> = HashMap::new();
    for one in &all {
        *formats.entry(one.number).or_default() += one.flops;
    }
    let main = formats.iter().filter(|(_, flops)| **flops > 0.0).max_by(|a, b| a.1.total_cmp(b.1).then(a.0.cmp(b.0)));
    let main = main.map(|(number, _)| *number);
    let tflop: f64 = all.iter().map(|one| one.flops).sum::<f64>() / 1e12;
    let tflop_per_s = tflop / (scope.length() as f64 / 1e9).max(f64::MIN_POSITIVE);
    let peak_tflop_per_s = main.and_then(|number| peak?.tflops(number));
    all.sort_by(|a, b| {
        b.row
            .device_ms
            .total_cmp(&a.row.device_ms)
            .then_with(|| (&a.row.name, &a.row.shape).cmp(&(&b.row.name, &b.row.shape)))
    });
    Some(EfficiencyAccount {
        tflop,
        tflop_per_s,
        peak_tflop_per_s,
        number: main.map(|number| number.word().to_owned()),
        of_peak: peak_tflop_per_s.map(|peak| tflop_per_s / peak),
        peak_tb_per_s: peak.map(|peak| peak.tb_per_s),
        known: known_ms / (all_ns as f64 / 1e6).max(known_ms),
        operators: all.into_iter().take(ROWS).map(|one| one.finish(peak)).collect(),
    })
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
