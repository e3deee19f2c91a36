//! Reads what says how a run will go on: `/proc/PID/smaps_rollup`, and the end of the file that the training process writes its
//! output to, for a progress bar.

use std::collections::BTreeMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::files::read_once;
use super::regular_file;
use trainmon_sample::ProcessId;
use trainmon_sample::outlook::{OutlookSample, ProcessMemory, ProgressBar};

/// Most bytes of `smaps_rollup`: it has 25 short lines.
const ROLLUP: usize = 8 << 10;
/// The end of the output that is looked at, bytes: bars are written anew again and again, so one is near the end.
const TAIL: u64 = 8 << 10;
/// Longest line with a bar, bytes.
const LINE: usize = 1024;
/// Standard output and standard error; tqdm writes to the second.
const OUTPUTS: [u32; 2] = [2, 1];
/// Most processes whose memory is kept.
const MOST_PROCESSES: usize = 1024;

/// Reads one process after the other.
#[derive(Debug)]
pub struct OutlookReader {
    proc: PathBuf,
    memory: BTreeMap<ProcessId, u64>,
    /// The process whose turn was last.
    last: Option<ProcessId>,
    progress: Option<ProgressBar>,
}

impl OutlookReader {
    /// A reader that has read nothing.
    pub fn new(proc: PathBuf) -> Self {
        Self { proc, memory: BTreeMap::new(), last: None, progress: None }
    }

    /// Reads the progress of `writers`, and if `with_memory`, the memory of the next process. Walking a large process's page tables takes milliseconds.
    pub fn read(
        &mut self,
        now_ns: u64,
        processes: &[ProcessId],
        writers: &[u32],
        with_memory: bool,
    ) -> OutlookSample {
        self.memory.retain(|id, _| processes.contains(id));
        let mut sorted: Vec<ProcessId> = processes.iter().copied().take(MOST_PROCESSES).collect();
        sorted.sort_unstable();
        let next = sorted.iter().find(|id| self.last.is_none_or(|last| **id > last)).or(sorted.first()).copied();
        if with_memory && let Some(id) = next {
            let file = self.proc.join(id.pid.to_string()).join("smaps_rollup");
            let read = read_once(file, ROLLUP).ok().and_then(|text| pss_bytes(&text));
            match read {
                Some(bytes) => self.memory.insert(id, bytes),
                None => self.memory.remove(&id),
            };
            self.last = Some(id);
        }
        let bar = writers.iter().find_map(|pid| OUTPUTS.iter().find_map(|number| self.bar(*pid, *number)));
        if let Some((done, total)) = bar {
            let same = self.progress.is_some_and(|known| (known.done, known.total) == (done, total));
            if !same {
                self.progress = Some(ProgressBar { read_ns: now_ns, done, total });
            }
        }
        let memory = self.memory.iter().map(|(id, pss_bytes)| ProcessMemory { id: *id, pss_bytes: *pss_bytes });
        OutlookSample { memory: memory.collect(), progress: self.progress }
    }

    /// The bar at the end of what a process writes, if it writes to a file.
    fn bar(&self, pid: u32, number: u32) -> Option<(f64, f64)> {
        let path = self.proc.join(pid.to_string()).join("fd").join(number.to_string());
        let mut file = regular_file::opened(&path).ok()?;
        let length = file.metadata().ok()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
        let mut end = Vec::new();
        file.take(TAIL).read_to_end(&mut end).ok()?;
        last_bar(&end)
    }
}

/// The `Pss` of a `smaps_rollup`, bytes.
fn pss_bytes(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Turns done and turns in all of the last bar in a text.
fn last_bar(text: &[u8]) -> Option<(f64, f64)> {
    let lines = text.split(|byte| matches!(byte, b'\r' | b'\n')).rev().filter(|line| line.len() <= LINE);
    lines.filter_map(|line| std::str::from_utf8(line).ok()).find_map(bar)
}

/// A bar in one line: `DESCRIPTION: 45%|####    | 450/1000 [10:00<12:13, 1.33s/it, loss=2]`.
fn bar(line: &str) -> Option<(f64, f64)> {
    let (head, tail) = line.rsplit_once("| ")?;
    // A bar of its own: a percentage before it, and the time in brackets behind it.
    let (before, _) = head.split_once("%|")?;
    before.rsplit([' ', ':']).next()?.parse::<u8>().ok().filter(|percent| *percent <= 100)?;
    let (counts, rest) = tail.split_once(" [")?;
    rest.contains('<').then_some(())?;
    let (done, total) = counts.split_once('/')?;
    let (done, total) = (number(done)?, number(total)?);
    (total > 0.0 && done <= total).then_some((done, total))
}

/// A count, which tqdm may shorten: `1.25k`, `3.0M`.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, scale) = match text.char_indices().last()? {
        (at, 'k') => (text.get(..at)?, 1e3),
        (at, 'M') => (text.get(..at)?, 1e6),
        (at, 'G') => (text.get(..at)?, 1e9),
        _ => (text, 1.0),
    };
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = digits.parse::<f64>().ok().filter(|value| is_plain && value.is_finite())?;
    Some(value * scale)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bars_of_tqdm_are_read_and_other_lines_are_not() {
        for (line, expected) in [
            (" 45%|████▌     | 450/1000 [10:00<12:13,  1.33s/it]", Some((450.0, 1000.0))),
            ("Epoch 3:  45%|####      | 450/1000 [10:00<12:13, 1.33it/s, loss=2.1]", Some((450.0, 1000.0))),
            ("  0%|          | 0/1000 [00:00<?, ?it/s]", Some((0.0, 1000.0))),
            ("train: 12%|█▏        | 1.25k/10.0k [00:10<01:10, 123it/s]", Some((1250.0, 10_000.0))),
            ("100%|██████████| 3/3 [00:01<00:00,  2.00it/s]", Some((3.0, 3.0))),
            ("450it [10:00,  1.33s/it]", None),
            ("loss 45%| 450/1000", None),
            ("step 450/1000 [fast]", None),
            ("45%|###| 1100/1000 [10:00<?]", None),
            ("45%|###| 4/0 [10:00<?]", None),
            ("45%|###| -4/10 [10:00<?]", None),
            ("145%|###| 4/10 [10:00<?]", None),
            ("45%|###| inf/10 [10:00<?]", None),
        ] {
            assert_eq!(bar(line), expected, "{line}");
        }
        let text = "  1%|  | 1/100 [0:1<2]\r  2%|  | 2/100 [0:2<2]\nsaved checkpoint\nloss 2\n";
        assert_eq!(last_bar(text.as_bytes()), Some((2.0, 100.0)));
    }

    #[test]
    fn the_job_s_own_memory_and_progress_are_read_one_process_after_the_other() {
        let root = tempfile::tempdir().unwrap();
        let id = |pid| ProcessId { pid, start_ticks: 1 };
        for (pid, kib) in [(7, 1000), (8, 500)] {
            let folder = root.path().join(pid.to_string());
            fs::create_dir_all(folder.join("fd")).unwrap();
            fs::write(folder.join("smaps_rollup"), format!("Rss: 9 kB\nPss:   {kib} kB\nPss_Anon: 3 kB\n")).unwrap();
        }
        let log = root.path().join("train.log");
        fs::write(&log, " 10%|#   | 10/100 [0:1<2]\n").unwrap();
        symlink(&log, root.path().join("7/fd/2")).unwrap();
        let mut reader = OutlookReader::new(root.path().into());
        let first = reader.read(5, &[id(8), id(7)], &[7], true);
        assert_eq!(first.memory, [ProcessMemory { id: id(7), pss_bytes: 1_024_000 }]);
        assert_eq!(first.progress, Some(ProgressBar { read_ns: 5, done: 10.0, total: 100.0 }));
        let second = reader.read(6, &[id(8), id(7)], &[7], true);
        assert_eq!(second.memory.len(), 2);
        assert_eq!(second.progress.unwrap().read_ns, 5, "the same bar is no news");
        fs::write(&log, " 20%|#   | 20/100 [0:1<2]\n").unwrap();
        let third = reader.read(7, &[id(8)], &[7], false);
        assert_eq!(
            (third.memory.len(), third.progress.unwrap().read_ns),
            (1, 7),
            "a process that ended is forgotten"
        );
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("7/fd")).unwrap();
        // Opening a pipe would wait for its other end.
        rustix::fs::mkfifoat(rustix::fs::CWD, root.path().join("7/fd/2"), rustix::fs::Mode::RUSR).unwrap();
        let mut reader = OutlookReader::new(root.path().into());
        assert_eq!(reader.read(1, &[ProcessId { pid: 7, start_ticks: 1 }], &[7], true), OutlookSample::default());
    }

    proptest! {
        #[test]
        fn whatever_is_written_gives_a_possible_bar_or_none(text in prop::collection::vec(any::<u8>(), 0..300), line in "[0-9kMG.%|/ \\[<:#]{0,60}") {
            for found in [last_bar(&text), bar(&line)].into_iter().flatten() {
                prop_assert!(found.0 >= 0.0 && found.0 <= found.1 && found.1.is_finite());
            }
            let _ = pss_bytes(&text);
        }
    }
}
