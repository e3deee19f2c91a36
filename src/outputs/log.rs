//! Where the rows (and recordings) go: a new file, the end of an existing one, or standard output. No row is lost or torn.
//!
//! Each `write` of a [`LogOut`] is one row. When the disk is full in the middle of one, a regular file is cut back to
//! its last whole row before the error is reported.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};

use super::csv::{CsvLog, groups_of_header};
use crate::errors::Failure;
use crate::streams::{self, Stream};

/// No header or row of ours is longer than this.
const LINE_MAX: u64 = 1 << 20;

/// Where the CSV goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// File, or `-` for standard output.
    pub path: PathBuf,
    /// What to do where the file exists.
    pub existing: Existing,
}

/// What to do with an existing log file or recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// Refuse.
    #[default]
    Refuse,
    /// Overwrite (`--force`).
    Overwrite,
    /// Go on at its end (`--append`).
    Append,
}

/// A file, or standard output as one.
#[derive(Debug)]
pub struct LogOut {
    file: File,
    /// Its length after the last whole row; `None` for pipes and devices.
    good: Option<u64>,
}

impl Write for LogOut {
    fn write(&mut self, row: &[u8]) -> io::Result<usize> {
        let written = match self.good {
            Some(_) => self.file.write_all(row),
            None => streams::write_whole(self.file.as_fd(), row),
        };
        match (&written, &mut self.good) {
            (Ok(()), Some(good)) => *good += row.len() as u64,
            (Err(_), Some(good)) => {
                // Cutting the row back frees space, so it works on a full disk; if it does not, the first error is still
                // the one to tell.
                let _ = self.file.set_len(*good);
                let _ = self.file.seek(SeekFrom::Start(*good));
            }
            (_, None) => {}
        }
        written.map(|()| row.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An opened log, with what there is to tell about it.
#[derive(Debug)]
pub struct Opened {
    /// The log.
    pub log: CsvLog<LogOut>,
    /// One line for standard error: a torn last row was found.
    pub note: Option<String>,
}

/// Opens the log that the settings name.
///
/// # Errors
/// One line: the file exists, is not a log of ours, cannot be written, or is being written by another trainmon.
pub fn open(settings: &LogSettings) -> anyhow::Result<Opened> {
    let LogSettings { path, existing } = settings;
    let regular = || std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file());
    if *existing == Existing::Append && path != Path::new("-") && regular() {
        return append(path, create("log", path, *existing)?);
    }
    Ok(Opened { log: CsvLog::new(open_out("log", path, *existing)?), note: None })
}

/// Opens a place to write to, which is empty or has no end to begin from. `what` names it in errors.
///
/// # Errors
/// One line: the file exists, cannot be written, or is being written by another trainmon.
pub fn open_out(what: &str, path: &Path, existing: Existing) -> anyhow::Result<LogOut> {
    let cannot = |error: io::Error| anyhow::anyhow!(explain(what, path, &error));
    if path == Path::new("-") {
        // Not buffered by lines, as that of the standard library is.
        let file = Stream::stdout().map_err(cannot)?.into();
        return Ok(LogOut { file, good: None });
    }
    let kind = match std::fs::metadata(path) {
        Ok(metadata) => Some(metadata.file_type()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(cannot(error)),
    };
    match kind {
        Some(kind) if kind.is_dir() => {
            Err(Failure::usage(format!("{what} {}: is a directory; name a file in it", path.display())).into())
        }
        Some(kind) if !kind.is_file() => open_stream(path, kind.is_fifo()).map_err(cannot),
        _ => {
            let mut file = create(what, path, existing)?;
            file.set_len(0).map_err(cannot)?;
            file.rewind().map_err(cannot)?;
            Ok(LogOut { file, good: Some(0) })
        }
    }
}

/// Pipes and devices: there is nothing in them to protect, and nothing to cut back.
fn open_stream(path: &Path, fifo: bool) -> io::Result<LogOut> {
    // Opening a FIFO for writing waits for a reader, for ever if none comes; without blocking it answers ENXIO.
    let flags = if fifo { OFlags::NONBLOCK.bits() as i32 } else { 0 };
    let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
    Ok(LogOut { file, good: None })
}

/// Opens a regular file, made where it is missing and locked against other writers; what is in it is left alone.
fn create(what: &str, path: &Path, existing: Existing) -> anyhow::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match existing {
        Existing::Refuse => options.create_new(true),
        Existing::Overwrite | Existing::Append => options.create(true).truncate(false),
    };
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let append = if what == "log" { "--append goes on at its end, " } else { "" };
            anyhow::bail!("{what} {}: the file exists; {append}--force overwrites it", path.display());
        }
        Err(error) => return Err(anyhow::anyhow!(explain(what, path, &error))),
    };
    // Two writers would tear each other's rows. File systems without locks (some NFS) are taken at their word.
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK) {
        anyhow::bail!("{what} {}: another trainmon is writing to it; name another file", path.display());
    }
    Ok(file)
}

/// Goes on at the end of a log, once its header is found to be ours and its last row whole.
fn append(path: &Path, mut file: File) -> anyhow::Result<Opened> {
    let cannot = |error: io::Error| anyhow::anyhow!(explain("log", path, &error));
    let mut length = file.metadata().map_err(cannot)?.len();
    if length == 0 {
        return Ok(Opened { log: CsvLog::new(LogOut { file, good: Some(0) }), note: None });
    }
    let mut start = Vec::new();
    (&file).take(LINE_MAX).read_to_end(&mut start).map_err(cannot)?;
    let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
    let whole = line.len() < start.len();
    let line = String::from_utf8_lossy(line);
    let groups = match groups_of_header(line.trim_end_matches('\r')) {
        Ok(groups) if whole => groups,
        Ok(_) => return Err(header_differs(path, "it ends within the header")),
        Err(column) => return Err(header_differs(path, &format!("column {column} is another one"))),
    };
    let mut note = None;
    if let Some(torn) = last_line(&mut file, length).map_err(cannot)? {
        // A row is written in one piece with its line end, so a line without one was cut short, unless an editor
        // took only the line end away: then every field is there.
        length -= torn.len() as u64;
        file.set_len(length).map_err(cannot)?;
        file.seek(SeekFrom::Start(length)).map_err(cannot)?;
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
    file.seek(SeekFrom::Start(length)).map_err(cannot)?;
    Ok(Opened { log: CsvLog::appending(LogOut { file, good: Some(length) }, groups), note })
}

fn header_differs(path: &Path, why: &str) -> anyhow::Error {
    Failure::usage(format!(
        "log {}: its header is not the one of this version ({why}); name a new file",
        path.display()
    ))
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

/// What follows the last line end, if anything does.
fn last_line(file: &mut File, length: u64) -> io::Result<Option<Vec<u8>>> {
    let start = length.saturating_sub(LINE_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut tail = Vec::new();
    file.take(LINE_MAX).read_to_end(&mut tail)?;
    let after = tail.iter().rposition(|&b| b == b'\n').map_or(0, |position| position + 1);
    let rest = tail.split_off(after);
    Ok((!rest.is_empty()).then_some(rest))
}

/// An error of the log, or of `what` else is written, as one line: what, why, what mends it.
#[must_use]
pub fn explain(what: &str, path: &Path, error: &io::Error) -> String {
    let log = if path == Path::new("-") {
        format!("{what}: standard output")
    } else {
        format!("{what} {}", path.display())
    };
    let (why, mend) = match error.kind() {
        io::ErrorKind::StorageFull => {
            ("the disk is full", "free some space or write elsewhere; what was written before is whole")
        }
        io::ErrorKind::QuotaExceeded => ("the disk quota is used up", "free some space or write elsewhere"),
        io::ErrorKind::FileTooLarge => ("the file-size limit is reached", "raise it (ulimit -f) or start a new file"),
        io::ErrorKind::ReadOnlyFilesystem => ("the file system is read-only", "write elsewhere"),
        io::ErrorKind::PermissionDenied => ("no permission to write there", "name a place that you may write to"),
        io::ErrorKind::NotFound => ("there is no such folder", "make it first"),
        io::ErrorKind::NotADirectory => ("a part of the path is not a folder", "mend the path"),
        _ if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            ("nobody reads this pipe", "start the reader first")
        }
        _ => return format!("{log}: {error}"),
    };
    format!("{log}: {why}; {mend}")
}

/// Wraps an error of writing: a closed pipe stays one (it is success), the rest is explained.
#[must_use]
pub fn write_error(what: &str, path: &Path, error: io::Error) -> anyhow::Error {
    match error.kind() {
        io::ErrorKind::BrokenPipe => error.into(),
        _ => anyhow::anyhow!(explain(what, path, &error)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::diagnosis::Verdict;
    use crate::outputs::csv::header;
    use crate::rates::Frame;

    fn settings(path: &Path, existing: Existing) -> LogSettings {
        LogSettings { path: path.to_owned(), existing }
    }

    fn write_rows(opened: &mut Opened, count: usize) {
        for _ in 0..count {
            opened.log.write(&Frame::default(), &Verdict::default()).unwrap();
        }
    }

    #[test]
    fn existing_files_are_kept_unless_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.csv");
        write_rows(&mut open(&settings(&path, Existing::Refuse)).unwrap(), 2);
        let error = open(&settings(&path, Existing::Refuse)).unwrap_err();
        assert_eq!(crate::errors::exit_of(&error), crate::errors::Exit::Failed);
        write_rows(&mut open(&settings(&path, Existing::Append)).unwrap(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
        write_rows(&mut open(&settings(&path, Existing::Overwrite)).unwrap(), 1);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn another_header_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("other.csv");
        for content in ["a,b\n1,2\n", "timestamp,elapsed_s", "\n"] {
            std::fs::write(&path, content).unwrap();
            let error = open(&settings(&path, Existing::Append)).unwrap_err();
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
        let mut opened = open(&settings(&path, Existing::Append)).unwrap();
        assert!(opened.note.as_ref().unwrap().contains("torn"));
        write_rows(&mut opened, 1);
        let rows = ::csv::Reader::from_path(&path).unwrap().records().map(Result::unwrap).count();
        assert_eq!(rows, 1);
        drop(opened);

        std::fs::write(&path, format!("{first}{}", "1,".repeat(62) + "1")).unwrap();
        let mut opened = open(&settings(&path, Existing::Append)).unwrap();
        assert_eq!(opened.note, None);
        write_rows(&mut opened, 1);
        assert_eq!(::csv::Reader::from_path(&path).unwrap().records().map(Result::unwrap).count(), 2);
    }

    #[test]
    fn two_writers_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run.csv");
        let _first = open(&settings(&path, Existing::Refuse)).unwrap();
        let error = open(&settings(&path, Existing::Append)).unwrap_err();
        assert!(error.to_string().contains("another trainmon"), "{error}");
    }

    #[test]
    fn places_that_cannot_be_written_say_so() {
        let directory = tempfile::tempdir().unwrap();
        let error = open(&settings(directory.path(), Existing::Refuse)).unwrap_err();
        assert!(error.to_string().contains("directory"), "{error}");
        let error = open(&settings(&directory.path().join("no/such"), Existing::Refuse)).unwrap_err();
        assert!(error.to_string().contains("no such folder"), "{error}");
        let error = open(&settings(Path::new("/proc/x.csv"), Existing::Refuse)).unwrap_err();
        assert_eq!(error.to_string().lines().count(), 1);
        let fifo = directory.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let error = open(&settings(&fifo, Existing::Refuse)).unwrap_err();
        assert!(error.to_string().contains("nobody reads"), "{error}");
    }

    #[test]
    fn a_full_device_is_an_error_in_one_line() {
        let mut opened = open(&settings(Path::new("/dev/full"), Existing::Refuse)).unwrap();
        let error = opened.log.write(&Frame::default(), &Verdict::default()).unwrap_err();
        let line = write_error("log", Path::new("/dev/full"), error).to_string();
        assert!(line.contains("disk is full"), "{line}");
    }

    /// A limit on the file's size tears a row the way a full disk does. The limit holds for a whole process, so the
    /// writing is done by `a_small_disk` in one of its own.
    #[test]
    fn a_row_that_does_not_fit_is_cut_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("small.csv");
        let status = std::process::Command::new("bash")
            .args([
                "-c",
                "trap '' XFSZ; ulimit -f 2; exec \"$0\" --ignored --exact outputs::log::tests::a_small_disk",
            ])
            .arg(std::env::current_exe().unwrap())
            .env("SMALL_DISK_PATH", &path)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("\r\n") && text.len() < 2048, "{}", text.len());
        assert!(::csv::Reader::from_path(&path).unwrap().records().map(Result::unwrap).count() > 2);
    }

    #[test]
    #[ignore = "run by a_row_that_does_not_fit_is_cut_back"]
    fn a_small_disk() {
        let Some(path) = std::env::var_os("SMALL_DISK_PATH").map(PathBuf::from) else { return };
        let mut opened = open(&settings(&path, Existing::Refuse)).unwrap();
        for _ in 0..1000 {
            if let Err(error) = opened.log.write(&Frame::default(), &Verdict::default()) {
                assert!(write_error("log", &path, error).to_string().contains("file-size limit"));
                return;
            }
        }
        panic!("the limit was never reached");
    }
}
