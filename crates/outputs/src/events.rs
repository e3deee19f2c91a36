//! The events of `trainmon watch`: a line of text, a line of JSON, or variables for the program that is run at each event.

use std::io;

use jiff::tz::TimeZone;
use serde::Serialize;

use trainmon_base::text::{json, sanitize};
use trainmon_base::zone;
use trainmon_diagnosis::watch::{EventState, WatchEvent};

/// Longest value of a variable, bytes: what is longer is cut.
const VARIABLE_MAX: usize = 4096;

/// The variables that a program gets, and what is in each.
pub const VARIABLES: [(&str, &str); 8] = [
    ("TRAINMON_EVENT", "the kind: `bottleneck`, `hung`, …"),
    ("TRAINMON_STATE", "`begins`, `changed` or `ends`; empty for `attached`, `restarted`, `ended` and `summary`"),
    ("TRAINMON_PID", "PID of the job"),
    ("TRAINMON_TEXT", "what happened, in a sentence: `bottleneck: DATA LOADER · too few workers`"),
    ("TRAINMON_TIME", "when, RFC 3339 in the local time zone"),
    ("TRAINMON_RANK", "number of the rank that it is about; empty for none"),
    ("TRAINMON_COMMAND", "command line of the job"),
    ("TRAINMON_JSON", "the same as a line of `--json`"),
];

/// An event as a line of JSON, without a newline.
#[derive(Serialize)]
struct EventLine<'a> {
    schema: u32,
    time: String,
    #[serde(flatten)]
    event: &'a WatchEvent,
}

/// When it happened, RFC 3339.
fn time(event: &WatchEvent, zone: &TimeZone) -> String {
    zone::moment(event.unix_ms, zone, "%Y-%m-%dT%H:%M:%S%:z")
}

/// What happened, with its kind before it.
fn told(event: &WatchEvent) -> String {
    format!("{}: {}", event.kind.word(), sanitize(&event.text))
}

/// A line for a person, without a newline.
pub fn line(event: &WatchEvent, zone: &TimeZone) -> String {
    format!("{}  PID {}  {}", time(event, zone), event.pid, told(event))
}

/// A line of JSON, without a newline.
///
/// # Errors
/// The event cannot be written as JSON.
pub fn json_line(event: &WatchEvent, zone: &TimeZone) -> io::Result<String> {
    let mut bytes = Vec::new();
    json::compact(&mut bytes, &EventLine { schema: 1, time: time(event, zone), event })?;
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The variables of an event, each harmless to print and of bounded length. JSON that is too long is left out: cut it would
/// be none.
pub fn variables(event: &WatchEvent, command: &str, zone: &TimeZone) -> [(&'static str, String); VARIABLES.len()] {
    let json = json_line(event, zone).unwrap_or_default();
    let values = [
        event.kind.word().to_owned(),
        event.state.map_or("", EventState::word).to_owned(),
        event.pid.to_string(),
        told(event),
        time(event, zone),
        event.rank.map(|rank| rank.to_string()).unwrap_or_default(),
        command.to_owned(),
        if json.len() > VARIABLE_MAX { String::new() } else { json },
    ];
    let mut values = values.into_iter().map(|value| cut(&sanitize(&value)));
    VARIABLES.map(|(name, _)| (name, values.next().unwrap_or_default()))
}

/// The begin of a text, of [`VARIABLE_MAX`] bytes at most.
fn cut(text: &str) -> String {
    let end = (0..=VARIABLE_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text.get(..end.unwrap_or(0)).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainmon_diagnosis::watch::{EventDetails, EventKind};

    fn event(command: &str) -> WatchEvent {
        WatchEvent {
            unix_ms: 1_795_000_000_000,
            pid: 7,
            kind: EventKind::Attached,
            state: None,
            text: format!("watching {command}"),
            rank: None,
            training_pid: None,
            details: EventDetails::Attached { command: command.to_owned() },
        }
    }

    #[test]
    fn an_event_in_text_and_json() {
        let event = event("python train.py");
        assert_eq!(
            line(&event, &TimeZone::UTC),
            "2026-11-18T11:06:40+00:00  PID 7  attached: watching python train.py"
        );
        let json: serde_json::Value = serde_json::from_str(&json_line(&event, &TimeZone::UTC).unwrap()).unwrap();
        let wanted = serde_json::json!({
            "schema": 1, "time": "2026-11-18T11:06:40+00:00", "unix_ms": 1_795_000_000_000_i64, "pid": 7,
            "kind": "attached", "state": null, "text": "watching python train.py", "rank": null, "training_pid": null,
            "details": {"command": "python train.py"}
        });
        assert_eq!(json, wanted);
    }

    #[test]
    fn variables_are_short_and_harmless() {
        let hostile = "\u{1b}[2J\n$(reboot)é".repeat(2000);
        let variables = variables(&event(&hostile), &hostile, &TimeZone::UTC);
        assert_eq!(variables.each_ref().map(|(name, _)| *name), VARIABLES.map(|(name, _)| name));
        for (name, value) in &variables {
            assert!(value.len() <= VARIABLE_MAX && sanitize(value) == *value, "{name}");
        }
        assert_eq!((&*variables[0].1, &*variables[7].1), ("attached", ""));
        assert!(variables[6].1.contains("$(reboot)"), "foreign text is data: no shell reads it");
    }
}
