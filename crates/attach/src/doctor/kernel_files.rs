//! The checks that read the kernel's files: what trainmon can read of the host and of one process.

use std::borrow::Cow;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use super::{State, Told, fixed, told};
use trainmon_base::errors::{Failure, without_number};
use trainmon_base::text::sudo_command;
use trainmon_sample::job::unread_accelerators;
use trainmon_sources::accelerators::OpenDevices;
use trainmon_sources::files::read_once;
use trainmon_sources::job::AttachError;
use trainmon_sources::namespaces;

/// `CAP_SYS_PTRACE` (include/uapi/linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;
/// `CAP_DAC_OVERRIDE` and `CAP_DAC_READ_SEARCH`: either opens files whose mode allows only their owner, as those of other users'
/// processes are.
const CAPS_DAC: [u32; 2] = [1, 2];
/// With whose rights trainmon reads.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnRights {
    /// The effective user.
    uid: Option<u32>,
    /// Whether CAP_SYS_PTRACE is effective.
    pub(super) ptrace: bool,
    /// Whether one of [`CAPS_DAC`] is.
    opens: bool,
}

impl OwnRights {
    /// What gives trainmon the right to read everything, run with these arguments.
    fn more(self, arguments: &str) -> String {
        match self.uid {
            // Root without the capability is in a container, and sudo does not help.
            Some(0) => "in a container, start it with --cap-add SYS_PTRACE".to_owned(),
            _ => sudo_command(arguments),
        }
    }

    /// The same, for what was denied: none where trainmon has all rights already.
    fn fix(self, arguments: &str) -> Option<String> {
        let has_all = self.uid == Some(0) && self.ptrace;
        (!has_all).then(|| self.more(arguments))
    }
}

fn denied(detail: impl Into<Cow<'static, str>>, fix: Option<&str>) -> Told {
    (State::Denied, detail.into(), fix.map(|fix| fix.to_owned().into()))
}

fn text_of(path: impl AsRef<Path>) -> io::Result<String> {
    let text = read_once(path, 1 << 16)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

pub(super) fn kernel(proc: &Path) -> Told {
    match text_of(proc.join("sys/kernel/osrelease")) {
        Ok(release) => told(State::Ok, format!("Linux {release}, {}", std::env::consts::ARCH)),
        Err(error) => told(State::Limited, format!("cannot read the kernel's version: {error}")),
    }
}

pub(super) fn own_rights(proc: &Path) -> OwnRights {
    let status = text_of(proc.join("self/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let uid = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)).and_then(|uid| uid.parse().ok());
    let capabilities = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let has = |capability: u32| capabilities.is_some_and(|mask| mask & (1 << capability) != 0);
    OwnRights { uid, ptrace: has(CAP_SYS_PTRACE), opens: CAPS_DAC.into_iter().any(has) }
}

pub(super) fn rights(own: OwnRights) -> Told {
    let user = match own.uid {
        Some(0) => "root".to_owned(),
        Some(uid) => format!("user {uid}"),
        None => "unknown user".to_owned(),
    };
    if own.ptrace && own.opens {
        return told(State::Ok, format!("{user}, with CAP_SYS_PTRACE: can read every process"));
    }
    if own.ptrace {
        let detail =
            format!("{user}, with CAP_SYS_PTRACE, but the modes of other users' files in /proc are in the way");
        return fixed(State::Limited, detail, "add the capability DAC_READ_SEARCH");
    }
    let detail =
        format!("{user}, without CAP_SYS_PTRACE: of other users' processes only CPU time and state are readable");
    fixed(State::Limited, detail, format!("{} (only needed for other users' processes)", own.more("…")))
}

/// Documentation/admin-guide/LSM/Yama.rst.
pub(super) fn yama(proc: &Path, own: OwnRights) -> Told {
    let blind = "waits are recognized by wchan and thread state alone";
    match (text_of(proc.join("sys/kernel/yama/ptrace_scope")).as_deref(), own.ptrace) {
        (Err(_), _) => told(State::Ok, "not in this kernel: your own processes are fully readable"),
        (Ok("0"), _) => told(State::Ok, "ptrace_scope 0: your own processes are fully readable"),
        (Ok(scope @ ("1" | "2")), true) => {
            told(State::Ok, format!("ptrace_scope {scope}, overridden by CAP_SYS_PTRACE"))
        }
        (Ok(scope @ ("1" | "2")), false) => fixed(
            State::Limited,
            format!("ptrace_scope {scope}: cannot read /proc/PID/syscall of running jobs; {blind}"),
            match own.uid {
                Some(0) => own.more("…"),
                _ => format!("{}, or: sudo sysctl kernel.yama.ptrace_scope=0", own.more("…")),
            },
        ),
        (Ok(scope), _) => fixed(
            State::Limited,
            format!("ptrace_scope {scope}: no process may attach to another until the next boot; {blind}"),
            "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot",
        ),
    }
}

/// Mount option of /proc (proc(5)).
pub(super) fn hidepid(proc: &Path, own: OwnRights) -> Told {
    match trainmon_sources::hidepid::option(proc) {
        None => told(State::Ok, "/proc lists all processes"),
        Some(option) if own.ptrace => {
            told(State::Ok, format!("/proc is mounted with {option}, overridden by CAP_SYS_PTRACE"))
        }
        Some(option) => fixed(
            State::Limited,
            format!("/proc is mounted with {option}: processes of other users are hidden"),
            match own.uid {
                Some(0) => "mount -o remount,hidepid=0 /proc".to_owned(),
                _ => format!("{}, or: sudo mount -o remount,hidepid=0 /proc", own.more("…")),
            },
        ),
    }
}

/// How many files may be open.
pub(super) fn descriptors() -> Told {
    match trainmon_sources::descriptors::shortage() {
        None => told(State::Ok, "enough for jobs with hundreds of processes"),
        Some((reason, fix)) => fixed(
            State::Limited,
            format!("{reason}: in large jobs files are reopened for each sample, and some waits are not sampled"),
            fix,
        ),
    }
}

/// Documentation/accounting/psi.rst.
pub(super) fn pressure(proc: &Path, own: OwnRights) -> Told {
    match text_of(proc.join("pressure/cpu")) {
        Ok(text) if text.starts_with("some") => told(State::Ok, "CPU, I/O and memory (PSI)"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            denied("cannot read /proc/pressure: permission denied", own.fix("…").as_deref())
        }
        _ => fixed(
            State::Absent,
            "this kernel does not report pressure (PSI)",
            "boot with psi=1 on the kernel command line (needs CONFIG_PSI)",
        ),
    }
}

pub(super) fn cgroup(root: &Path) -> Told {
    let has = |name: &str| root.join(name).exists();
    if has("cgroup.controllers") {
        let controllers = text_of(root.join("cgroup.controllers")).unwrap_or_default();
        told(State::Ok, format!("v2, controllers: {controllers}"))
    } else if has("unified/cgroup.controllers") {
        told(State::Ok, "hybrid: v1 controllers, v2 for processes")
    } else if ["cpu", "cpu,cpuacct", "memory"].into_iter().any(has) {
        told(State::Ok, "v1")
    } else {
        fixed(
            State::Absent,
            "nothing is mounted at /sys/fs/cgroup: CPU and memory limits are unknown",
            "mount it: sudo mount -t cgroup2 none /sys/fs/cgroup (in a container: start it with the host's)",
        )
    }
}

/// What trainmon can read of one process; `ptrace` unless --no-ptrace was given. `read` are the files of GPUs that can be read.
pub(super) fn of_process(
    proc: &Path,
    pid: u32,
    own: OwnRights,
    ptrace: bool,
    read: &[Arc<str>],
) -> Result<Vec<(&'static str, Told)>, Failure> {
    let folder = proc.join(pid.to_string());
    let stat = text_of(folder.join("stat")).map_err(|error| {
        Failure::no_process(match error.kind() {
            ErrorKind::NotFound => AttachError::missing(proc, pid).to_string(),
            _ => match own.fix(&format!("doctor {pid}")) {
                Some(fix) => format!("cannot read process {pid}: {error}; try {fix}"),
                None => format!("cannot read process {pid}: {error}"),
            },
        })
    })?;
    let comm = text_of(folder.join("comm")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next().unwrap_or('?');
    let fix = own.fix(&pid.to_string());
    let fix = fix.as_deref();
    let syscall = "what each thread waits for";
    let syscall = if ptrace {
        access(&folder, "syscall", syscall, fix)
    } else {
        told(State::Limited, format!("{syscall}: not read, because of --no-ptrace"))
    };
    let mut all = vec![("process", told(State::Ok, format!("{pid} {comm}, state {state}"))), ("syscall", syscall)];
    for (file, use_of_it) in [
        ("wchan", "the kernel function that a thread waits in"),
        ("io", "bytes read and written"),
        ("fd", "open files: the disks with the data, the GPUs in use"),
        ("maps", "mapped libraries: whether this is a training program"),
    ] {
        all.push((file, access(&folder, file, use_of_it, fix)));
    }
    let is_unread = |file: &Arc<str>| !read.contains(file);
    let unread: Vec<_> = OpenDevices::find(&folder).accelerators.into_iter().filter(is_unread).collect();
    if !unread.is_empty() {
        all.push(("accelerator", told(State::Limited, unread_accelerators(&unread))));
    }
    all.push(("namespace", namespace(proc, &folder, fix)));
    Ok(all)
}

fn namespace(proc: &Path, folder: &Path, fix: Option<&str>) -> Told {
    match namespaces::is_same(proc, folder, "pid") {
        Some(true) => told(State::Ok, "the same PID namespace as trainmon"),
        Some(false) => told(
            State::Limited,
            "another PID namespace (a container): PIDs inside it differ from the ones shown here",
        ),
        None => denied("cannot read its PID namespace: permission denied", fix),
    }
}

/// Whether trainmon can read one file of a process, and if not, what is missing and the fix.
fn access(folder: &Path, file: &str, use_of_it: &'static str, fix: Option<&str>) -> Told {
    let path = folder.join(file);
    let tried = if path.is_dir() { fs::read_dir(&path).map(drop) } else { text_of(&path).map(drop) };
    // wchan is never refused: without the right to read it, it says 0, like that of a running thread.
    let fd = folder.join("fd");
    let hidden = file == "wchan" && fs::metadata(&fd).is_ok() && fs::read_dir(&fd).is_err();
    match tried.map_err(|error| (error.kind(), error)) {
        Ok(()) if hidden => denied(format!("{use_of_it}: the kernel shows 0 without permission"), fix),
        Ok(()) => told(State::Ok, use_of_it),
        Err((ErrorKind::PermissionDenied, _)) => denied(format!("{use_of_it}: permission denied"), fix),
        Err((ErrorKind::NotFound, _)) => {
            told(State::Absent, format!("{use_of_it}: missing in this kernel, or the process has just ended"))
        }
        Err((_, error)) => denied(format!("{use_of_it}: {}", without_number(&error)), fix),
    }
}
