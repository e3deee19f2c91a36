//! Samples as a recording: JSON lines in zstd frames. What is pending is written every few samples, as a block of a frame that
//! can be read at once, so a crash loses the samples of one block at most. Every few minutes a frame ends, and a digest of it
//! follows in a frame of its own: see [`trainmon_sample::recording`].

use std::io::{self, Write};

use serde::Serialize;
use zstd::stream::write::Encoder;
use zstd::zstd_safe::CParameter;

use super::log::{Change, LogOut};
use trainmon_diagnosis::history::digest::DigestWriter;
use trainmon_diagnosis::pipeline::Tick;
use trainmon_sample::Sample;
use trainmon_sample::recording::{DIGEST_FRAME, DIGEST_MARK, Header, LINE_MAX};

/// A block is written after this many samples …
const BLOCK_SAMPLES: usize = 5;
/// … or once its samples span this time, nanoseconds, so that with a long interval a crash does not cost hours …
const BLOCK_NS: u64 = 10_000_000_000;
/// … or are longer than this, bytes.
const BLOCK_BYTES: usize = 4 << 20;
/// A frame ends after this many samples: five minutes at one a second …
const FRAME_SAMPLES: u64 = 300;
/// … or once it has this many bytes, so that the last digest is found near the end of the file.
const FRAME_BYTES: u64 = 2 << 20;
/// Samples are much alike, so what matters is that a few of them fit in the window. These take 3 MiB of memory.
const LEVEL: i32 = 6;
const WINDOW_LOG: u32 = 19;

/// What is wrong with a sample that is refused.
const TOO_LONG: &str = "a sample is longer than 8 MiB";

/// Writes samples to `out`, which is given whole blocks.
pub struct Recorder<W: Write> {
    /// Where they go.
    pub out: W,
    pending: Vec<u8>,
    pending_samples: usize,
    pending_since_ns: u64,
    /// The frame that has begun.
    frame: Option<Encoder<'static, Vec<u8>>>,
    frame_samples: u64,
    /// The first frame, for a new file.
    head: Vec<u8>,
    digest: DigestWriter,
    /// Bytes between the last digest, or the first frame, and the end of the file.
    undigested: u64,
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
            frame: None,
            frame_samples: 0,
            head: Vec::new(),
            digest: DigestWriter::default(),
            undigested: 0,
            samples: 0,
            elsewhere: 0,
            bytes: 0,
        };
        recorder.line(header)?;
        recorder.head = whole_frame(&std::mem::take(&mut recorder.pending))?;
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
        if self.pending_samples >= BLOCK_SAMPLES || spans_ns >= BLOCK_NS || self.pending.len() >= BLOCK_BYTES {
            self.block()?;
        }
        if self.frame_samples >= FRAME_SAMPLES || self.undigested >= FRAME_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Adds what was made of a sample to the digest. Call it before [`Self::write`] of that sample.
    pub fn digest(&mut self, tick: &Tick) {
        self.digest.push(tick);
    }

    /// Writes what is still pending, and ends the frame.
    ///
    /// # Errors
    /// What the writer answers.
    pub fn flush(&mut self) -> io::Result<()> {
        self.block()?;
        let Some(frame) = self.frame.take() else { return Ok(()) };
        self.frame_samples = 0;
        let end = frame.finish()?;
        self.put(&end)?;
        self.undigested += end.len() as u64;
        if let Some(digest) = self.digest.take() {
            let digest = digest_frame(&digest, self.undigested)?;
            self.put(&digest)?;
            self.undigested = 0;
        }
        Ok(())
    }

    /// Whether samples wait to be written.
    pub fn has_pending(&self) -> bool {
        self.pending_samples > 0
    }

    /// Writes what is pending as a block of the frame.
    fn block(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let mut frame = match self.frame.take() {
            Some(frame) => frame,
            None => encoder()?,
        };
        frame.write_all(&self.pending)?;
        frame.flush()?;
        let block = std::mem::take(frame.get_mut());
        self.frame = Some(frame);
        self.frame_samples += self.pending_samples as u64;
        self.pending.clear();
        self.pending_samples = 0;
        self.put(&block)?;
        self.undigested += block.len() as u64;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.out.flush()?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the first frame of a file. What was digested or begun was of another one.
    fn begin(&mut self) -> io::Result<()> {
        (self.frame, self.frame_samples, self.undigested) = (None, 0, 0);
        self.digest = DigestWriter::default();
        self.bytes = 0;
        let head = std::mem::take(&mut self.head);
        let written = self.put(&head);
        self.head = head;
        written
    }

    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let before = self.pending.len();
        trainmon_base::text::json::compact(&mut self.pending, value)?;
        if self.pending.len() - before > LINE_MAX {
            self.pending.truncate(before);
            return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
        }
        self.pending.push(b'\n');
        Ok(())
    }
}

impl<W: Write + std::fmt::Debug> std::fmt::Debug for Recorder<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Recorder")
            .field("out", &self.out)
            .field("samples", &self.samples)
            .finish_non_exhaustive()
    }
}

/// Begins a frame.
fn encoder() -> io::Result<Encoder<'static, Vec<u8>>> {
    let mut encoder = Encoder::new(Vec::new(), LEVEL)?;
    encoder.include_checksum(true)?;
    encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
    Ok(encoder)
}

fn whole_frame(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut frame = encoder()?;
    frame.write_all(bytes)?;
    frame.finish()
}

/// A digest as a frame that readers of zstd skip: its compressed bytes, then how many bytes lie between the frame before and
/// this one, the length of this frame, and a mark by which it is found from the end of the file.
fn digest_frame(digest: &[u8], undigested: u64) -> io::Result<Vec<u8>> {
    let mut frame = DIGEST_FRAME.to_le_bytes().to_vec();
    frame.extend([0; 4]);
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    compressor.include_checksum(true)?;
    frame.extend(compressor.compress(digest)?);
    frame.extend(undigested.to_le_bytes());
    let whole = u32::try_from(frame.len() + 4 + DIGEST_MARK.len()).unwrap_or(u32::MAX);
    frame.extend(whole.to_le_bytes());
    frame.extend(DIGEST_MARK);
    let content = whole.saturating_sub(8).to_le_bytes();
    frame.iter_mut().skip(4).zip(content).for_each(|(byte, length)| *byte = length);
    Ok(frame)
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
        // The old file ends as it should, if it is still there.
        if let (Some(mut old), Some(frame)) = (self.out.moved.take(), self.frame.take()) {
            let _ = frame.finish().and_then(|end| old.write_all(&end));
        }
        self.elsewhere = self.samples - self.pending_samples as u64;
        self.begin().map_err(|error| self.out.cannot_write(error))?;
        Ok(Some(format!("{} {what}", self.out.name())))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Arc;

    use super::*;
    use trainmon_diagnosis::pipeline::Pipeline;

    /// Keeps each write as one piece.
    #[derive(Debug, Default)]
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

    /// Lines that can be read of a file that ends anywhere.
    fn lines(bytes: &[u8]) -> usize {
        let mut text = Vec::new();
        let _ = zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut text);
        text.iter().filter(|&&byte| byte == b'\n').count()
    }

    fn samples(count: u64, interval_ns: u64) -> impl Iterator<Item = Sample> {
        (0..count).map(move |sequence| Sample { sequence, monotonic_ns: sequence * interval_ns, ..Sample::default() })
    }

    /// How many lines can be read after each write.
    fn recorded(count: u64, interval_ns: u64) -> Vec<usize> {
        let mut recorder = Recorder::new(Pieces::default(), &Header::default()).unwrap();
        samples(count, interval_ns).for_each(|sample| recorder.write(&sample).unwrap());
        recorder.flush().unwrap();
        recorder.flush().unwrap();
        assert_eq!(recorder.samples, count);
        assert_eq!(recorder.bytes, recorder.out.0.iter().map(|piece| piece.len() as u64).sum::<u64>());
        let mut file = Vec::new();
        let pieces = recorder.out.0.iter();
        let readable = pieces.map(|piece| {
            file.extend(piece);
            lines(&file)
        });
        let mut readable: Vec<_> = readable.collect();
        readable.dedup();
        assert!(zstd::stream::decode_all(&file[..]).is_ok(), "every frame is complete");
        readable
    }

    #[test]
    fn what_was_written_can_be_read_every_five_samples() {
        assert_eq!(recorded(12, 1_000_000_000), [1, 6, 11, 13]);
        assert_eq!(recorded(0, 1), [1]);
        assert_eq!(recorded(1000, 1).last(), Some(&1001));
    }

    #[test]
    fn with_a_long_interval_little_is_kept_back() {
        assert_eq!(recorded(4, 60_000_000_000), [1, 3, 5]);
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

    #[test]
    fn digests_are_skipped_by_whoever_reads_zstd() {
        let mut pipeline = Pipeline::of_recording(&Header::default(), None);
        let mut recorder = Recorder::new(Vec::new(), &Header::default()).unwrap();
        for sample in samples(700, 1_000_000_000) {
            recorder.digest(&pipeline.push(Arc::new(sample.clone())));
            recorder.write(&sample).unwrap();
        }
        recorder.flush().unwrap();
        assert_eq!(recorder.out.windows(8).filter(|bytes| *bytes == DIGEST_MARK).count(), 3);
        assert!(recorder.out.ends_with(&DIGEST_MARK));
        let text = zstd::stream::decode_all(&recorder.out[..]).unwrap();
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 702);
    }
}
