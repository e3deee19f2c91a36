//! What a person may do to processes: send a signal, which returns one line with its result.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::low_level::signal_name;

use trainmon_base::errors::without_number;
use trainmon_sample::ProcessId;
use trainmon_sources::files::read_once;
use trainmon_sources::task_files;

/// Sends a signal to a process, if it is still the same one.
pub fn signal(proc_root: &Path, process: ProcessId, signal: i32) -> String {
    let pid = process.pid;
    let Some(signal) = Signal::from_named_raw(signal) else { return format!("there is no signal {signal}") };
    let number = signal.as_raw();
    let name = signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned);
    match handle(proc_root, process).and_then(|fd| pidfd_send_signal(fd, signal).map_err(Refused::Kernel)) {
        Ok(()) => format!("sent {name} to {pid}"),
        Err(why) => format!("cannot send {name} to {pid}: {}", why.text(pid)),
    }
}

/// Why nothing was done.
enum Refused {
    /// Ours.
    Reason(&'static str),
    /// The kernel's answer.
    Kernel(Errno),
}

/// The number belongs to another process by now, or to none.
const GONE: Refused = Refused::Kernel(Errno::SRCH);

impl Refused {
    /// In words, with what fixes it.
    fn text(&self, pid: u32) -> String {
        match self {
            Self::Reason(reason) => (*reason).to_owned(),
            Self::Kernel(Errno::SRCH) => "it has ended".to_owned(),
            Self::Kernel(Errno::PERM | Errno::ACCESS) => {
                format!("{pid} belongs to another user; run trainmon with sudo")
            }
            Self::Kernel(Errno::NOSYS) => "this needs Linux 5.3 or later (pidfd)".to_owned(),
            Self::Kernel(error) => without_number(&(*error).into()).to_lowercase(),
        }
    }
}

/// A handle on the process. It is opened BEFORE the start times are compared: what is compared then is what is held, and
/// a number that is used again later cannot be hit.
fn handle(proc_root: &Path, process: ProcessId) -> Result<OwnedFd, Refused> {
    if process.pid == 1 {
        return Err(Refused::Reason("process 1 belongs to the system"));
    }
    if process.pid == std::process::id() {
        return Err(Refused::Reason("this is trainmon itself"));
    }
    let pid = pid_of(process.pid).ok_or(GONE)?;
    let fd = pidfd_open(pid, PidfdFlags::empty()).map_err(Refused::Kernel)?;
    // Under another root the same number may be another process than the one to be signaled.
    let own = Path::new("/proc");
    let roots = [Some(proc_root), (proc_root != own).then_some(own)];
    for root in roots.into_iter().flatten() {
        let path = root.join(process.pid.to_string()).join("stat");
        let bytes = read_once(path, 4096).map_err(|_| GONE)?;
        let stat = task_files::stat(&bytes).ok_or(GONE)?;
        if stat.start_ticks != process.start_ticks || matches!(stat.state, 'Z' | 'X' | 'x') {
            return Err(GONE);
        }
    }
    Ok(fd)
}

fn pid_of(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
