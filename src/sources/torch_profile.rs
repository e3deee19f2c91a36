//! Reads a trace that torch's profiler wrote (`export_chrome_trace`), event by event. It may have gigabytes and come from
//! anywhere: memory is bounded by the longest event that is accepted.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::regular_file;
use crate::sample::profile::ProfileEvent;

/// Longest event, bytes: the names of templates have some thousand.
const EVENT_MAX: u64 = 1 << 20;
/// How a gzip file begins (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Read at once, bytes.
const BUFFER: usize = 64 << 10;

/// Why a profile cannot be read, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The file is something else.
    #[error("not a trace of torch's profiler ({0}); `prof.export_chrome_trace(FILE)` writes one")]
    Other(String),
}

/// Hands each event to `take`. Returns the start of the file's clock, nanoseconds since 1970.
///
/// # Errors
/// [`ProfileError`], also with what `take` answers.
pub fn read(path: &Path, take: impl FnMut(ProfileEvent) -> io::Result<()>) -> Result<u64, ProfileError> {
    let file = regular_file::open(path)?.map_err(|kind| ProfileError::Other(format!("it is a {kind}")))?;
    let mut file = BufReader::with_capacity(BUFFER, file);
    if file.fill_buf()?.starts_with(&GZIP) {
        parse(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)), take)
    } else {
        parse(file, take)
    }
}

fn parse(input: impl Read, take: impl FnMut(ProfileEvent) -> io::Result<()>) -> Result<u64, ProfileError> {
    let left = Cell::new(u64::MAX);
    let mut refused = None;
    let events = Events { left: &left, take, refused: &mut refused };
    let mut json = serde_json::Deserializer::from_reader(Metered { input, left: &left });
    let read = json.deserialize_map(ProfileFile(events)).and_then(|start| json.end().map(|()| start));
    match (read, refused) {
        (_, Some(error)) => Err(error.into()),
        (Ok(Some(start)), None) => Ok(start),
        (Ok(None), None) => Err(ProfileError::Other("it has no traceEvents".to_owned())),
        (Err(error), None) if error.is_io() => Err(io::Error::from(error).into()),
        (Err(error), None) => Err(ProfileError::Other(error.to_string().chars().take(160).collect())),
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

/// The object that the file is. Its value is the start of its clock, if it has events.
struct ProfileFile<'m, F>(Events<'m, F>);

impl<'de, F: FnMut(ProfileEvent) -> io::Result<()>> Visitor<'de> for ProfileFile<'_, F> {
    type Value = Option<u64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with traceEvents")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut start, mut has_events) = (0, false);
        while let Some(key) = map.next_key::<TopKey>()? {
            match key {
                TopKey::Start => start = map.next_value()?,
                TopKey::Events => {
                    map.next_value_seed(&mut self.0)?;
                    self.0.left.set(u64::MAX);
                    has_events = true;
                }
                TopKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(has_events.then_some(start))
    }
}

#[derive(Deserialize)]
enum TopKey {
    #[serde(rename = "baseTimeNanoseconds")]
    Start,
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
        start.map(|start| (start, events)).map_err(|error| error.to_string())
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
        // Older versions of torch write the time since 1970.
        assert_eq!(parsed(r#"{"traceEvents": []}"#).unwrap().0, 0);
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for other in
            ["", "{}", "[]", "1", "{\"traceEvents\": 1}", "{\"traceEvents\": [{\"ph\": 1}]}", "{\"traceEvents\": ["]
        {
            let error = parsed(other).unwrap_err();
            assert!(error.contains("not a trace of torch's profiler") && error.lines().count() == 1, "{error}");
        }
        let deep = format!("{{\"traceEvents\": [{{\"args\": {}", "{\"a\":".repeat(1000));
        assert!(parsed(&deep).unwrap_err().contains("recursion limit"));
        assert!(read(Path::new("/"), |_| Ok(())).unwrap_err().to_string().contains("directory"));
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
