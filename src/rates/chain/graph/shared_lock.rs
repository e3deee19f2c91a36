//! Data workers that take turns at a lock which they share, as one of multiprocessing's: one of them works, and the others wait
//! for it in a futex.

use std::collections::{HashMap, HashSet};

use super::Graph;
use crate::rates::sampled::SampledWorker;
use crate::rates::wait::Wait;

/// FUTEX_PRIVATE_FLAG: no other process waits at it (linux/futex.h).
pub(super) const PRIVATE: u32 = 128;

impl Graph<'_> {
    /// Trainers one of whose workers holds a lock, if there is one: it works, and none of the others rests until it is asked for
    /// something. A worker that waits for its turn at a queue of indices waits for one that rests.
    pub(in crate::rates::chain) fn lock_holders(&self, workers: &[SampledWorker]) -> HashSet<u32> {
        let mut trainers: HashMap<u32, (bool, bool)> = HashMap::new();
        for worker in workers {
            let Some(main) = self.thread(worker.id.pid, worker.id.pid) else { continue };
            let rests = match main.wait {
                Wait::LoaderPoll => worker.torch,
                // Where calls cannot be read any poll may be torch's.
                Wait::Poll if worker.torch => !self.exact,
                _ => !worker.torch && self.rests(main, worker.trainer),
            };
            let (works, rest) = trainers.entry(worker.trainer).or_default();
            *works |= !rests && !matches!(main.wait, Wait::Futex | Wait::Stopped | Wait::Unknown);
            *rest |= rests;
        }
        let holders = trainers.into_iter().filter(|(_, (works, rest))| *works && !rest);
        holders.map(|(trainer, _)| trainer).collect()
    }

    /// A worker's main thread waits at this round in a futex that other processes may share.
    pub(in crate::rates::chain) fn is_at_shared_lock(&self, pid: u32) -> bool {
        self.thread(pid, pid).is_some_and(|main| {
            let operation = main.now.and_then(|seen| seen.operation);
            main.wait == Wait::Futex && operation.is_none_or(|operation| operation & PRIVATE == 0)
        })
    }
}
