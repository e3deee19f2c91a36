//! The names of a trace's spans as frames of stacks, like those that py-spy would have shown. What a frame means is judged by
//! `rates`.

use std::collections::HashMap;

use super::events::Event;
use crate::imports::profiles::{python_frame, short};
use crate::imports::spans::TraceSpan;
use crate::sample::StackFrame;
use crate::sample::loop_profile::{BLOCKED, NEXT_BATCH, NOTHING_RECORDED, TRACE_FILE};
use crate::sample::stacks::NAME;
use crate::text::is_one_of;

/// A step of the profiler; it is in no stack.
pub(super) const STEP: u32 = 0;
/// Taking a batch from workers.
const LOADER: u32 = 1;
/// Making a batch in the loop's process.
const MAKE_BATCH: u32 = 2;
/// The backward pass.
pub(super) const BACKWARD: u32 = 3;
/// The optimizer.
const OPTIMIZER: u32 = 4;
/// A call that only waits.
const BLOCKS: u32 = 5;
/// Names from here on may be left out where they are short.
pub(super) const LASTING: u32 = 6;
/// Frames that no span is named by.
const FORWARD: u32 = 6;
const WAITS_FOR_BATCH: u32 = 7;
const NOTHING: u32 = 8;
const BETWEEN: u32 = 9;
const FETCH: u32 = 10;
/// A name that came too late: there were too many.
const REST: u32 = 11;
const FIXED: [&str; 12] = [
    "step",
    "data_loader",
    "data_loader",
    "backward",
    "optimizer",
    BLOCKED,
    "forward",
    NEXT_BATCH,
    NOTHING_RECORDED,
    "between_operators",
    "make_batch",
    "another_function",
];
/// Most names that are told apart.
const NAMES_MAX: usize = 20_000;

/// Between two operators that are less than this apart, the loop runs Python, nanoseconds.
const PYTHON_BETWEEN_NS: u64 = 1_000_000;

/// How torch names taking a batch from its loader (torch/utils/data/dataloader.py).
const LOADER_NAME: &str = "enumerate(DataLoader)#";

/// Whether it is a step of the profiler.
pub(super) fn is_step(event: &Event) -> bool {
    event.name.starts_with("ProfilerStep#") && event.cat == "user_annotation"
}

/// Whether it takes a batch from torch's loader.
pub(super) fn is_loader(event: &Event) -> bool {
    event.name.starts_with(LOADER_NAME) && event.name.ends_with("__next__")
}

/// Whether it is a part of the backward pass.
pub(super) fn is_backward(event: &Event) -> bool {
    event.name.starts_with("autograd::engine::evaluate_function")
}

/// Whether it belongs to its thread: what it calls, and what it is annotated with.
pub(super) fn is_of_thread(event: &Event) -> bool {
    is_one_of(
        "cpu_op user_annotation cuda_runtime cuda_driver python_function hip_runtime privateuse1_runtime",
        &event.cat,
    )
}

/// What the trace's names are, numbered.
#[derive(Debug)]
pub(super) struct Frames {
    frames: Vec<NamedFrame>,
    by_name: HashMap<String, u32>,
}

#[derive(Debug)]
struct NamedFrame {
    frame: StackFrame,
    /// It says what happens inside, but not that anything does: an annotation.
    annotates: bool,
    operates: bool,
}

impl Frames {
    pub(super) fn new() -> Self {
        let fixed = |(number, name): (u32, &&str)| NamedFrame {
            frame: StackFrame { function: (*name).into(), file: TRACE_FILE.into(), ..StackFrame::default() },
            annotates: number == STEP,
            operates: false,
        };
        Self { frames: (0..).zip(&FIXED).map(fixed).collect(), by_name: HashMap::new() }
    }

    /// The number of what a span of the loop's thread is; `None` if it is in no stack.
    pub(super) fn number_of(&mut self, event: &Event) -> Option<u32> {
        let python = event.cat == "python_function";
        match () {
            () if !is_of_thread(event) => None,
            () if is_step(event) => Some(STEP),
            () if is_loader(event) => Some(if event.name.contains("_SingleProcess") { MAKE_BATCH } else { LOADER }),
            () if is_backward(event) => Some(BACKWARD),
            () if event.name.starts_with("Optimizer.") => Some(OPTIMIZER),
            () if python && event.name.starts_with('<') && !event.name.contains("): ") => {
                blocks(&event.name).then_some(BLOCKS)
            }
            () => Some(self.named(event, python)),
        }
    }

    fn named(&mut self, event: &Event, python: bool) -> u32 {
        if let Some(known) = self.by_name.get(&event.name) {
            return *known;
        }
        if self.by_name.len() >= NAMES_MAX || event.name.len() > 4 * NAME {
            return REST;
        }
        let number = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        let name = event.name.as_str();
        let frame = python.then(|| traced_frame(name)).flatten().unwrap_or_else(|| StackFrame {
            function: short(name),
            file: TRACE_FILE.into(),
            ..StackFrame::default()
        });
        let annotates = event.cat == "user_annotation";
        self.frames.push(NamedFrame { frame, annotates, operates: event.cat == "cpu_op" });
        self.by_name.insert(event.name.clone(), number);
        number
    }

    /// The frame of a number.
    pub(super) fn frame(&self, number: u32) -> StackFrame {
        self.named_by(number).map(|named| named.frame.clone()).unwrap_or_default()
    }

    fn named_by(&self, number: u32) -> Option<&NamedFrame> {
        self.frames.get(usize::try_from(number).ok()?)
    }
}

/// Whether a built-in function does nothing but wait: `<built-in function sleep>`, `<method 'acquire' of '_thread.lock' objects>`.
fn blocks(name: &str) -> bool {
    let words = name.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    words.take(5).any(|word| is_one_of("sleep acquire poll select epoll_wait waitpid recv accept", word))
}

/// `torch/utils/data/dataloader.py(733): __next__`.
fn traced_frame(name: &str) -> Option<StackFrame> {
    let (place, function) = name.rsplit_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some(python_frame(function, file, line.parse().unwrap_or_default()))
}

/// What turns nested spans into a stack.
pub(super) struct Spans<'a> {
    pub frames: &'a Frames,
    /// Begins of operators that have a part in the backward pass, in order.
    pub flows: &'a [u64],
}

impl Spans<'_> {
    /// The stack of a stretch of time, leaf first.
    pub(super) fn stack(&self, from_ns: u64, to_ns: u64, spans: &[TraceSpan]) -> Vec<u32> {
        let mut stack = Vec::with_capacity(spans.len() + 3);
        let inner = spans.iter().rev().find(|span| span.what != STEP);
        let annotates = |span: &TraceSpan| self.frames.named_by(span.what).is_none_or(|named| named.annotates);
        match inner.map(|span| span.what) {
            Some(LOADER) => stack.push(WAITS_FOR_BATCH),
            _ if inner.is_some_and(|span| !annotates(span)) => {}
            _ if to_ns - from_ns < PYTHON_BETWEEN_NS => stack.push(BETWEEN),
            _ => stack.push(NOTHING),
        }
        for span in spans.iter().rev().filter(|span| span.what != STEP) {
            stack.extend((span.what == MAKE_BATCH).then_some(FETCH));
            stack.push(span.what);
        }
        stack.extend(self.is_forward(spans).then_some(FORWARD));
        stack
    }

    /// Whether the outermost operator is one that the backward pass comes back to.
    fn is_forward(&self, spans: &[TraceSpan]) -> bool {
        let operates = |span: &&TraceSpan| self.frames.named_by(span.what).is_some_and(|named| named.operates);
        spans.iter().find(operates).is_some_and(|span| {
            let first = self.flows.partition_point(|at| *at < span.start_ns);
            self.flows.get(first).is_some_and(|at| *at <= span.end_ns)
        })
    }
}
