//! Draws one step of a timeline: the one of median length, or the whole window where there are no steps.
//!
//! Short things next to each other become one slice, so that a lane is bounded however many events it has.

use std::collections::HashMap;

use super::deeds::{Deeds, HostDeed, ThreadDeeds};
use super::drawn::{DrawnGap, DrawnLane, DrawnStep, DrawnWork, LaneKind, SliceKind};
use super::gaps::{self, FoundCall, FoundGap, IdleMoment};
use super::gpu_time::spans;
use super::intervals::{Intervals, TimeRange};
use super::packed_lane::PackedLane;
use super::parts::AccountParts;
use super::scope::Scope;
use super::slice_label::SliceLabel;
use super::threads::OpenSpan;
use super::timeline::{GpuKind, GpuSpan, HostKind, HostSpan, TraceLane, TracePlace, TraceTimeline};

/// Most threads, their annotations aside.
const THREADS_DRAWN: usize = 4;
/// Most GPUs.
const GPUS_DRAWN: usize = 2;
/// Most streams of all GPUs.
const STREAMS_DRAWN: usize = 5;

/// The step that is drawn; `None` if nothing happens in it. `copying` are the moments in which a thread was in a call that copies.
pub fn drawn(parts: &AccountParts<'_>, copying: &Intervals) -> Option<DrawnStep> {
    let (step, window) = median_step(&parts.scope);
    let idle = |gpu| (gpu, gaps::idle_moments(parts, gpu, copying, window));
    let gpus: Vec<_> = parts.gpus.iter().take(GPUS_DRAWN).map(idle).collect();
    let mut found: Vec<Vec<FoundGap<'_>>> =
        gpus.iter().map(|(gpu, moments)| gaps::of_gpu(parts, gpu, moments, window)).collect();
    if gpus.is_empty() {
        found.push(gaps::of_loop(parts, window));
    }
    let exact = gaps::ends(&found, window);
    let mut deeds = gaps::sought(&found);
    let picture = StepPicture { parts, timeline: parts.timeline, window, exact: &exact };
    let (mut lanes, threads) = picture.threads(&mut deeds);
    gaps::take(&mut found, &deeds);
    let streams = picture.streams();
    for (gpu, moments) in gpus {
        let own = streams.iter().take(STREAMS_DRAWN).filter(|(index, ..)| *index == gpu.index);
        lanes.extend(own.map(|(index, lane, _)| picture.stream(*index, *lane)));
        lanes.push(picture.idle(gpu.index, moments));
    }
    lanes.retain(|(_, lane)| !lane.slices.is_empty());
    let left_out = threads + streams.len().saturating_sub(STREAMS_DRAWN);
    let length_ms = (window.1 - window.0) as f64 / 1e6;
    let mut gaps: Vec<DrawnGap> = found.iter().flatten().map(|gap| picture.gap(gap, &lanes)).collect();
    gaps.sort_by(|one, other| one.begin.total_cmp(&other.begin));
    let lanes: Vec<DrawnLane> = lanes.into_iter().map(|(_, lane)| lane).collect();
    (!lanes.is_empty()).then_some(DrawnStep { step, length_ms, lanes, left_out, gaps })
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

struct StepPicture<'a> {
    parts: &'a AccountParts<'a>,
    timeline: &'a TraceTimeline,
    window: TimeRange,
    /// Where everything is drawn as it is.
    exact: &'a [TimeRange],
}

impl<'a> StepPicture<'a> {
    /// The loop's annotations and the threads, and how many threads there is no room for.
    fn threads(&self, deeds: &mut Deeds) -> (Vec<LaneWithId>, usize) {
        let annotations = self.parts.scope.of_loop.map(|lane| self.annotations(lane));
        let mut lanes: Vec<LaneWithId> = annotations.into_iter().collect();
        for (nth, lane) in self.parts.scope.threads.iter().enumerate() {
            let of_loop = Some(*lane) == self.parts.scope.of_loop;
            let name = numbered("thread", self.timeline.threads.get(usize::from(*lane)));
            let facts = |span: &HostSpan| self.timeline.names.facts(span.name);
            let role = match self.timeline.of_thread(*lane) {
                _ if of_loop => "loop, ",
                spans if spans.iter().any(|span| facts(span).backward) => "backward, ",
                _ => "",
            };
            let mut thread = self.thread(*lane, format!("{role}{name}"), deeds.of_thread(*lane, of_loop));
            thread.1.of_loop = of_loop;
            // What the others did counts.
            lanes.extend((nth < THREADS_DRAWN).then_some(thread));
        }
        (lanes, self.parts.scope.threads.len().saturating_sub(THREADS_DRAWN))
    }

    /// The outermost annotations of the loop's thread, steps aside.
    fn annotations(&self, lane: u16) -> LaneWithId {
        let mut packed = self.packed();
        let mut until = i64::MIN;
        for span in self.timeline.of_thread(lane).iter().take_while(|span| span.start < self.window.1) {
            let outermost = span.start >= until && !self.timeline.names.facts(span.name).step;
            if span.kind == HostKind::Annotation && outermost {
                until = span.end;
                packed.push((span.start, span.end), SliceKind::Annotation, Some(SliceLabel::new(span.name)));
            }
        }
        (LaneId::Annotations, self.lane(packed, LaneKind::Annotations, "annotations".to_owned()))
    }

    /// What a thread does at each moment.
    fn thread(&self, lane: u16, name: String, mut deeds: ThreadDeeds<'_>) -> LaneWithId {
        let mut packed = self.packed();
        let mut python = self.parts.python_of(lane);
        let mut seen = self.window.0;
        let mut walk = self.parts.walk(lane);
        let mut piece = |(begin, end): TimeRange, level: &OpenSpan| {
            if end <= self.window.0 || begin >= self.window.1 {
                return;
            }
            // Between its own spans the thread may be in Python functions that are filed elsewhere.
            if begin > seen
                && let Some(python) = python.as_mut()
                && let Some(aside) = python.level_at(seen)
            {
                packed.push((seen, begin), SliceKind::Python, Some(SliceLabel::of_level(aside)));
            }
            seen = end;
            packed.push((begin, end), level.drawn(), Some(SliceLabel::of_level(level)));
            deeds.piece((begin, end), level, &mut python);
        };
        while let Some(level) = walk.open_next(&mut piece) {
            if level.span.start >= self.window.1 {
                break;
            }
        }
        (LaneId::Thread(lane), self.lane(packed, LaneKind::Thread, name))
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

    fn stream(&self, index: i64, lane: u16) -> LaneWithId {
        let mut packed = self.packed();
        for span in self.gpu_spans(index).filter(|span| span.lane == lane) {
            packed.push((span.start, span.end), self.kind_of(span), Some(label_of(span)));
        }
        let name = format!("GPU {index}, {}", self.name_of_stream(lane).trim());
        let drawn = DrawnLane { gpu: Some(index), ..self.lane(packed, LaneKind::Stream, name) };
        (LaneId::Stream(lane), drawn)
    }

    fn name_of_stream(&self, lane: u16) -> String {
        numbered("stream", self.timeline.streams.get(usize::from(lane)).map(|(_, lane)| lane))
    }

    fn kind_of(&self, span: &GpuSpan) -> SliceKind {
        match span.kind {
            GpuKind::Kernel if self.timeline.names.facts(span.name).collective => SliceKind::Collective,
            GpuKind::Kernel => SliceKind::Compute,
            GpuKind::Copy | GpuKind::Set => SliceKind::Copy,
        }
    }

    /// A GPU's idle moments, by what the host did.
    fn idle(&self, gpu: i64, moments: Vec<IdleMoment>) -> LaneWithId {
        let mut packed = self.packed();
        moments.into_iter().for_each(|(interval, kind)| packed.push(interval, kind, None));
        let drawn = self.lane(packed, LaneKind::Idle, format!("GPU {gpu} idle"));
        (LaneId::Idle, DrawnLane { gpu: Some(gpu), ..drawn })
    }

    fn packed(&self) -> PackedLane<'a, SliceLabel> {
        PackedLane::new(self.window, self.exact)
    }

    fn lane(&self, packed: PackedLane<'a, SliceLabel>, kind: LaneKind, name: String) -> DrawnLane {
        let slices = packed.finish(|label| label.text(self.timeline));
        DrawnLane { kind, name, slices, ..DrawnLane::default() }
    }

    /// What the host did, and where in the code, by a function or by the call stack beside an operator.
    fn text_of(&self, did: &HostDeed) -> String {
        let mut text = did.label.text(self.timeline);
        if did.label.function.is_none()
            && let Some(place) = self.parts.place(None, did.shapes)
        {
            text += &format!(", {}", place.at);
        }
        text
    }

    /// A moment in steps from the begin of this one.
    fn share(&self, moment: i64) -> f64 {
        (moment - self.window.0) as f64 / (self.window.1 - self.window.0).max(1) as f64
    }

    fn gap(&self, gap: &FoundGap<'_>, lanes: &[LaneWithId]) -> DrawnGap {
        let (begin, end) = gap.range;
        let ms = |ns: i64| ns as f64 / 1e6;
        let by = SliceKind::ALL.into_iter().zip(gap.by).filter(|(_, part)| *part > 0);
        let mut by: Vec<_> = by.map(|(kind, part)| (kind, ms(part))).collect();
        by.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        let lane_of = |id: LaneId| lanes.iter().position(|(other, _)| *other == id);
        let work = gap.work.map(|span| DrawnWork {
            lane: lane_of(LaneId::Stream(span.lane)),
            place: self.name_of_stream(span.lane),
            name: label_of(span).text(self.timeline),
            kind: Some(self.kind_of(span)),
            begin: self.share(span.start),
            end: self.share(span.end),
        });
        let call = gap.call.as_ref().map(|FoundCall { call, made }| DrawnWork {
            lane: lane_of(LaneId::Thread(call.lane)),
            place: numbered("thread", self.timeline.threads.get(usize::from(call.lane))),
            name: self.text_of(made),
            kind: Some(SliceKind::Launch),
            begin: self.share(call.start),
            end: self.share(call.end),
        });
        DrawnGap {
            gpu: gap.gpu,
            begin: self.share(begin),
            end: self.share(end),
            ms: ms(end - begin),
            goes_on: gap.end > self.window.1,
            by,
            host: gap.host.as_ref().map(|host| self.text_of(host)).unwrap_or_default(),
            host_lane: gap.host.and_then(|host| lane_of(LaneId::Thread(host.lane))),
            work,
            call,
        }
    }
}

/// What a lane is of, while a step is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneId {
    Annotations,
    Thread(u16),
    Stream(u16),
    Idle,
}

type LaneWithId = (LaneId, DrawnLane);

fn label_of(span: &GpuSpan) -> SliceLabel {
    SliceLabel { is_kernel: span.kind == GpuKind::Kernel, ..SliceLabel::new(span.name) }
}

/// `thread 1234`, `stream 7`.
fn numbered(what: &str, lane: Option<&TraceLane>) -> String {
    match lane.map(|lane| &lane.thread) {
        Some(TracePlace::Number(number)) => format!("{what} {number}"),
        Some(TracePlace::Word(word)) => word.to_string(),
        _ => what.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::ProfileAccount;
    use crate::kernel_names::kernel_name;

    fn event(category: &str, name: &str, (begin, end): (u64, u64), more: &str) -> String {
        let (lane, length) = (if category == "kernel" { 7 } else { 1 }, end - begin);
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":0,"tid":{lane},"ts":{begin},"dur":{length},"args":{{{more}}}}}"#
        )
    }

    fn read(events: &[String]) -> ProfileAccount {
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        crate::read(text.as_bytes()).unwrap()
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
        let batch = "enumerate(DataLoader)";
        assert_eq!(of("annotations"), [(0, 400, Annotation, batch)]);
        assert_eq!(
            of("loop, thread 1"),
            [
                (0, 400, Data, batch),
                (400, 450, Operator, "aten::mm"),
                (450, 500, Launch, "cudaLaunchKernel in aten::mm"),
                (500, 600, Operator, "aten::mm"),
                (600, 1000, Annotation, "in no operator"),
            ]
        );
        let kernel = kernel_name("gemm");
        assert_eq!(of("GPU 0, stream 7"), [(500, 800, Compute, &*kernel)]);
        let kinds = [(0, 400, Data), (400, 450, Operator), (450, 500, Launch), (800, 1000, Annotation)];
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
}
