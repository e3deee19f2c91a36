use proptest::prelude::*;

use super::*;

/// Keeps the events as they are.
#[derive(Debug, Default)]
struct Kept {
    events: Vec<Value>,
    values: Vec<(String, Value)>,
}

impl TraceSink for Kept {
    fn event(&mut self, text: &str) -> serde_json::Result<usize> {
        let (event, length) = first_value(text)?;
        self.events.push(event);
        Ok(length)
    }

    fn wants(&mut self, key: &str) -> bool {
        key == "wanted"
    }

    fn value(&mut self, key: &str, value: Value) {
        self.values.push((key.to_owned(), value));
    }
}

/// Gives a byte at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let take = buffer.len().min(1);
        self.0.read(buffer.get_mut(..take).unwrap_or_default())
    }
}

fn kept(text: impl AsRef<[u8]>) -> (Kept, TraceEnd) {
    let mut kept = Kept::default();
    let end = read_trace(text.as_ref(), &mut kept).unwrap();
    (kept, end)
}

#[test]
fn events_and_wanted_values_are_handed_over() {
    let text = r#" {"other": {"traceEvents": [{"a": 0}]}, "wanted": [1], "traceEvents": [{"a": 1}, {"a": 2} ,{"a": "}]"}],
        "more": "x", "wanted": {"b": 2}} "#;
    let (all, end) = kept(text);
    assert_eq!(all.events.len(), 3);
    assert_eq!(all.values.len(), 2);
    assert_eq!(end, TraceEnd { lists: 1, ..TraceEnd::default() });
    let mut slow = Kept::default();
    read_trace(Slow(text.as_bytes()), &mut slow).unwrap();
    assert_eq!(slow.events, all.events);
    assert_eq!(kept("\u{feff}[{\"a\": 1}]").0.events.len(), 1, "the list alone, after a mark of UTF-8");
}

#[test]
fn an_event_may_lie_across_any_two_reads() {
    let text = "[{\"a\": \"\u{e9}\\u00e9\\n\", \"b\": -1.5e3, \"c\": nulL}, {\"a\": true}]".replace("nulL", "null");
    for pad in 0..60 {
        let padded = format!("{}{text}", " ".repeat(CHUNK - pad));
        let (all, end) = kept(padded);
        assert_eq!((all.events.len(), end.damaged), (2, 0), "{pad}");
    }
}

#[test]
fn a_file_that_is_cut_off_gives_what_it_has() {
    let text = r#"{"traceEvents": [{"a": 1}, {"a": 2}, {"a": {"b": [1, 2"#;
    let (all, end) = kept(text);
    assert_eq!((all.events.len(), end.cut_off), (2, true));
    for other in ["", "x", "1", "{}", "{\"a\"", "{\"traceEvents\": 1}", "\u{1f}\u{8b}"] {
        assert_eq!(kept(other).1.lists, 0, "{other}");
    }
}

#[test]
fn what_is_almost_json_is_repaired() {
    let text = b"[{\"n\": \"a\xff\x01b\"}, {\"o\": nan, \"i\": -inf, \"e\": 1e5, \"t\": true}, {\"p\": \"C:\\Users\"}, {\"a\" 1}, 7, {\"a\": 1}]";
    let (all, end) = kept(text);
    assert_eq!((all.events.len(), end.damaged), (4, 2), "{all:?}");
    assert_eq!(all.events[1]["o"], Value::Null);
    assert_eq!(all.events[1]["e"], 1e5);
    assert_eq!(all.events[2]["p"], "C:\\Users");
}

#[test]
fn no_depth_and_no_length_is_too_much() {
    let deep = format!("[{{\"a\": {}1{}}}, {{\"a\": 1}}]", "[".repeat(300_000), "]".repeat(300_000));
    let (all, end) = kept(&deep);
    assert_eq!((all.events.len(), end.damaged, end.cut_off), (1, 1, false));
    let long = format!(
        "{{\"x\": \"{0}\", \"traceEvents\": [{{\"a\": \"{0}\"}}, {{\"a\": 1}}]}}",
        "y".repeat(3 * LONGEST_VALUE)
    );
    let (all, end) = kept(&long);
    assert_eq!((all.events.len(), end.damaged), (1, 1));
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_an_end(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        kept(&bytes);
        kept([b"{\"traceEvents\": [", &*bytes].concat());
    }

    #[test]
    fn a_flipped_byte_harms_no_more_than_it_must(at in 0_usize..2000, to in any::<u8>()) {
        let events = vec!["{\"ph\": \"X\", \"name\": \"op\", \"ts\": 1.5, \"args\": {\"a\": [1, 2]}}"; 30].join(",");
        let mut text = format!("{{\"traceEvents\": [{events}]}}").into_bytes();
        let at = at.min(text.len() - 1);
        text[at] = to;
        prop_assert!(kept(&text).0.events.len() <= 31);
    }
}
