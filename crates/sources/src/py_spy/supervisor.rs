//! The process between trainmon and py-spy, so that nothing of py-spy outlives its window.
//!
//! A py-spy that hangs, or anything it starts, must not keep running beside the job: not after its time is over, not
//! after trainmon is killed with SIGKILL, and not if it detaches itself (`setsid`, two forks). So py-spy is started
//! through this executable, which becomes the subreaper of all its descendants (`PR_SET_CHILD_SUBREAPER`, prctl(2)):
//! orphans become its children instead of init's. It ends when py-spy has ended, or when the other end of its standard
//! input is closed, by trainmon or by the kernel when trainmon dies. Before that it kills and reaps every descendant. A
//! run costs about 1 ms of CPU time.
//!
//! The request comes over a socket, together with open files: the three standard streams and, if one is held, the
//! binary to execute.

use std::ffi::{OsStr, OsString};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, WaitOptions};

use super::find::USUAL_PATH;
use crate::descriptors;
use crate::files::numbers_in;
use crate::process::stat_of;
use crate::trusted_program::TrustedProgram;
use trainmon_base::errors::ExitCode;
use trainmon_base::signals;

/// First argument that makes this executable supervise py-spy. Not offered to users.
pub(super) const SUPERVISE: &str = "supervise-py-spy";
/// This executable.
const OWN: &str = "/proc/self/exe";
/// Longest request, bytes.
const REQUEST: usize = 16 << 10;
/// Open files that come with every request.
const STANDARD_FILES: usize = 4;
/// Lower priority than the job's: py-spy must not take its CPU time.
const NICE: i32 = 5;
/// How often to poll for py-spy's end if the kernel cannot report it (no pidfd before Linux 5.3).
const LOOK: Duration = Duration::from_millis(20);
/// Pause between attempts to kill descendants, and how many attempts to make.
const AGAIN: Duration = Duration::from_millis(2);
const SPAWN_ATTEMPTS: u32 = 500;

/// The command that starts the supervisor: the program and its arguments.
static PROGRAM: OnceLock<(PathBuf, Vec<OsString>)> = OnceLock::new();

/// Sets the supervisor program if this executable is not trainmon: for tests, before the first py-spy.
pub fn supervise_with(program: impl Into<PathBuf>, arguments: &[&str]) {
    let arguments = arguments.iter().map(Into::into).collect();
    let _ = PROGRAM.set((program.into(), arguments));
}

/// This executable with its keyword.
fn own_program() -> (PathBuf, Vec<OsString>) {
    (OWN.into(), vec![SUPERVISE.into()])
}

/// The outcome of py-spy's run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It has ended, along with everything it started.
    Ended(ExitStatus),
    /// It could not be started: the errno.
    NotStarted(i32),
}

/// A running supervisor, seen from trainmon. Dropping it ends whatever it supervises.
#[derive(Debug)]
pub struct Supervisor {
    control: OwnedFd,
    /// The process, still to be reaped.
    pub child: Child,
}

impl Supervisor {
    /// Starts py-spy with these arguments and standard streams; none of its files may exceed `most` bytes.
    ///
    /// # Errors
    /// If the supervisor cannot be started.
    pub fn start(
        program: &TrustedProgram,
        arguments: &[&str],
        streams: [BorrowedFd<'_>; 3],
        most: u64,
    ) -> io::Result<Self> {
        let (control, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let most = most.to_string();
        let fields = [most.as_bytes(), program.path.as_os_str().as_bytes()]
            .into_iter()
            .chain(arguments.iter().map(|one| one.as_bytes()));
        let request = fields.collect::<Vec<_>>().join(&0);
        let files: Vec<_> = streams.into_iter().chain(program.held.as_ref().map(AsFd::as_fd)).collect();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STANDARD_FILES))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&control, &[IoSlice::new(&request)], &mut ancillary, SendFlags::NOSIGNAL)?;
        let (own, own_arguments) = PROGRAM.get_or_init(own_program);
        let mut command = Command::new(own);
        command.arg0("trainmon").args(own_arguments);
        if program.clean {
            command.env_clear().env("PATH", USUAL_PATH).env("LANG", "C.UTF-8");
        }
        // These would add pages of messages and backtraces.
        for variable in ["RUST_LOG", "RUST_BACKTRACE", "RUST_LIB_BACKTRACE"] {
            command.env_remove(variable);
        }
        // Its own process group: Ctrl-C at the terminal is for trainmon only.
        command.stdin(other).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let starting = signals::starting();
        let child = command.spawn()?;
        drop(starting);
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            descriptors::restore_limit(pid);
        }
        Ok(Self { child, control })
    }

    /// Waits for the end, at most this long.
    ///
    /// # Errors
    /// If the supervisor is gone without an answer.
    pub fn answer(&self, time_out: Duration) -> io::Result<Option<Answer>> {
        if !wait_for(&mut [PollFd::new(&self.control, PollFlags::IN)], Some(time_out))? {
            return Ok(None);
        }
        let mut answer = [0; 5];
        let (length, _) = recv(&self.control, &mut answer, RecvFlags::DONTWAIT)?;
        let [kind, value @ ..] = answer;
        let value = i32::from_le_bytes(value);
        match (length, kind) {
            (5, 0) => Ok(Some(Answer::Ended(ExitStatus::from_raw(value)))),
            (5, _) => Ok(Some(Answer::NotStarted(value))),
            _ => Err(io::Error::other("the process that watches over it was ended")),
        }
    }

    /// Ends py-spy and everything it started; the supervisor must then still be reaped.
    pub fn end(self) -> Child {
        self.child
    }
}

/// Supervises py-spy, if the arguments ask for it.
pub fn run_part(arguments: &[OsString]) -> Option<ExitCode> {
    if arguments.get(1)? != SUPERVISE {
        return None;
    }
    // trainmon reads the answer from the socket; there is no other place to report to.
    Some(serve(io::stdin().as_fd()).map_or(ExitCode::FAILED, |()| ExitCode::DONE))
}

/// Serves one request from this socket.
///
/// # Errors
/// If there is no request, or it cannot be answered.
pub fn serve(control: BorrowedFd<'_>) -> io::Result<()> {
    let mut request = vec![0; REQUEST];
    let (length, files) = receive(control, &mut request)?;
    let mut fields = request.get(..length).unwrap_or_default().split(|&byte| byte == 0);
    let most = fields.next().and_then(|most| std::str::from_utf8(most).ok()?.parse().ok());
    let (Some(most), Some(path)) = (most, fields.next()) else { return Err(io::ErrorKind::InvalidData.into()) };
    let mut files = files.into_iter();
    let (Some(document), Some(out), Some(err)) = (files.next(), files.next(), files.next()) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    let held = files.next();
    // A process may always set these for itself, and only tidiness depends on them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let _ = rustix::process::setpriority_process(None, NICE);
    let _ = rustix::process::setrlimit(Resource::Fsize, Rlimit { current: Some(most), maximum: Some(most) });
    let _ = rustix::thread::set_name(c"trainmon-py-spy");
    let mut command = match &held {
        Some(held) => Command::new(format!("/proc/self/fd/{}", held.as_raw_fd())),
        None => Command::new(OsStr::from_bytes(path)),
    };
    // An interpreter finds its library by its own path.
    command.arg0(OsStr::from_bytes(path));
    command.args(fields.map(OsStr::from_bytes)).process_group(0);
    let started = command.stdin(document).stdout(out).stderr(err).spawn();
    drop((command, held));
    let mut child = match started {
        Ok(child) => child,
        Err(error) => return answer(control, 1, error.raw_os_error().unwrap_or(0)),
    };
    let status = watch(&mut child, control)?;
    end_descendants();
    status.map_or(Ok(()), |status| answer(control, 0, status.into_raw()))
}

/// Waits for py-spy to end, or for trainmon to close its end of the socket: `None`.
fn watch(child: &mut Child, control: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    let pid = Pid::from_child(child);
    let ended = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let mut fds = vec![PollFd::new(&control, PollFlags::IN)];
        fds.extend(ended.as_ref().map(|ended| PollFd::new(ended, PollFlags::IN)));
        wait_for(&mut fds, ended.is_none().then_some(LOOK))?;
        if fds.first().is_some_and(|control| !control.revents().is_empty()) {
            // It is not reaped yet, so the PID is still its own.
            let _ = rustix::process::kill_process_group(pid, Signal::KILL);
            return Ok(None);
        }
    }
}

/// Kills and reaps every descendant: the children, then what they leave behind, which are children by then.
fn end_descendants() {
    let mut attempts = 0;
    while attempts < SPAWN_ATTEMPTS {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => continue,
            Ok(None) => {}
            Err(_) => return, // no children left
        }
        let kill = |pid: &Pid| rustix::process::kill_process(*pid, Signal::KILL).is_ok();
        if children().filter(kill).count() > 0 {
            let _ = rustix::process::wait(WaitOptions::empty());
        } else {
            // It has rights of its own (setuid), or ended while the list was read.
            attempts += 1;
            std::thread::sleep(AGAIN);
        }
    }
}

/// The children of this process.
fn children() -> impl Iterator<Item = Pid> {
    let (proc_root, own) = (Path::new("/proc"), std::process::id());
    let is_own = move |pid: &u32| stat_of(proc_root, *pid).is_some_and(|stat| stat.parent == own);
    numbers_in(proc_root).filter(is_own).filter_map(|pid| Pid::from_raw(pid.cast_signed()))
}

fn receive(control: BorrowedFd<'_>, request: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(STANDARD_FILES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut room);
    let received = recvmsg(control, &mut [IoSliceMut::new(request)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(more) = message {
            files.extend(more);
        }
    }
    Ok((received.bytes, files))
}

fn answer(control: BorrowedFd<'_>, kind: u8, value: i32) -> io::Result<()> {
    let [a, b, c, d] = value.to_le_bytes();
    send(control, &[kind, a, b, c, d], SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Whether one of these is ready within the time; without a time it waits forever.
fn wait_for(fds: &mut [PollFd<'_>], time_out: Option<Duration>) -> io::Result<bool> {
    let time_out = time_out.and_then(|time_out| Timespec::try_from(time_out).ok());
    match poll(fds, time_out.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
