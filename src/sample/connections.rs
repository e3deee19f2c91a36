//! What joins the job's processes with each other and with the outside: the ends of pipes and sockets that threads were
//! seen waiting on, and the file locks that they wait for. Who waits for whom is judged in `rates`.

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
    /// Channels whose other end nobody was found to hold, while the descriptors of some processes may not be read.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub hidden: u32,
    /// Processes outside of the job that hold the other end of a channel, or a lock.
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
    /// PIDs that hold it open for reading. Of a socket: that hold this very socket.
    pub readers: Vec<u32>,
    /// PIDs that hold it open for writing. Of a socket: that hold the other end of it on this machine.
    pub writers: Vec<u32>,
    /// Of an internet socket: the remote address with its port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<Arc<str>>,
    /// Of an internet socket: the other side opened the connection, at an address where the holders of this one listen.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// The other end is on this machine, and whoever holds it has not been looked for yet.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unsought: bool,
}

/// A process that waits for a lock on a file, or may do so (`/proc/locks`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LockWait {
    /// Who waits.
    pub waiter: u32,
    /// Who holds it; 0 where the kernel does not say (a lock of another PID namespace, or of an open file description).
    pub holder: u32,
    /// The file, where it is among those that the waiter has open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<Arc<str>>,
    /// It is not blocked: it sleeps meanwhile, as who tries again and again does, and has the file open.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub sleeps: bool,
}
