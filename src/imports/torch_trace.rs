//! Reads a trace that torch's profiler wrote (`export_chrome_trace`), event by event: for `import`, and for `trace`, which draws it
//! beside a recording. It may have gigabytes and come from anywhere: memory is bounded by the longest event that is accepted.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read, Seek};

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{ImportError, ImportInput};
use crate::sample::profile::ProfileEvent;

/// Longest event, bytes: the names of templates have some thousand. So long is anything else that is kept, too.
const EVENT_MAX: u64 = 1 << 20;

/// What a trace says as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TraceHead {
    /// The start of its clock, nanoseconds since 1970; 0 where the events' own times are since 1970.
    pub start_ns: u64,
    /// Its GPUs.
    pub devices: Vec<TraceDevice>,
}

/// A GPU as a trace describes it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TraceDevice {
    /// CUDA's number.
    pub id: u32,
    /// Product name.
    pub name: String,
    /// Memory fitted, bytes.
    #[serde(rename = "totalGlobalMem")]
    pub memory_bytes: Option<u64>,
}

/// Hands each event of a file to `take`, unpacked if it is packed by gzip.
///
/// # Errors
/// One line: what is wrong with the file, or what `take` answers.
pub fn read(
    file: impl Read + Seek,
    take: impl FnMut(ProfileEvent) -> io::Result<()>,
) -> Result<TraceHead, ImportError> {
    parse(ImportInput { file }.open()?, take)
}

/// Hands each event to `take`.
pub(super) fn parse(
    input: impl Read,
    take: impl FnMut(ProfileEvent) -> io::Result<()>,
) -> Result<TraceHead, ImportError> {
    let left = Cell::new(EVENT_MAX);
    let mut refused = None;
    let events = Events { left: &left, take, refused: &mut refused };
    let mut json = serde_json::Deserializer::from_reader(Metered { input, left: &left });
    let read = json.deserialize_any(TraceFile(events)).and_then(|head| json.end().map(|()| head));
    let other = |why: &str| {
        let why: String = why.chars().take(160).collect();
        ImportError::Bad(format!(
            "not a trace of torch's profiler ({why}); `prof.export_chrome_trace(FILE)` writes one"
        ))
    };
    match (read, refused) {
        (_, Some(error)) => Err(error.into()),
        (Ok(Some(head)), None) => Ok(head),
        (Ok(None), None) => Err(other("it has no traceEvents")),
        (Err(error), None) if error.is_io() => Err(io::Error::from(error).into()),
        (Err(error), None) if error.is_eof() => Err(other("it is cut off: the profiler did not finish writing it")),
        (Err(error), None) => Err(other(&error.to_string())),
    }
}

/// A reader that gives so many bytes at most.
struct Metered<'m, R> {
    input: R,
    left: &'m Cell<u64>,
}

impl<R: Read> Read for Metered<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        let left = self.left.get().checked_sub(read as u64);
        self.left.set(left.ok_or_else(|| io::Error::other("an event is longer than 1 MiB"))?);
        Ok(read)
    }
}

/// The object that the file is, or only the list of its events. Its value is `None` if it has no events.
struct TraceFile<'m, F>(Events<'m, F>);

impl<'de, F: FnMut(ProfileEvent) -> io::Result<()>> Visitor<'de> for TraceFile<'_, F> {
    type Value = Option<TraceHead>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut head, mut has_events) = (TraceHead::default(), false);
        while let Some(key) = map.next_key::<TopKey>()? {
            match key {
                TopKey::Start => head.start_ns = map.next_value()?,
                TopKey::Devices => head.devices = map.next_value()?,
                TopKey::Events => {
                    map.next_value_seed(&mut self.0)?;
                    has_events = true;
                }
                TopKey::Other => {
                    // Nothing of it is kept.
                    self.0.left.set(u64::MAX);
                    map.next_value::<IgnoredAny>()?;
                }
            }
            self.0.left.set(EVENT_MAX);
        }
        Ok(has_events.then_some(head))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, events: A) -> Result<Self::Value, A::Error> {
        (&mut self.0).visit_seq(events)?;
        Ok(Some(TraceHead::default()))
    }
}

#[derive(Deserialize)]
enum TopKey {
    #[serde(rename = "baseTimeNanoseconds")]
    Start,
    #[serde(rename = "deviceProperties")]
    Devices,
    #[serde(rename = "traceEvents")]
    Events,
    #[serde(other)]
    Other,
}

struct Events<'m, F> {
    left: &'m Cell<u64>,
    take: F,
    /// What `take` answered.
    refused: &'m mut Option<io::Error>,
}

impl<'de, F: FnMut(ProfileEvent) -> io::Result<()>> DeserializeSeed<'de> for &mut Events<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(ProfileEvent) -> io::Result<()>> Visitor<'de> for &mut Events<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<(), A::Error> {
        self.left.set(EVENT_MAX);
        while let Some(event) = events.next_element()? {
            self.left.set(EVENT_MAX);
            if let Err(error) = (self.take)(event) {
                *self.refused = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<(u64, Vec<ProfileEvent>), String> {
        let mut events = Vec::new();
        let start = parse(text.as_bytes(), |event| {
            events.push(event);
            Ok(())
        });
        start.map(|head| (head.start_ns, events)).map_err(|error| error.to_string())
    }

    #[test]
    fn events_come_one_by_one_with_the_start_of_their_clock() {
        let text = r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0}],
            "traceEvents": [
              {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 12.345, "dur": 1.5,
               "args": {"grid": [1, 1, 1], "stream": 7}},
              {"ph": "M", "name": "process_name", "pid": "Spans", "tid": 0, "args": {"name": "python3"}}],
            "baseTimeNanoseconds": 1790857026000000000}"#;
        let (start, events) = parsed(text).unwrap();
        assert_eq!((start, events.len()), (1_790_857_026_000_000_000, 2));
        let kernel = &events[0];
        assert_eq!((kernel.at_us, kernel.length_us, kernel.tid.number()), (12.345, 1.5, Some(7)));
        assert_eq!(kernel.args["grid"], serde_json::json!([1, 1, 1]));
        assert_eq!((events[1].pid.number(), events[1].pid.to_string()), (None, "Spans".to_owned()));
        assert_eq!(parse(text.as_bytes(), |_| Ok(())).unwrap().devices.len(), 1);
        assert_eq!(parsed(r#"[{"ph": "X"}]"#).unwrap().1.len(), 1, "only the list");
        // Older versions of torch write the time since 1970.
        assert_eq!(parsed(r#"{"traceEvents": []}"#).unwrap().0, 0);
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for other in
            ["", "{}", "1", "{\"traceEvents\": 1}", "{\"traceEvents\": [{\"ph\": 1}]}", "{\"traceEvents\": ["]
        {
            let error = parsed(other).unwrap_err();
            assert!(error.contains("not a trace of torch's profiler") && error.lines().count() == 1, "{error}");
        }
        let deep = format!("{{\"traceEvents\": [{{\"args\": {}", "{\"a\":".repeat(1000));
        assert!(parsed(&deep).unwrap_err().contains("recursion limit"));
        let key = format!("{{\"{}\": 1}}", "k".repeat(2 << 20));
        assert!(parsed(&key).unwrap_err().contains("longer than 1 MiB"));
    }

    #[test]
    fn an_event_has_a_bound_but_the_file_has_not() {
        let event = format!("{{\"ph\": \"X\", \"name\": \"{}\"}}", "x".repeat(500_000));
        let many =
            format!("{{\"traceEvents\": [{event},{event},{event}], \"other\": \"{}\"}}", "y".repeat(2_000_000));
        assert_eq!(parsed(&many).unwrap().1.len(), 3);
        let long = format!("{{\"traceEvents\": [{{\"name\": \"{}\"}}]}}", "x".repeat(2_000_000));
        assert!(parsed(&long).unwrap_err().contains("longer than 1 MiB"));
    }

    #[test]
    fn what_the_taker_refuses_is_the_error() {
        let text = r#"{"traceEvents": [{"ph": "X"}]}"#;
        let error = parse(text.as_bytes(), |_| Err(io::Error::other("no space"))).unwrap_err();
        assert_eq!(error.to_string(), "no space");
    }
}
