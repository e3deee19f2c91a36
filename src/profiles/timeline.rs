//! The events of a trace as spans of the host's threads and of the GPUs' streams, packed, in bounded memory.
//!
//! A trace has more events than memory holds, perhaps: then its later part is left out, so that the account of the rest stays exact.

use std::collections::HashMap;

use serde_json::Value;

use super::event::{Args, TraceEvent};
pub use super::event::Place;
use super::json::{self, TraceSink};
use super::names::{NameId, Names, Texts};

/// Most spans: 160 MiB.
const SPANS_MAX: usize = 4_000_000;
/// Most threads and streams that are told apart. What a trace has beyond them counts as one more.
const LANES_MAX: usize = 60_000;
/// Most different details of kernels and copies: 48 MiB.
const DETAILS_MAX: usize = 200_000;
/// Longest text of an operator's shapes that is kept, bytes.
const SHAPES_MAX: usize = 16 << 10;

/// Times from here on, nanoseconds, are since 1970 (the year 2001) rather than since a start that the file names.
const SINCE_1970_NS: i128 = 1_000_000_000_000_000_000;

/// What a span of the host is. In order: of two with equal times, the later one is within the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostKind {
    /// A Python function.
    Python,
    /// An annotation: what a program or a library calls a part of its work.
    Annotation,
    /// An operator.
    Operator,
    /// A call of the GPU's runtime or driver.
    Runtime,
}

impl HostKind {
    fn of(category: &str) -> Option<Self> {
        // Names of all versions since 2021; `*_runtime` are those of AMD, Intel and other accelerators.
        Some(match category {
            "cpu_op" | "Operator" | "operator" => Self::Operator,
            "user_annotation" | "annotation" => Self::Annotation,
            "python_function" => Self::Python,
            "cuda_runtime" | "cuda_driver" | "Runtime" | "runtime" | "hip_runtime" | "xpu_runtime" | "mtia_runtime"
            | "privateuse1_runtime" | "privateuse1_driver" => Self::Runtime,
            _ => return None,
        })
    }
}

/// What a span of a GPU is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// Memory set.
    Set,
}

impl GpuKind {
    fn of(category: &str) -> Option<Self> {
        Some(match category {
            "kernel" | "Kernel" => Self::Kernel,
            "gpu_memcpy" | "Memcpy" | "memcpy" => Self::Copy,
            "gpu_memset" | "Memset" | "memset" => Self::Set,
            _ => return None,
        })
    }
}

/// Something that a thread of the host did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostSpan {
    /// Begin, nanoseconds.
    pub start: i64,
    /// End, nanoseconds.
    pub end: i64,
    /// What it was.
    pub name: NameId,
    /// Of a call of the runtime: what ties it to the GPU's spans. Of an operator: what ties kernels to it. 0 for none.
    pub link: u32,
    /// Shapes and call stack, 0 for none: see [`Timeline::shapes`].
    pub shapes: u32,
    /// Its thread.
    pub lane: u16,
    /// What kind of thing.
    pub kind: HostKind,
}

/// Something that a GPU did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuSpan {
    /// Begin, nanoseconds.
    pub start: i64,
    /// End, nanoseconds.
    pub end: i64,
    /// What it was.
    pub name: NameId,
    /// What ties it to the call that started it; 0 for none.
    pub link: u32,
    /// What ties it to its operator; 0 for none.
    pub external: u32,
    /// Details, 0 for none: see [`Timeline::details`].
    pub detail: u32,
    /// Its stream.
    pub lane: u16,
    /// What kind of thing.
    pub kind: GpuKind,
}

/// What is recorded of an operator's call, as raw JSON; empty where it is not recorded.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Shapes<'a> {
    /// `Input Dims`.
    pub dims: &'a str,
    /// `Input type`.
    pub types: &'a str,
    /// `Input Strides`.
    pub strides: &'a str,
    /// `Concrete Inputs`.
    pub values: &'a str,
    /// `Call stack`.
    pub call_stack: &'a str,
}

/// Between the parts of [`Shapes`] where they are kept as one text; JSON has no such character.
const BETWEEN: char = '\u{1f}';

/// What is recorded of a kernel, a copy or a collective.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct GpuDetail {
    /// Blocks of the grid.
    pub blocks: Option<u64>,
    /// Threads of a block.
    pub threads: Option<u64>,
    /// Blocks for each multiprocessor, thousandths.
    pub blocks_per_sm_milli: Option<u64>,
    /// Estimated occupancy, percent.
    pub occupancy_pct: Option<u64>,
    /// Bytes copied.
    pub bytes: Option<u64>,
    /// Kind of a copy by roctracer, raw.
    pub copy_kind: Box<str>,
    /// Name of a collective, raw.
    pub collective: Box<str>,
    /// Elements sent and received.
    pub elements: Option<(u64, u64)>,
    /// Type of the elements, raw.
    pub element: Box<str>,
    /// Ranks of the group, and its name.
    pub group: Option<(u64, Box<str>)>,
}

/// A thread or a stream, as the trace names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lane {
    /// PID, or the number of a GPU.
    pub process: Place<'static>,
    /// TID, or the number of a stream.
    pub thread: Place<'static>,
}

/// The spans of a trace.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Names.
    pub names: Names,
    /// Spans of the host, in order of threads, and of begins within a thread: outer ones first.
    pub host: Vec<HostSpan>,
    /// Spans of the GPUs, in the order of their begins.
    pub gpu: Vec<GpuSpan>,
    shapes: Texts,
    joined: String,
    details: Vec<GpuDetail>,
    detail_numbers: HashMap<GpuDetail, u32>,
    /// The threads, by [`HostSpan::lane`].
    pub threads: Vec<Lane>,
    /// The streams with the numbers of their GPUs, by [`GpuSpan::lane`].
    pub streams: Vec<(i64, Lane)>,
    /// What the file says of the GPUs, of the run and of itself, raw.
    pub facts: HashMap<String, Value>,
    /// The profiler's own work, nanoseconds: spans of the category `overhead`.
    pub overhead_ns: i64,
    /// Spans that begin later were left out, because there were too many.
    pub horizon: Option<i64>,
    /// How the file ended.
    pub end: json::TraceEnd,
    thread_numbers: HashMap<Lane, u16>,
    stream_numbers: HashMap<(i64, Lane), u16>,
    /// The first time that was seen: all others are from here.
    origin_ns: Option<i128>,
}

/// Keys beside the events that are kept.
const WANTED: [&str; 6] =
    ["deviceProperties", "distributedInfo", "baseTimeNanoseconds", "with_stack", "record_shapes", "traceName"];

impl TraceSink for Timeline {
    fn event(&mut self, bytes: &[u8]) -> serde_json::Result<usize> {
        let (event, length) = json::first_value::<TraceEvent>(bytes)?;
        self.take(&event);
        Ok(length)
    }

    fn wants(&self, key: &str) -> bool {
        WANTED.contains(&key)
    }

    fn value(&mut self, key: &str, value: Value) {
        self.facts.insert(key.to_owned(), value);
    }
}

impl Timeline {
    /// Wall clock of the trace's time 0, nanoseconds since 1970, if the file says when that was.
    pub fn origin_unix_ns(&self) -> Option<i128> {
        let base = self.facts.get("baseTimeNanoseconds").and_then(Value::as_i64).unwrap_or_default();
        self.origin_ns.map(|origin| if origin < SINCE_1970_NS { origin + i128::from(base) } else { origin })
    }

    fn take(&mut self, event: &TraceEvent) {
        let Some(start) = event.start_ns.filter(|_| event.is_span) else { return };
        let host = HostKind::of(&event.category);
        let gpu = if host.is_none() { GpuKind::of(&event.category) } else { None };
        if host.is_none() && gpu.is_none() {
            if event.category == "overhead" {
                let length = i64::try_from(event.length_ns).unwrap_or(i64::MAX);
                self.overhead_ns = self.overhead_ns.saturating_add(length);
            }
            return;
        }
        let origin = *self.origin_ns.get_or_insert(start);
        // A quarter of the range, so that no difference or sum overflows: 73 years.
        let in_range = |at: i128| i64::try_from(at - origin).ok().filter(|at| at.unsigned_abs() < u64::MAX / 8);
        let (Some(start), Some(end)) = (in_range(start), in_range(start + event.length_ns)) else { return };
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
                let lane = Lane { process: owned(&event.pid), thread: owned(&event.tid) };
                let lane = numbered(&mut self.thread_numbers, &mut self.threads, lane);
                let link = match kind {
                    HostKind::Runtime => link(event.args.correlation),
                    _ => link(event.args.external),
                };
                let shapes = self.shapes_of(&event.args);
                self.host.push(HostSpan { start, end, name, link, shapes, lane, kind });
            }
            (None, Some(kind)) => {
                let of_pid = match event.pid {
                    Place::Number(number) => number,
                    _ => -1,
                };
                let device = event.args.device.unwrap_or(of_pid);
                let lane = (device, Lane { process: owned(&event.pid), thread: owned(&event.tid) });
                let lane = numbered(&mut self.stream_numbers, &mut self.streams, lane);
                let detail = self.detail_of(&event.args, kind);
                let (link, external) = (link(event.args.correlation), link(event.args.external));
                self.gpu.push(GpuSpan { start, end, name, link, external, detail, lane, kind });
            }
            (None, None) => {}
        }
    }

    /// Halves what is kept: all that begins later than the middle one goes.
    fn leave_out_later(&mut self) {
        let mut starts: Vec<i64> = self.host.iter().map(|span| span.start).chain(self.gpu.iter().map(|span| span.start)).collect();
        let middle = starts.len() / 2;
        let horizon = *starts.select_nth_unstable(middle).1;
        self.host.retain(|span| span.start < horizon);
        self.gpu.retain(|span| span.start < horizon);
        self.horizon = Some(horizon);
    }

    fn shapes_of(&mut self, args: &Args) -> u32 {
        let sizes = [args.dims, args.types, args.strides, args.values, &args.call_stack].map(str::len);
        let bytes: usize = sizes.iter().sum();
        if bytes == 0 || sizes.iter().any(|size| *size > SHAPES_MAX) {
            return 0;
        }
        self.joined.clear();
        for (at, part) in [args.dims, args.types, args.strides, args.values, &args.call_stack].into_iter().enumerate() {
            self.joined.extend((at > 0).then_some(BETWEEN));
            self.joined.push_str(part);
        }
        self.shapes.number(&self.joined)
    }

    /// What is recorded of an operator's call.
    pub fn shapes(&self, span: &HostSpan) -> Shapes<'_> {
        let mut parts = self.shapes.get(span.shapes).unwrap_or_default().split(BETWEEN);
        let mut next = || parts.next().unwrap_or_default();
        Shapes { dims: next(), types: next(), strides: next(), values: next(), call_stack: next() }
    }

    /// The call stack beside an operator whose [`HostSpan::shapes`] this is.
    pub fn call_stack(&self, shapes: u32) -> &str {
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

    /// Whether shapes of operators were recorded.
    pub fn has_shapes(&self) -> bool {
        self.host.iter().any(|span| span.shapes != 0 && self.shapes(span).dims.contains(|one: char| one.is_ascii_digit()))
    }

    /// Puts the spans into their order. To be called once, after the last event.
    pub fn finish(&mut self) {
        self.host.sort_unstable_by_key(|span| (span.lane, span.start, std::cmp::Reverse(span.end), span.kind, span.name));
        self.gpu.sort_unstable_by_key(|span| (span.start, span.end, span.lane, span.name));
        self.thread_numbers = HashMap::new();
        self.stream_numbers = HashMap::new();
        self.detail_numbers = HashMap::new();
    }

    /// The spans of a thread.
    pub fn of_thread(&self, lane: u16) -> &[HostSpan] {
        let begin = self.host.partition_point(|span| span.lane < lane);
        let end = self.host.partition_point(|span| span.lane <= lane);
        self.host.get(begin..end).unwrap_or_default()
    }

    /// The number of a stream's GPU.
    pub fn device_of(&self, span: &GpuSpan) -> i64 {
        self.streams.get(usize::from(span.lane)).map_or(-1, |(device, _)| *device)
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

fn owned(place: &Place<'_>) -> Place<'static> {
    match place {
        Place::Nowhere => Place::Nowhere,
        Place::Number(number) => Place::Number(*number),
        Place::Word(word) => Place::Word(word.chars().take(64).collect::<String>().into()),
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
