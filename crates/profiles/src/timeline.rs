//! The events of a trace as spans of the host's threads and of the GPUs' streams, packed, in bounded memory.
//!
//! A trace has more events than memory holds, perhaps: then its later part is left out, so that the account of the rest stays exact.

use std::collections::BTreeMap;

use foldhash::HashMap;
use serde_json::Value;

pub use super::event::TracePlace;
use super::event::{Args, TraceEvent};
use super::json::{self, TraceSink};
use super::names::{Texts, TraceNames};
pub use super::spans::{GpuDetail, GpuKind, GpuSpan, HostKind, HostSpan, Shapes, TraceLane};

/// Most spans: 160 MiB.
const SPANS_MAX: usize = 4_000_000;
/// Most threads and streams that are told apart. What a trace has beyond them counts as one more.
const LANES_MAX: usize = 60_000;
/// Categories that say the same as others, or nothing that the account needs.
const KNOWN: [&str; 8] =
    ["", "cuda_sync", "gpu_user_annotation", "cpu_instant_event", "cuda_profiler_range", "ac2g", "fwdbwd", "async"];
/// The category of a span over all that was recorded, and how its name begins where torch wrote it.
const PROFILED: &str = "Trace";
const OF_TORCH: &str = "PyTorch Profiler";
/// Most categories that are not read and are counted.
const OTHERS_MAX: usize = 8;
/// Most keys beside the events that are remembered.
const KEYS_MAX: usize = 64;
/// Most different details of kernels and copies: 48 MiB.
const DETAILS_MAX: usize = 200_000;
/// Share of the spans that equal the one before, in a file that has all of them twice. Few are equal otherwise.
const NEARLY_HALF: f64 = 0.45;
/// Longest text of an operator's shapes that is kept, bytes.
const SHAPES_MAX: usize = 16 << 10;

/// Times from here on, nanoseconds, are since 1970 (the year 2001) rather than since a start that the file names.
const SINCE_1970_NS: i128 = 1_000_000_000_000_000_000;

/// Between the parts of [`Shapes`] where they are kept as one text; JSON has no such character.
const BETWEEN: char = '\u{1f}';

/// The spans of a trace.
#[derive(Debug, Default)]
pub struct TraceTimeline {
    /// TraceNames.
    pub names: TraceNames,
    /// Spans of the host, in order of threads, and of begins within a thread: outer ones first.
    pub host: Vec<HostSpan>,
    /// Spans of the GPUs, in the order of their begins.
    pub gpu: Vec<GpuSpan>,
    shapes: Texts,
    joined: String,
    details: Vec<GpuDetail>,
    detail_numbers: HashMap<GpuDetail, u32>,
    /// The threads, by [`HostSpan::lane`].
    pub threads: Vec<TraceLane>,
    /// The streams with the numbers of their GPUs, by [`GpuSpan::lane`].
    pub streams: Vec<(i64, TraceLane)>,
    /// What the file says of the GPUs, of the run and of itself, raw.
    pub facts: HashMap<String, Value>,
    /// Events of categories that are not read, with their number.
    pub others: BTreeMap<String, u64>,
    /// The profiler's own work, nanoseconds: spans of the category `overhead`.
    pub overhead_ns: i64,
    /// Spans without a length or a time that can be read.
    pub untimed: u64,
    /// Whether torch says that it has recorded.
    pub of_torch: bool,
    /// Spans that begin later were left out, because there were too many.
    pub horizon: Option<i64>,
    /// How the file ended.
    pub end: json::TraceEnd,
    /// The first keys beside the events.
    keys: Vec<String>,
    thread_numbers: HashMap<TraceLane, u16>,
    stream_numbers: HashMap<(i64, TraceLane), u16>,
    /// The first time that was seen: all others are from here.
    origin_ns: Option<i128>,
}

/// Keys beside the events that are kept.
const WANTED: [&str; 7] = [
    "deviceProperties",
    "distributedInfo",
    "baseTimeNanoseconds",
    "with_stack",
    "record_shapes",
    "traceName",
    "host_name",
];

impl TraceSink for TraceTimeline {
    fn event(&mut self, text: &str) -> serde_json::Result<usize> {
        let (event, length) = json::first_value::<Box<TraceEvent>>(text)?;
        self.take(&event);
        Ok(length)
    }

    fn wants(&mut self, key: &str) -> bool {
        if self.keys.len() < KEYS_MAX {
            self.keys.push(key.chars().take(64).collect());
        }
        WANTED.contains(&key)
    }

    fn value(&mut self, key: &str, value: Value) {
        self.facts.insert(key.to_owned(), value);
    }
}

impl TraceTimeline {
    /// Wall clock of the trace's time 0, nanoseconds since 1970, if the file says when that was.
    pub fn origin_unix_ns(&self) -> Option<i128> {
        let base = self.facts.get("baseTimeNanoseconds").and_then(Value::as_i64).unwrap_or_default();
        self.origin_ns.map(|origin| if origin < SINCE_1970_NS { origin + i128::from(base) } else { origin })
    }

    fn take(&mut self, event: &TraceEvent) {
        if !event.is_span {
            return;
        }
        let host = HostKind::from_category(&event.category);
        let gpu = if host.is_none() { GpuKind::from_category(&event.category) } else { None };
        if host.is_none() && gpu.is_none() {
            if event.category == "overhead" {
                let length = event.length_ns.map_or(0, |ns| i64::try_from(ns).unwrap_or(i64::MAX));
                self.overhead_ns = self.overhead_ns.saturating_add(length);
            } else if event.category == PROFILED {
                self.of_torch |= event.name.starts_with(OF_TORCH);
            } else if !KNOWN.contains(&&*event.category) {
                self.count_other(&event.category);
            }
            return;
        }
        let Some((start, end)) = self.extent(event) else {
            self.untimed += 1;
            return;
        };
        if self.horizon.is_some_and(|horizon| start >= horizon) {
            return;
        }
        if self.host.len() + self.gpu.len() >= SPANS_MAX {
            self.leave_out_later();
        }
        let name = self.names.number(&event.name);
        match (host, gpu) {
            (Some(kind), _) => {
                // The first versions wrote all annotations as operators.
                let facts = self.names.facts(name);
                let annotates = facts.step || facts.waits_for_batch || facts.optimizer;
                let kind = if kind == HostKind::Operator && annotates { HostKind::Annotation } else { kind };
                let lane = TraceLane { process: owned(&event.pid), thread: owned(&event.tid) };
                let lane = numbered(&mut self.thread_numbers, &mut self.threads, lane);
                let link = match kind {
                    HostKind::Runtime => link(event.args.correlation),
                    _ => link(event.args.external),
                };
                let shapes = self.number_of_shapes(&event.args);
                self.host.push(HostSpan { start, end, name, link, shapes, lane, kind });
            }
            (None, Some(kind)) => {
                let of_pid = match event.pid {
                    TracePlace::Number(number) => number,
                    _ => -1,
                };
                let device = event.args.gpu.unwrap_or(of_pid);
                let lane = (device, TraceLane { process: owned(&event.pid), thread: owned(&event.tid) });
                let lane = numbered(&mut self.stream_numbers, &mut self.streams, lane);
                let detail = self.detail_of(&event.args, kind);
                let (link, external) = (link(event.args.correlation), link(event.args.external));
                self.gpu.push(GpuSpan { start, end, name, link, external, detail, lane, kind });
            }
            (None, None) => {}
        }
    }

    /// Begin and end of a span on the clock of the timeline, if it has them.
    fn extent(&mut self, event: &TraceEvent) -> Option<(i64, i64)> {
        let (start, length) = (event.start_ns?, event.length_ns?);
        let origin = *self.origin_ns.get_or_insert(start);
        // A quarter of the range, so that no difference or sum overflows: 73 years.
        let in_range = |at: i128| i64::try_from(at - origin).ok().filter(|at| at.unsigned_abs() < u64::MAX / 8);
        Some((in_range(start)?, in_range(start + length)?))
    }

    fn count_other(&mut self, category: &str) {
        if let Some(count) = self.others.get_mut(category) {
            *count += 1;
        } else if self.others.len() < OTHERS_MAX {
            self.others.insert(cut(category), 1);
        }
    }

    /// Halves what is kept: all that begins later than the middle one goes.
    fn leave_out_later(&mut self) {
        let mut starts: Vec<i64> =
            self.host.iter().map(|span| span.start).chain(self.gpu.iter().map(|span| span.start)).collect();
        let middle = starts.len() / 2;
        let horizon = *starts.select_nth_unstable(middle).1;
        self.host.retain(|span| span.start < horizon);
        self.gpu.retain(|span| span.start < horizon);
        self.horizon = Some(horizon);
    }

    fn number_of_shapes(&mut self, args: &Args) -> u32 {
        let sizes = [args.dims, args.types, args.strides, args.values, &args.call_stack].map(str::len);
        let bytes: usize = sizes.iter().sum();
        if bytes == 0 || sizes.iter().any(|size| *size > SHAPES_MAX) {
            return 0;
        }
        self.joined.clear();
        for (at, part) in [args.dims, args.types, args.strides, args.values, &args.call_stack].into_iter().enumerate()
        {
            self.joined.extend((at > 0).then_some(BETWEEN));
            self.joined.push_str(part);
        }
        self.shapes.number(&self.joined)
    }

    /// What is recorded of an operator's call, by its [`HostSpan::shapes`].
    pub(crate) fn shapes_of(&self, shapes: u32) -> Shapes<'_> {
        let mut parts = self.shapes.get(shapes).unwrap_or_default().split(BETWEEN);
        let mut next = || parts.next().unwrap_or_default();
        Shapes { dims: next(), types: next(), strides: next(), values: next(), call_stack: next() }
    }

    /// The call stack beside an operator whose [`HostSpan::shapes`] this is.
    pub(crate) fn call_stack(&self, shapes: u32) -> &str {
        self.shapes.get(shapes).and_then(|joined| joined.rsplit(BETWEEN).next()).unwrap_or_default()
    }

    /// What is recorded of a span of a GPU.
    pub fn detail(&self, span: &GpuSpan) -> Option<&GpuDetail> {
        self.details.get(usize::try_from(span.detail).ok()?.checked_sub(1)?)
    }

    fn detail_of(&mut self, args: &Args, kind: GpuKind) -> u32 {
        let product = |counts: &[u64]| {
            (!counts.is_empty()).then(|| counts.iter().fold(1_u64, |product, count| product.saturating_mul(*count)))
        };
        let thousandths = |number: f64| (number.max(0.0) * 1000.0) as u64;
        let mut detail = GpuDetail {
            bytes: args.bytes,
            copy_kind: cut(&args.kind).into(),
            collective: cut(&args.collective).into(),
            elements: args.sent_elements.zip(args.received_elements),
            element: cut(&args.element).into(),
            group: args.group_size.map(|size| (size, cut(&args.group).into())),
            group_ranks: cut(&args.group_ranks).into(),
            sequence: args.sequence,
            ..GpuDetail::default()
        };
        if kind == GpuKind::Kernel {
            detail.blocks = product(&args.grid);
            detail.threads = product(&args.block);
            detail.blocks_per_sm_milli = args.blocks_per_sm.map(thousandths);
            detail.occupancy_pct = args.occupancy_pct.map(|pct| pct.clamp(0.0, 100.0) as u64);
        }
        if detail == GpuDetail::default() {
            return 0;
        }
        if let Some(number) = self.detail_numbers.get(&detail) {
            return *number;
        }
        if self.details.len() >= DETAILS_MAX {
            return 0;
        }
        self.details.push(detail.clone());
        let number = u32::try_from(self.details.len()).unwrap_or_default();
        self.detail_numbers.insert(detail, number);
        number
    }

    /// Whether the file has this key beside the events, among the first.
    pub(crate) fn has_key(&self, key: &str) -> bool {
        self.keys.iter().any(|known| known == key)
    }

    /// Whether shapes of operators were recorded.
    pub(crate) fn has_shapes(&self) -> bool {
        self.host.iter().any(|span| {
            span.shapes != 0 && self.shapes_of(span.shapes).dims.contains(|one: char| one.is_ascii_digit())
        })
    }

    /// Puts the spans into their order. To be called once, after the last event.
    pub fn finish(&mut self) {
        self.host
            .sort_unstable_by_key(|span| (span.lane, span.start, std::cmp::Reverse(span.end), span.kind, span.name));
        self.gpu.sort_unstable_by_key(|span| (span.start, span.end, span.lane, span.name));
        self.thread_numbers = HashMap::default();
        self.stream_numbers = HashMap::default();
        self.detail_numbers = HashMap::default();
    }

    /// Whether the host did something, and nothing that is an operator, a call of a GPU's runtime, or on a GPU.
    pub(crate) fn has_no_work(&self) -> bool {
        let is_work = |span: &HostSpan| matches!(span.kind, HostKind::Operator | HostKind::Runtime);
        self.gpu.is_empty() && !self.host.is_empty() && !self.host.iter().any(is_work)
    }

    /// Whether nearly each span is there twice.
    pub(crate) fn is_doubled(&self) -> bool {
        let host = self.host.windows(2).filter(|pair| pair.first() == pair.last()).count();
        let gpu = self.gpu.windows(2).filter(|pair| pair.first() == pair.last()).count();
        (host + gpu) as f64 > NEARLY_HALF * (self.host.len() + self.gpu.len()) as f64
    }

    /// The spans of a thread.
    pub fn of_thread(&self, lane: u16) -> &[HostSpan] {
        let begin = self.host.partition_point(|span| span.lane < lane);
        let end = self.host.partition_point(|span| span.lane <= lane);
        self.host.get(begin..end).unwrap_or_default()
    }

    /// The number of a stream's GPU.
    pub(crate) fn gpu_of(&self, span: &GpuSpan) -> i64 {
        self.streams.get(usize::from(span.lane)).map_or(-1, |(gpu, _)| *gpu)
    }
}

/// The first characters of a word of the profiler.
fn cut(word: &str) -> String {
    word.chars().take(64).collect()
}

/// An ID in 32 bits: those of CUPTI and roctracer are counters.
fn link(id: u64) -> u32 {
    (id ^ (id >> 32)) as u32
}

fn owned(place: &TracePlace<'_>) -> TracePlace<'static> {
    match place {
        TracePlace::Nowhere => TracePlace::Nowhere,
        TracePlace::Number(number) => TracePlace::Number(*number),
        TracePlace::Word(word) => TracePlace::Word(word.chars().take(64).collect::<String>().into()),
    }
}

fn numbered<T: Clone + Eq + std::hash::Hash>(numbers: &mut HashMap<T, u16>, all: &mut Vec<T>, one: T) -> u16 {
    if let Some(number) = numbers.get(&one) {
        return *number;
    }
    let number = u16::try_from(all.len().min(LANES_MAX)).unwrap_or(u16::MAX);
    if all.len() < LANES_MAX {
        all.push(one.clone());
        numbers.insert(one, number);
    }
    number
}
