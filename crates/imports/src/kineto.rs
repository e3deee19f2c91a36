//! A trace of torch.profiler beside what other tools recorded: its account as it is, and its course over time as samples of the
//! loop. What it means is judged by the account alone.

use std::io::Read;

use super::merge::process_id;
use super::profiles::{python_frame, short, window};
use super::spans::StackTimes;
use super::{ImportError, Imported, ToolReading};
use trainmon_profiles::account::{GpuAccount, StepPart};
use trainmon_profiles::course::{Course, CourseInterval, LoopPlace, TENTHS};
use trainmon_profiles::{self as profiles, ProfileError};
use trainmon_sample::loop_profile::{
    BLOCKED, COLLECTIVE, DATA_LOADER, MAKE_BATCH, NEXT_BATCH, NOTHING_RECORDED, OWN_WORK, SAVING, SYNCHRONIZE,
    TRACE_FILE,
};
use trainmon_sample::{GpuReading, ProfileSample, StackFrame, UtilizationPoint};

/// Frames that stand for no name of the trace; names follow, two numbers each.
const WORDS: [&str; 9] =
    [NEXT_BATCH, DATA_LOADER, MAKE_BATCH, SYNCHRONIZE, COLLECTIVE, BLOCKED, SAVING, OWN_WORK, NOTHING_RECORDED];

/// Reads a trace.
pub(super) fn read(input: impl Read) -> Result<Imported, ImportError> {
    let course = profiles::read_course(input).map_err(|error| match error {
        ProfileError::Read(error) => ImportError::Read(error),
        other => ImportError::Bad(other.to_string()),
    })?;
    let readings = course.intervals.iter().map(|interval| reading(&course, interval)).collect();
    let interval_ms = (course.interval_ns / 1_000_000).unsigned_abs();
    let notes = course.account.notes.clone();
    let pid = course.pid;
    Ok(Imported { readings, interval_ms, timeless: false, pid, account: Some(course.account), notes })
}

fn reading(course: &Course, interval: &CourseInterval) -> ToolReading {
    let unix_ms = i64::try_from(interval.end_unix_ns / 1_000_000).unwrap_or(i64::MAX);
    let gpus = course.account.devices.iter().zip(&interval.busy);
    let gpus = gpus.map(|(device, busy)| gpu(device, busy, unix_ms, interval.length_ns));
    ToolReading {
        unix_ms,
        gpus: gpus.collect(),
        profile: course.account.of_loop.map(|of_loop| of_interval(course, interval, of_loop.makes_batches)),
        ..ToolReading::default()
    }
}

fn of_interval(course: &Course, interval: &CourseInterval, makes_batches: bool) -> ProfileSample {
    let mut times = StackTimes::default();
    for (place, ns) in &interval.of_loop {
        times.add(stack(place, makes_batches), ns.unsigned_abs());
    }
    let mut profile = ProfileSample {
        stacks: window(&times, |number| frame(course, number)),
        seconds: interval.length_ns as f64 / 1e9,
        steps: course.account.steps_by.map(|_| interval.steps.len() as u64),
        step_lengths_s: interval.steps.iter().map(|ns| (*ns as f64 / 1e9) as f32).collect(),
    };
    profile.stacks.process = process_id(course.pid.unwrap_or_default());
    profile
}

/// The numbers of a place's frames, leaf first.
fn stack(place: &LoopPlace, makes_batches: bool) -> Vec<u32> {
    let words: &[&str] = match place.part {
        StepPart::InputWait if makes_batches => &[MAKE_BATCH],
        StepPart::InputWait => &[NEXT_BATCH, DATA_LOADER],
        StepPart::Sync | StepPart::Copies => &[SYNCHRONIZE],
        StepPart::Collective => &[COLLECTIVE],
        StepPart::Blocked => &[BLOCKED],
        StepPart::Saving => &[SAVING],
        StepPart::Annotation | StepPart::Nothing => &[NOTHING_RECORDED],
        _ => &[OWN_WORK],
    };
    let number = |word: &&str| (0..).zip(WORDS).find_map(|(number, known)| (known == *word).then_some(number));
    let name = |name: u32, kind: u32| name.saturating_mul(2).saturating_add(WORDS.len() as u32 + kind);
    let words = words.iter().filter_map(number);
    words
        .chain(place.call.map(|call| name(call, 0)))
        .chain(place.function.map(|function| name(function, 1)))
        .collect()
}

/// The frame of a number.
fn frame(course: &Course, number: u32) -> StackFrame {
    let word = usize::try_from(number).ok().and_then(|number| WORDS.get(number));
    let name = number.saturating_sub(WORDS.len() as u32);
    let text = word.copied().unwrap_or_else(|| course.name(name / 2));
    let python = if word.is_none() && name % 2 == 1 { traced_frame(text) } else { None };
    python.unwrap_or_else(|| StackFrame { function: short(text), file: TRACE_FILE.into(), ..StackFrame::default() })
}

/// `train.py(41): train_step`.
fn traced_frame(name: &str) -> Option<StackFrame> {
    let (place, function) = name.rsplit_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some(python_frame(function, file, line.parse().unwrap_or_default()))
}

/// A GPU in an interval.
fn gpu(device: &GpuAccount, busy: &[f64; TENTHS], unix_ms: i64, length_ns: i64) -> GpuReading {
    let tenth_us = length_ns.unsigned_abs() / 1000 / TENTHS as u64;
    let end_us = unix_ms.max(0).unsigned_abs().saturating_mul(1000);
    let pct = |share: f64| (share * 100.0).round() as u32;
    let points = busy
        .iter()
        .zip((0..TENTHS as u64).rev())
        .map(|(share, back)| UtilizationPoint { unix_us: end_us.saturating_sub(back * tenth_us), pct: pct(*share) });
    GpuReading {
        index: u32::try_from(device.index).unwrap_or_default(),
        name: device.name.as_deref().map(Into::into),
        utilization_pct: Some(pct(busy.iter().sum::<f64>() / TENTHS as f64)),
        utilization_points: points.collect(),
        ..GpuReading::default()
    }
}

#[cfg(test)]
#[path = "kineto_tests.rs"]
mod tests;
