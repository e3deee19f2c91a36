//! The checks that read the kernel's files: what we may see of the host and of one process.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::{State, Told, fixed, told};
use crate::errors::Failure;
use crate::sample::job::unread_accelerators;
use crate::sources::accelerators::OpenDevices;
use crate::sources::files::read_once;
use crate::sources::job::AttachError;

/// `CAP_SYS_PTRACE` (include/uapi/linux/capability.h).
const CAP_SYS_PTRACE: u32 = 19;
/// What fixes most refusals.
const SUDO: &str = "sudo trainmon …";

fn text_of(path: impl AsRef<Path>) -> io::Result<String> {
    let text = read_once(path, 1 << 16)?;
    Ok(String::from_utf8_lossy(&text).trim().to_owned())
}

pub(super) fn kernel(proc: &Path) -> Told {
    match text_of(proc.join("sys/kernel/osrelease")) {
        Ok(release) => told(State::Ok, format!("Linux {release}, {}", std::env::consts::ARCH)),
        Err(error) => told(State::Limited, format!("no release to be read: {error}")),
    }
}

/// Who we are, and whether we have CAP_SYS_PTRACE.
pub(super) fn own_rights(proc: &Path) -> (Option<u32>, bool) {
    let status = text_of(proc.join("self/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let uid = field("Uid:").and_then(|ids| ids.split_whitespace().nth(1)).and_then(|uid| uid.parse().ok());
    let capabilities = field("CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    (uid, capabilities.is_some_and(|mask| mask & (1 << CAP_SYS_PTRACE) != 0))
}

pub(super) fn rights(uid: Option<u32>, ptrace: bool) -> Told {
    let who = match uid {
        Some(0) => "root".to_owned(),
        Some(uid) => format!("user {uid}"),
        None => "unknown user".to_owned(),
    };
    if ptrace {
        return told(State::Ok, format!("{who}, with CAP_SYS_PTRACE: every process can be read"));
    }
    let detail =
        format!("{who}, without CAP_SYS_PTRACE: of other users' processes only CPU time and states can be read");
    fixed(State::Limited, detail, "sudo trainmon … (only needed for other users' processes)")
}

/// Documentation/admin-guide/LSM/Yama.rst.
pub(super) fn yama(proc: &Path, privileged: bool) -> Told {
    let blind = "waits are told apart by wchan and state alone";
    match (text_of(proc.join("sys/kernel/yama/ptrace_scope")).as_deref(), privileged) {
        (Err(_), _) => told(State::Ok, "not in this kernel: one's own processes can be read in full"),
        (Ok("0"), _) => told(State::Ok, "ptrace_scope 0: one's own processes can be read in full"),
        (Ok(scope @ ("1" | "2")), true) => {
            told(State::Ok, format!("ptrace_scope {scope}, which does not bind us (CAP_SYS_PTRACE)"))
        }
        (Ok(scope @ ("1" | "2")), false) => fixed(
            State::Limited,
            format!("ptrace_scope {scope}: /proc/PID/syscall of running jobs is denied; {blind}"),
            "sudo trainmon …, or: sudo sysctl kernel.yama.ptrace_scope=0",
        ),
        (Ok(scope), _) => fixed(
            State::Limited,
            format!("ptrace_scope {scope}: nobody may attach until the next boot; {blind}"),
            "set kernel.yama.ptrace_scope=1 in /etc/sysctl.d and reboot",
        ),
    }
}

/// Mount option of /proc (proc(5)).
pub(super) fn hidepid(proc: &Path, privileged: bool) -> Told {
    match crate::sources::hidepid::option(proc) {
        None => told(State::Ok, "all are listed in /proc"),
        Some(option) if privileged => told(State::Ok, format!("/proc has {option}, which does not bind us")),
        Some(option) => fixed(
            State::Limited,
            format!("/proc is mounted with {option}: other users' processes are hidden"),
            "sudo trainmon …, or: sudo mount -o remount,hidepid=0 /proc",
        ),
    }
}

/// How many files may be open.
pub(super) fn descriptors() -> Told {
    match crate::sources::descriptors::shortage() {
        None => told(State::Ok, "enough for jobs of some hundred processes"),
        Some((reason, fix)) => fixed(
            State::Limited,
            format!("{reason}: of large jobs files are opened for each look, and some waits are not sampled"),
            fix,
        ),
    }
}

/// Documentation/accounting/psi.rst.
pub(super) fn pressure(proc: &Path) -> Told {
    match text_of(proc.join("pressure/cpu")) {
        Ok(text) if text.starts_with("some") => told(State::Ok, "PSI of CPU, I/O and memory"),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            fixed(State::Denied, "/proc/pressure may not be read", SUDO)
        }
        _ => fixed(
            State::Absent,
            "the kernel gives no pressure (PSI)",
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
            "no hierarchy at /sys/fs/cgroup: CPU and memory limits are not seen",
            "mount it: sudo mount -t cgroup2 none /sys/fs/cgroup (in a container: start it with the host's)",
        )
    }
}

/// What may be read of one process.
pub(super) fn of_process(proc: &Path, pid: u32, ptrace: bool) -> Result<Vec<(&'static str, Told)>, Failure> {
    let folder = proc.join(pid.to_string());
    let stat = text_of(folder.join("stat")).map_err(|error| {
        Failure::no_process(match error.kind() {
            ErrorKind::NotFound => AttachError::missing(proc, pid).to_string(),
            _ => format!("process {pid} may not be seen: {error}; try sudo trainmon doctor"),
        })
    })?;
    let comm = text_of(folder.join("comm")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim().chars().next().unwrap_or('?');
    let syscall = "tells waits for batches from other waits";
    let syscall = if ptrace {
        access(&folder, "syscall", syscall)
    } else {
        told(State::Limited, format!("{syscall}: not read with --no-ptrace"))
    };
    let mut all = vec![("process", told(State::Ok, format!("{pid} {comm}, state {state}"))), ("syscall", syscall)];
    for (file, use_of_it) in [
        ("wchan", "tells what a thread waits for"),
        ("io", "bytes read and written"),
        ("fd", "open files: which disks hold the data, which devices are in use"),
        ("maps", "mapped libraries: is it a training program"),
    ] {
        all.push((file, access(&folder, file, use_of_it)));
    }
    let unread: Vec<_> = OpenDevices::of(&folder).accelerators.into_iter().collect();
    if !unread.is_empty() {
        all.push(("accelerator", told(State::Limited, unread_accelerators(&unread))));
    }
    all.push(("namespace", namespace(proc, &folder)));
    Ok(all)
}

fn namespace(proc: &Path, folder: &Path) -> Told {
    match (fs::read_link(proc.join("self/ns/pid")), fs::read_link(folder.join("ns/pid"))) {
        (Ok(own), Ok(other)) if own == other => told(State::Ok, "the same PID namespace as ours"),
        (Ok(_), Ok(_)) => told(State::Limited, "another PID namespace (a container): its own PIDs differ from ours"),
        _ => fixed(State::Denied, "its PID namespace may not be read", SUDO),
    }
}

/// Whether one file of a process may be read.
fn access(folder: &Path, file: &str, use_of_it: &'static str) -> Told {
    let path = folder.join(file);
    let tried = if path.is_dir() { fs::read_dir(&path).map(drop) } else { text_of(&path).map(drop) };
    // wchan does not refuse: it reads 0 to those who may not see it, as it does for a running thread.
    let fd = folder.join("fd");
    let hidden = file == "wchan" && fs::metadata(&fd).is_ok() && fs::read_dir(&fd).is_err();
    match tried.map_err(|error| (error.kind(), error)) {
        Ok(()) if hidden => fixed(State::Denied, format!("reads 0 without the right to see more; {use_of_it}"), SUDO),
        Ok(()) => told(State::Ok, use_of_it),
        Err((ErrorKind::PermissionDenied, _)) => fixed(State::Denied, format!("{use_of_it}: may not be read"), SUDO),
        Err((ErrorKind::NotFound, _)) => {
            told(State::Absent, format!("{use_of_it}: not in this kernel, or the process has just ended"))
        }
        Err((_, error)) => fixed(State::Denied, format!("{use_of_it}: {error}"), SUDO),
    }
}
