//! A recording again and again: clocks and counters go on where they ended.

use serde_json::Value;
use trainmon::sample::Sample;
use trainmon::sample::recording::Header;
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

/// A recording without an end.
pub struct Looped {
    pub header: Header,
    samples: Vec<Value>,
}

impl Looped {
    /// Reads a recording, and changes each sample.
    pub fn read(file: &str, change: impl Fn(&mut Sample)) -> Self {
        let mut recording = Recording::open(file.as_ref()).unwrap();
        let changed = |sample: Result<Sample, _>| {
            let mut sample = sample.unwrap();
            change(&mut sample);
            serde_json::to_value(sample).unwrap()
        };
        let samples = recording.by_ref().map(changed).collect();
        Self { header: recording.header, samples }
    }

    /// Its sample at this place.
    pub fn sample(&self, at: usize) -> Sample {
        let (first, last) = (&self.samples[0], self.samples.last().unwrap());
        let whole = self.samples.len() as f64 / (self.samples.len() - 1) as f64;
        let mut value = self.samples[at % self.samples.len()].clone();
        go_on(&mut value, [first, last], (at / self.samples.len()) as f64 * whole);
        let mut sample: Sample = serde_json::from_value(value).unwrap();
        sample.sequence = at as u64;
        sample
    }
}
