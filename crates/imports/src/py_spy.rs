//! Stacks that py-spy recorded: `-f raw`, a line for each distinct stack with its count, and `-f speedscope`, JSON with every
//! sample. Without `--idle` it leaves out threads that wait, so its counts are no shares of the time.

use std::collections::HashMap;
use std::io::{BufRead, Read};

use serde::Deserialize;

use super::profiles::{python_frame, window};
use super::spans::StackTimes;
use super::tables::next_line;
use super::{ImportContext, ImportError, Imported, ToolReading};
use trainmon_sample::stacks::DEPTH;
use trainmon_sample::{ProfileSample, StackFrame};

/// The command that records what a report needs.
const WITH: &str = "py-spy record --idle -f speedscope -o stacks.json --pid PID";
/// py-spy's own rate, samples a second.
const RATE: u64 = 100;
/// Most intervals that raw stacks, which have no order, are spread over: more would say the same again.
const SPREAD_MAX: u64 = 60;
/// Most distinct frames.
const FRAMES_MAX: usize = 100_000;
/// Largest file of speedscope, which is read as a whole.
const SPEEDSCOPE_MAX: u64 = 48 << 20;
/// Most samples of speedscope in memory at a time: ten minutes of a hundred a second.
const INTERVALS_MAX: usize = 10_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Frames by their number.
#[derive(Debug, Default)]
struct KnownFrames {
    frames: Vec<StackFrame>,
    numbers: HashMap<String, u32>,
}

impl KnownFrames {
    /// The number of a frame as raw writes it: `select (selectors.py:415)`.
    fn number(&mut self, text: &str) -> Result<u32, ImportError> {
        if let Some(number) = self.numbers.get(text) {
            return Ok(*number);
        }
        let (function, place) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" (")).unwrap_or((text, ""));
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        let number = self.add(python_frame(function, file, line.parse().unwrap_or_default()))?;
        self.numbers.insert(text.to_owned(), number);
        Ok(number)
    }

    fn add(&mut self, frame: StackFrame) -> Result<u32, ImportError> {
        if self.frames.len() >= FRAMES_MAX {
            return Err(ImportError::TooLarge("more than 100,000 lines of code"));
        }
        self.frames.push(frame);
        Ok(u32::try_from(self.frames.len() - 1).unwrap_or(u32::MAX))
    }

    fn frame(&self, number: u32) -> Option<&StackFrame> {
        self.frames.get(usize::try_from(number).ok()?)
    }

    /// Whether a stack, leaf first, is of the thread that runs the program: not of another thread, nor of a worker.
    fn is_main(&self, stack: &[u32]) -> bool {
        let is = |number: &u32, function: &str, file: &str| {
            self.frame(*number).is_some_and(|frame| frame.function.ends_with(function) && frame.file.ends_with(file))
        };
        !stack.is_empty()
            && !stack.last().is_some_and(|root| is(root, "_bootstrap", "threading.py"))
            && !stack.iter().any(|number| is(number, "_worker_loop", "_utils/worker.py"))
    }

    /// Whether the innermost frame is one in which the standard library waits.
    fn waits(&self, stack: &[u32]) -> bool {
        const WAITS: [(&str, &str); 5] = [
            ("select", "/selectors.py"),
            ("wait", "/threading.py"),
            ("acquire", "/threading.py"),
            ("_poll", "multiprocessing/connection.py"),
            ("wait", "multiprocessing/connection.py"),
        ];
        let leaf = stack.first().and_then(|leaf| self.frame(*leaf));
        leaf.is_some_and(|leaf| {
            WAITS.iter().any(|(name, file)| leaf.function.ends_with(name) && leaf.file.ends_with(file))
        })
    }
}

/// Whether a line is one of raw: frames, a blank, a count.
pub(super) fn is_raw(line: &str) -> bool {
    split(line).is_some_and(|(stack, _)| stack.contains(" (") && stack.contains(')'))
}

fn split(line: &str) -> Option<(&str, u64)> {
    let (stack, count) = line.trim_end().rsplit_once(' ')?;
    Some((stack, count.parse().ok()?))
}

/// Reads raw stacks.
pub(super) fn raw(mut from: impl BufRead, context: &ImportContext) -> Result<Imported, ImportError> {
    let (mut known, mut buffer, mut number) = (KnownFrames::default(), Vec::new(), 0);
    let mut counts: HashMap<Vec<u32>, u64> = HashMap::new();
    while let Some(line) = next_line(&mut from, &mut buffer)? {
        number += 1;
        if line.trim().is_empty() {
            continue;
        }
        let bad = || {
            ImportError::Bad(format!("line {number} is no stack with a count, as `py-spy record -f raw` writes them"))
        };
        let (stack, count) = split(line).ok_or_else(bad)?;
        let frames = stack.split(';').rev().filter(|frame| !is_header(frame)).take(DEPTH);
        let stack: Vec<u32> = frames.map(|frame| known.number(frame)).collect::<Result<_, _>>()?;
        if known.is_main(&stack) {
            let sum = counts.entry(stack).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    let total = counts.values().fold(0_u64, |sum, count| sum.saturating_add(*count));
    let intervals = (total / RATE).clamp(1, SPREAD_MAX);
    let mut times = StackTimes::default();
    for (stack, count) in counts {
        // Their shares are exact, whatever the rate was.
        let ns = u128::from(count) * u128::from(NS_PER_S) / u128::from(total.max(1));
        times.add(stack, u64::try_from(ns).unwrap_or(u64::MAX));
    }
    finish(&known, vec![times; usize::try_from(intervals).unwrap_or(1)], context)
}

/// Frames that py-spy puts before those of the code: `process 12:"python"`, `thread (0x7F)`.
fn is_header(frame: &str) -> bool {
    frame.starts_with("process ") || frame.starts_with("thread (")
}

/// A file of speedscope, as far as it is wanted.
#[derive(Deserialize)]
struct Speedscope {
    profiles: Vec<SpeedscopeThread>,
    shared: SpeedscopeShared,
}

#[derive(Deserialize)]
struct SpeedscopeShared {
    frames: Vec<SpeedscopeFrame>,
}

#[derive(Deserialize)]
struct SpeedscopeFrame {
    name: String,
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
}

#[derive(Deserialize)]
struct SpeedscopeThread {
    #[serde(default)]
    unit: String,
    #[serde(default)]
    samples: Vec<Vec<u32>>,
    #[serde(default)]
    weights: Vec<f64>,
}

/// Reads a file of speedscope.
pub(super) fn speedscope(from: impl BufRead, context: &ImportContext) -> Result<Imported, ImportError> {
    let mut text = Vec::new();
    from.take(SPEEDSCOPE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > SPEEDSCOPE_MAX {
        return Err(ImportError::TooLarge("a file of speedscope beyond 48 MiB; py-spy's raw format is smaller"));
    }
    let read: Speedscope = serde_json::from_slice(&text).map_err(|error| {
        ImportError::Bad(format!("not a file of speedscope: {}", trainmon_base::text::fit(&error.to_string(), 160)))
    })?;
    drop(text);
    let mut known = KnownFrames::default();
    for frame in &read.shared.frames {
        let number = known.add(python_frame(
            &frame.name,
            frame.file.as_deref().unwrap_or_default(),
            frame.line.unwrap_or_default(),
        ))?;
        known.numbers.insert(number.to_string(), number);
    }
    let main = |thread: &&SpeedscopeThread| {
        let own = thread.samples.iter().filter(|stack| known.is_main(&leaf_first(stack))).count();
        (own, thread.samples.len())
    };
    let Some(thread) = read.profiles.iter().max_by_key(main) else { return Err(nothing()) };
    let mut intervals: Vec<StackTimes> = Vec::new();
    let mut now = 0.0;
    for (stack, weight) in thread.samples.iter().zip(&thread.weights) {
        let seconds = if thread.unit == "seconds" { *weight } else { weight / RATE as f64 };
        if !(seconds.is_finite() && seconds >= 0.0) {
            return Err(ImportError::Bad("a sample of it lasts no time".into()));
        }
        let at = now as usize;
        now += seconds;
        if at >= INTERVALS_MAX {
            return Err(ImportError::TooLarge("more than 10,000 seconds"));
        }
        intervals.resize(intervals.len().max(at + 1), StackTimes::default());
        let stack = leaf_first(stack);
        if known.is_main(&stack)
            && let Some(times) = intervals.get_mut(at)
        {
            times.add(stack, (seconds.min(1e6) * 1e9) as u64);
        }
    }
    finish(&known, intervals, context)
}

fn leaf_first(stack: &[u32]) -> Vec<u32> {
    stack.iter().rev().take(DEPTH).copied().collect()
}

fn nothing() -> ImportError {
    ImportError::Nothing { what: "stack of a program's first thread", with: WITH }
}

/// A reading of a second for each interval.
fn finish(known: &KnownFrames, intervals: Vec<StackTimes>, context: &ImportContext) -> Result<Imported, ImportError> {
    if intervals.iter().all(|times| times.total_ns() == 0) {
        return Err(nothing());
    }
    let idle = intervals.iter().any(|times| times.stacks().any(|stack| known.waits(stack)));
    let mut notes = vec!["no times in it, taken as the seconds before it was written".to_owned()];
    if !idle {
        notes.push(format!(
            "waiting threads are left out, so it says where the loop works but not for how long; `{WITH}` records all of the time"
        ));
    }
    let count = i64::try_from(intervals.len()).unwrap_or_default();
    let reading = |(back, times): (i64, &StackTimes)| {
        let seconds = if idle { times.total_ns() as f64 / 1e9 } else { 0.0 };
        let stacks = window(times, |number| known.frame(number).cloned().unwrap_or_default());
        let profile = ProfileSample { stacks, seconds, ..ProfileSample::default() };
        ToolReading {
            unix_ms: context.written_ms.saturating_sub((count - back) * 1000),
            profile: Some(profile),
            ..ToolReading::default()
        }
    };
    let readings = (1..).zip(&intervals).map(reading).collect();
    Ok(Imported { readings, interval_ms: 1000, timeless: true, notes, ..Imported::default() })
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;

    fn context() -> ImportContext {
        ImportContext { zone: TimeZone::UTC, written_ms: 1_000_000 }
    }

    const IDLE: &str = "<module> (train.py:9);main (train.py:5);__next__ (torch/utils/data/dataloader.py:7);select (selectors.py:4) 300\n\
                        <module> (train.py:9);main (train.py:6) 100\n\
                        Thread._bootstrap (threading.py:1);wait (threading.py:3) 400\n\
                        process 7:\"python\";_worker_loop (torch/utils/data/_utils/worker.py:2) 400\n";

    #[test]
    fn the_main_threads_stacks_are_all_of_its_time_with_idle() {
        let imported = raw(IDLE.as_bytes(), &context()).unwrap();
        assert_eq!((imported.readings.len(), imported.notes.len(), imported.timeless), (4, 1, true));
        let profile = imported.readings[0].profile.as_ref().unwrap();
        let samples: Vec<u32> = profile.stacks.threads[0].stacks.iter().map(|stack| stack.samples).collect();
        assert_eq!((samples, profile.seconds), (vec![750, 250], 1.0));
        assert_eq!(&*profile.stacks.frames[0].file, "lib/python3/selectors.py");
        assert_eq!(imported.readings[3].unix_ms, 1_000_000);
    }

    #[test]
    fn without_idle_nothing_is_said_of_the_time() {
        let imported = raw(&b"<module> (train.py:9);main (train.py:6) 100\n"[..], &context()).unwrap();
        assert_eq!(imported.readings[0].profile.as_ref().unwrap().seconds, 0.0);
        assert!(imported.notes.iter().any(|note| note.contains("--idle")), "{:?}", imported.notes);
    }

    #[test]
    fn speedscope_keeps_the_order() {
        let text = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[
            {"type":"sampled","name":"Thread 8","unit":"seconds","samples":[[2],[2]],"weights":[0.01,0.01]},
            {"type":"sampled","name":"Thread 7","unit":"seconds","samples":[[0],[0,1]],"weights":[1.0,0.5]}],
            "shared":{"frames":[{"name":"main","file":"train.py","line":5},{"name":"wait","file":"threading.py","line":6},
            {"name":"_bootstrap","file":"threading.py","line":1}]}}"#;
        let imported = speedscope(text.as_bytes(), &context()).unwrap();
        let seconds: Vec<f64> = imported.readings.iter().map(|one| one.profile.as_ref().unwrap().seconds).collect();
        assert_eq!(seconds, [1.0, 0.5]);
        for text in ["{}", "[1", r#"{"profiles":[],"shared":{"frames":[]}}"#] {
            let error = speedscope(text.as_bytes(), &context()).unwrap_err().to_string();
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", lines in proptest::collection::vec("[a-z;() :0-9]* [0-9]{0,20}", 0..9)) {
            let _ = raw(text.as_bytes(), &context());
            let _ = raw(lines.join("\n").as_bytes(), &context());
            let _ = speedscope(text.as_bytes(), &context());
        }
    }
}
