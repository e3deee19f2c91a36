//! The socket that libkineto asks.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

// rustix 1.1 reads the PID of a process outside of this namespace, 0, as a number that cannot be 0.
use nix::errno::Errno;
use nix::sys::socket::sockopt::PassCred;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, UnixCredentials, bind, connect,
    recvmsg, sendto, setsockopt, socket,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::KinetoError;
use super::target::KinetoTarget;

/// The daemon's name. In its abstract form a zero byte ends it (ipcfabric/Endpoint.h).
const NAME: &str = "dynolog";
const ABSTRACT: &[u8] = b"dynolog\0";
/// Longest datagram: a request lists some ancestors.
const DATAGRAM_MAX: usize = 4096;

/// A socket that has the daemon's name for as long as this value lives.
#[derive(Debug)]
pub struct KinetoSocket {
    socket: OwnedFd,
    /// Its file, where it has one.
    file: Option<PathBuf>,
}

/// A datagram that came.
#[derive(Debug)]
pub struct Question {
    /// What it says.
    pub bytes: Vec<u8>,
    /// The PID of the sender, by the kernel's word; 0 for a process outside of this namespace.
    pub pid: u32,
    from: UnixAddr,
}

impl KinetoSocket {
    /// Opens the socket that a process asks.
    ///
    /// # Errors
    /// The name is taken, or cannot be had in the namespaces of the process.
    pub fn open(proc_root: &Path, target: &KinetoTarget) -> Result<Self, KinetoError> {
        let Some(folder) = &target.sockets else {
            let socket = if target.in_other_network(proc_root) { in_network_of(target)? } else { named()? };
            return Ok(Self { socket, file: None });
        };
        // An answer from a socket with another path ends the process.
        if target.in_other_mounts(proc_root) {
            return Err(KinetoError::OtherMounts(target.pid));
        }
        let file = folder.join(NAME);
        let address = UnixAddr::new(&file).map_err(system("the socket's name"))?;
        let socket = bound(&address).or_else(|error| {
            // A daemon that was killed leaves its file behind.
            if matches!(error, KinetoError::Taken) && nobody_listens(&address) {
                let _ = std::fs::remove_file(&file);
                return bound(&address);
            }
            Err(error)
        })?;
        Ok(Self { socket, file: Some(file) })
    }

    /// The next datagram, if one comes in time.
    ///
    /// # Errors
    /// The system's.
    pub fn next(&self, within: Duration) -> Result<Option<Question>, KinetoError> {
        let within = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&within)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(errno) => return Err(KinetoError::System { what: "waiting for the job", why: errno.into() }),
        }
        let mut bytes = vec![0; DATAGRAM_MAX];
        let mut room = nix::cmsg_space!(UnixCredentials);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let (fd, flags) = (self.socket.as_raw_fd(), MsgFlags::MSG_DONTWAIT);
        let received = match recvmsg::<UnixAddr>(fd, &mut slices, Some(&mut room), flags) {
            Ok(received) => received,
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(None),
            Err(errno) => return Err(system("reading what the job asks")(errno)),
        };
        let sender = received.cmsgs().find_map(|message| match message {
            ControlMessageOwned::ScmCredentials(of) => u32::try_from(of.pid()).ok(),
            _ => None,
        });
        let (length, from, pid) = (received.bytes, received.address, sender.unwrap_or_default());
        bytes.truncate(length);
        Ok(from.map(|from| Question { bytes, pid, from }))
    }

    /// Answers a datagram.
    ///
    /// # Errors
    /// The system's: the process is gone.
    pub fn answer(&self, to: &Question, bytes: &[u8]) -> io::Result<()> {
        sendto(self.socket.as_raw_fd(), bytes, &to.from, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL)?;
        Ok(())
    }
}

impl Drop for KinetoSocket {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The abstract socket of the network namespace of this thread.
fn named() -> Result<OwnedFd, KinetoError> {
    bound(&UnixAddr::new_abstract(ABSTRACT).map_err(system("the socket's name"))?)
}

fn bound(address: &UnixAddr) -> Result<OwnedFd, KinetoError> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket =
        socket(AddressFamily::Unix, SockType::Datagram, flags, None).map_err(system("a socket for the job"))?;
    setsockopt(&socket, PassCred, &true).map_err(system("a socket for the job"))?;
    bind(socket.as_raw_fd(), address).map_err(|errno| match errno {
        Errno::EADDRINUSE => KinetoError::Taken,
        errno => system("a socket for the job")(errno),
    })?;
    Ok(socket)
}

/// Whether a socket's file is all that is left of it.
fn nobody_listens(address: &UnixAddr) -> bool {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Datagram, flags, None);
    probe.is_ok_and(|probe| connect(probe.as_raw_fd(), address) == Err(Errno::ECONNREFUSED))
}

/// The abstract socket of a container: a thread enters its network namespace, and ends with the socket made.
fn in_network_of(target: &KinetoTarget) -> Result<OwnedFd, KinetoError> {
    let other = || KinetoError::OtherNetwork(target.pid);
    let network = std::fs::File::open(target.folder.join("ns/net")).map_err(|_| other())?;
    let enter = move || {
        move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
        Some(named())
    };
    std::thread::spawn(enter).join().ok().flatten().ok_or_else(other)?
}

fn system(what: &'static str) -> impl Fn(Errno) -> KinetoError {
    move |why| KinetoError::System { what, why: why.into() }
}
