//! Draws one step of a timeline: the one of median length, or the whole window where there are no steps.
//!
//! Short things next to each other become one slice, so that a lane is bounded however many events it has.

use std::collections::HashMap;

use super::account::IdleReason;
use super::drawn::{DrawnLane, DrawnSlice, DrawnStep, SliceKind};
use super::gpu_time::{GpuTime, spans};
use super::intervals::TimeRange;
use super::kernel_names::kernel_name;
use super::names::NameId;
use super::parts::AccountParts;
use super::places::{self, shown};
use super::scope::Scope;
use super::threads::OpenSpan;
use super::timeline::{GpuKind, GpuSpan, HostKind, HostSpan, TraceLane, TracePlace, TraceTimeline};

/// Most threads, their annotations aside.
const THREADS_DRAWN: usize = 4;
/// Most GPUs.
const GPUS_DRAWN: usize = 2;
/// Most streams of all GPUs.
const STREAMS_DRAWN: usize = 5;
/// Most slices of a lane.
const SLICES: usize = 1500;
/// Shorter slices have no name: 1/500 of a screen is two points.
const NAMED: i64 = 500;

/// The step that is drawn; `None` if nothing happens in it.
pub fn drawn(parts: &AccountParts<'_>) -> Option<DrawnStep> {
    let (step, window) = median_step(&parts.scope);
    let picture = StepPicture { parts, timeline: parts.timeline, window };
    let (mut lanes, threads) = picture.threads();
    let streams = picture.streams();
    for gpu in parts.gpus.iter().take(GPUS_DRAWN) {
        let own = streams.iter().take(STREAMS_DRAWN).filter(|(index, ..)| *index == gpu.index);
        lanes.extend(own.map(|(index, lane, _)| picture.stream(*index, *lane)));
        lanes.push(picture.idle(gpu));
    }
    lanes.retain(|lane| !lane.slices.is_empty());
    let left_out = threads + streams.len().saturating_sub(STREAMS_DRAWN);
    let length_ms = (window.1 - window.0) as f64 / 1e6;
    (!lanes.is_empty()).then_some(DrawnStep { step, length_ms, lanes, left_out })
}

/// The step of median length, with its number and how many there are.
fn median_step(scope: &Scope) -> (Option<(usize, usize)>, TimeRange) {
    let mut steps: Vec<(i64, usize, TimeRange)> =
        scope.steps.iter().zip(1..).map(|(step, number)| (step.1 - step.0, number, *step)).collect();
    steps.retain(|(length, ..)| *length > 0);
    steps.sort_unstable();
    match steps.get(steps.len() / 2) {
        Some((_, number, step)) => (Some((*number, scope.steps.len())), *step),
        None => (None, scope.window),
    }
}

/// What a slice's name is made of.
#[derive(Debug, Clone, Copy)]
struct SliceLabel {
    name: NameId,
    operator: Option<NameId>,
    function: Option<NameId>,
    is_kernel: bool,
}

impl SliceLabel {
    fn text(&self, timeline: &TraceTimeline) -> String {
        let name = timeline.names.text(self.name);
        if timeline.names.facts(self.name).step {
            return "in no operator".to_owned();
        }
        if self.is_kernel {
            return kernel_name(name);
        }
        let own = places::of_function(name);
        let mut text = own.as_ref().map_or_else(|| shown(name), |own| format!("{} ({})", own.function, own.at));
        if let Some(operator) = self.operator.filter(|operator| *operator != self.name) {
            text += &format!(" in {}", shown(timeline.names.text(operator)));
        }
        if let Some(place) = self.function.and_then(|function| places::of_function(timeline.names.text(function)))
            && own.is_none()
        {
            text += &format!(", {}", place.at);
        }
        text
    }
}

struct StepPicture<'a> {
    parts: &'a AccountParts<'a>,
    timeline: &'a TraceTimeline,
    window: TimeRange,
}

impl<'a> StepPicture<'a> {
    /// The loop's annotations and the threads, and how many threads there is no room for.
    fn threads(&self) -> (Vec<DrawnLane>, usize) {
        let mut lanes: Vec<DrawnLane> =
            self.parts.scope.of_loop.map(|lane| self.annotations(lane)).into_iter().collect();
        for lane in self.parts.scope.threads.iter().take(THREADS_DRAWN) {
            let of_loop = Some(*lane) == self.parts.scope.of_loop;
            let name = numbered("thread", self.timeline.threads.get(usize::from(*lane)));
            let facts = |span: &HostSpan| self.timeline.names.facts(span.name);
            let role = match self.timeline.of_thread(*lane) {
                _ if of_loop => "loop, ",
                spans if spans.iter().any(|span| facts(span).backward) => "backward, ",
                _ => "",
            };
            lanes.push(self.thread(*lane, format!("{role}{name}")));
        }
        (lanes, self.parts.scope.threads.len().saturating_sub(THREADS_DRAWN))
    }

    /// The outermost annotations of the loop's thread, steps aside.
    fn annotations(&self, lane: u16) -> DrawnLane {
        let mut packed = Packed::new(self.window);
        let mut until = i64::MIN;
        for span in self.timeline.of_thread(lane).iter().take_while(|span| span.start < self.window.1) {
            let outermost = span.start >= until && !self.timeline.names.facts(span.name).step;
            if span.kind == HostKind::Annotation && outermost {
                until = span.end;
                packed.push((span.start, span.end), SliceKind::Annotation, Some(label(span.name)));
            }
        }
        packed.lane("annotations".to_owned(), self.timeline)
    }

    /// What a thread does at each moment.
    fn thread(&self, lane: u16, name: String) -> DrawnLane {
        let mut packed = Packed::new(self.window);
        let mut python = self.parts.python_of(lane);
        let mut seen = self.window.0;
        let mut walk = self.parts.walk(lane);
        let mut piece = |(begin, end): TimeRange, level: &OpenSpan| {
            if end <= self.window.0 || begin >= self.window.1 {
                return;
            }
            // Between its own spans the thread may be in Python functions that are filed elsewhere.
            if let Some(python) = python.as_mut().filter(|_| begin > seen)
                && let Some(aside) = python.level_at(seen)
            {
                packed.push((seen, begin), SliceKind::Python, Some(named(aside)));
            }
            seen = end;
            packed.push((begin, end), level.reason().drawn(), Some(named(level)));
        };
        while let Some(level) = walk.open_next(&mut piece) {
            if level.span.start >= self.window.1 {
                break;
            }
        }
        packed.lane(name, self.timeline)
    }

    /// Streams on which something ran in the step, with their GPU's number: those of the first GPU first, the busiest first.
    fn streams(&self) -> Vec<(i64, u16, i64)> {
        let mut all = Vec::new();
        for gpu in self.parts.gpus.iter().take(GPUS_DRAWN) {
            let mut times: HashMap<u16, i64> = HashMap::new();
            for span in self.gpu_spans(gpu.index) {
                *times.entry(span.lane).or_default() += span.end - span.start;
            }
            let mut streams: Vec<_> = times.into_iter().map(|(lane, time)| (gpu.index, lane, time)).collect();
            streams.sort_by_key(|(_, lane, time)| (std::cmp::Reverse(*time), *lane));
            all.extend(streams);
        }
        all
    }

    fn gpu_spans(&self, index: i64) -> impl Iterator<Item = &'a GpuSpan> {
        let (begin, end) = self.window;
        let earlier = spans(index, self.timeline, self.parts.scope.window).take_while(move |span| span.start < end);
        earlier.filter(move |span| span.end > begin)
    }

    fn stream(&self, index: i64, lane: u16) -> DrawnLane {
        let names = &self.timeline.names;
        let mut packed = Packed::new(self.window);
        for span in self.gpu_spans(index).filter(|span| span.lane == lane) {
            let kind = match span.kind {
                GpuKind::Kernel if names.facts(span.name).collective => SliceKind::Collective,
                GpuKind::Kernel => SliceKind::Compute,
                GpuKind::Copy | GpuKind::Set => SliceKind::Copy,
            };
            let label = SliceLabel { is_kernel: span.kind == GpuKind::Kernel, ..label(span.name) };
            packed.push((span.start, span.end), kind, Some(label));
        }
        let lane = self.timeline.streams.get(usize::from(lane)).map(|(_, lane)| lane);
        packed.lane(format!("GPU {index}, {}", numbered("stream", lane).trim()), self.timeline)
    }

    /// A GPU's idle moments, by what the host did.
    fn idle(&self, gpu: &GpuTime) -> DrawnLane {
        let mut moments: Vec<(TimeRange, SliceKind)> = Vec::new();
        for (reason, part) in IdleReason::ALL.into_iter().zip(&gpu.idle_by) {
            let within = part.iter().filter(|(begin, end)| *end > self.window.0 && *begin < self.window.1);
            moments.extend(within.map(|interval| (interval, reason.drawn())));
        }
        moments.sort_unstable();
        let mut packed = Packed::new(self.window);
        moments.into_iter().for_each(|(interval, kind)| packed.push(interval, kind, None));
        packed.lane(format!("GPU {} idle", gpu.index), self.timeline)
    }
}

/// `thread 1234`, `stream 7`.
fn numbered(what: &str, lane: Option<&TraceLane>) -> String {
    match lane.map(|lane| &lane.thread) {
        Some(TracePlace::Number(number)) => format!("{what} {number}"),
        Some(TracePlace::Word(word)) => word.to_string(),
        _ => what.to_owned(),
    }
}

fn label(name: NameId) -> SliceLabel {
    SliceLabel { name, operator: None, function: None, is_kernel: false }
}

fn named(level: &OpenSpan) -> SliceLabel {
    let name = match level.reason() {
        IdleReason::InputWait => level.batch.unwrap_or(level.span.name),
        IdleReason::Operator => level.operator.map_or(level.span.name, |operator| operator.name),
        _ => level.span.name,
    };
    SliceLabel { operator: level.operator.map(|operator| operator.name), function: level.function, ..label(name) }
}

/// A slice while the lane is put together.
#[derive(Debug, Clone, Copy)]
struct Packing {
    begin: i64,
    end: i64,
    kind: SliceKind,
    covered: i64,
    count: u64,
    label: Option<SliceLabel>,
    longest: i64,
}

impl Packing {
    fn join(&mut self, next: &Self) {
        self.end = self.end.max(next.end);
        if next.covered > self.covered {
            self.kind = next.kind;
        }
        if next.longest > self.longest {
            (self.label, self.longest) = (next.label, next.longest);
        }
        self.covered += next.covered;
        self.count += next.count;
    }
}

/// A lane while it is put together: of bounded length.
struct Packed {
    window: TimeRange,
    /// Shorter slices next to each other are joined, nanoseconds.
    short: i64,
    slices: Vec<Packing>,
}

impl Packed {
    fn new(window: TimeRange) -> Self {
        let slices = i64::try_from(SLICES).unwrap_or(i64::MAX);
        Self { window, short: (window.1 - window.0) / slices, slices: Vec::new() }
    }

    fn push(&mut self, (begin, end): TimeRange, kind: SliceKind, label: Option<SliceLabel>) {
        let after = self.slices.last().map_or(self.window.0, |last| last.end);
        let (begin, end) = (begin.max(after), end.min(self.window.1));
        if begin >= end {
            return;
        }
        let next = Packing { begin, end, kind, covered: end - begin, count: 1, label, longest: end - begin };
        match self.slices.last_mut() {
            Some(last) if last.kind == kind && are_short(self.short, last, &next) => last.join(&next),
            _ => self.slices.push(next),
        }
        if self.slices.len() >= 2 * SLICES {
            self.shorten();
        }
    }

    /// Joins short slices, whatever their kinds, until there are few enough.
    fn shorten(&mut self) {
        while self.slices.len() > SLICES {
            let short = self.short;
            self.slices.dedup_by(|next, last| {
                let joins = are_short(short, last, next);
                if joins {
                    last.join(next);
                }
                joins
            });
            self.short = self.short.saturating_mul(2).max(1);
        }
    }

    fn lane(mut self, name: String, timeline: &TraceTimeline) -> DrawnLane {
        self.shorten();
        let length = (self.window.1 - self.window.0).max(1);
        let share = |at: i64| (at - self.window.0) as f64 / length as f64;
        let slices = self.slices.iter().map(|slice| DrawnSlice {
            begin: share(slice.begin),
            end: share(slice.end),
            kind: slice.kind,
            filled: slice.covered as f64 / (slice.end - slice.begin).max(1) as f64,
            count: slice.count,
            name: match slice.label {
                Some(label) if slice.end - slice.begin >= length / NAMED => label.text(timeline),
                _ => String::new(),
            },
        });
        DrawnLane { name, slices: slices.collect() }
    }
}

/// Whether two slices next to each other are both short, and so is the gap between them.
fn are_short(short: i64, last: &Packing, next: &Packing) -> bool {
    [last.end - last.begin, next.end - next.begin, next.begin - last.end].into_iter().all(|length| length < short)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::profiles::account::ProfileAccount;

    fn event(category: &str, name: &str, (begin, end): (u64, u64), more: &str) -> String {
        let (lane, length) = (if category == "kernel" { 7 } else { 1 }, end - begin);
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{lane},"ts":{begin},"dur":{length},"args":{{{more}}}}}"#
        )
    }

    fn read(events: &[String]) -> ProfileAccount {
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        crate::profiles::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn the_step_of_median_length_is_drawn_with_its_threads_streams_and_idle_time() {
        let mut events = Vec::new();
        for (number, begin, length) in [(1, 0, 900), (2, 1000, 1000), (3, 2000, 5000)] {
            let step = begin..begin + length;
            events.push(event("user_annotation", &format!("ProfilerStep#{number}"), (step.start, step.end), ""));
            let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
            events.push(event("user_annotation", loader, (begin, begin + 400), ""));
            events.push(event("cpu_op", "aten::mm", (begin + 400, begin + 600), ""));
            let link = format!("\"correlation\":{number}");
            events.push(event("cuda_runtime", "cudaLaunchKernel", (begin + 450, begin + 500), &link));
            events.push(event(
                "kernel",
                "gemm",
                (begin + 500, begin + 800),
                &format!("{link},\"device\":0,\"stream\":7"),
            ));
        }
        let drawn = read(&events).drawn.unwrap();
        assert_eq!((drawn.step, drawn.length_ms, drawn.left_out), (Some((2, 3)), 1.0, 0));
        let of = |name: &str| {
            let lane =
                drawn.lanes.iter().find(|lane| lane.name == name).unwrap_or_else(|| panic!("{name}: {drawn:?}"));
            let rounded = |at: f64| (at * 1000.0).round() as u64;
            let slices =
                lane.slices.iter().map(|slice| (rounded(slice.begin), rounded(slice.end), slice.kind, &*slice.name));
            slices.collect::<Vec<_>>()
        };
        use SliceKind::{Annotation, Compute, Data, Launch, Operator};
        let loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        assert_eq!(of("annotations"), [(0, 400, Annotation, loader)]);
        assert_eq!(
            of("loop, thread 1"),
            [
                (0, 400, Data, loader),
                (400, 450, Operator, "aten::mm"),
                (450, 500, Launch, "cudaLaunchKernel in aten::mm"),
                (500, 600, Operator, "aten::mm"),
                (600, 1000, Operator, "in no operator"),
            ]
        );
        let kernel = kernel_name("gemm");
        assert_eq!(of("GPU 0, stream 7"), [(500, 800, Compute, &*kernel)]);
        let kinds = [(0, 400, Data), (400, 450, Operator), (450, 500, Launch), (800, 1000, Operator)];
        assert_eq!(
            of("GPU 0 idle").into_iter().map(|(begin, end, kind, _)| (begin, end, kind)).collect::<Vec<_>>(),
            kinds
        );
    }

    #[test]
    fn without_steps_the_window_is_drawn() {
        let events: Vec<String> =
            (0..40).map(|nth| event("cpu_op", "aten::mm", (nth * 10, nth * 10 + 5), "")).collect();
        let drawn = read(&events).drawn.unwrap();
        assert_eq!((drawn.step, drawn.lanes.len(), drawn.lanes[0].slices.len()), (None, 1, 40));
    }

    proptest! {
        #[test]
        fn a_lane_is_bounded_in_order_and_keeps_its_time(
            lengths in proptest::collection::vec((0_i64..40, 0_i64..40, 0_usize..SliceKind::COUNT), 0..8000),
        ) {
            let whole = lengths.iter().map(|(gap, length, _)| gap + length).sum::<i64>();
            let mut packed = Packed::new((0, whole));
            let (mut at, mut time) = (0, 0);
            for (gap, length, kind) in lengths {
                packed.push((at + gap, at + gap + length), SliceKind::ALL[kind], None);
                (at, time) = (at + gap + length, time + length);
                prop_assert!(packed.slices.len() < 2 * SLICES);
            }
            let lane = packed.lane(String::new(), &TraceTimeline::default());
            prop_assert!(lane.slices.len() <= SLICES, "{}", lane.slices.len());
            prop_assert!(lane.slices.windows(2).all(|pair| pair[0].end <= pair[1].begin));
            prop_assert!(lane.slices.iter().all(|slice| 0.0 <= slice.begin && slice.begin < slice.end && slice.end <= 1.0));
            let kept: f64 = lane.slices.iter().map(|slice| (slice.end - slice.begin) * slice.filled).sum();
            prop_assert!((kept * whole as f64 - time as f64).abs() < 1.0, "{kept} of {whole}: {time}");
        }
    }
}
