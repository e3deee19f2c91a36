//! Makes a long recording of a short one, to measure what a day costs: its samples again and again, with clocks and counters that
//! go on.
//!
//!     long_recording FILE OUT SECONDS

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a tool of the tests")]

use std::fs::File;
use std::io::BufWriter;
use std::sync::Arc;

use serde_json::Value;
use trainmon::outputs::recording::Recorder;
use trainmon::pipeline::Pipeline;
use trainmon::sample::Sample;
use trainmon::sources::recording::Recording;

/// Numbers that do not grow with time, though they end like those that do.
const CONSTANTS: [&str; 7] =
    ["start_ticks", "on_cpu_ns_max", "timeout_ms", "deadline_ms", "age_ms", "memory_total_bytes", "gaps_us"];
/// Keys of clocks and counters, and how those of others end.
const COUNTERS: [&str; 28] = [
    "sequence",
    "unix_ms",
    "unix_us",
    "began_ns",
    "user",
    "nice",
    "system",
    "idle",
    "iowait",
    "irq",
    "softirq",
    "steal",
    "reads",
    "writes",
    "read_sectors",
    "written_sectors",
    "minor_faults",
    "major_faults",
    "timeslices",
    "energy_mj",
    "rx_bytes",
    "tx_bytes",
    "read_chars",
    "write_chars",
    "read_calls",
    "write_calls",
    "read_bytes",
    "write_bytes",
];
const ENDINGS: [&str; 4] = ["_ns", "_ticks", "_ms", "_us"];

fn counts(key: &str) -> bool {
    !CONSTANTS.contains(&key) && (COUNTERS.contains(&key) || ENDINGS.iter().any(|ending| key.ends_with(ending)))
}

/// Adds `times` what each counter of `value` gained between the samples `first` and `last`.
fn go_on(value: &mut Value, [first, last]: [&Value; 2], times: f64) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let (first, last) = (&first[key.as_str()], &last[key.as_str()]);
                match (field.as_i64().filter(|_| counts(key)), first.as_i64(), last.as_i64()) {
                    (Some(number), Some(first), Some(last)) if last >= first => {
                        *field = Value::from(number + ((last - first) as f64 * times) as i64);
                    }
                    _ => go_on(field, [first, last], times),
                }
            }
        }
        Value::Array(items) => {
            for (place, item) in items.iter_mut().enumerate() {
                go_on(item, [&first[place], &last[place]], times);
            }
        }
        _ => {}
    }
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, out, seconds] = words.as_slice() else { panic!("long_recording FILE OUT SECONDS") };
    let mut recording = Recording::open(file.as_ref()).unwrap();
    let samples: Vec<Value> =
        recording.by_ref().map(|sample| serde_json::to_value(sample.unwrap()).unwrap()).collect();
    let seconds: usize = seconds.parse().unwrap();
    let (first, last) = (&samples[0], samples.last().unwrap());
    let whole = samples.len() as f64 / (samples.len() - 1) as f64;
    let mut pipeline = Pipeline::of_recording(&recording.header, None);
    let mut recorder = Recorder::new(BufWriter::new(File::create(out).unwrap()), &recording.header).unwrap();
    for second in 0..seconds {
        let mut value = samples[second % samples.len()].clone();
        go_on(&mut value, [first, last], (second / samples.len()) as f64 * whole);
        let mut sample: Sample = serde_json::from_value(value).unwrap();
        sample.sequence = second as u64;
        let sample = Arc::new(sample);
        recorder.digest(&pipeline.push(Arc::clone(&sample)));
        recorder.write(&sample).unwrap();
    }
    recorder.flush().unwrap();
}
