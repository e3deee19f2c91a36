//! Reads a recording back sample by sample. It may come from anywhere: nothing in it is assumed to be complete or sane.
//!
//! A recording that is damaged, or cut off by a crash, yields the samples before the damage, and a note. Memory is
//! bounded by what a file of its size can hold.

pub mod digests;
mod schema_1;
mod weight;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use weight::Counted;

use super::regular_file;
use trainmon_base::text;
use trainmon_sample::Sample;
use trainmon_sample::recording::{Header, LINE_MAX, OLDEST_SCHEMA, SCHEMA};

use super::secrets;

/// Largest window of a frame that is decompressed, as a power of two: trainmon's own frames hold at most a sample of 8
/// MiB after 4 MiB of others.
const WINDOW_LOG_MAX: u32 = 25;

/// Longest version of a trainmon that is named, characters.
const VERSION_MAX: usize = 20;
/// What zstd says where a file ends within a frame.
const INCOMPLETE: &str = "incomplete frame";
/// What zstd says where a file does not begin with a frame.
const NO_FRAME: &str = "Unknown frame descriptor";
/// Bytes that are decompressed at a time: where they are damaged, all of them are lost.
const INPUT_PIECE: usize = 2048;

/// Why a recording cannot be read, in one line each.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Read(#[from] io::Error),
    /// The file is something else.
    #[error("not a recording ({0}); `trainmon record` makes one")]
    Other(String),
    /// The schema is newer.
    #[error(
        "its schema is {schema}, and this trainmon reads {OLDEST_SCHEMA} to {SCHEMA}; use trainmon {by} or newer"
    )]
    Newer {
        /// Its schema.
        schema: u32,
        /// The trainmon that recorded it.
        by: String,
    },
    /// The schema is older.
    #[error(
        "its schema is {schema}, and this trainmon reads {OLDEST_SCHEMA} to {SCHEMA}; read it with trainmon {by}"
    )]
    Older {
        /// Its schema.
        schema: u32,
        /// The trainmon that recorded it.
        by: String,
    },
    /// A line is longer than trainmon ever writes.
    #[error("line {0} is longer than 8 MiB: damaged, or not written by trainmon")]
    TooLong(u64),
    /// The recording so far would take far more memory than a real one of this size.
    #[error("line {0} unpacks to far more than a recording of this size holds: damaged, or not written by trainmon")]
    TooHeavy(u64),
    /// A line is not a sample.
    #[error("line {line} is not a sample ({why})")]
    Bad {
        /// Line number, counting the header as 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
}

/// An open recording: an iterator over its samples, which ends at the first error.
pub struct Recording<R: Read> {
    /// The first line.
    pub header: Header,
    /// Samples read so far.
    pub samples: u64,
    /// After the last sample: what is missing at the end, in one line, if anything is.
    pub note: Option<String>,
    lines: RecordingLines<R>,
    over: bool,
}

impl Recording<File> {
    /// Opens a file and reads its header.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Self::new(Self::file(path)?)
    }

    /// Opens a file that may be a recording.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn file(path: &Path) -> Result<File, RecordingError> {
        Ok(regular_file::opened(path)?)
    }
}

impl Recording<File> {
    /// Goes on with the samples from `offset`, where a frame begins; `samples` of them are before it.
    ///
    /// # Errors
    /// The system's.
    pub fn go_on_at(&mut self, mut file: &File, offset: u64, samples: u64) -> Result<(), RecordingError> {
        file.seek(SeekFrom::Start(offset))?;
        self.lines = RecordingLines::new(file.try_clone()?)?;
        (self.samples, self.lines.number) = (samples, samples + 1);
        Ok(())
    }
}

impl<R: Read> Recording<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn new(from: R) -> Result<Self, RecordingError> {
        let mut lines = RecordingLines::new(from)?;
        let bytes = match lines.next()? {
            RecordingLine::Whole(bytes) => bytes,
            RecordingLine::Torn(..) => return Err(RecordingError::Other("it ends within its first line".into())),
            RecordingLine::End => return Err(RecordingError::Other("it is empty".into())),
            RecordingLine::Broken(why) if why == NO_FRAME => {
                return Err(RecordingError::Other("it is a file of another kind".into()));
            }
            RecordingLine::Broken(why) => return Err(RecordingError::Other(why)),
        };
        let mut header: Header = serde_json::from_slice(bytes)
            .map_err(|error| RecordingError::Other(format!("no header: {}", short(&error))))?;
        let (schema, by) = (header.schema, || text::fit(&text::sanitize(&header.trainmon), VERSION_MAX));
        if schema > SCHEMA {
            return Err(RecordingError::Newer { schema, by: by() });
        }
        if schema < OLDEST_SCHEMA {
            return Err(RecordingError::Older { schema, by: by() });
        }
        header.command = text::secrets::line(&header.command).into_owned();
        Ok(Self { header, samples: 0, lines, note: None, over: false })
    }

    /// Where and why a recording ended early, in one line: because of this error, or of what it has noted.
    pub fn ended_early(&self, error: Option<&RecordingError>) -> Option<String> {
        let error = error.map(|error| format!("damaged {}: {error}", after(self.samples)));
        error.or_else(|| self.note.clone())
    }

    fn read(&mut self) -> Result<Option<Sample>, RecordingError> {
        let schema = self.header.schema;
        let bytes = match self.lines.next()? {
            RecordingLine::Whole(bytes) => bytes,
            RecordingLine::End => return Ok(None),
            RecordingLine::Torn(bytes) => {
                // Perhaps only the newline is missing.
                let sample = parse(schema, bytes).ok().map(secrets::masked);
                if sample.is_none() {
                    self.note = Some(format!("cut off {}; the end is missing", after(self.samples)));
                }
                return Ok(sample);
            }
            RecordingLine::Broken(why) if why == INCOMPLETE => {
                self.note = Some(format!("cut off {}, or still being recorded", after(self.samples)));
                return Ok(None);
            }
            RecordingLine::Broken(why) => {
                self.note = Some(format!("cut off or damaged {} ({why})", after(self.samples)));
                return Ok(None);
            }
        };
        match parse(schema, bytes) {
            Ok(sample) => Ok(Some(secrets::masked(sample))),
            Err(error) => Err(RecordingError::Bad { line: self.lines.number, why: short(&error) }),
        }
    }
}

impl<R: Read> Iterator for Recording<R> {
    type Item = Result<Sample, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.read().transpose();
        self.samples += u64::from(matches!(item, Some(Ok(_))));
        self.over = !matches!(item, Some(Ok(_)));
        item
    }
}

impl<R: Read> std::fmt::Debug for Recording<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Recording").field("header", &self.header).field("note", &self.note).finish()
    }
}

/// A sample from its line, in today's form.
fn parse(schema: u32, line: &[u8]) -> serde_json::Result<Sample> {
    match schema {
        1 => schema_1::sample(line),
        _ => serde_json::from_slice(line),
    }
}

/// Where a recording ends early.
fn after(samples: u64) -> String {
    match samples {
        0 => "before its first sample".to_owned(),
        1 => "after 1 sample".to_owned(),
        _ => format!("after {samples} samples"),
    }
}

/// Shortens an error: serde_json quotes unexpected input in full.
fn short(error: &serde_json::Error) -> String {
    error.to_string().chars().take(160).collect()
}

enum RecordingLine<'a> {
    /// Without its newline.
    Whole(&'a [u8]),
    /// The last line, which has no newline.
    Torn(&'a [u8]),
    /// The end of the file.
    End,
    /// The rest is not a zstd frame, or not a complete one.
    Broken(String),
}

/// Decompressed lines of bounded length.
struct RecordingLines<R: Read> {
    input: BufReader<zstd::stream::read::Decoder<'static, BufReader<Counted<R>>>>,
    /// Memory that the samples so far may have taken, bytes.
    weight: u64,
    line: Vec<u8>,
    /// Lines read, including the current one.
    number: u64,
}

impl<R: Read> RecordingLines<R> {
    fn new(from: R) -> io::Result<Self> {
        let from = BufReader::with_capacity(INPUT_PIECE, Counted::new(from));
        let mut decoder = zstd::stream::read::Decoder::with_buffer(from)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        Ok(Self { input: BufReader::new(decoder), weight: 0, line: Vec::new(), number: 0 })
    }

    fn next(&mut self) -> Result<RecordingLine<'_>, RecordingError> {
        self.line.clear();
        self.number += 1;
        match (&mut self.input).take(LINE_MAX as u64 + 2).read_until(b'\n', &mut self.line) {
            Ok(0) => return Ok(RecordingLine::End),
            Ok(_) => {}
            // The kernel's errors have a number, zstd's do not.
            Err(error) if error.raw_os_error().is_some() => return Err(error.into()),
            Err(error) => return Ok(RecordingLine::Broken(error.to_string())),
        }
        let weight = weight::estimate(&self.line);
        self.weight = self.weight.saturating_add(weight);
        let whole = self.line.strip_suffix(b"\n");
        match whole {
            _ if weight > weight::WEIGHT_MAX || self.weight > self.input.get_ref().get_ref().get_ref().bearable() => {
                Err(RecordingError::TooHeavy(self.number))
            }
            _ if whole.unwrap_or(&self.line).len() > LINE_MAX => Err(RecordingError::TooLong(self.number)),
            Some(line) => Ok(RecordingLine::Whole(line)),
            None => Ok(RecordingLine::Torn(&self.line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> String {
        serde_json::to_string(&Header { schema: SCHEMA, pid: 7, ..Header::default() }).unwrap() + "\n"
    }

    fn line(sequence: u64) -> String {
        serde_json::to_string(&Sample { sequence, ..Sample::default() }).unwrap() + "\n"
    }

    fn frame(text: &str) -> Vec<u8> {
        zstd::bulk::compress(text.as_bytes(), 3).unwrap()
    }

    /// Three frames: the header, two samples, two samples.
    fn recording() -> Vec<u8> {
        [frame(&header()), frame(&(line(0) + &line(1))), frame(&(line(2) + &line(3)))].concat()
    }

    /// Sequences, error and note.
    fn read(bytes: &[u8]) -> (Vec<u64>, Option<String>, Option<String>) {
        let mut recording = match Recording::new(bytes) {
            Ok(recording) => recording,
            Err(error) => return (Vec::new(), Some(error.to_string()), None),
        };
        let (mut sequences, mut problem) = (Vec::new(), None);
        for sample in recording.by_ref() {
            match sample {
                Ok(sample) => sequences.push(sample.sequence),
                Err(error) => problem = Some(error.to_string()),
            }
        }
        assert!(recording.next().is_none());
        (sequences, problem, recording.note)
    }

    #[test]
    fn all_frames_are_read() {
        assert_eq!(read(&recording()), (vec![0, 1, 2, 3], None, None));
        assert_eq!(Recording::new(&recording()[..]).unwrap().header.pid, 7);
    }

    #[test]
    fn a_cut_leaves_the_whole_samples() {
        let whole = recording();
        let first = frame(&header()).len();
        for length in first..whole.len() {
            let (sequences, problem, note) = read(&whole[..length]);
            assert_eq!(problem, None, "{length}");
            assert!(sequences.iter().copied().eq(0..sequences.len() as u64));
            let at_boundary = length == first || length == first + frame(&(line(0) + &line(1))).len();
            assert_eq!(note.is_none(), at_boundary, "{length}: {note:?}");
            if let Some(note) = note {
                assert!(note.contains(&after(sequences.len() as u64)), "{note}");
            }
        }
    }

    #[test]
    fn a_damaged_end_leaves_the_samples_before() {
        let mut damaged = recording();
        damaged.extend_from_slice(&[0; 4096]);
        let (sequences, problem, note) = read(&damaged);
        assert_eq!((sequences.len(), problem), (4, None));
        assert!(note.unwrap().contains("after 4 samples"));
    }

    #[test]
    fn a_last_line_without_its_end() {
        let text = line(1);
        let bytes = [frame(&header()), frame(&(line(0) + text.trim_end()))].concat();
        assert_eq!(read(&bytes), (vec![0, 1], None, None));
        let bytes = [frame(&header()), frame(&(line(0) + &text[..text.len() / 2]))].concat();
        let (sequences, problem, note) = read(&bytes);
        assert_eq!((sequences, problem), (vec![0], None));
        assert!(note.unwrap().contains("after 1 sample;"));
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for bytes in [
            &b""[..],
            b"timestamp,elapsed_s\n1,2\n",
            b"\x28\xb5\x2f\xfd",
            &[0; 100],
            &frame("{}\n"),
            &frame("[1,2]\n"),
            &frame("no line end"),
        ] {
            let problem = read(bytes).1.unwrap();
            assert!(problem.contains("not a recording") && problem.lines().count() == 1, "{problem}");
        }
        assert!(Recording::open(Path::new("/")).unwrap_err().to_string().contains("directory"));
        assert!(Recording::open(Path::new("/nonexistent.tmz")).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn what_is_no_sample_is_an_error_with_its_line() {
        for bad in ["{\"sequence\": 1}\n", "\n", "nonsense\n", "{\"sequence\":1e999}\n"] {
            let (sequences, problem, _) = read(&[frame(&header()), frame(&(line(0) + bad + &line(1)))].concat());
            let problem = problem.unwrap();
            assert_eq!(sequences, [0]);
            assert!(problem.starts_with("line 3 is not a sample") && problem.lines().count() == 1, "{problem}");
        }
        let long = format!("{{\"sequence\":\"{}\"}}\n", "x".repeat(5000));
        assert!(read(&[frame(&header()), frame(&long)].concat()).1.unwrap().len() < 300);
        let deep = "[".repeat(100_000) + "\n";
        assert!(read(&[frame(&header()), frame(&deep)].concat()).1.is_some());
    }

    #[test]
    fn a_line_has_a_bound() {
        let bomb = zstd::stream::encode_all(io::repeat(b' ').take(64 << 20), 3).unwrap();
        assert!(bomb.len() < 100_000);
        let problem = read(&[frame(&header()), bomb].concat()).1.unwrap();
        assert!(problem.contains("line 2"), "{problem}");
    }

    #[test]
    fn all_samples_together_have_a_bound() {
        // None of them is heavy, and a frame of them has a few hundred bytes.
        let list = format!("{}{{}}", "{},".repeat(5000));
        let sample = Sample { job: Some(std::sync::Arc::default()), ..Sample::default() };
        let line = serde_json::to_string(&sample).unwrap().replace("\"seen\":[", &format!("\"seen\":[{list}")) + "\n";
        let bytes = [frame(&header()), frame(&line.repeat(100))].concat();
        let (sequences, problem, _) = read(&bytes);
        assert!((10..50).contains(&sequences.len()), "{}", sequences.len());
        assert!(problem.unwrap().contains("far more than a recording of this size"));
    }

    #[test]
    fn another_schema_is_refused_with_what_to_do() {
        let of = |schema| {
            let header = Header { schema, trainmon: "7.0".to_owned(), ..Header::default() };
            serde_json::to_string(&header).unwrap() + "\n"
        };
        let problem = |schema| read(&frame(&of(schema))).1.unwrap();
        assert!(problem(SCHEMA + 1).contains("use trainmon 7.0 or newer"));
        assert!(problem(OLDEST_SCHEMA - 1).contains("read it with trainmon 7.0"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            read(&bytes);
            let (sequences, ..) = read(&[recording(), bytes].concat());
            prop_assert!(sequences.len() >= 4);
        }

        #[test]
        fn arbitrary_text_in_frames(text in "\\PC*") {
            read(&frame(&text));
            read(&[frame(&header()), frame(&text)].concat());
        }

        #[test]
        fn damage_anywhere(at in any::<proptest::sample::Index>(), byte in any::<u8>()) {
            let mut bytes = recording();
            let at = at.index(bytes.len());
            bytes[at] = byte;
            read(&bytes);
        }
    }
}
