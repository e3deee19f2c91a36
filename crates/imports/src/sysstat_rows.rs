//! The rows of sysstat's tables: when, under which columns, and their values.

use std::io::BufRead;

use jiff::civil::{Date, Time};

use super::tables::{Days, count_row, next_line, number, time_of_day, unix_ms};
use super::{ImportContext, ImportError, ImportFormat};

/// A row: when, under which columns, and its values.
pub(super) struct Row<'a> {
    /// Milliseconds since 1970.
    pub unix_ms: i64,
    columns: &'a [String],
    values: Vec<&'a str>,
}

impl Row<'_> {
    pub fn text(&self, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.values.get(at).copied()
    }

    pub fn number(&self, column: &str) -> Option<f64> {
        self.text(column).and_then(number).filter(|number| *number >= 0.0)
    }

    pub fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }
}

/// Whether a file that begins like this has sysstat's tables, and whose. The first line may be missing, and so may the first header.
pub(super) fn recognize(head: &str) -> Option<ImportFormat> {
    for line in head.lines() {
        let words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
        let Some(first) = words.first() else { continue };
        let is_table = *first == "Time" || time_of_day(first, None).is_some();
        match () {
            () if line.starts_with("Linux ") => {}
            () if !is_table => return None,
            () if words.iter().any(|word| matches!(*word, "PID" | "TGID")) => return Some(ImportFormat::Pidstat),
            () if words.iter().any(|word| is_header(word)) => return Some(ImportFormat::Sar),
            () => {}
        }
    }
    None
}

/// Hands every row of sysstat's tables to `take`. Returns a note where the tables do not say of which day they are.
pub(super) fn rows(
    mut from: impl BufRead,
    context: &ImportContext,
    with: &'static str,
    mut take: impl FnMut(&Row<'_>) -> Result<(), ImportError>,
) -> Result<Option<String>, ImportError> {
    let (mut buffer, mut line_number, mut count) = (Vec::new(), 0, 0);
    let mut columns: Vec<String> = Vec::new();
    let mut clock = TableClock::default();
    // The last line may be cut off by the end of the tool; any other must be a row.
    let mut torn = None;
    while let Some(line) = next_line(&mut from, &mut buffer)? {
        line_number += 1;
        if let Some(error) = torn {
            return Err(error);
        }
        if clock.begin(line) {
            continue;
        }
        let mut words: Vec<&str> = line.trim_start_matches('#').split_whitespace().collect();
        let Some(first) = words.first().copied() else { continue };
        if first == "Average:" || first == "Summary:" {
            continue;
        }
        let half = words.get(1).copied().filter(|word| matches!(*word, "AM" | "PM"));
        let time = time_of_day(first, half).map(RowTime::OfDay).or_else(|| seconds_since_1970(first));
        if time.is_some() || first == "Time" {
            words.drain(..if half.is_some() { 2 } else { 1 });
        }
        if words.iter().any(|word| is_header(word)) {
            columns = words.into_iter().map(str::to_owned).collect();
            continue;
        }
        let Some(time) = time else {
            torn = Some(ImportError::Bad(format!("line {line_number} is no row as `{with}` writes them")));
            continue;
        };
        // Rows above the first header, where the begin of the file was cut off.
        if columns.is_empty() {
            continue;
        }
        if words.iter().any(|word| word.contains(',') && word.starts_with(|c: char| c.is_ascii_digit())) {
            return Err(ImportError::Bad(format!("line {line_number} has decimal commas: record with `{with}`")));
        }
        count_row(&mut count)?;
        if words.len() < columns.len() {
            continue;
        }
        let at = clock.unix_ms(time, context);
        let at = at.ok_or_else(|| ImportError::Bad(format!("line {line_number} has no time of a known day")))?;
        take(&Row { unix_ms: at, columns: &columns, values: words })?;
    }
    match torn {
        Some(error) if columns.is_empty() => Err(error),
        _ => Ok(clock.note()),
    }
}

/// The times of a file's rows.
#[derive(Debug, Default)]
struct TableClock {
    days: Days,
    /// Something says which day it is.
    dated: bool,
}

impl TableClock {
    /// Takes the first line of sysstat's output, which has the date, if this is it.
    fn begin(&mut self, line: &str) -> bool {
        let is_first = line.starts_with("Linux ");
        if is_first {
            let date = line.split_whitespace().find_map(date);
            self.dated |= date.is_some();
            self.days = Days::from(date);
        }
        is_first
    }

    /// Milliseconds since 1970.
    fn unix_ms(&mut self, time: RowTime, context: &ImportContext) -> Option<i64> {
        match time {
            // The same time again is the next table of one moment.
            RowTime::OfDay(time) => unix_ms(self.days.next(time, context)?, context),
            RowTime::Unix(unix_ms) => {
                self.dated = true;
                Some(unix_ms)
            }
        }
    }

    /// What is to be said of the day.
    fn note(&self) -> Option<String> {
        let note = "no date in it: taken as of the day on which the file was written last";
        (!self.dated).then(|| note.to_owned())
    }
}

/// When a row's interval ended.
#[derive(Debug, Clone, Copy)]
enum RowTime {
    OfDay(Time),
    /// Milliseconds since 1970.
    Unix(i64),
}

/// The time of `pidstat -h` before sysstat 11.7, and of `pidstat -H` since: seconds since 1970.
fn seconds_since_1970(word: &str) -> Option<RowTime> {
    let is_time = (9..=11).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit());
    if is_time { word.parse::<i64>().ok().map(|seconds| RowTime::Unix(seconds * 1000)) } else { None }
}

fn is_header(word: &str) -> bool {
    matches!(word, "PID" | "TGID" | "CPU" | "DEV" | "IFACE" | "kbmemfree" | "runq-sz" | "proc/s" | "pgpgin/s")
}

/// `2026-11-26`, `11/26/26` or `11/26/2026`.
fn date(word: &str) -> Option<Date> {
    if let Ok(date) = word.parse() {
        return Some(date);
    }
    let mut parts = word.split('/').map(|part| part.parse::<i16>().ok());
    let (month, day, year) = (parts.next()??, parts.next()??, parts.next()??);
    let year = if year < 100 { year + 2000 } else { year };
    Date::new(year, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}
