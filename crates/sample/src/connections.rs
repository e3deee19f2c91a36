//! What connects the job's processes to each other and to the outside: the ends of pipes and sockets that threads wait
//! on, and the file locks that they wait for. `rates` judges which process waits for which.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::ProcessSample;
use super::private::{Private, TextKind, Visit};

/// The connections that matter in one tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ConnectionsSample {
    /// Pipes and sockets, each under the name that the kernel gives it.
    pub channels: Vec<Channel>,
    /// Waits for a file lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockWait>,
    /// Channels whose other end no process was found to hold, while the descriptors of some processes cannot be read.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub hidden: u32,
    /// Processes outside the job that hold the other end of a channel, or a lock.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<ProcessSample>,
}

impl Private for ConnectionsSample {
    fn visit_texts(&mut self, visit: Visit<'_>) {
        self.outside.iter_mut().for_each(|process| process.visit_texts(visit));
        let remotes = self.channels.iter_mut().filter_map(|channel| channel.remote.as_mut());
        remotes.for_each(|remote| visit(TextKind::Address, remote));
        self.locks.iter_mut().filter_map(|lock| lock.path.as_mut()).for_each(|path| visit(TextKind::Path, path));
    }
}

/// One end of a pipe or socket, or both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Channel {
    /// What `/proc/PID/fd/N` points to: `pipe:[inode]`, `socket:[inode]`.
    pub link: Arc<str>,
    /// PIDs that hold it open for reading; for a socket: that hold this very socket.
    pub readers: Vec<u32>,
    /// PIDs that hold it open for writing; for a socket: that hold its other end on this machine.
    pub writers: Vec<u32>,
    /// For an internet socket: the remote address with its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<Arc<str>>,
    /// For an internet socket: the other side opened the connection, to an address where this socket's holders listen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The other end is on this machine, but its holder has not been searched for yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsought: bool,
}

/// A process that waits for a lock on a file, or may be doing so (`/proc/locks`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockWait {
    /// PID of the waiter.
    pub waiter: u32,
    /// PID of the holder; 0 if the kernel does not name it (a lock of another PID namespace, or of an open file
    /// description).
    pub holder: u32,
    /// The file, if it is among those that the waiter has open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// It is not blocked: it has the file open and sleeps between attempts.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sleeps: bool,
}
