//! What the loop's time is for, where the sampler alone cannot tell: decided once, before anything is told of it.

use super::{Features, LoopStacks, Part};
use crate::diagnosis::thresholds::{COMPUTE_THREADS, HARDLY, LARGER_HALF, LOST_WAIT, PHASE};
use crate::rates::stacks::Activity;
use crate::rates::time_split::TimeSplit;

impl Features {
    /// The split of the loop's time, where some of it turns out to be for something else than it was taken for.
    pub(super) fn split_by_purpose(&self) -> Option<TimeSplit> {
        let main = self.main.as_ref()?;
        let TimeSplit { input_wait, host_busy, other, .. } = main.shares;
        if self.waits_for_no_loader() {
            let waits = self.chain.as_ref()?.share(Part::OwnThread).min(input_wait);
            return Some(TimeSplit { input_wait: input_wait - waits, other: other + waits, ..main.shares });
        }
        let loads = main.running.min(self.device_idle()).min(host_busy);
        let loading = TimeSplit { input_wait: input_wait + loads, host_busy: host_busy - loads, ..main.shares };
        self.loads_by_reads().then_some(loading)
    }

    /// Without stacks: a loop without workers that reads data nearly all the time makes its batches itself. Who computes on several
    /// CPUs trains on them.
    pub fn loads_by_reads(&self) -> bool {
        let reads = |main: &super::LoopThread| {
            let cores = main.cpu_pct.unwrap_or(0.0) / 100.0;
            main.stacks.is_none() && main.reading >= PHASE && (self.gpu.is_some() || cores < COMPUTE_THREADS.value)
        };
        let by_threads = self.chain.as_ref().is_some_and(|chain| chain.own_threads().total() >= LOST_WAIT);
        !self.has_children && !self.load_unknown() && !by_threads && self.main.as_ref().is_some_and(reads)
    }

    /// The threads of its own process that the loop waits for are not known to make batches. Most do: only those are no loader whom
    /// the loop's code waits for at a lock, or joins; or, where it does not say for what it waits (a future's result), that are seen
    /// to do something else.
    pub fn waits_for_no_loader(&self) -> bool {
        let (Some(chain), Some(stacks)) = (&self.chain, self.loop_stacks()) else { return false };
        let waits = chain.share(Part::OwnThread);
        let at_locks = stacks.at_lock_lines >= (LARGER_HALF.value * waits).max(stacks.shares.of(Activity::is_input));
        at_locks || self.is_at_something_else(stacks, waits)
    }

    /// The code stands in collectives while the loop waits for a process: that is another rank, or the exchange with it.
    pub fn waits_for_ranks(&self) -> bool {
        let collectives = self.main.as_ref().map_or(0.0, |main| main.share(Activity::Collective));
        collectives > LARGER_HALF.value * self.chain.as_ref().map_or(0.0, |chain| chain.lost(Part::Process))
    }

    fn is_at_something_else(&self, stacks: &LoopStacks, waits: f64) -> bool {
        // Whoever reads does so for a batch, whatever it is called.
        let reads = self.chain.as_ref().is_some_and(|chain| chain.own_threads().at_source() >= LARGER_HALF.value);
        // A queue says as little about what comes out of it where nothing is trained on that: the loop itself hardly works, no model
        // is seen, and no device is used.
        let works = self.main.as_ref().is_some_and(|main| main.shares.host_busy >= LOST_WAIT.value);
        let trains_on_it = works || stacks.shares.of_model() >= HARDLY.value || self.uses_device();
        let queue = if trains_on_it { 0.0 } else { stacks.shares.get(Activity::QueueWait) };
        let untold = stacks.shares.get(Activity::OtherWait) + queue;
        untold >= LARGER_HALF.value * waits
            && untold > stacks.shares.of(Activity::is_input) - queue
            && !reads
            && stacks.works_aside_at_something_else()
    }
}
