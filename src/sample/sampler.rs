//! What the sampler saw threads doing, some fifty times a second, as the kernel says it and in time order: nothing here
//! is called idle or a wait for a batch, so a recording can be judged again.
//!
//! The sampler goes through several threads in each round. Distinct observations stand once in a table; a thread's samples
//! are positions in it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::syscall::Machine;
use super::{Access, ProcessId, ProcessRole, ThreadRole};

/// All rounds since the last tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerSample {
    /// The machine whose numbers [`Observation::call`] holds.
    pub machine: Machine,
    /// Whether `/proc/PID/syscall` could be read; without it only `wchan` and the state tell waits apart.
    pub syscall: Access,
    /// CLOCK_MONOTONIC of the first round, nanoseconds.
    pub began_ns: u64,
    /// One entry for each round: microseconds since the round before; 0 for the first.
    pub gaps_us: Vec<u32>,
    /// The rounds in which all threads were sampled, and what they wait on was looked up: the first of them, and how many
    /// rounds lie between two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<(u32, u32)>,
    /// What was seen, each observation once.
    pub seen: Vec<Observation>,
    /// The processes that were sampled: trainers, the attached one first, then workers.
    pub processes: Vec<SampledProcess>,
}

/// What one sample read of a thread. A file that was not read, or may not be, leaves its fields `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// State letter: of `stat`, and `R` where `syscall` says `running`. Read only where nothing else tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<char>,
    /// `wchan`: the kernel function that the thread is blocked in, `0` for none. Not read where the call alone tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wchan: Option<Arc<str>>,
    /// Number of the system call, −1 outside of any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<i32>,
    /// The call's first argument (a descriptor, a process) where it is no pointer; of a futex its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<u64>,
    /// Descriptors of a `poll`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfds: Option<u32>,
    /// Time-out of a `poll`, milliseconds; −1 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i32>,
    /// Operation of a futex call with its flags (futex(2)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<u32>,
    /// How far ahead the end of a timed futex wait lies, milliseconds, read from the target's memory; beyond 100 ms in
    /// steps of 100 ms, so that a long wait is few observations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i32>,
    /// What the call's descriptors were at that moment. Looked up in some of the rounds only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Descriptor>,
}

/// A descriptor that a thread was blocked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Descriptor {
    /// What `/proc/PID/fd/N` points to, raw: `pipe:[inode]`, `socket:[inode]`, `anon_inode:[…]`, a path.
    pub link: Arc<str>,
    /// It waits to write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes: bool,
}

/// One process and its threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledProcess {
    /// Which process.
    pub id: ProcessId,
    /// Trainer or worker.
    pub role: ProcessRole,
    /// Of a worker: PID of the trainer that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trainer: Option<u32>,
    /// Main thread first.
    pub threads: Vec<SampledThread>,
    /// Queue feeders counted in `fed`: in a trainer with torch's loader one for each worker of the current set.
    pub feeders: u32,
    /// Write calls of the feeders since they started, with the round of each reading (the number of rounds: at the end of
    /// the tick). In a trainer one call for each batch index handed out, in a worker one for each batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fed: Vec<(u32, u64)>,
    /// `wchar` of the main thread, bytes given to write calls since its start, with the round of each reading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<(u32, u64)>,
}

/// What one thread was seen doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledThread {
    /// Thread ID.
    pub tid: u32,
    /// What it does: main, pin-memory, or one that has lately computed.
    pub role: ThreadRole,
    /// Sampled because others may wait for it, not because it computes for the main thread.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    /// The rounds in which it was sampled, in order; empty for every round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<u32>,
    /// What was seen at each: positions in [`SamplerSample::seen`].
    pub seen: Vec<u32>,
}

impl SamplerSample {
    /// CLOCK_MONOTONIC of each round, nanoseconds.
    pub fn times(&self) -> impl Iterator<Item = u64> + '_ {
        self.gaps_us.iter().scan(self.began_ns, |at, gap| {
            *at = at.saturating_add(u64::from(*gap) * 1000);
            Some(*at)
        })
    }

    /// How many rounds lie between two in which all threads were sampled; at least 1.
    pub fn followed_every(&self) -> usize {
        self.followed.map_or(1, |(_, every)| every.max(1) as usize)
    }

    /// The rounds in which all threads were sampled, in order.
    pub fn followed_rounds(&self) -> impl Iterator<Item = u32> + use<> {
        let count = u32::try_from(self.gaps_us.len()).unwrap_or(u32::MAX);
        let first = self.followed.map_or(count, |(first, _)| first);
        (first..count).step_by(self.followed_every())
    }
}

impl SampledThread {
    /// Rounds with what was seen at each.
    pub fn samples(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let round = |at: usize| self.rounds.get(at).copied().unwrap_or_else(|| u32::try_from(at).unwrap_or(u32::MAX));
        self.seen.iter().enumerate().map(move |(at, seen)| (round(at), *seen))
    }
}
