//! How the attached process ends, as far as that can be seen from outside: its status, the kernel's log, and the end of what it wrote.
//!
//! Its parent alone is told how a process ended. But the status is in `/proc/PID/stat` until the parent has taken it, so it is read at
//! the moment of the end: a handle on the process (pidfd_open(2)) becomes readable then. Files that its output goes to are held open
//! while it lives: afterwards nothing leads to them.

use std::fs::{self, File};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::clock;
use super::fields::path_text;
use super::files::KeptFile;
use super::job_rights::JobRights;
use super::kernel_log::killed_for_memory;
use super::last_lines::last_lines;
use super::regular_file;
use super::task_files;
use trainmon_base::text::{sanitize, secrets};
use trainmon_sample::{EndingSample, OutputEnd, ProcessId};

/// The end of a file that is read, bytes: a traceback and what follows it.
const OUTPUT_TAIL: u64 = 64 << 10;
/// Standard error and standard output: tracebacks go to the first.
const OUTPUTS: [u32; 2] = [2, 1];
/// Most bytes of `stat`.
const STAT_ROOM: usize = 2048;
/// Files that are held open.
const MOST_OUTPUTS: usize = 4;

/// A file that output goes to.
#[derive(Debug)]
struct OutputFile {
    /// Of which process, and which of its descriptors.
    of: (u32, u32),
    /// Where its file system is, and its inode.
    id: (u64, u64),
    path: Arc<str>,
    file: File,
}

/// Waits for the end of one process and reads what is known of it then.
#[derive(Debug)]
pub struct EndingReader {
    proc: PathBuf,
    target: ProcessId,
    handle: Option<OwnedFd>,
    stat: Option<KeptFile>,
    outputs: Vec<OutputFile>,
    /// Where the file system is, and the inode, of the files that trainmon itself writes to: what it says is not the job's.
    own: Vec<(u64, u64)>,
}

impl EndingReader {
    /// For this process, while it lives.
    pub fn new(proc: PathBuf, target: ProcessId) -> Self {
        let stat = KeptFile::open(proc.join(target.pid.to_string()).join("stat")).ok();
        let pid = i32::try_from(target.pid).ok().and_then(Pid::from_raw);
        // Under another root the same number is another process.
        let own = if proc == Path::new("/proc") { pid } else { None };
        let handle = own.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let own_outputs = OUTPUTS.iter().filter_map(|number| fs::metadata(format!("/proc/self/fd/{number}")).ok());
        let own_outputs = own_outputs.map(|found| (found.dev(), found.ino())).collect();
        let mut reader = Self { proc, target, handle: None, stat, outputs: Vec::new(), own: own_outputs };
        // Opened before the start times are compared: what is compared is what is held.
        if reader.read_stat(task_files::stat).is_some_and(|stat| stat.start_ticks == target.start_ticks) {
            reader.handle = handle;
        }
        reader
    }

    fn read_stat<T>(&self, parse: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let mut room = [0; STAT_ROOM];
        parse(self.stat.as_ref()?.read_line(&mut room).ok()?)
    }

    /// Waits for its end, until `wake` becomes readable, or for so long. Says whether it has ended; `None` where that cannot be told.
    pub fn wait(&self, wake: BorrowedFd<'_>, most: Duration) -> Option<bool> {
        let most = Timespec::try_from(most).ok();
        let mut of_wake = [PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        let Some(handle) = &self.handle else {
            let _ = poll(&mut of_wake, most.as_ref());
            return None;
        };
        let [of_wake] = of_wake;
        let mut both = [PollFd::new(handle, PollFlags::IN), of_wake];
        let _ = poll(&mut both, most.as_ref());
        both.first().map(|ended| ended.revents().contains(PollFlags::IN))
    }

    /// Holds the files open that the output of these processes goes to, regular files only.
    pub fn hold_outputs(&mut self, writers: &[u32]) {
        for pid in writers {
            for number in OUTPUTS {
                self.hold(*pid, number);
            }
        }
    }

    fn hold(&mut self, pid: u32, number: u32) {
        let folder = self.proc.join(pid.to_string());
        let path = folder.join("fd").join(number.to_string());
        // A process that has ended keeps its files.
        let Ok(found) = fs::metadata(&path) else { return };
        let (of, id) = ((pid, number), (found.dev(), found.ino()));
        if self.own.contains(&id) || self.outputs.iter().any(|held| held.id == id) {
            return;
        }
        self.outputs.retain(|held| held.of != of);
        // A job may hold a file that its user may only write to.
        let opened = JobRights::find(&folder).and_then(|rights| rights.act(|| regular_file::opened(&path)));
        let Some(Ok(file)) = opened else { return };
        let Ok(opened) = file.metadata() else { return };
        let name = fs::read_link(&path).map(|link| path_text(link.as_os_str().as_encoded_bytes()));
        if (opened.dev(), opened.ino()) == id && self.outputs.len() < MOST_OUTPUTS {
            self.outputs.push(OutputFile { of, id, path: name.unwrap_or_default(), file });
        }
    }

    /// What the kernel says of its end, once it has ended. `output` is not read.
    pub fn read_status(&self) -> EndingSample {
        // At once: its parent may take it any moment.
        let status = self.read_stat(task_files::wait_status);
        let signal = status.map(|status| (status & 0x7f) as u8);
        let killed = signal.is_none_or(|signal| i32::from(signal) == Signal::KILL.as_raw());
        let started_us =
            self.target.start_ticks.saturating_mul(1_000_000) / u64::from(clock::ticks_per_second()).max(1);
        // The log's clock does not count a suspended machine.
        let suspended_us = clock::boottime_ns().saturating_sub(clock::monotonic_ns()) / 1000;
        let since_us = started_us.saturating_sub(suspended_us);
        let out_of_memory = if killed { killed_for_memory(&self.proc, self.target.pid, since_us) } else { None };
        EndingSample {
            exit_code: status.filter(|_| signal == Some(0)).map(|status| (status >> 8) as u8),
            signal: signal.filter(|signal| *signal > 0),
            out_of_memory,
            output: None,
        }
    }

    /// The end of its output: of the file with a traceback there, or else of the one that was written last.
    pub fn read_output(&self) -> Option<OutputEnd> {
        let mut found: Vec<_> = self.outputs.iter().filter_map(OutputFile::end).collect();
        found.sort_by_key(|(written_ns, end)| (!end.traceback, std::cmp::Reverse(*written_ns)));
        found.into_iter().next().map(|(_, end)| end)
    }
}

impl OutputFile {
    /// When it was written last, nanoseconds since 1970, and what it ends with.
    fn end(&self) -> Option<(i128, OutputEnd)> {
        let metadata = self.file.metadata().ok()?;
        let begin = metadata.len().saturating_sub(OUTPUT_TAIL);
        let mut bytes = vec![0; usize::try_from(metadata.len() - begin).ok()?];
        let count = self.file.read_at(&mut bytes, begin).ok()?;
        let found = last_lines(bytes.get(..count)?);
        if found.lines.is_empty() {
            return None;
        }
        let file = sanitize(&secrets::prose(&self.path)).as_ref().into();
        let written_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        let (lines, traceback, lines_after) = (found.lines, found.traceback, found.lines_after);
        Some((written_ns, OutputEnd { file, lines, traceback, lines_after }))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::fd::AsFd;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::{Child, Command, Stdio};

    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    fn reader(child: &Child) -> EndingReader {
        let proc = PathBuf::from("/proc");
        let pid = child.id();
        let stat = crate::process::stat_of(&proc, pid).unwrap();
        EndingReader::new(proc, ProcessId { pid, start_ticks: stat.start_ticks })
    }

    /// The rights of a job of root.
    const ROOTS: &str = "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0\n";

    /// What is known of the end of this shell command, whose parent has not asked for its status yet.
    fn ending_of(command: &str, stderr: Stdio) -> EndingSample {
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", &format!("read go; {command}")]).stdin(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut reader = reader(&child);
        reader.hold_outputs(&[child.id()]);
        let wake = eventfd(0, EventfdFlags::empty()).unwrap();
        assert_eq!(reader.wait(wake.as_fd(), Duration::ZERO), Some(false));
        drop(child.stdin.take());
        assert_eq!(reader.wait(wake.as_fd(), Duration::from_secs(60)), Some(true));
        let ending = reader.read_status();
        child.wait().unwrap();
        EndingSample { output: reader.read_output(), ..ending }
    }

    #[test]
    fn exit_codes_signals_and_the_last_lines_are_read() {
        assert_eq!(ending_of("exit 0", Stdio::null()).exit_code, Some(0));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("err.log");
        let ending = ending_of("echo it failed >&2; exit 3", File::create(&path).unwrap().into());
        assert_eq!((ending.exit_code, ending.signal, ending.out_of_memory), (Some(3), None, None));
        let output = ending.output.unwrap();
        assert_eq!((&*output.lines[0], output.traceback), ("it failed", false));
        assert_eq!(Path::new(&*output.file).file_name(), path.file_name());
        let killed = ending_of("kill -9 $$", Stdio::null());
        assert_eq!((killed.exit_code, killed.signal, killed.output), (None, Some(9), None));
        assert_ne!(killed.out_of_memory, Some(true));
    }

    #[test]
    fn a_pipe_is_not_held_and_a_traceback_comes_first() {
        let root = tempfile::tempdir().unwrap();
        let fd = root.path().join("7/fd");
        fs::create_dir_all(&fd).unwrap();
        fs::write(root.path().join("7/status"), ROOTS).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, fd.join("1"), rustix::fs::Mode::RUSR).unwrap();
        let mut reader = EndingReader::new(root.path().into(), ProcessId { pid: 7, start_ticks: 1 });
        reader.hold_outputs(&[7]);
        assert_eq!((reader.outputs.len(), reader.handle.is_none()), (0, true));
        let [log, err] = ["out.log", "err.log"].map(|name| root.path().join(name));
        fs::write(&err, "Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: no\n")
            .unwrap();
        fs::write(&log, "epoch 9\n").unwrap();
        fs::remove_file(fd.join("1")).unwrap();
        symlink(&log, fd.join("1")).unwrap();
        symlink(&err, fd.join("2")).unwrap();
        reader.hold_outputs(&[7]);
        // The process is gone, and so are the names: the files are still held.
        fs::remove_dir_all(root.path().join("7")).unwrap();
        fs::remove_file(&err).unwrap();
        reader.hold_outputs(&[7]);
        let (ending, output) = (reader.read_status(), reader.read_output().unwrap());
        assert_eq!((&*output.file, output.traceback), (err.to_str().unwrap(), true));
        assert_eq!(output.lines.last().map(|line| &**line), Some("ValueError: no"));
        assert_eq!((ending.exit_code, ending.signal), (None, None));
    }

    #[test]
    fn output_that_goes_elsewhere_from_now_on_replaces_the_first_file() {
        let root = tempfile::tempdir().unwrap();
        let fd = root.path().join("7/fd");
        fs::create_dir_all(&fd).unwrap();
        fs::write(root.path().join("7/status"), ROOTS).unwrap();
        let mut reader = EndingReader::new(root.path().into(), ProcessId { pid: 7, start_ticks: 1 });
        for number in 0..20 {
            let log = root.path().join(format!("{number}.log"));
            fs::write(&log, format!("part {number}\n")).unwrap();
            let _ = fs::remove_file(fd.join("2"));
            symlink(&log, fd.join("2")).unwrap();
            reader.hold_outputs(&[7]);
            assert_eq!(reader.outputs.len(), 1);
        }
        assert_eq!(&*reader.read_output().unwrap().lines[0], "part 19");
    }

    #[test]
    fn root_reads_no_output_that_the_jobs_user_may_not() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let fd = root.path().join("7/fd");
        fs::create_dir_all(&fd).unwrap();
        fs::set_permissions(root.path(), Permissions::from_mode(0o755)).unwrap();
        let log = root.path().join("log");
        fs::write(&log, "secret\n").unwrap();
        fs::set_permissions(&log, Permissions::from_mode(0o622)).unwrap();
        symlink(&log, fd.join("2")).unwrap();
        let held_by = |status: String| {
            fs::write(root.path().join("7/status"), status).unwrap();
            let mut reader = EndingReader::new(root.path().into(), ProcessId { pid: 7, start_ticks: 1 });
            reader.hold_outputs(&[7]);
            reader.outputs.len()
        };
        assert_eq!((held_by(ROOTS.replace("\t0", "\t65534")), held_by(ROOTS.into())), (0, 1));
    }
}
