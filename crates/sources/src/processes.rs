//! A list of all processes, made once, to find the ones that train; not part of a tick.
//!
//! It reuses the job's parsers. sysinfo takes 30 ms for a thousand processes, and supports neither a root other than
//! /proc nor mapped libraries, which are read for the few processes that may be training.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use procfs::{FromRead, Uptime};

use super::files::{numbers_in, read_once};
pub use super::process::stat_of;
use super::{clock, job, process, task_files};
use trainmon_sample::process::{TORCH_WORKER, is_of_learning};

/// Most bytes read of a user file.
const PASSWD_MAX: usize = 1 << 20;

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// PID.
    pub pid: u32,
    /// Parent PID; 0 if it has no parent.
    pub parent: u32,
    /// Name, raw.
    pub comm: String,
    /// Command line, arguments joined by spaces, raw; empty for kernel threads.
    pub command: String,
    /// Owner.
    pub uid: Option<u32>,
    /// Seconds since its start.
    pub age_s: Option<u64>,
}

/// All processes below `proc_root`, by PID.
pub fn list(proc_root: &Path) -> Vec<Listed> {
    let uptime = uptime_s(proc_root).map(|seconds| seconds as u64);
    let mut found: Vec<Listed> = numbers_in(proc_root)
        .filter_map(|pid| {
            let folder = proc_root.join(pid.to_string());
            let line = read_once(folder.join("stat"), 4096).ok()?;
            let stat = task_files::stat(&line)?;
            let started_s = stat.start_ticks / u64::from(clock::ticks_per_second());
            Some(Listed {
                pid,
                parent: stat.parent,
                comm: String::from_utf8_lossy(task_files::comm(&line)?).into_owned(),
                command: process::command(&folder).trim_end().to_owned(),
                uid: process::identity(&folder).0,
                age_s: uptime.map(|uptime| uptime.saturating_sub(started_s)),
            })
        })
        .collect();
    found.sort_unstable_by_key(|process| process.pid);
    found
}

/// Seconds since boot, including suspend.
pub(crate) fn uptime_s(proc_root: &Path) -> Option<f64> {
    let text = read_once(proc_root.join("uptime"), 64).ok()?;
    Uptime::from_read(&*text).ok().map(|since_boot| since_boot.uptime)
}

/// The user that a process belongs to; root for one that has changed its rights (proc(5): `/proc/PID`).
pub fn owner(proc_root: &Path, pid: u32) -> Option<u32> {
    std::fs::metadata(proc_root.join(pid.to_string())).ok().map(|folder| folder.uid())
}

/// User names by UID from a file like `/etc/passwd` (passwd(5)). A directory service may know more.
pub fn user_names(passwd: &Path) -> BTreeMap<u32, String> {
    let text = read_once(passwd, PASSWD_MAX).unwrap_or_default();
    let names = String::from_utf8_lossy(&text);
    let names = names.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        Some((number.parse().ok()?, name.chars().take(64).collect()))
    });
    names.collect()
}

/// The machine-learning library that the process has mapped, by the start of its file name; also `None` if its maps
/// cannot be read.
pub fn library(proc_root: &Path, pid: u32) -> Option<String> {
    let library = job::mapped_library(&proc_root.join(pid.to_string()));
    library.filter(|name| is_of_learning(name)).map(|name| name.to_string())
}

/// Whether its name or program is a Python interpreter.
pub fn is_python(process: &Listed) -> bool {
    let program = process.command.split(' ').next().unwrap_or_default();
    let program = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    [program, process.comm.as_str()].iter().any(|name| name.starts_with("python") || name.starts_with("pypy"))
}

/// Whether it is one of torch's workers, or a helper of Python's multiprocessing (forkserver, resource tracker): part
/// of a job, and never the process to attach to.
pub fn is_part(process: &Listed) -> bool {
    process.comm.starts_with(TORCH_WORKER) || process.command.contains("multiprocessing.")
}

/// How many torch workers each process has. A worker counts for the nearest ancestor that is not part of a job itself:
/// forkserver workers are grandchildren.
pub fn data_workers(processes: &[Listed]) -> BTreeMap<u32, u32> {
    let by_pid: BTreeMap<u32, &Listed> = processes.iter().map(|process| (process.pid, process)).collect();
    let mut count = BTreeMap::new();
    for worker in processes.iter().filter(|process| process.comm.starts_with(TORCH_WORKER)) {
        let above = |process: &&Listed| by_pid.get(&process.parent).copied();
        // A PID reused meanwhile could close a cycle.
        let mut ancestors = std::iter::successors(above(&worker), above).take(64);
        if let Some(job) = ancestors.find(|process| !is_part(process)) {
            *count.entry(job.pid).or_insert(0) += 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn we_are_on_the_list() {
        let me = std::process::id();
        let found = list(Path::new("/proc"));
        let own = found.iter().find(|process| process.pid == me).unwrap();
        assert!(own.command.contains("trainmon"), "{own:?}");
        assert_eq!(own.uid, Some(rustix::process::getuid().as_raw()));
        assert!(own.age_s.is_some_and(|age_s| age_s < 3600), "{own:?}");
        assert!(found.iter().any(|process| process.pid == own.parent));
        assert!(stat_of(Path::new("/proc"), me).unwrap().rss_pages > 0);
    }

    #[test]
    fn a_fixture_tree_is_read() {
        let root = tempfile::tempdir().unwrap();
        let rest = "7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 123456 9000000 512 18446744073709551615 1";
        for (pid, stat, command) in [
            (7, "7 (a) b (c) S 1", &b"python\0train.py\0"[..]),
            (8, "8 (pt_data_worker) S 7", b"python\0"),
            (9, "garbage", b""),
        ] {
            let folder = root.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("stat"), format!("{stat} {rest}\n")).unwrap();
            std::fs::write(folder.join("cmdline"), command).unwrap();
        }
        std::fs::write(root.path().join("uptime"), "5000.10 4000.00\n").unwrap();
        let found = list(root.path());
        assert_eq!(found.len(), 2);
        let first = found.first().unwrap();
        assert_eq!((first.comm.as_str(), first.parent, first.command.as_str()), ("a) b (c", 1, "python train.py"));
        assert_eq!(first.age_s, Some(5000 - 123_456 / rustix::param::clock_ticks_per_second()));
        assert!(is_python(first));
        let used = stat_of(root.path(), 7).unwrap();
        assert_eq!((used.state, used.cpu_ticks(), used.start_ticks, used.rss_pages), ('S', 300, 123_456, 512));
        assert_eq!(stat_of(root.path(), 9), None);
        assert_eq!(data_workers(&found).get(&7), Some(&1));
    }

    proptest! {
        #[test]
        fn any_uptime_is_read_without_panic(bytes: Vec<u8>, text in "[0-9einf. -]{0,20}") {
            let root = tempfile::tempdir().unwrap();
            for bytes in [bytes, text.into_bytes()] {
                std::fs::write(root.path().join("uptime"), bytes).unwrap();
                let _ = uptime_s(root.path());
            }
        }
    }

    #[test]
    fn users_are_named_where_lines_are_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "root:x:0:0:root:/root:/bin/sh\nbroken\nx:y:z:1\nann:x:1000:1000::/h:/s\n")
            .unwrap();
        let names = user_names(file.path());
        assert_eq!(names.into_iter().collect::<Vec<_>>(), [(0, "root".to_owned()), (1000, "ann".to_owned())]);
    }
}
