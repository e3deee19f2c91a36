//! What the sampler saw threads doing, about fifty times a second, in the kernel's words and in time order. Nothing
//! here is called idle or a wait for a batch, so a recording can be judged again.
//!
//! The sampler goes through several threads in each round. Each distinct observation is in a table once; a thread's
//! samples are indices into it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::syscall::Machine;
use super::{Access, ProcessId, ProcessRole, ThreadRole};

/// All rounds since the last tick.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SamplerSample {
    /// The machine whose system call numbers [`Observation::call`] holds.
    pub machine: Machine,
    /// Whether `/proc/PID/syscall` was readable; without it only `wchan` and the state tell waits apart.
    pub syscall: Access,
    /// CLOCK_MONOTONIC of the first round, nanoseconds.
    pub began_ns: u64,
    /// One entry per round: microseconds since the previous round; 0 for the first.
    pub gaps_us: Vec<u32>,
    /// The rounds in which all threads were sampled and what they wait on was looked up: the first of them, and the
    /// number of rounds from one to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub followed: Option<(u32, u32)>,
    /// All observations, each once.
    pub seen: Vec<Observation>,
    /// The sampled processes: training processes, the attached one first, then workers.
    pub processes: Vec<SampledProcess>,
}

/// What one sample read of a thread. A file that was not or cannot be read leaves its fields `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Observation {
    /// State letter from `stat`, or `R` if `syscall` says `running`. Read only if nothing else tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<char>,
    /// `wchan`: the kernel function in which the thread is blocked, `0` for none. Not read if the call alone is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wchan: Option<Arc<str>>,
    /// Number of the system call, −1 outside any call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<i32>,
    /// The call's first argument (a descriptor, a process) if it is not a pointer; for a futex its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<u64>,
    /// Number of descriptors in a `poll`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nfds: Option<u32>,
    /// Timeout of a `poll`, milliseconds; −1 for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i32>,
    /// Operation of a futex call with its flags (futex(2)).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<u32>,
    /// Time until a timed futex wait ends, milliseconds, read from the target's memory; beyond 100 ms in steps of 100
    /// ms, so that a long wait makes few observations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<i32>,
    /// What the call's descriptors were at that moment. Looked up only in some rounds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub descriptors: Vec<Descriptor>,
}

/// A descriptor that a thread was blocked on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Descriptor {
    /// What `/proc/PID/fd/N` points to, raw: `pipe:[inode]`, `socket:[inode]`, `anon_inode:[…]`, a path.
    pub link: Arc<str>,
    /// Whether it waits to write.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes: bool,
}

/// One process and its threads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledProcess {
    /// Which process.
    pub id: ProcessId,
    /// Training process or worker.
    pub role: ProcessRole,
    /// For a worker: PID of the training process that it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "trainer")]
    pub rank: Option<u32>,
    /// First thread first.
    pub threads: Vec<SampledThread>,
    /// Queue-feeding threads counted in `fed`: in a training process with torch's loader, one for each worker of the
    /// current set.
    #[serde(rename = "feeders")]
    pub queue_threads: u32,
    /// Write calls of the queue-feeding threads since they started, with the round of each reading (the number of
    /// rounds means the end of the tick). In a training process one call per batch index handed out, in a worker one
    /// per batch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fed: Vec<(u32, u64)>,
    /// `wchar` of the first thread, bytes passed to write calls since its start, with the round of each reading.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<(u32, u64)>,
}

/// What one thread was doing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SampledThread {
    /// Thread ID.
    pub tid: u32,
    /// Its role: main, pin-memory, or one that computed lately.
    pub role: ThreadRole,
    /// Sampled because others may wait for it, not because it computes for the first thread.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    /// The rounds in which it was sampled, in order; empty means every round.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<u32>,
    /// The observation in each: indices into [`SamplerSample::seen`].
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

    /// The number of rounds from one in which all threads were sampled to the next; at least 1.
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
    /// Rounds with the observation in each.
    pub fn samples(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let round = |at: usize| self.rounds.get(at).copied().unwrap_or_else(|| u32::try_from(at).unwrap_or(u32::MAX));
        self.seen.iter().enumerate().map(move |(at, seen)| (round(at), *seen))
    }
}
