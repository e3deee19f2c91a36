//! A one-time look at all processes, to find the ones that train: not for the tick path.
//!
//! The list itself comes from sysinfo (or, with another root than /proc, from its folders); what sysinfo does not
//! know, the mapped libraries, is read for the few processes that may be training.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;

use sysinfo::{ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind};

/// No more of a file of users than this is read.
const PASSWD_MAX: u64 = 1 << 20;

/// No more of a command line than this is kept.
const COMMAND_MAX: usize = 4096;

/// One process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// PID.
    pub pid: u32,
    /// Parent PID, 0 for none.
    pub parent: u32,
    /// Name, raw.
    pub comm: String,
    /// Command line, arguments joined by spaces, raw; empty for kernel threads.
    pub command: String,
    /// Owner.
    pub uid: Option<u32>,
    /// Seconds since it was started.
    pub age_s: Option<u64>,
    /// A machine-learning library that it has mapped. `None` also where its maps may not be read.
    pub library: Option<String>,
}

/// All processes below `proc_root`, without libraries.
#[must_use]
pub fn list(proc_root: &Path) -> Vec<Listed> {
    if proc_root == Path::new("/proc") { of_this_host() } else { below(proc_root) }
}

fn of_this_host() -> Vec<Listed> {
    let Ok(mut system) = System::new() else { return below(Path::new("/proc")) };
    let wanted = ProcessRefreshKind::nothing().with_cmd(UpdateKind::Always).with_user(UpdateKind::Always);
    let _ = system.refresh_processes_specifics(ProcessesToUpdate::All, true, wanted.without_tasks());
    let mut found: Vec<Listed> = system
        .processes()
        .iter()
        .map(|(pid, process)| Listed {
            pid: pid.as_u32(),
            parent: process.parent().map_or(0, sysinfo::Pid::as_u32),
            comm: process.name().to_string_lossy().into_owned(),
            command: joined(process.cmd().iter().map(|argument| argument.to_string_lossy())),
            uid: process.user_id().map(|uid| **uid),
            age_s: Some(process.run_time()),
            library: None,
        })
        .collect();
    found.sort_unstable_by_key(|process| process.pid);
    found
}

fn below(proc_root: &Path) -> Vec<Listed> {
    let Ok(folders) = std::fs::read_dir(proc_root) else { return Vec::new() };
    let mut found: Vec<Listed> = folders
        .flatten()
        .filter_map(|folder| folder.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| {
            let folder = proc_root.join(pid.to_string());
            let (comm, parent) = comm_and_parent(&limited(&folder.join("stat"), 4096)?)?;
            let command = limited(&folder.join("cmdline"), COMMAND_MAX as u64).unwrap_or_default();
            let words = command.split(|&byte| byte == 0).map(String::from_utf8_lossy);
            Some(Listed { pid, parent, comm, command: joined(words), ..Listed::default() })
        })
        .collect();
    found.sort_unstable_by_key(|process| process.pid);
    found
}

fn limited(path: &Path, most: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn joined(words: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut command = String::new();
    for word in words {
        if command.len() > COMMAND_MAX {
            break;
        }
        if !command.is_empty() {
            command.push(' ');
        }
        command.push_str(word.as_ref());
    }
    command.trim_end().chars().take(COMMAND_MAX).collect()
}

/// Name and parent from `/proc/PID/stat` (proc(5)): `PID (COMM) STATE PPID …`, where COMM may hold anything.
fn comm_and_parent(stat: &[u8]) -> Option<(String, u32)> {
    let open = stat.iter().position(|&byte| byte == b'(')?;
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let comm = String::from_utf8_lossy(stat.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(stat.get(close + 1..)?).ok()?;
    Some((comm, rest.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

/// What one process uses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// State letter.
    pub state: char,
    /// CPU time of all its threads, clock ticks.
    pub cpu_ticks: u64,
    /// When it was started, clock ticks since boot: with the PID this names it for ever.
    pub start_ticks: u64,
    /// Resident memory, pages.
    pub rss_pages: u64,
}

/// What a process uses; `None` when it has ended.
#[must_use]
pub fn usage(proc_root: &Path, pid: u32) -> Option<Usage> {
    usage_in(&limited(&proc_root.join(pid.to_string()).join("stat"), 4096)?)
}

/// Fields 3, 14 and 15, 22 and 24 of `/proc/PID/stat` (proc(5)).
fn usage_in(stat: &[u8]) -> Option<Usage> {
    let close = stat.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<&str> =
        std::str::from_utf8(stat.get(close + 1..)?).ok()?.split_ascii_whitespace().take(22).collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Usage {
        state: fields.first()?.chars().next()?,
        cpu_ticks: number(14)?.saturating_add(number(15)?),
        start_ticks: number(22)?,
        rss_pages: number(24)?,
    })
}

/// Names of the users in a file like `/etc/passwd` (passwd(5)), by their number. A directory service may know more.
#[must_use]
pub fn user_names(passwd: &Path) -> BTreeMap<u32, String> {
    let bytes = limited(passwd, PASSWD_MAX).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let names = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        Some((number.parse().ok()?, name.chars().take(64).collect()))
    });
    names.collect()
}

/// A machine-learning library that the process has mapped, by the beginning of its file name. `None` as well when its
/// maps may not be read.
#[must_use]
pub fn library(proc_root: &Path, pid: u32) -> Option<String> {
    super::job::mapped_library(&proc_root.join(pid.to_string())).map(|name| name.to_string())
}

/// Whether the name or the program is a Python interpreter.
#[must_use]
pub fn is_python(process: &Listed) -> bool {
    let program = process.command.split(' ').next().unwrap_or_default();
    let program = Path::new(program).file_name().and_then(OsStr::to_str).unwrap_or_default();
    [program, process.comm.as_str()].iter().any(|name| name.starts_with("python") || name.starts_with("pypy"))
}

/// One of torch's data workers, or a helper of Python's multiprocessing (forkserver, resource tracker): part of a
/// job, never the one to attach to.
#[must_use]
pub fn is_part(process: &Listed) -> bool {
    process.comm.starts_with(super::roles::TORCH_WORKER) || process.command.contains("multiprocessing.")
}

/// How many of torch's data workers each process has. A worker counts for the nearest process above it that is not
/// itself a part of a job: forkserver workers are grandchildren.
#[must_use]
pub fn data_workers(processes: &[Listed]) -> BTreeMap<u32, u32> {
    let by_pid: BTreeMap<u32, &Listed> = processes.iter().map(|process| (process.pid, process)).collect();
    let mut count = BTreeMap::new();
    for worker in processes.iter().filter(|process| process.comm.starts_with(super::roles::TORCH_WORKER)) {
        let mut at = worker.parent;
        // A PID that was reused meanwhile could close a ring.
        for _ in 0..64 {
            match by_pid.get(&at) {
                Some(above) if is_part(above) => at = above.parent,
                Some(_) => {
                    *count.entry(at).or_insert(0) += 1;
                    break;
                }
                None => break,
            }
        }
    }
    count
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn we_are_on_the_list() {
        let me = std::process::id();
        for found in [list(Path::new("/proc")), below(Path::new("/proc"))] {
            let own = found.iter().find(|process| process.pid == me).unwrap();
            assert!(own.command.contains("trainmon"), "{own:?}");
            assert!(found.iter().any(|process| process.pid == own.parent));
        }
    }

    #[test]
    fn a_fixture_tree_is_read() {
        let root = tempfile::tempdir().unwrap();
        for (pid, stat, command) in [
            (7, "7 (a) b (c) S 1 7", &b"python\0train.py\0"[..]),
            (8, "8 (pt_data_worker) S 7 7", b"python\0"),
            (9, "garbage", b""),
        ] {
            let folder = root.path().join(pid.to_string());
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("stat"), stat).unwrap();
            std::fs::write(folder.join("cmdline"), command).unwrap();
        }
        let found = list(root.path());
        assert_eq!(found.len(), 2);
        let first = found.first().unwrap();
        assert_eq!((first.comm.as_str(), first.parent, first.command.as_str()), ("a) b (c", 1, "python train.py"));
        assert!(is_python(first));
        assert_eq!(data_workers(&found).get(&7), Some(&1));
    }

    #[test]
    fn usage_is_read_behind_any_name() {
        let stat = b"7 (a) R 9) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 4 0 123456 9000000 512 18446744073709551615 1";
        let used = usage_in(stat).unwrap();
        assert_eq!(used, Usage { state: 'S', cpu_ticks: 300, start_ticks: 123_456, rss_pages: 512 });
        assert_eq!(usage_in(b"7 (a) S 1"), None);
        assert!(usage(Path::new("/proc"), std::process::id()).unwrap().rss_pages > 0);
    }

    #[test]
    fn users_are_named_where_lines_are_whole() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "root:x:0:0:root:/root:/bin/sh\nbroken\nx:y:z:1\nann:x:1000:1000::/h:/s\n")
            .unwrap();
        let names = user_names(file.path());
        assert_eq!(names.into_iter().collect::<Vec<_>>(), [(0, "root".to_owned()), (1000, "ann".to_owned())]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = comm_and_parent(&bytes);
            let _ = usage_in(&bytes);
            let _ = joined(bytes.split(|&b| b == 0).map(String::from_utf8_lossy));
        }
    }
}
