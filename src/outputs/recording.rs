//! Samples as a recording: JSON lines in zstd frames. Each frame is complete and written in one piece, so a crash loses the
//! samples of one frame at most.

use std::io::{self, Write};

use serde::Serialize;

use super::log::{Change, LogOut};
use crate::sample::Sample;
use crate::sample::recording::{Header, LINE_MAX};

/// A frame is written after this many samples …
const FRAME_SAMPLES: usize = 5;
/// … or once its samples span this time, nanoseconds, so that with a long interval a crash does not cost hours …
const FRAME_NS: u64 = 10_000_000_000;
/// … or are longer than this, bytes.
const BLOCK_BYTES: usize = 4 << 20;
/// A middle level of zstd: a frame of five samples takes a few milliseconds.
const LEVEL: i32 = 9;

/// Writes samples to `out`, which is given one whole frame with each call of `write`.
#[derive(Debug)]
pub struct Recorder<W: Write> {
    /// Where the frames go.
    pub out: W,
    pending: Vec<u8>,
    pending_samples: usize,
    pending_since_ns: u64,
    /// The first frame, for a new file.
    head: Vec<u8>,
    /// Samples given so far.
    pub samples: u64,
    /// Those of them that were written before the present file was begun.
    pub elsewhere: u64,
    /// Bytes written so far to the present file.
    pub bytes: u64,
}

impl<W: Write> Recorder<W> {
    /// Begins a recording: the header is written at once, in a frame of its own.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut recorder = Self {
            out,
            pending: Vec::new(),
            pending_samples: 0,
            pending_since_ns: 0,
            head: Vec::new(),
            samples: 0,
            elsewhere: 0,
            bytes: 0,
        };
        recorder.line(header)?;
        recorder.head = recorder.frame()?;
        recorder.begin()?;
        Ok(recorder)
    }

    /// Adds a sample; every few of them are written.
    ///
    /// # Errors
    /// What the writer answers, or [`io::ErrorKind::InvalidData`] for a sample that no reader would take.
    pub fn write(&mut self, sample: &Sample) -> io::Result<()> {
        self.line(sample)?;
        if self.pending_samples == 0 {
            self.pending_since_ns = sample.monotonic_ns;
        }
        self.pending_samples += 1;
        self.samples += 1;
        let spans_ns = sample.monotonic_ns.saturating_sub(self.pending_since_ns);
        if self.pending_samples >= FRAME_SAMPLES || spans_ns >= FRAME_NS || self.pending.len() >= BLOCK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes what is still pending.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let frame = self.frame()?;
        self.out.write_all(&frame)?;
        self.out.flush()?;
        self.bytes += frame.len() as u64;
        Ok(())
    }

    /// Whether samples wait to be written.
    pub fn has_pending(&self) -> bool {
        self.pending_samples > 0
    }

    /// The frame of what is pending, which is not pending any more.
    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.include_checksum(true)?;
        let frame = compressor.compress(&self.pending)?;
        self.pending.clear();
        self.pending_samples = 0;
        Ok(frame)
    }

    /// Writes the first frame of a file.
    fn begin(&mut self) -> io::Result<()> {
        self.out.write_all(&self.head)?;
        self.out.flush()?;
        self.bytes = self.head.len() as u64;
        Ok(())
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let before = self.pending.len();
        crate::text::json::compact(&mut self.pending, value)?;
        if self.pending.len() - before > LINE_MAX {
            self.pending.truncate(before);
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a sample is longer than 8 MiB; record with a shorter --interval",
            ));
        }
        self.pending.push(b'\n');
        Ok(())
    }
}

impl Recorder<LogOut> {
    /// Checks whether another program has moved, removed or truncated the file, and begins a new one in its place. Call it before
    /// each sample. Returns a one-line note if something happened.
    ///
    /// # Errors
    /// One line: nothing can be written in its place, or something else was put or written there.
    pub fn follow(&mut self) -> anyhow::Result<Option<String>> {
        let what = match self.out.follow()? {
            Change::None => return Ok(None),
            Change::Emptied => "was truncated; the recording starts over in it",
            Change::Renewed => "was moved or removed; the recording continues in a new file there",
            Change::Replaced | Change::Grown => anyhow::bail!(
                "{}: another program wrote to it or replaced it; record to another file",
                self.out.name()
            ),
        };
        self.elsewhere = self.samples - self.pending_samples as u64;
        self.begin().map_err(|error| self.out.cannot_write(error))?;
        Ok(Some(format!("{} {what}", self.out.name())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps each write as one piece.
    #[derive(Default)]
    struct Pieces(Vec<Vec<u8>>);

    impl Write for Pieces {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            self.0.push(piece.to_vec());
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(piece: &[u8]) -> usize {
        zstd::stream::decode_all(piece).unwrap().iter().filter(|&&b| b == b'\n').count()
    }

    fn recorded(samples: u64, interval_ns: u64) -> Vec<usize> {
        let mut recorder = Recorder::new(Pieces::default(), &Header::default()).unwrap();
        for sequence in 0..samples {
            let sample = Sample { sequence, monotonic_ns: sequence * interval_ns, ..Sample::default() };
            recorder.write(&sample).unwrap();
        }
        recorder.flush().unwrap();
        recorder.flush().unwrap();
        assert_eq!(recorder.samples, samples);
        assert_eq!(recorder.bytes, recorder.out.0.iter().map(|piece| piece.len() as u64).sum::<u64>());
        recorder.out.0.iter().map(|piece| lines(piece)).collect()
    }

    #[test]
    fn a_frame_for_the_header_and_one_for_every_five_samples() {
        assert_eq!(recorded(12, 1_000_000_000), [1, 5, 5, 2]);
        assert_eq!(recorded(0, 1), [1]);
    }

    #[test]
    fn with_a_long_interval_little_is_kept_back() {
        assert_eq!(recorded(4, 60_000_000_000), [1, 2, 2]);
    }

    #[test]
    fn a_sample_that_no_reader_would_take_is_refused() {
        let mut recorder = Recorder::new(Vec::new(), &Header::default()).unwrap();
        let mut sample = Sample::default();
        sample.sources.job.reason = Some("x".repeat(LINE_MAX + 1).into());
        assert_eq!(recorder.write(&sample).unwrap_err().kind(), io::ErrorKind::InvalidData);
        recorder.write(&Sample::default()).unwrap();
        recorder.flush().unwrap();
        assert_eq!(lines(&recorder.out), 2);
    }
}
