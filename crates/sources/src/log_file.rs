//! Reads a log made by `--log`, row by row. It may come from anywhere, and may have been edited: other line ends, a byte order
//! mark, more or fewer columns.

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use trainmon_sample::log_row::LogRow;

/// Longest row, bytes. One of 64 GPUs has a tenth of it.
const ROW_MAX: usize = 256 << 10;
/// Columns without which a row says nothing.
const NEEDED: [&str; 4] = ["timestamp", "elapsed_s", "pid", "class"];

/// Why a log cannot be read, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum LogFileError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(io::Error),
    /// The file is something else.
    #[error("not a recording or a log of trainmon (it has no column {0}); `trainmon record` makes a recording")]
    Other(&'static str),
    /// A row is damaged.
    #[error("line {line}: {why}")]
    Bad {
        /// Its line.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// An open log: an iterator over its rows, which ends at the first error.
pub struct LogFile<R: Read> {
    reader: csv::Reader<ShortLines<R>>,
    columns: Arc<HashMap<String, usize>>,
    record: csv::StringRecord,
    over: bool,
}

impl<R: Read> LogFile<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`LogFileError`].
    pub fn new(from: R) -> Result<Self, LogFileError> {
        let mut reader = csv::Reader::from_reader(ShortLines { from, length: 0 });
        let header = match reader.headers() {
            Ok(header) => header,
            Err(error) if error.is_io_error() => return Err(LogFileError::Read(io_error(error))),
            Err(_) => return Err(LogFileError::Other("timestamp")),
        };
        let names = header.iter().map(|name| name.trim_start_matches('\u{feff}').trim().to_owned());
        let columns: HashMap<String, usize> = names.zip(0..).collect();
        match NEEDED.into_iter().find(|name| !columns.contains_key(*name)) {
            Some(missing) => Err(LogFileError::Other(missing)),
            None => Ok(Self { reader, columns: Arc::new(columns), record: csv::StringRecord::new(), over: false }),
        }
    }
}

impl<R: Read> Iterator for LogFile<R> {
    type Item = Result<LogRow, LogFileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let line = self.reader.position().line();
        let item = match self.reader.read_record(&mut self.record) {
            Ok(true) => {
                let fields = self.record.iter().map(str::to_owned).collect();
                Some(Ok(LogRow { columns: Arc::clone(&self.columns), fields }))
            }
            Ok(false) => None,
            Err(error) => Some(Err(bad(error, line))),
        };
        self.over = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<R: Read> std::fmt::Debug for LogFile<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LogFile").field("columns", &self.columns.len()).finish_non_exhaustive()
    }
}

fn bad(error: csv::Error, line: u64) -> LogFileError {
    let why = match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            format!("it has {len} fields instead of {expected_len}")
        }
        csv::ErrorKind::Utf8 { .. } => "it is not text in UTF-8".to_owned(),
        _ => error.to_string().chars().take(160).collect(),
    };
    LogFileError::Bad { line, why }
}

fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}").chars().take(160).collect::<String>()),
    }
}

/// Fails at a line that is longer than any row, before it is in memory.
struct ShortLines<R> {
    from: R,
    length: usize,
}

impl<R: Read> Read for ShortLines<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(room)?;
        for byte in room.iter().take(count) {
            self.length = if *byte == b'\n' { 0 } else { self.length + 1 };
            if self.length > ROW_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is longer than 256 KiB: not a log"));
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &[u8]) -> Result<Vec<Result<LogRow, LogFileError>>, String> {
        LogFile::new(text).map(Iterator::collect).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_found_by_name_whatever_the_line_ends() {
        let text = "\u{feff}class,pid,extra,elapsed_s,timestamp,cpu_util_pct\r\ncpu,7,x,1.5,2026-01-01T00:00:00Z,\r\n\
            cpu,7,\"a\nb\",2.5,2026-01-01T00:00:01Z,NaN\r\n";
        let rows = rows(text.as_bytes()).unwrap();
        let rows: Vec<LogRow> = rows.into_iter().map(Result::unwrap).collect();
        assert_eq!(
            (rows[0].text("class"), rows[0].number("elapsed_s"), rows[1].text("extra")),
            ("cpu", Some(1.5), "a\nb")
        );
        // Empty, no number, no such column.
        assert_eq!(
            (rows[0].number("cpu_util_pct"), rows[1].number("cpu_util_pct"), rows[1].number("none")),
            (None, None, None)
        );
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for text in ["", "a,b\n1,2\n", "timestamp,elapsed_s,pid\n", "\n\n\n", "\u{0}\u{1}"] {
            let error = rows(text.as_bytes()).unwrap_err();
            assert!(
                error.starts_with("not a recording or a log of trainmon") && error.lines().count() == 1,
                "{error}"
            );
        }
        assert!(rows(&[b'x'; 1 << 20]).unwrap_err().contains("longer than 256 KiB"));
        assert!(rows(&[0xff, 0xfe, b'\n']).is_err());
    }

    #[test]
    fn a_torn_row_ends_it_with_its_line() {
        let text = "timestamp,elapsed_s,pid,class\n1,2,3,cpu\n1,2\n1,2,3,cpu\n";
        let rows = rows(text.as_bytes()).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1].as_ref().unwrap_err().to_string(), "line 3: it has 2 fields instead of 4");
    }

    proptest! {
        #[test]
        fn arbitrary_text(text in "\\PC*", bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = rows(text.as_bytes());
            let header = b"timestamp,elapsed_s,pid,class\n".to_vec();
            prop_assert!(rows(&[header, bytes].concat()).is_ok());
        }
    }
}
