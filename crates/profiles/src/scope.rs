//! What an account is of: the window, the thread that runs the loop, the threads that give the GPU work, and the steps.
//!
//! The window is from the first step's begin to the last one's end. Without steps it is from the first to the last span of the GPU
//! or of the loop's thread: inference, or a single call.

use std::collections::{BTreeMap, HashMap};

use super::account::StepMark;
use super::intervals::TimeRange;
use super::names::TraceNames;
use super::timeline::{GpuKind, HostKind, HostSpan, TracePlace, TraceTimeline};

/// Threads beside the loop's that give the GPU work: autograd's, and those of pipelines.
const LAUNCHERS: usize = 8;
/// Most steps that are told apart.
const STEPS_MAX: usize = 1_000_000;
/// Fewest annotations of one name that are taken for steps or requests.
const REPEATS: usize = 2;
/// Share of the window that they must take.
const MOST_OF_WINDOW: f64 = 0.5;

/// What an account is of.
#[derive(Debug, Default)]
pub struct Scope {
    /// The window, nanoseconds.
    pub window: TimeRange,
    /// The thread that runs the loop.
    pub of_loop: Option<u16>,
    /// The loop's thread, and those that launch most.
    pub threads: Vec<u16>,
    /// The thread whose Python functions are the loop's: Kineto files them under another number in some versions.
    pub python: Option<u16>,
    /// The GPU with most kernels.
    pub gpu: Option<i64>,
    /// Steps.
    pub steps: Vec<TimeRange>,
    /// What counts as one.
    pub steps_by: Option<StepMark>,
    /// Annotations of one name that take most of the window and are no steps of training: the name, and each one.
    pub requests: Option<(String, Vec<TimeRange>)>,
}

/// What is counted of a thread.
#[derive(Debug, Default, Clone, Copy)]
struct ThreadTally {
    launches: u64,
    events: u64,
    python: u64,
    steps: u64,
    waits: u64,
}

impl Scope {
    /// The scope of a trace; `None` if nothing in it lasts.
    pub fn find(timeline: &TraceTimeline) -> Option<Self> {
        let names = &timeline.names;
        let mut threads = vec![ThreadTally::default(); timeline.threads.len() + 1];
        for span in &timeline.host {
            let Some(of) = threads.get_mut(usize::from(span.lane)) else { continue };
            let facts = names.facts(span.name);
            match span.kind {
                HostKind::Runtime => of.launches += u64::from(facts.launches),
                _ => of.events += 1,
            }
            of.python += u64::from(span.kind == HostKind::Python);
            of.steps += u64::from(facts.step);
            of.waits += u64::from(facts.waits_for_batch);
        }
        let of_loop = thread_of_loop(&threads);
        let gpu = gpu_with_most_kernels(timeline);
        let mut all = launchers(&threads);
        all.retain(|lane| Some(*lane) != of_loop);
        all.truncate(LAUNCHERS);
        all.splice(0..0, of_loop);
        let mut scope = Self { of_loop, threads: all, gpu, ..Self::default() };
        scope.python = of_loop.map(|of_loop| thread_with_python(timeline, &threads, of_loop));
        scope.set_window(timeline)?;
        scope.find_steps(timeline);
        Some(scope)
    }

    /// Length of the window, nanoseconds.
    pub fn length(&self) -> i64 {
        self.window.1 - self.window.0
    }

    /// Nanoseconds as a share of the window.
    pub fn share(&self, ns: i64) -> f64 {
        ns as f64 / self.length().max(1) as f64
    }

    /// Whether a span has a part in the window.
    pub fn sees(&self, start: i64, end: i64) -> bool {
        end > self.window.0 && start < self.window.1
    }

    fn set_window(&mut self, timeline: &TraceTimeline) -> Option<()> {
        let steps = timeline.host.iter().filter(|span| span.end > span.start && timeline.names.facts(span.name).step);
        self.steps = steps.map(|span| (span.start, span.end)).take(STEPS_MAX).collect();
        let (mut begin, mut end) = (i64::MAX, i64::MIN);
        let mut widen = |start: i64, stop: i64| (begin, end) = (begin.min(start), end.max(stop));
        if self.steps.is_empty() {
            let of_loop = self.of_loop.map(|lane| timeline.of_thread(lane)).unwrap_or_default();
            of_loop.iter().for_each(|span| widen(span.start, span.end));
            let on_device = timeline.gpu.iter().filter(|span| Some(timeline.gpu_of(span)) == self.gpu);
            on_device.for_each(|span| widen(span.start, span.end));
        } else {
            self.steps_by = Some(StepMark::ProfilerStep);
            self.steps.iter().for_each(|(start, stop)| widen(*start, *stop));
        }
        self.window = (begin, end);
        (begin < end).then_some(())
    }

    /// Steps where the profiler was not told of any: from one batch to the next, one step of the optimizer to the next, or one
    /// long annotation to the next.
    fn find_steps(&mut self, timeline: &TraceTimeline) {
        let (true, Some(lane)) = (self.steps.is_empty(), self.of_loop) else { return };
        let spans = timeline.of_thread(lane);
        let names = &timeline.names;
        let annotations =
            || spans.iter().filter(|span| span.kind != HostKind::Python && span.kind != HostKind::Runtime);
        let batches: Vec<i64> =
            annotations().filter(|span| names.facts(span.name).waits_for_batch).map(|span| span.start).collect();
        let optimizer: Vec<i64> =
            annotations().filter(|span| names.facts(span.name).optimizer).map(|span| span.end).collect();
        for (marks, mark) in [(batches, StepMark::Batch), (optimizer, StepMark::Optimizer)] {
            if marks.len() > REPEATS {
                self.steps = marks
                    .windows(2)
                    .filter_map(|pair| Some((*pair.first()?, *pair.last()?)))
                    .take(STEPS_MAX)
                    .collect();
                self.steps_by = Some(mark);
                return;
            }
        }
        let Some((name, repeats)) = self.longest_annotation(spans, names) else { return };
        let trains =
            timeline.host.iter().any(|span| names.facts(span.name).backward || names.facts(span.name).optimizer);
        if trains && repeats.len() > REPEATS {
            self.steps = repeats;
            self.steps_by = Some(StepMark::Annotation);
        } else if !trains {
            self.requests = Some((name, repeats));
        }
    }

    /// The outermost annotation of one name, numbers aside, that takes most of the window.
    fn longest_annotation(&self, spans: &[HostSpan], names: &TraceNames) -> Option<(String, Vec<TimeRange>)> {
        let mut kinds: HashMap<String, Vec<TimeRange>> = HashMap::new();
        let mut until = i64::MIN;
        for span in spans.iter().filter(|span| span.kind == HostKind::Annotation && span.end > span.start) {
            if span.start >= until {
                until = span.end;
                let kind = kinds.entry(without_numbers(names.text(span.name))).or_default();
                if kind.len() < STEPS_MAX {
                    kind.push((span.start, span.end));
                }
            }
        }
        let length = |kind: &[TimeRange]| kind.iter().map(|(start, end)| end - start).sum::<i64>();
        let (name, repeats) = kinds.into_iter().max_by_key(|(name, kind)| (length(kind), name.clone()))?;
        (self.share(length(&repeats)) >= MOST_OF_WINDOW && !repeats.is_empty()).then_some((name, repeats))
    }
}

/// With steps of the profiler, else with waits for batches, else the one that launches most, else the busiest.
fn thread_of_loop(threads: &[ThreadTally]) -> Option<u16> {
    let first = |count: fn(&ThreadTally) -> u64| {
        let most = threads.iter().map(count).max().filter(|most| *most > 0)?;
        u16::try_from(threads.iter().position(|of| count(of) == most)?).ok()
    };
    first(|of| of.steps)
        .or_else(|| first(|of| of.waits))
        .or_else(|| first(|of| of.launches))
        .or_else(|| first(|of| of.events))
}

/// The threads that launch, those that launch most first.
fn launchers(threads: &[ThreadTally]) -> Vec<u16> {
    let mut lanes: Vec<(u64, u16)> = (0..).zip(threads).map(|(lane, of)| (of.launches, lane)).collect();
    lanes.retain(|(launches, _)| *launches > 0);
    lanes.sort_by_key(|(launches, lane)| (std::cmp::Reverse(*launches), *lane));
    lanes.into_iter().map(|(_, lane)| lane).collect()
}

/// The loop's thread if it has Python functions, else the one that Kineto files them under: process 0, thread 0.
fn thread_with_python(timeline: &TraceTimeline, threads: &[ThreadTally], of_loop: u16) -> u16 {
    let has = |lane: u16| threads.get(usize::from(lane)).is_some_and(|of| of.python > 0);
    if has(of_loop) {
        return of_loop;
    }
    let nobody = |lane: &super::timeline::TraceLane| {
        lane.process == TracePlace::Number(0) && lane.thread == TracePlace::Number(0)
    };
    let other = timeline.threads.iter().position(nobody).and_then(|lane| u16::try_from(lane).ok());
    other.filter(|lane| has(*lane)).unwrap_or(of_loop)
}

/// The lowest number of those with most kernels.
fn gpu_with_most_kernels(timeline: &TraceTimeline) -> Option<i64> {
    let mut devices: BTreeMap<i64, u64> = timeline.streams.iter().map(|(device, _)| (*device, 0)).collect();
    for span in timeline.gpu.iter().filter(|span| span.kind == GpuKind::Kernel) {
        *devices.entry(timeline.gpu_of(span)).or_default() += 1;
    }
    let most = devices.into_iter().max_by_key(|(device, kernels)| (*kernels, std::cmp::Reverse(*device)));
    most.map(|(device, _)| device)
}

/// A name with each number as `#`: `execute_32_context_0(…)` of every batch is one.
pub fn without_numbers(name: &str) -> String {
    let mut out = String::new();
    for one in name.chars().take(120) {
        if !one.is_ascii_digit() {
            out.push(one);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}
