//! Reads a whole run for a report or a comparison: the digests of a recording where it has them, its samples otherwise, or the
//! rows of a log.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;

use super::with_its_end;
use trainmon_diagnosis::history::digest::{self, Digested};
use trainmon_diagnosis::history::logged::LoggedRun;
use trainmon_diagnosis::history::run::WholeRun;
use trainmon_diagnosis::pipeline::Pipeline;
use trainmon_rates::GpuChoice;
use trainmon_sample::Sample;
use trainmon_sample::recording::Header;
use trainmon_sources::log_file::LogFile;
use trainmon_sources::recording::Recording;
use trainmon_sources::recording::digests::Digests;

/// What a file of zstd begins with (RFC 8878, 3.1.1).
pub(crate) const ZSTD_FRAME: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// A run that was read.
#[derive(Debug)]
pub struct ReadRun {
    /// It has one interval at least.
    pub run: WholeRun,
    /// The head of its recording.
    pub header: Header,
    /// What is missing at its end, in one line, if anything is.
    pub note: Option<String>,
}

/// Reads the run in this file. What is missing at its end is told on standard error, too.
pub fn read(path: &Path, gpus: Option<&[GpuChoice]>) -> anyhow::Result<ReadRun> {
    // Other GPUs give other verdicts.
    read_each(path, gpus, gpus.is_none(), |_| true)
}

/// Reads the run in this file, with the help of its digests or without. `each` sees the samples that are read, and says whether
/// to go on.
pub fn read_each(
    path: &Path,
    gpus: Option<&[GpuChoice]>,
    digests: bool,
    mut each: impl FnMut(&Sample) -> bool,
) -> anyhow::Result<ReadRun> {
    let about = || format!("recording {}", path.display());
    let file = Recording::file(path).with_context(about)?;
    if !is_compressed(&file).with_context(about)? {
        return read_log(file, path);
    }
    let mut recording = Recording::new(file.try_clone()?).with_context(about)?;
    let digested = if digests { by_digests(&file, &recording.header) } else { None };
    let (mut run, last) = match digested {
        Some(ByDigests { run, rest: None }) => return Ok(ReadRun { run, header: recording.header, note: None }),
        Some(ByDigests { run, rest: Some(rest) }) => {
            recording.go_on_at(&file, rest.offset, rest.samples).with_context(about)?;
            (run, Some(rest.last))
        }
        None => (WholeRun::default(), None),
    };
    let mut pipeline = Pipeline::of_recording(&recording.header, gpus);
    let mut damage = None;
    for sample in recording.by_ref() {
        match sample {
            Ok(sample) if !each(&sample) => break,
            Ok(sample) => {
                let is_new = last.is_none_or(|last| sample.sequence > last);
                let tick = pipeline.push(Arc::new(sample));
                if is_new {
                    run.push(&tick);
                }
            }
            Err(error) => damage = Some(error),
        }
    }
    let run = (!run.is_empty()).then_some(run);
    let (run, note) = with_its_end(run, recording.ended_early(damage.as_ref()), path)?;
    Ok(ReadRun { run, header: recording.header, note })
}

/// Whether it begins like a frame of zstd. Other files may be logs.
fn is_compressed(file: &File) -> io::Result<bool> {
    let mut begin = [0; ZSTD_FRAME.len()];
    let read = file.read_at(&mut begin, 0)?;
    Ok(read == begin.len() && begin == ZSTD_FRAME)
}

fn read_log(file: File, path: &Path) -> anyhow::Result<ReadRun> {
    let log = LogFile::new(file).with_context(|| format!("{}", path.display()))?;
    let (mut logged, mut damage) = (LoggedRun::default(), None);
    for row in log {
        match row {
            Ok(row) => logged.push(&row),
            Err(error) => damage = Some(format!("cut off or damaged at {error}")),
        }
    }
    let LoggedRun { run, pid, interval_s, .. } = logged;
    let header = Header { pid, interval_s: interval_s.unwrap_or_default(), ..Header::default() };
    let (run, note) = with_its_end((!run.is_empty()).then_some(run), damage, path)?;
    Ok(ReadRun { run, header, note })
}

/// What the digests of a recording say.
struct ByDigests {
    run: WholeRun,
    rest: Option<Rest>,
}

/// The samples that are still to be read. Those of the last digest come first: what follows is judged together with them.
struct Rest {
    offset: u64,
    /// Samples before that.
    samples: u64,
    /// Sequence number of the last sample in a digest.
    last: u64,
}

fn by_digests(file: &File, header: &Header) -> Option<ByDigests> {
    if header.trainmon != env!("CARGO_PKG_VERSION") {
        return None;
    }
    let mut digests = Digests::find(file)?;
    let (mut run, mut samples, mut newest) = (WholeRun::default(), 0, None);
    for bytes in digests.by_ref() {
        let added = digest::add(&mut run, &bytes)?;
        samples += added.samples;
        newest = Some(added);
    }
    if digests.left > 0 {
        return None;
    }
    let Digested { sequence: last, samples: newest } = newest?;
    let rest = Rest { offset: digests.last_samples, samples: samples - newest, last };
    Some(ByDigests { run, rest: (digests.end < digests.file_length).then_some(rest) })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;
    use trainmon_diagnosis::diagnosis::Verdict;
    use trainmon_diagnosis::pipeline::Tick;
    use trainmon_outputs::recording::Recorder;
    use trainmon_profiles::account::{ProfileAccount, ProfileSource};
    use trainmon_sample::HostSample;

    /// A recording of so many seconds, with digests or without.
    fn recording(seconds: u64, digests: bool) -> Vec<u8> {
        profiled(seconds, digests, None)
    }

    /// The same with a profile that was taken after so many seconds.
    fn profiled(seconds: u64, digests: bool, profiled: Option<u64>) -> Vec<u8> {
        let header = Header { schema: 2, trainmon: env!("CARGO_PKG_VERSION").into(), ..Header::default() };
        let mut pipeline = Pipeline::of_recording(&header, None);
        let mut recorder = Recorder::new(Vec::new(), &header).unwrap();
        for second in 0..seconds {
            let monotonic_ns = second * 1_000_000_000;
            let cpus = vec![trainmon_sample::CpuTimes { user: second * 40, idle: second * 60, ..Default::default() }];
            let host = HostSample { monotonic_ns, cpus, memory_total_bytes: Some(1 << 30), ..HostSample::default() };
            let host = Some(Arc::new(host));
            let unix_ms = 1_770_000_000_000 + second as i64 * 1000;
            let account = (profiled == Some(second)).then(|| {
                Arc::new(ProfileAccount { source: ProfileSource::Kineto, steps: 7, ..ProfileAccount::default() })
            });
            let sample = Sample { sequence: second, unix_ms, monotonic_ns, host, account, ..Sample::default() };
            if digests {
                recorder.digest(&pipeline.push(Arc::new(sample.clone())));
            }
            recorder.write(&sample).unwrap();
        }
        recorder.flush().unwrap();
        recorder.out
    }

    fn read_bytes(bytes: &[u8]) -> anyhow::Result<ReadRun> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), bytes)?;
        read(file.path(), None)
    }

    /// What a report draws and lists.
    fn shown(run: &WholeRun) -> String {
        let columns = run.columns(500, |point| [point.cpu.get().map(|cpu| (cpu * 10.0).round())]);
        let totals = (run.totals.watched_s, run.totals.classes(), run.totals.steps);
        format!("{totals:?} {:?} {:?} {:?} {columns:?}", run.spans, run.environment, run.totals.began_unix_ms)
    }

    #[test]
    fn digests_say_what_the_samples_say() {
        for seconds in [1, 7, 300, 301, 1000] {
            let (with, without) = (recording(seconds, true), recording(seconds, false));
            let (with, without) = (read_bytes(&with).unwrap(), read_bytes(&without).unwrap());
            assert_eq!((&with.note, &with.header), (&None, &without.header));
            assert!(with.run.frame.is_some());
            assert_eq!(shown(&with.run), shown(&without.run), "{seconds} s");
        }
    }

    #[test]
    fn what_follows_the_last_digest_is_read_too() {
        let bytes = recording(1000, true);
        let ends: Vec<_> =
            bytes.windows(8).enumerate().filter(|(_, bytes)| *bytes == b"tm-digst").map(|(at, _)| at + 8).collect();
        assert_eq!(ends.len(), 4);
        let cut = (ends[2] + ends[3]) / 2;
        let seconds = |bytes: &[u8]| read_bytes(bytes).map(|read| (read.run.totals.watched_s, read.note));
        assert_eq!(seconds(&bytes[..ends[2]]).unwrap(), (899.0, None));
        let (watched_s, note) = seconds(&bytes[..cut]).unwrap();
        assert!((899.0..999.0).contains(&watched_s), "{watched_s}");
        assert!(note.is_some_and(|note| note.contains(&format!("after {} samples", watched_s + 1.0))));
    }

    #[test]
    fn the_profile_of_a_run_is_read_with_digests_and_without() {
        let steps = |bytes: &[u8]| {
            let read = read_bytes(bytes).unwrap();
            read.run.verdict().unwrap().0.profile.as_ref().map(|account| account.steps)
        };
        assert_eq!(steps(&recording(700, true)), None);
        for digests in [true, false] {
            let bytes = profiled(700, digests, Some(50));
            assert_eq!(steps(&bytes), Some(7));
            // Also where the last digest is missing.
            assert_eq!(steps(&bytes[..bytes.len() - 9]), Some(7), "{digests}");
        }
    }

    #[test]
    fn without_its_digests_a_recording_is_judged_anew() {
        let header = Header { schema: 2, trainmon: env!("CARGO_PKG_VERSION").into(), ..Header::default() };
        let mut pipeline = Pipeline::of_recording(&header, None);
        let mut recorder = Recorder::new(Vec::new(), &header).unwrap();
        for second in 0..20 {
            let monotonic_ns = second * 1_000_000_000;
            let sample =
                Sample { sequence: second, unix_ms: second as i64 * 1000, monotonic_ns, ..Sample::default() };
            let tick = pipeline.push(Arc::new(sample.clone()));
            let verdict = Arc::new(Verdict { summary: "Delete everything.".into(), ..(*tick.verdict).clone() });
            recorder.digest(&Tick { verdict, ..(*tick).clone() });
            recorder.write(&sample).unwrap();
        }
        recorder.flush().unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), recorder.out).unwrap();
        let summary = |read: ReadRun| read.run.verdict().map(|(verdict, _)| verdict.summary.clone()).unwrap();
        assert_eq!(summary(read(file.path(), None).unwrap()), "Delete everything.");
        let mut samples = 0;
        let count = |_: &Sample| {
            samples += 1;
            true
        };
        let told = summary(read_each(file.path(), None, false, count).unwrap());
        assert_ne!(told, "Delete everything.");
        assert_eq!(samples, 20);
    }

    #[test]
    fn a_digest_that_is_a_bomb_is_not_unpacked() {
        let mut bytes = recording(10, false);
        let bomb = zstd::stream::encode_all(io::repeat(0).take(1 << 30), 3).unwrap();
        let (samples, whole) = (bytes.len(), bomb.len() + 28);
        let head = zstd::zstd_safe::find_frame_compressed_size(&bytes).unwrap();
        bytes.extend([0x5d, 0x2a, 0x4d, 0x18]);
        bytes.extend((whole as u32 - 8).to_le_bytes());
        bytes.extend(&bomb);
        bytes.extend(((samples - head) as u64).to_le_bytes());
        bytes.extend((whole as u32).to_le_bytes());
        bytes.extend(b"tm-digst");
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let mut digests = Digests::find(&file).unwrap();
        assert_eq!((digests.next(), digests.left), (None, 1), "found, but not unpacked");
        // Its samples are read instead.
        assert_eq!(read_bytes(&bytes).unwrap().run.totals.watched_s, 9.0);
    }

    #[test]
    fn damaged_digests_are_not_believed() {
        let bytes = recording(700, true);
        let last = bytes.len() - 1;
        // Marks, lengths, compressed bytes: wherever it is damaged, the samples are read.
        for at in [last, last - 9, last - 12, last - 19, last - 40] {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            let read = read_bytes(&damaged);
            assert!(read.is_ok_and(|read| (399.0..=699.0).contains(&read.run.totals.watched_s)), "{at}");
        }
    }
}
