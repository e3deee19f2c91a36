//! A trace of torch.profiler: events in JSON, in any order, perhaps packed by gzip, perhaps of gigabytes. It is read twice: once to
//! find the loop's thread and the time that it covers, once to collect that thread's spans and the GPUs' kernels.

mod events;
mod frames;

use std::collections::HashMap;
use std::io::{Read, Seek};

use events::{Event, Meta, visit};
use frames::{Frames, LASTING, STEP, Spans};

use super::profiles::window;
use super::spans::{Cover, SpanSet, StackTimes, TraceSpan, each_interval};
use super::{ImportError, ImportInput, Imported, ToolReading};
use crate::sample::{GpuDevice, ProfileSample, UtilizationPoint};

use super::merge::process_id;

/// The command that records what a report needs.
const WITH: &str =
    "prof.export_chrome_trace(\"trace.json\")` around some steps with `with torch.profiler.profile() as prof";
/// An interval, nanoseconds; a short trace has at least this many …
const INTERVAL_NS: u64 = 1_000_000_000;
const FEWEST_INTERVALS: u64 = 20;
/// … of at least this length, nanoseconds, and a long one at most this many.
const SHORTEST_INTERVAL_NS: u64 = 100_000_000;
const MOST_INTERVALS: u64 = 5000;
/// Nothing is profiled for longer, nanoseconds: a week.
const LONGEST_NS: u64 = 7 * 86_400 * 1_000_000_000;
/// Points of a GPU's use in an interval.
const POINTS: u64 = 10;
/// Most threads, GPUs and steps that are told apart.
const THREADS_MAX: usize = 4096;
const DEVICES_MAX: usize = 64;
const STEPS_MAX: usize = 1_000_000;
const FLOWS_MAX: usize = 2_000_000;

/// A thread: PID and TID.
type TraceThread = (i64, i64);

/// What the first reading finds.
#[derive(Debug, Default)]
struct TraceOutline {
    threads: HashMap<TraceThread, OfThread>,
}

/// What one thread does.
#[derive(Debug, Clone, Copy)]
struct OfThread {
    steps: u64,
    batches: u64,
    operators: u64,
    begin_ns: u64,
    end_ns: u64,
}

impl TraceOutline {
    fn take(&mut self, event: &Event) {
        if event.is_of_device() || !event.is_span() {
            return;
        }
        let room = self.threads.len() < THREADS_MAX;
        let thread = (event.pid, event.tid);
        if !room && !self.threads.contains_key(&thread) {
            return;
        }
        let new = OfThread { steps: 0, batches: 0, operators: 0, begin_ns: u64::MAX, end_ns: 0 };
        let found = self.threads.entry(thread).or_insert(new);
        match () {
            () if frames::is_step(event) => found.steps += 1,
            () if frames::is_loader(event) => found.batches += 1,
            () if event.cat == "cpu_op" => found.operators += 1,
            () if frames::is_of_thread(event) => {}
            () => return,
        }
        (found.begin_ns, found.end_ns) = (found.begin_ns.min(event.start_ns), found.end_ns.max(event.end_ns));
    }

    /// The thread that runs the loop: with the most steps, else batches, else operators.
    fn of_loop(&self) -> Option<(TraceThread, OfThread)> {
        let rank = |of: &OfThread| (of.steps, of.batches, of.operators);
        let found = self.threads.iter().max_by_key(|(thread, of)| (rank(of), std::cmp::Reverse(**thread)))?;
        (rank(found.1) != (0, 0, 0)).then_some((*found.0, *found.1))
    }
}

/// What the second reading collects.
struct Collected {
    thread: TraceThread,
    frames: Frames,
    spans: SpanSet,
    /// Begins of operators that have a part in the backward pass.
    flows: Vec<u64>,
    /// Steps, and batches taken: begin and end.
    steps: Vec<(u64, u64)>,
    batches: Vec<(u64, u64)>,
    devices: HashMap<u32, Cover>,
}

impl Collected {
    fn take(&mut self, event: &Event) {
        if event.is_of_device() {
            if event.cat == "kernel"
                && (self.devices.len() < DEVICES_MAX || self.devices.contains_key(&event.device()))
            {
                self.devices.entry(event.device()).or_default().add(event.start_ns, event.end_ns);
            }
            return;
        }
        let of_loop = (event.pid, event.tid) == self.thread;
        if event.is_forward_flow() {
            if of_loop && self.flows.len() < FLOWS_MAX {
                self.flows.push(event.start_ns);
            }
            return;
        }
        if !event.is_span() || event.pid != self.thread.0 {
            return;
        }
        // For a loop on a GPU, the backward pass runs in threads of autograd while the loop waits for it.
        let what = match of_loop {
            true => self.frames.number_of(event),
            false => frames::is_backward(event).then_some(frames::BACKWARD),
        };
        let Some(what) = what else { return };
        let (start_ns, end_ns) = (event.start_ns, event.end_ns);
        let lengths = match () {
            () if what == STEP => Some(&mut self.steps),
            () if frames::is_loader(event) => Some(&mut self.batches),
            () => None,
        };
        if let Some(lengths) = lengths.filter(|lengths| lengths.len() < STEPS_MAX) {
            lengths.push((start_ns, end_ns));
        }
        self.spans.add(TraceSpan { start_ns, end_ns, what });
    }
}

/// Reads a trace.
pub(super) fn read(input: &mut ImportInput<impl Read + Seek>) -> Result<Imported, ImportError> {
    let mut outline = TraceOutline::default();
    let meta = visit(input.open()?, |event| outline.take(event))?;
    let nothing = ImportError::Nothing { what: "operator of a training loop", with: WITH };
    let Some((thread, of_loop)) = outline.of_loop() else { return Err(nothing) };
    let mut collected = Collected {
        thread,
        frames: Frames::new(),
        spans: SpanSet::new(LASTING),
        flows: Vec::new(),
        steps: Vec::new(),
        batches: Vec::new(),
        devices: HashMap::new(),
    };
    visit(input.open()?, |event| collected.take(event))?;
    let begin_ns = collected.steps.iter().map(|(start, _)| *start).min().unwrap_or(of_loop.begin_ns);
    let end_ns = collected.steps.iter().map(|(_, end)| *end).max().unwrap_or(of_loop.end_ns);
    let length_ns = end_ns.saturating_sub(begin_ns);
    if length_ns == 0 {
        return Err(nothing);
    }
    if length_ns > LONGEST_NS {
        let days = length_ns / 86_400_000_000_000;
        return Err(ImportError::Bad(format!(
            "its events are {days} days apart, longer than anything is profiled: their times are damaged"
        )));
    }
    let interval_ns = (length_ns / FEWEST_INTERVALS)
        .clamp(SHORTEST_INTERVAL_NS, INTERVAL_NS)
        .max(length_ns.div_ceil(MOST_INTERVALS));
    let readings = readings(&mut collected, &meta, begin_ns, end_ns, interval_ns);
    let mut notes = Vec::new();
    if collected.spans.floor_ns() > 0 {
        let us = collected.spans.floor_ns() / 1000;
        notes.push(format!("operators and functions shorter than {us} µs count for what called them"));
    }
    let pid = u32::try_from(thread.0).ok();
    Ok(Imported { readings, interval_ms: interval_ns / 1_000_000, timeless: false, pid, notes })
}

fn readings(
    collected: &mut Collected,
    meta: &Meta,
    begin_ns: u64,
    end_ns: u64,
    interval_ns: u64,
) -> Vec<ToolReading> {
    let count = usize::try_from((end_ns - begin_ns).div_ceil(interval_ns)).unwrap_or(usize::MAX);
    let mut times = vec![StackTimes::default(); count];
    collected.flows.sort_unstable();
    let spans = Spans { frames: &collected.frames, flows: &collected.flows };
    collected.spans.sweep(begin_ns, end_ns, |from, to, stack| {
        let stack = spans.stack(from, to, stack);
        each_interval(from, to, begin_ns, interval_ns, |at, ns| {
            if let Some(times) = times.get_mut(at) {
                times.add(stack.clone(), ns);
            }
        });
    });
    let steps = steps(collected);
    let mut devices: Vec<(u32, Vec<u64>)> = Vec::new();
    let point_ns = (interval_ns / POINTS).max(1);
    for (device, cover) in &mut collected.devices {
        devices.push((*device, cover.per_interval(begin_ns, point_ns, count.saturating_mul(POINTS as usize))));
    }
    devices.sort_unstable_by_key(|(device, _)| *device);
    let process = process_id(u32::try_from(collected.thread.0).unwrap_or_default());
    let mut steps = steps.into_iter().peekable();
    let mut readings = Vec::with_capacity(count);
    for (at, times) in times.iter().enumerate() {
        let until_ns = begin_ns.saturating_add((at as u64 + 1).saturating_mul(interval_ns)).min(end_ns);
        let unix_ms = meta.unix_ms(until_ns);
        let mut profile = ProfileSample {
            stacks: window(times, |number| collected.frames.frame(number)),
            seconds: times.total_ns() as f64 / 1e9,
            steps: (steps.peek().is_some() || !collected.steps.is_empty() || !collected.batches.is_empty())
                .then_some(0),
            step_lengths_s: Vec::new(),
        };
        profile.stacks.process = process;
        while let Some((_, length_ns)) = steps.next_if(|(end_ns, _)| *end_ns <= until_ns) {
            profile.steps = profile.steps.map(|steps| steps + 1);
            profile.step_lengths_s.push((length_ns as f64 / 1e9) as f32);
        }
        let gpus = devices.iter().map(|(device, busy)| gpu(*device, busy, at, point_ns, unix_ms, meta)).collect();
        readings.push(ToolReading { unix_ms, gpus, profile: Some(profile), ..ToolReading::default() });
    }
    readings
}

/// The end and length of each step in order: the profiler's, else from one batch taken to the next.
fn steps(collected: &mut Collected) -> Vec<(u64, u64)> {
    collected.batches.sort_unstable();
    let mut steps: Vec<(u64, u64)> = if collected.steps.is_empty() {
        let batches = &collected.batches;
        batches.iter().zip(batches.iter().skip(1)).map(|(a, b)| (b.1, b.1.saturating_sub(a.1))).collect()
    } else {
        collected.steps.iter().map(|(start, end)| (*end, end.saturating_sub(*start))).collect()
    };
    steps.sort_unstable();
    steps
}

/// A GPU in an interval by the time in which a kernel ran.
fn gpu(index: u32, busy_ns: &[u64], at: usize, point_ns: u64, unix_ms: i64, meta: &Meta) -> GpuDevice {
    let first = at.saturating_mul(POINTS as usize);
    let of_interval = busy_ns.get(first..first.saturating_add(POINTS as usize)).unwrap_or_default();
    let points = of_interval.iter().zip((0..POINTS).rev()).map(|(busy, back)| UtilizationPoint {
        unix_us: unix_ms.max(0).unsigned_abs().saturating_mul(1000).saturating_sub(back * point_ns / 1000),
        pct: u32::try_from((busy * 100 + point_ns / 2) / point_ns).unwrap_or(100).min(100),
    });
    let sum: u64 = of_interval.iter().sum();
    let known = meta.devices.iter().find(|device| device.id == index);
    GpuDevice {
        index,
        name: known.map(|device| device.name.as_str().into()),
        memory_total_bytes: known.and_then(|device| device.memory_bytes),
        utilization_pct: u32::try_from(sum * 100 / (point_ns * POINTS)).ok().map(|pct| pct.min(100)),
        utilization_points: points.collect(),
        ..GpuDevice::default()
    }
}

#[cfg(test)]
#[path = "kineto_tests.rs"]
mod tests;
