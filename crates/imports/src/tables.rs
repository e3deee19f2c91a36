//! What the readers of text tables share: lines with a bound, numbers with units, local times.

use std::io::BufRead;

use jiff::civil::{Date, DateTime, Time};

use super::{ImportContext, ImportError, READINGS, TEXT_LINE_MAX};

/// The next line without its end, in UTF-8 as far as it is; `None` at the end of the input.
pub(super) fn next_line<'b>(from: &mut dyn BufRead, buffer: &'b mut Vec<u8>) -> Result<Option<&'b str>, ImportError> {
    buffer.clear();
    loop {
        let available = from.fill_buf()?;
        if available.is_empty() {
            break;
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |at| at + 1);
        buffer.extend_from_slice(available.get(..taken).unwrap_or_default());
        from.consume(taken);
        if buffer.len() > TEXT_LINE_MAX {
            return Err(ImportError::TooLarge("a line is longer than 64 KiB"));
        }
        if end.is_some() {
            break;
        }
    }
    if buffer.is_empty() {
        return Ok(None);
    }
    let line = buffer.strip_suffix(b"\n").unwrap_or(buffer);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    let line = str::from_utf8(line).map_err(|_| ImportError::Bad("not text in UTF-8".into()))?;
    Ok(Some(line))
}

/// Counts a row.
///
/// # Errors
/// There are more than [`READINGS`].
pub(super) fn count_row(count: &mut usize) -> Result<(), ImportError> {
    *count += 1;
    if *count > READINGS { Err(ImportError::TooLarge("more than 200,000 rows; split it")) } else { Ok(()) }
}

/// The number that a value begins with: `127.87 W`, `1097 MiB`, `0`. `None` for `[N/A]`, `-` and the like.
pub(super) fn number(value: &str) -> Option<f64> {
    let value = value.trim();
    let end = value.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '-' | '+'))).unwrap_or(value.len());
    value.get(..end)?.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// The same, as a whole number that is not negative.
pub(super) fn whole(value: &str) -> Option<u64> {
    number(value).filter(|number| *number >= 0.0).map(|number| number.round() as u64)
}

/// The same, in 32 bits.
pub(super) fn small(value: &str) -> Option<u32> {
    whole(value).and_then(|number| u32::try_from(number).ok())
}

/// A number of so many decimal places, times `unit`.
pub(super) fn scaled(value: &str, unit: f64) -> Option<u64> {
    number(value).filter(|number| *number >= 0.0).map(|number| (number * unit).round() as u64)
}

/// Milliseconds since 1970 of a local date and time.
pub(super) fn unix_ms(at: DateTime, context: &ImportContext) -> Option<i64> {
    Some(context.zone.to_ambiguous_zoned(at).compatible().ok()?.timestamp().as_millisecond())
}

/// `HH:MM:SS`, perhaps with AM or PM behind it.
pub(super) fn time_of_day(text: &str, half: Option<&str>) -> Option<Time> {
    let mut parts = text.splitn(3, ':');
    let mut part = || parts.next()?.parse::<i8>().ok();
    let (hour, minute, second) = (part()?, part()?, part()?);
    let hour = match half {
        Some("PM") if hour < 12 => hour + 12,
        Some("AM") if hour == 12 => 0,
        _ => hour,
    };
    Time::new(hour, minute, second, 0).ok()
}

/// Times of the day in a row, which pass midnight at most once a day.
#[derive(Debug, Default)]
pub(super) struct Days {
    date: Option<Date>,
    last: Option<Time>,
}

impl Days {
    /// Begins with this date.
    pub(super) fn from(date: Option<Date>) -> Self {
        Self { date, last: None }
    }

    /// The date and time of the next one; the date is that of the file's end where the file has none.
    pub(super) fn next(&mut self, time: Time, context: &ImportContext) -> Option<DateTime> {
        let written = || {
            let written = jiff::Timestamp::from_millisecond(context.written_ms).ok()?;
            Some(written.to_zoned(context.zone.clone()).date())
        };
        let date = match self.date {
            Some(date) => date,
            None => written()?,
        };
        let date = if self.last.is_some_and(|last| time < last) { date.tomorrow().ok()? } else { date };
        (self.date, self.last) = (Some(date), Some(time));
        Some(date.to_datetime(time))
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    #[test]
    fn numbers_come_with_units() {
        for (text, expected) in [
            ("127.87 W", Some(127.87)),
            (" 2 %", Some(2.0)),
            ("0", Some(0.0)),
            ("-3", Some(-3.0)),
            ("[N/A]", None),
            ("[Not Supported]", None),
            ("-", None),
            ("", None),
            ("1.2.3", None),
            ("é", None),
        ] {
            assert_eq!(number(text), expected, "{text}");
        }
        assert_eq!((whole("-3"), small("4294967296"), scaled("1.5 MiB", 1024.0)), (None, None, Some(1536)));
    }

    #[test]
    fn lines_end_in_any_way_and_have_a_bound() {
        let mut buffer = Vec::new();
        let mut text: &[u8] = b"\xef\xbb\xbfa\r\nb\n\nlast";
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut text, &mut buffer).unwrap() {
            lines.push(line.to_owned());
        }
        assert_eq!(lines, ["a", "b", "", "last"]);
        let long = vec![b'x'; TEXT_LINE_MAX + 2];
        assert!(next_line(&mut long.as_slice(), &mut buffer).unwrap_err().to_string().contains("64 KiB"));
        assert!(next_line(&mut &b"\xff\n"[..], &mut buffer).unwrap_err().to_string().contains("UTF-8"));
    }

    #[test]
    fn a_day_ends_at_midnight() {
        let context = ImportContext { zone: TimeZone::UTC, written_ms: 86_400_000 * 3 + 5 };
        let mut days = Days::default();
        let mut next = |text, half| days.next(time_of_day(text, half).unwrap(), &context).unwrap().to_string();
        assert_eq!(next("11:59:59", Some("PM")), "1970-01-04T23:59:59");
        assert_eq!(next("12:00:01", Some("AM")), "1970-01-05T00:00:01");
        assert!(time_of_day("25:00:00", None).is_none() && time_of_day("now", None).is_none());
    }
}
