//! What a wait is called, from one look at a thread to the JSON. Every other name of a wait follows from these.
//!
//! [`Wait`] is what a look shows, [`Edge`] how the wait leads to another thread, [`End`] what is at the last one, and
//! [`Purpose`] what has to change for the time to vanish. [`Activity`] is what code is there for, where stacks show it. The
//! five columns of the split ([`LoopActivity`](crate::time_split::LoopActivity)) are sums over them.
//!
//! | a look ([`Wait`]) | leads over ([`Edge`]) | to ([`End`]) | for ([`Purpose`]) | code ([`Activity`]) | column |
//! |---|---|---|---|---|---|
//! | running | – | cpu | its own work | python, forward, backward, … | host_busy |
//! | running | – | cpu | making a batch | load, decode, transform, collate, receiving | input_wait |
//! | running, disk-write | – | cpu, flush | saving | checkpoint | checkpoint |
//! | loader-poll, poll, pipe, socket, futex | reads, network, shared-memory, thread, to a worker | any; loader if it was not sampled | a batch | waiting, queue_wait | input_wait |
//! | futex | thread | any but timer | a thread | queue_wait, other_wait | input_wait, other |
//! | futex | interpreter-lock | cpu | the interpreter lock | any | other |
//! | pipe, socket, child, poll | reads, network, child, polls, to no worker | any, children | a process | other_wait | other |
//! | pipe, socket | writes | any | the reader of its output | report | other |
//! | socket, poll | network | net | an answer from elsewhere | other_wait | other |
//! | other, sleep | file-lock, tries-lock | any; lock if the holder is unknown | a file lock | other_wait | other |
//! | disk-read, memory | – | disk, memory | storage | load | input_wait |
//! | gpu, futex, poll, sleep | – | gpu | the GPU | sync | device_sync |
//! | sleep | – | timer | the time to pass | other_wait | other |
//! | poll, socket | – | asked | a request | other_wait | other |
//! | stopped, unknown | – | stopped, terminal, unknown | unknown | other_wait | other |

use trainmon_base::text::named_enum;

named_enum! {
    /// What a thread is doing, as far as `/proc` shows.
    #[derive(Default)]
    pub enum Wait {
        /// On a CPU or queueing for one (state R).
        Running = "running",
        /// In torch's data poll: `poll(fd, 1, 5000)`. In a loop with a pin-memory thread also the timed wait on the
        /// queue between the two.
        LoaderPoll = "loader-poll",
        /// In another poll, select or epoll wait.
        Poll = "poll",
        /// In a futex: a lock, a condition variable, a semaphore.
        Futex = "futex",
        /// Reading a pipe.
        Pipe = "pipe",
        /// Waiting on a socket.
        Socket = "socket",
        /// Sleeping, or waiting only for a timeout.
        Sleep = "sleep",
        /// Waiting for a page or block to be read.
        DiskRead = "disk-read",
        /// Waiting for written data to reach the disk, or for room in the write-back queue.
        DiskWrite = "disk-write",
        /// Waiting for memory: reclaim, swap-in.
        Memory = "memory",
        /// Waiting for a child process.
        Child = "child",
        /// In a driver call on a GPU file.
        Gpu = "device",
        /// Stopped by a signal or a debugger.
        Stopped = "stopped",
        /// Blocked in something else.
        Other = "other",
        /// Could not be read.
        #[default]
        Unknown = "unknown",
    }
}

named_enum! {
    /// How a thread waits for another.
    pub enum Edge {
        /// It reads what the other writes: a pipe or a Unix socket.
        Reads = "reads",
        /// It writes what the other reads.
        Writes = "writes",
        /// A connection over an internet protocol within this machine.
        Network = "network",
        /// A lock or a queue inside its process.
        Thread = "thread",
        /// The interpreter lock of its process.
        InterpreterLock = "interpreter-lock",
        /// A lock in memory shared between processes.
        SharedMemory = "shared-memory",
        /// The end of a child process.
        Child = "child",
        /// A lock on a file.
        FileLock = "file-lock",
        /// A lock on a file that it keeps trying, sleeping in between.
        TriesLock = "tries-lock",
        /// It sleeps and polls whether the other is done.
        Polls = "polls",
    }
}

impl Edge {
    /// Whether it is a lock on a file that another process holds, waited for or polled.
    pub fn is_file_lock(self) -> bool {
        matches!(self, Self::FileLock | Self::TriesLock)
    }
}

named_enum! {
    /// What is at the end of a chain. Which one it is says the path's name.
    #[derive(Default)]
    pub enum End {
        /// Running, or ready to run.
        Cpu = "cpu",
        /// Short-lived children of its process, like a command started for each step. They compute.
        Children = "children",
        /// Waiting to read from a disk.
        Disk = "disk",
        /// Waiting for written data to reach a disk.
        Flush = "flush",
        /// Waiting for memory.
        Memory = "memory",
        /// The GPU.
        Gpu = "device",
        /// An address on the network.
        Net = "net",
        /// Sleeping or polling.
        Timer = "timer",
        /// A lock on a file, with an unknown holder.
        Lock = "lock",
        /// Stopped by a signal.
        Stopped = "stopped",
        /// Terminal input.
        Terminal = "terminal",
        /// A worker that was not sampled.
        Loader = "loader",
        /// It waits for the thread that waits for it: nothing to do.
        Asked = "asked",
        /// Unknown.
        #[default]
        Unknown = "unknown",
    }
}

/// What a second of the loop is for: what has to change for it to vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// The loop's own work.
    Own,
    /// The loop's thread runs, and makes or receives batches.
    Loads,
    /// The loop's thread runs, and saves state.
    Saves,
    /// A batch: its workers, whatever they do.
    Batch,
    /// Another thread of its process.
    Thread,
    /// A process that works on request.
    Process,
    /// An answer over the network.
    Remote,
    /// The reader of its output.
    Output,
    /// A lock on a file.
    FileLock,
    /// The interpreter lock.
    InterpreterLock,
    /// A disk, memory or writes in flight, in the loop's thread.
    Storage,
    /// The GPU.
    Gpu,
    /// A sleep of the loop while nothing else of its job works.
    Sleep,
    /// A request from a client: nothing to do.
    Request,
    /// Not traced: a terminal, an unknown end.
    Unknown,
}

impl Purpose {
    /// Whether the loop works, alone or with compute threads.
    pub fn is_loops_own(self) -> bool {
        matches!(self, Self::Own | Self::Loads | Self::Saves)
    }
}

named_enum! {
    /// What a thread was doing.
    pub enum Activity {
        /// Training process: waiting for a batch. Worker: waiting for an index.
        Waiting = "waiting",
        /// Training process: receiving a batch, unpickling it.
        Receiving = "receiving",
        /// Training process: making an iterator, starting workers.
        LoaderStart = "loader_start",
        /// Waiting for one of the program's own queues.
        QueueWait = "queue_wait",
        /// Waiting for something that the code does not name: a future, a pipe, an event loop, a child.
        OtherWait = "other_wait",
        /// Reading samples.
        Load = "load",
        /// Decoding them.
        Decode = "decode",
        /// Transforming them.
        Transform = "transform",
        /// Collating them into a batch.
        Collate = "collate",
        /// Sending a batch.
        HandOver = "hand_over",
        /// Moving a batch to the GPU.
        Copy = "copy",
        /// Forward pass.
        Forward = "forward",
        /// Backward pass.
        Backward = "backward",
        /// Optimizer, scheduler, gradient clipping and scaling.
        Optimizer = "optimizer",
        /// A library's own computing: trees, a solver.
        Fit = "fit",
        /// Making completions or actions with the model.
        Generate = "generate",
        /// Stepping or resetting environments.
        Environment = "environment",
        /// Waiting for the GPU in a call made for that.
        Sync = "sync",
        /// Collectives.
        Collective = "collective",
        /// Saving state.
        Checkpoint = "checkpoint",
        /// Logging, metrics, progress bars, callbacks.
        Report = "report",
        /// Compiling.
        Compile = "compile",
        /// Importing modules.
        Import = "import",
        /// A compiled call that contains the whole step, including fetching its batch (Keras on TensorFlow).
        Graph = "graph",
        /// Anything else: the user's own code, or the framework's.
        Python = "python",
    }
}

impl Activity {
    /// Whether it makes a batch; in a training process this means loading in the process itself.
    pub fn is_loading(self) -> bool {
        matches!(self, Self::Load | Self::Decode | Self::Transform | Self::Collate)
    }

    /// Whether it is a model or what a library fits: its passes, its training, generating.
    pub fn is_model(self) -> bool {
        use Activity::{Backward, Copy, Fit, Forward, Generate, Optimizer};
        matches!(self, Forward | Backward | Optimizer | Copy | Fit | Generate)
    }

    /// Whether it is part of getting a batch.
    pub fn is_input(self) -> bool {
        self.is_loading() || matches!(self, Self::Waiting | Self::Receiving | Self::LoaderStart | Self::QueueWait)
    }
}
