//! Where rows and recordings go: a new file, the end of an existing one, or standard output. No row is lost or torn.
//!
//! Each `write` of a [`LogOut`] is one row. If the disk fills up in the middle of a row, a regular file is cut back to its
//! last whole row before the error is reported. After a rotation the log continues in the new file.

pub(super) mod out;

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::io::Errno;

pub use out::{Change, LogOut};

use super::csv::{CsvLog, groups_of_header};
use trainmon_base::errors::Failure;

/// No header or row of ours is longer than this.
const LOG_LINE_MAX: u64 = 1 << 20;

/// What to do with an existing log file or recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    #[default]
    Refuse,
    /// Overwrite (`--force`).
    Overwrite,
    /// Continue at its end (`--append`).
    Append,
}

/// Opens a log at a path; `-` is standard output. Returns a line for standard error, too, if it had to remove a torn last row.
///
/// # Errors
/// One line: the file exists, is not a log of ours, cannot be written, or is being written by another trainmon.
pub fn open(path: &Path, existing: Existing) -> anyhow::Result<(CsvLog<LogOut>, Option<String>)> {
    let regular = || std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if existing == Existing::Append && path != Path::new("-") && regular() {
        return append(path, out::create("log", path, existing)?);
    }
    Ok((CsvLog::new(LogOut::open("log", path, existing)?), None))
}

impl CsvLog<LogOut> {
    /// Checks whether another program has moved, removed, replaced or truncated the file, and continues at its path: in a new
    /// file under a header, or at the end of what is there now. Call it before each row. Returns a one-line note if something
    /// happened.
    ///
    /// # Errors
    /// One line: the log is gone, and nothing can be written in its place.
    pub fn follow(&mut self) -> anyhow::Result<Option<String>> {
        let change = self.out.follow()?;
        self.out.moved = None;
        if matches!(change, Change::Emptied | Change::Renewed) {
            self.header_written = false;
        }
        let (settled, what) = match change {
            Change::None => return Ok(None),
            Change::Grown => (self.end_line(), None),
            Change::Emptied => (Ok(()), Some("was truncated; the next rows follow under a new header")),
            Change::Renewed => (Ok(()), Some("was moved or removed; the next rows go to a new file there")),
            Change::Replaced => {
                (self.settle(), Some("was cut or replaced; the next rows go to the end of what is there now"))
            }
        };
        settled.map_err(|error| self.out.cannot_write(error))?;
        Ok(what.map(|what| format!("{} {what}", self.out.name())))
    }

    /// Continues at the end of what is in the file now: under its header if that is ours, else under a new one.
    fn settle(&mut self) -> io::Result<()> {
        let (header, is_whole) = first_line(&self.out.file)?;
        if !is_whole || groups_of_header(&header).ok() != self.groups {
            self.header_written = false;
            return self.end_line();
        }
        let length = self.out.length();
        if let Some(torn) = last_line(&self.out.file, length)? {
            self.out.cut(length - torn.len() as u64)?;
        }
        Ok(())
    }

    /// Ends the last line if another program has left it open.
    fn end_line(&mut self) -> io::Result<()> {
        if self.out.ends_a_line()? { Ok(()) } else { self.out.write_all(b"\r\n") }
    }
}

/// Continues at the end of a log whose header is ours; a torn last row goes.
fn append(path: &Path, mut file: File) -> anyhow::Result<(CsvLog<LogOut>, Option<String>)> {
    let cannot = |error: io::Error| anyhow::anyhow!(explain("log", path, &error));
    let mut length = file.metadata().map_err(cannot)?.len();
    if length == 0 {
        return Ok((CsvLog::new(LogOut::at("log", path, file, 0).map_err(cannot)?), None));
    }
    let (header, is_whole) = first_line(&file).map_err(cannot)?;
    let groups = match groups_of_header(&header) {
        Ok(groups) if is_whole => groups,
        Ok(_) => return Err(header_differs(path, "the file ends inside the header")),
        Err(column) => return Err(header_differs(path, &format!("column {column} differs"))),
    };
    let mut note = None;
    if let Some(torn) = last_line(&file, length).map_err(cannot)? {
        // A row is written in one piece with its line end, so a line without one was cut short, unless an editor
        // took only the line end away: then every field is there.
        length -= torn.len() as u64;
        file.set_len(length).map_err(cannot)?;
        let fields = super::csv::header(groups).count();
        if complete(&torn, fields) {
            let row: Vec<u8> = [torn.as_slice(), b"\r\n"].concat();
            file.write_all(&row).map_err(cannot)?;
            length += row.len() as u64;
        } else {
            note = Some(format!(
                "log {}: the last row was torn ({} bytes without a line end) and has been removed",
                path.display(),
                torn.len()
            ));
        }
    }
    let out = LogOut::at("log", path, file, length).map_err(cannot)?;
    Ok((CsvLog::appending(out, groups), note))
}

fn header_differs(path: &Path, why: &str) -> anyhow::Error {
    Failure::usage(format!("log {}: its header is not that of this version ({why}); name a new file", path.display()))
        .into()
}

/// Whether an unended line has all its fields.
fn complete(line: &[u8], fields: usize) -> bool {
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(line);
    let mut row = ::csv::ByteRecord::new();
    matches!(reader.read_byte_record(&mut row), Ok(true))
        && row.len() == fields
        && row.get(fields - 1).is_some_and(|field| !field.is_empty() || line.ends_with(b","))
}

/// The first line without its end, and whether it has one.
fn first_line(mut file: &File) -> io::Result<(String, bool)> {
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(LOG_LINE_MAX).read_to_end(&mut start)?;
    let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
    Ok((String::from_utf8_lossy(line).trim_end_matches('\r').to_owned(), line.len() < start.len()))
}

/// What follows the last line end, if anything does.
fn last_line(mut file: &File, length: u64) -> io::Result<Option<Vec<u8>>> {
    let start = length.saturating_sub(LOG_LINE_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(LOG_LINE_MAX).read_to_end(&mut tail)?;
    let after = tail.iter().rposition(|&b| b == b'\n').map_or(0, |position| position + 1);
    let rest = tail.split_off(after);
    Ok((!rest.is_empty()).then_some(rest))
}

/// An error of the log, or of `what` else is written, as one line: what, why, what fixes it. Without a `what` it is standard
/// output alone.
pub fn explain(what: &str, path: &Path, error: &io::Error) -> String {
    let log = match path {
        _ if what.is_empty() => "standard output".to_owned(),
        _ if path == Path::new("-") => format!("{what}: standard output"),
        _ => format!("{what} {}", path.display()),
    };
    let (why, fix) = match error.kind() {
        io::ErrorKind::StorageFull => ("the disk is full", "free some space or write elsewhere"),
        io::ErrorKind::QuotaExceeded => ("the disk quota is used up", "free some space or write elsewhere"),
        io::ErrorKind::FileTooLarge => ("the file-size limit is reached", "raise it (ulimit -f) or start a new file"),
        io::ErrorKind::ReadOnlyFilesystem => ("the file system is read-only", "write elsewhere"),
        io::ErrorKind::PermissionDenied => ("permission denied", "name a place that you may write to"),
        io::ErrorKind::NotFound => ("no such folder", "create it first"),
        io::ErrorKind::NotADirectory => ("a part of the path is not a folder", "fix the path"),
        _ => match Errno::from_io_error(error) {
            Some(Errno::IO) => ("the disk reports an error (EIO)", "see `dmesg`, and write elsewhere"),
            Some(Errno::LOOP) => ("a symbolic link is in its place", "name a new file"),
            Some(Errno::NXIO) => ("no process reads this pipe", "start the reader first"),
            _ => return format!("{log}: {error}"),
        },
    };
    format!("{log}: {why}; {fix}")
}

/// Wraps an error of appending: a closed pipe stays one (it is success), the rest is explained, with what is true of what was
/// written before.
pub fn write_error(what: &str, path: &Path, error: io::Error) -> anyhow::Error {
    use io::ErrorKind::{BrokenPipe, FileTooLarge, QuotaExceeded, StorageFull};
    let explained = explain(what, path, &error);
    match error.kind() {
        BrokenPipe => error.into(),
        StorageFull | QuotaExceeded | FileTooLarge => {
            let pieces = if what == "log" { "rows" } else { "samples" };
            let kept = if is_removed_empty(path) {
                "nothing of it is left".to_owned()
            } else {
                format!("earlier {pieces} are intact")
            };
            anyhow::anyhow!("{explained}; {kept}")
        }
        _ => anyhow::anyhow!(explained),
    }
}

/// Removes a file into which nothing was written: it would refuse the next try, and holds nothing.
fn is_removed_empty(path: &Path) -> bool {
    let is_empty = std::fs::symlink_metadata(path).is_ok_and(|file| file.is_file() && file.len() == 0);
    is_empty && std::fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::csv::header;
    use trainmon_diagnosis::pipeline::Tick;

    fn write_rows((log, _): &mut (CsvLog<LogOut>, Option<String>), count: usize) {
        for _ in 0..count {
            log.write(&Tick::default()).unwrap();
        }
    }

    #[test]
    fn existing_files_are_kept_unless_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.csv");
        write_rows(&mut open(&path, Existing::Refuse).unwrap(), 2);
        let error = open(&path, Existing::Refuse).unwrap_err();
        assert_eq!(trainmon_base::errors::exit_of(&error), trainmon_base::errors::ExitCode::FAILED);
        write_rows(&mut open(&path, Existing::Append).unwrap(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
        write_rows(&mut open(&path, Existing::Overwrite).unwrap(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn a_file_without_a_byte_is_no_obstacle_to_the_next_try() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.tmz");
        let error = || write_error("recording", &path, io::ErrorKind::StorageFull.into()).to_string();
        std::fs::write(&path, "").unwrap();
        assert!(error().ends_with("; nothing of it is left") && !path.exists());
        std::fs::write(&path, "a sample").unwrap();
        assert!(error().ends_with("; earlier samples are intact") && path.exists());
    }

    #[test]
    fn another_header_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.csv");
        for content in ["a,b\n1,2\n", "timestamp,elapsed_s", "\n"] {
            std::fs::write(&path, content).unwrap();
            let error = open(&path, Existing::Append).unwrap_err();
            assert!(error.to_string().contains("header"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_torn_row_goes_a_whole_one_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("torn.csv");
        let first = header(1).collect::<Vec<_>>().join(",") + "\n";
        std::fs::write(&path, format!("{first}2026-01-01,1,2")).unwrap();
        let mut opened = open(&path, Existing::Append).unwrap();
        assert!(opened.1.as_ref().unwrap().contains("torn"));
        write_rows(&mut opened, 1);
        let rows = ::csv::Reader::from_path(&path).unwrap().records().map(Result::unwrap).count();
        assert_eq!(rows, 1);
        drop(opened);

        std::fs::write(&path, format!("{first}{}", "1,".repeat(62) + "1")).unwrap();
        let mut opened = open(&path, Existing::Append).unwrap();
        assert_eq!(opened.1, None);
        write_rows(&mut opened, 1);
        assert_eq!(::csv::Reader::from_path(&path).unwrap().records().map(Result::unwrap).count(), 2);
    }

    #[test]
    fn two_writers_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.csv");
        let _first = open(&path, Existing::Refuse).unwrap();
        let error = open(&path, Existing::Append).unwrap_err();
        assert!(error.to_string().contains("another trainmon"), "{error}");
    }

    #[test]
    fn places_that_cannot_be_written_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let error = open(directory.path(), Existing::Refuse).unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
        let error = open(&directory.path().join("no/such"), Existing::Refuse).unwrap_err();
        assert!(error.to_string().contains("no such folder"), "{error}");
        let error = open(Path::new("/proc/x.csv"), Existing::Refuse).unwrap_err();
        assert_eq!(error.to_string().lines().count(), 1);
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let error = open(&fifo, Existing::Refuse).unwrap_err();
        assert!(error.to_string().contains("no process reads"), "{error}");
    }

    #[test]
    fn a_full_device_is_an_error_in_one_line() {
        let mut opened = open(Path::new("/dev/full"), Existing::Refuse).unwrap();
        let error = opened.0.write(&Tick::default()).unwrap_err();
        let line = opened.0.out.cannot_write(error).to_string();
        assert!(line.contains("disk is full"), "{line}");
    }
}
