//! The fast lane: what the trainer's main thread and the workers were seen doing, many times a second.
//!
//! The points are kept raw, one by one and in order, so that waits, steps and checkpoints are found downstream
//! and a recording can be judged again.

use serde::{Deserialize, Serialize};

use super::{Access, ProcessId};

/// All lane points since the last tick.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LaneSample {
    /// One entry for each trainer (rank).
    pub trainers: Vec<TrainerLane>,
    /// One entry for each worker.
    pub workers: Vec<WorkerLane>,
}

/// The points of one trainer.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TrainerLane {
    /// Which process.
    pub id: ProcessId,
    /// Whether `/proc/PID/syscall` could be read; without it only `wchan` and the state tell waits apart.
    pub syscall: Access,
    /// Feeder threads counted in `batches_requested`: with torch's loader, one for each worker of the current set.
    pub feeders: u32,
    /// In time order.
    pub points: Vec<LanePoint>,
}

/// One look at a trainer's main thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LanePoint {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at_ns: u64,
    /// What the main thread was doing.
    pub main: Wait,
    /// What the pin-memory thread was doing, where there is one.
    pub pin: Option<Wait>,
    /// Another thread of the process, neither a feeder nor the pin thread, was running: autograd or compute threads.
    pub helper_running: Option<bool>,
    /// `wchar` of the main thread: bytes given to write calls since its start. Not read at every point.
    pub written_chars: Option<u64>,
    /// Write calls of the feeder threads since they started: one per batch index handed out. Not read at every point.
    pub batches_requested: Option<u64>,
}

/// What one worker was seen doing since the last tick, as counts of looks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerLane {
    /// Which process.
    pub id: ProcessId,
    /// PID of the trainer that it works for.
    pub trainer: u32,
    /// Looks by kind of wait, in the order of [`Wait::ALL`].
    pub looks: [u32; Wait::COUNT],
    /// Looks at which the worker was waiting for an index, that is, had nothing to do. A part of the looks above.
    pub idle_looks: u32,
    /// Batches that the worker has produced since its start (write calls of its feeder thread).
    pub batches: Option<u64>,
}

/// What a thread is doing, as far as `/proc` tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// On a CPU or queueing for one (state R).
    Running,
    /// In torch's data poll: `poll(fd, 1, 5000)` (MP_STATUS_CHECK_INTERVAL, torch/utils/data/_utils/__init__.py); in a
    /// main thread with a pin-memory thread also the timed wait on the queue between the two.
    LoaderPoll,
    /// In another poll, select or epoll wait.
    Poll,
    /// In a futex: a lock, a condition variable, a semaphore.
    Futex,
    /// Reading a pipe.
    Pipe,
    /// Waiting on a socket.
    Socket,
    /// In a timed sleep.
    Sleep,
    /// Waiting for a page or block to be read.
    DiskRead,
    /// Waiting for written data to reach the disk, or for room in the write-back queue.
    DiskWrite,
    /// Waiting for memory: reclaim, swap-in.
    Memory,
    /// Waiting for a child process.
    Child,
    /// In a driver call of a GPU device file.
    Device,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// Blocked in something else.
    Other,
    /// Could not be read.
    #[default]
    Unknown,
}

impl Wait {
    /// How many kinds there are.
    pub const COUNT: usize = 15;

    /// All kinds, in the order that [`WorkerLane::looks`] uses.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Running,
        Self::LoaderPoll,
        Self::Poll,
        Self::Futex,
        Self::Pipe,
        Self::Socket,
        Self::Sleep,
        Self::DiskRead,
        Self::DiskWrite,
        Self::Memory,
        Self::Child,
        Self::Device,
        Self::Stopped,
        Self::Other,
        Self::Unknown,
    ];

    /// Position in [`Wait::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}
