//! The parsers of single values, the same for the command line and the configuration file: a bad value is refused before
//! anything starts.

use std::time::Duration;

use serde::Serializer;
use serde::de::{Deserialize, Deserializer, Error};

use trainmon_sample::process::PID_MAX;

const HOW_TO_WRITE: &str = "write a time as 500ms, 20s, 5m or 1h";

/// Parses `500ms`, `20s`, `5m`, `1h`, `1.5` (seconds), `0.5s`.
pub(super) fn parse_time(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim_start() {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ if text.starts_with('-') => return Err("a time cannot be negative".to_owned()),
        _ => return Err(HOW_TO_WRITE.to_owned()),
    };
    // Only digits and dots are left: neither `1e3` nor `inf` comes this far.
    let number: f64 = number.parse().map_err(|_| HOW_TO_WRITE.to_owned())?;
    let seconds = number * scale;
    if seconds > 1000.0 * 365.25 * 86_400.0 {
        return Err("the limit is a thousand years".to_owned());
    }
    // In whole microseconds, so that 123ms does not become 122.999…ms.
    Ok(Duration::from_micros((seconds * 1e6).round() as u64))
}

/// A time between two others, which `refusal` names.
fn within(text: &str, shortest_s: f64, longest_s: u64, refusal: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    let range = Duration::from_secs_f64(shortest_s)..=Duration::from_secs(longest_s);
    if range.contains(&time) { Ok(time) } else { Err(refusal.to_owned()) }
}

/// Parses the time between two frames or rows.
pub(super) fn parse_interval(text: &str) -> Result<Duration, String> {
    within(text, 0.1, 3600, "use an interval of 100ms to 1h")
}

/// Parses the time that moments are kept for.
pub(super) fn parse_history(text: &str) -> Result<Duration, String> {
    within(text, 60.0, 24 * 3600, "use a history of 1m to 24h")
}

/// Parses the window over which means are taken.
pub fn parse_window(text: &str) -> Result<Duration, String> {
    within(text, 10.0, 24 * 3600, "use a window of 10s to 24h")
}

/// Parses the length of a profile's window: libkineto takes milliseconds, and keeps all of it in the job's memory.
pub fn parse_profile_length(text: &str) -> Result<Duration, String> {
    within(text, 0.01, 60, "use a window of 10ms to 60s")
}

/// Parses a time to stop after.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    within(text, 1e-6, u64::MAX, "the duration must be longer than 0")
}

/// Parses a PID.
pub fn parse_pid(text: &str) -> Result<u32, String> {
    match text.trim().parse::<i64>().map(u32::try_from) {
        Ok(Ok(pid @ 1..=PID_MAX)) => Ok(pid),
        Ok(_) => Err(format!("PIDs go from 1 to {PID_MAX}")),
        Err(_) => Err("a PID is a number; trainmon alone lists the training processes".to_owned()),
    }
}

/// Reads an interval from a file.
pub(super) fn interval<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    text_or_number(from, parse_interval)
}

/// Reads from a file how long moments are kept.
pub(super) fn history<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    text_or_number(from, parse_history)
}

/// A value of a file that may be written with or without quotes.
fn text_or_number<'de, D: Deserializer<'de>, T>(
    from: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, D::Error> {
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected a string or a number")]
    enum Value {
        Text(String),
        Whole(i64),
        Number(f64),
    }
    let text = match Value::deserialize(from)? {
        Value::Text(text) => text,
        Value::Whole(number) => number.to_string(),
        Value::Number(number) => number.to_string(),
    };
    parse(&text).map_err(D::Error::custom)
}

/// Writes a time in its shortest exact words, to the microsecond.
pub(super) fn write_time<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    let micros = time.as_micros();
    for (unit, length) in [("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1000)] {
        if micros.is_multiple_of(length) {
            return to.collect_str(&format_args!("{}{unit}", micros / length));
        }
    }
    to.collect_str(&format_args!("{}.{:06}s", micros / 1_000_000, micros % 1_000_000))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_as_written() {
        for (text, ms) in [
            ("500ms", 500),
            ("20s", 20_000),
            ("5m", 300_000),
            ("1h", 3_600_000),
            ("1.5", 1500),
            ("0.5s", 500),
            (".5", 500),
            ("1.", 1000),
            ("2 s", 2000),
            ("0", 0),
        ] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        let long = "9".repeat(400);
        for text in
            ["", ".", "s", "1x", "-1", "-1s", "1.2.3", "1e3", "inf", "NaN", "1 0", "1s2", "٣s", "..", long.as_str()]
        {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn intervals_and_durations_have_bounds() {
        assert!(["0", "99ms", "3601"].iter().all(|text| parse_interval(text).is_err()));
        assert!(["100ms", "1h"].iter().all(|text| parse_interval(text).is_ok()));
        assert!(parse_duration("0").is_err() && parse_duration("1000h").is_ok());
    }

    #[test]
    fn pids_have_bounds() {
        for bad in ["0", "-1", "x", "", "99999999999999999999", "4194305"] {
            assert!(parse_pid(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_pid("4194304"), Ok(4_194_304));
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_a_sentence(text in "\\PC*") {
            if let Err(why) = parse_time(&text) { prop_assert!(!why.contains('\n')); }
            let _ = parse_pid(&text);
        }

        #[test]
        fn milliseconds_round_trip(ms in 0u64..100_000_000_000) {
            prop_assert_eq!(parse_time(&format!("{ms}ms")).unwrap().as_millis(), u128::from(ms));
            let seconds = parse_time(&format!("{}.{:03}", ms / 1000, ms % 1000)).unwrap();
            prop_assert!(seconds.abs_diff(Duration::from_millis(ms)) <= Duration::from_micros(1));
        }
    }
}
