//! Workers that take turns at a lock they share, like one from multiprocessing: one of them works, and the others wait
//! for it in a futex.

use std::collections::{HashMap, HashSet};

use super::Graph;
use crate::sampled::SampledWorker;
use crate::wait::Wait;

/// FUTEX_PRIVATE_FLAG: no other process waits on it (linux/futex.h).
pub(super) const PRIVATE: u32 = 128;

impl Graph<'_> {
    /// Training processes with a worker that holds a lock: it works, and no other worker is idle until it is asked for
    /// something. A worker that waits for its turn at a queue of indices waits for an idle one.
    pub(in crate::chain) fn lock_holders(&self, workers: &[SampledWorker]) -> HashSet<u32> {
        let mut ranks: HashMap<u32, (bool, bool)> = HashMap::new();
        for worker in workers {
            let Some(main) = self.thread(worker.id.pid, worker.id.pid) else { continue };
            let rests = match main.wait {
                Wait::LoaderPoll => worker.torch,
                // Without readable calls, any poll may be torch's.
                Wait::Poll if worker.torch => !self.exact,
                _ => !worker.torch && self.rests(main, worker.rank),
            };
            let (works, rest) = ranks.entry(worker.rank).or_default();
            *works |= !rests && !matches!(main.wait, Wait::Futex | Wait::Stopped | Wait::Unknown);
            *rest |= rests;
        }
        let holders = ranks.into_iter().filter(|(_, (works, rest))| *works && !rest);
        holders.map(|(rank, _)| rank).collect()
    }

    /// Whether a worker's first thread waits in this round in a futex that other processes may share.
    pub(in crate::chain) fn is_at_shared_lock(&self, pid: u32) -> bool {
        self.thread(pid, pid).is_some_and(|main| {
            let operation = main.now.and_then(|seen| seen.operation);
            main.wait == Wait::Futex && operation.is_none_or(|operation| operation & PRIVATE == 0)
        })
    }
}
