//! What the loop's time is for, if the sampler alone cannot tell. Decided once, before anything is judged.

use super::{Features, LoopStacks};
use crate::diagnosis::thresholds::{COMPUTE_THREADS, HARDLY, LARGER_HALF, LOST_WAIT, PHASE};
use trainmon_waits::Wait;
use trainmon_waits::stacks::Activity;
use trainmon_waits::taxonomy::Purpose;
use trainmon_waits::time_split::{LoopActivity, TimeSplit};

/// The waits that are causes of their own.
const ELSEWHERE: [Purpose; 7] = [
    Purpose::Process,
    Purpose::Thread,
    Purpose::Sleep,
    Purpose::Remote,
    Purpose::Output,
    Purpose::FileLock,
    Purpose::InterpreterLock,
];

impl Features {
    /// The waits that are causes of their own. A wait that may be for data, for other ranks or for a copy counts only if it is
    /// seen not to be.
    pub fn waits_elsewhere(&self) -> impl Iterator<Item = Purpose> {
        ELSEWHERE.into_iter().filter(|part| match part {
            Purpose::Thread => self.waits_for_no_loader(),
            Purpose::Process => !self.waits_for_ranks(),
            // Threads that make the batches hold the lock for them.
            Purpose::InterpreterLock => !self.waits_for_batches_of_threads(),
            Purpose::Sleep => self.gpu.as_ref().is_none_or(|gpu| gpu.link().is_none()),
            _ => true,
        })
    }

    /// Whether the loop's code is at getting batches while it waits for the interpreter lock. If other threads do nothing but make
    /// them, and the loop finds none ready now and then, it goes no faster than they do, wherever it waits for the lock.
    fn waits_for_batches_of_threads(&self) -> bool {
        let Some(stacks) = self.loop_stacks() else { return false };
        let gets = stacks.shares.share_where(Activity::is_input);
        let waits = self.chain.as_ref().map_or(0.0, |chain| chain.share(Purpose::InterpreterLock));
        let at_least = if stacks.makes_batches_aside() { LOST_WAIT } else { LARGER_HALF };
        waits > 0.0 && gets >= at_least.value
    }

    /// The split of the loop's time, if some of it turns out to have another purpose than it seemed.
    pub(super) fn split_by_purpose(&self) -> Option<TimeSplit> {
        let main = self.main.as_ref()?;
        let mut split = main.shares;
        let share = |part: Purpose| self.chain.as_ref().map_or(0.0, |chain| chain.share(part));
        if self.waits_for_its_model() {
            let waits = share(Purpose::Thread).min(split.input_wait + split.other);
            let input = waits.min(split.input_wait);
            split.input_wait -= input;
            split.other -= waits - input;
            split.host_busy += waits;
        } else if self.waits_for_no_loader() {
            let waits = share(Purpose::Thread).min(split.input_wait);
            split.input_wait -= waits;
            split.other += waits;
        }
        if self.loads_by_reads() {
            let loads = main.running.min(self.device_idle()).min(split.host_busy);
            split.host_busy -= loads;
            split.input_wait += loads;
        }
        // Whatever call it waits in, a path to a worker is a wait for data, and so is reading from a disk.
        let reads = share(Purpose::Storage) - main.waits(Wait::DiskWrite);
        let batches = (share(Purpose::Batch) + reads - split.input_wait).clamp(0.0, split.other.max(0.0));
        split.other -= batches;
        split.input_wait += batches;
        // A wait that was followed to something else than data is no wait for data, whatever call it waits in.
        let elsewhere =
            [Purpose::Process, Purpose::FileLock, Purpose::Output].map(|part| self.follows(part, share(part)));
        let missing = elsewhere.iter().sum::<f64>() + share(Purpose::Request) - split.other;
        split.other += take_waits(&mut split, missing);
        (split != main.shares).then_some(split)
    }

    /// A share, if waits for this are causes of their own here.
    fn follows(&self, part: Purpose, share: f64) -> f64 {
        if self.waits_elsewhere().any(|known| known == part) { share } else { 0.0 }
    }

    /// Without stacks, a loop without workers that reads data nearly all the time makes its own batches. One that computes on
    /// several CPUs trains on them.
    pub fn loads_by_reads(&self) -> bool {
        let reads = |main: &super::LoopThread| {
            let trains = self.gpu.is_none() && main.cores() >= COMPUTE_THREADS;
            main.stacks.is_none() && main.reading >= PHASE && !trains
        };
        let others =
            |chain: &super::Chain| chain.own_threads().total().max(chain.lost(Purpose::Process)) >= LOST_WAIT.value;
        let by_others = self.chain.as_ref().is_some_and(others);
        !self.has_children && !self.load_unknown() && !by_others && self.main.as_ref().is_some_and(reads)
    }

    /// Whether the threads of its own process that the loop waits for are not known to make batches. Most threads do. The
    /// exceptions: the loop's code waits at a lock or joins a thread, or it does not say what it waits for (a future's result)
    /// and the threads are seen doing something else.
    fn waits_for_no_loader(&self) -> bool {
        let (Some(chain), Some(stacks)) = (&self.chain, self.loop_stacks()) else { return false };
        let waits = chain.share(Purpose::Thread);
        let at_locks =
            stacks.at_lock_lines >= (LARGER_HALF.value * waits).max(stacks.shares.share_where(Activity::is_input));
        at_locks || self.is_at_something_else(stacks, waits)
    }

    /// Whether the threads of its own process that the loop waits for compute the model: a library trains in threads of its own, or
    /// the loop's code is in the model while it waits.
    fn waits_for_its_model(&self) -> bool {
        let (Some(chain), Some(stacks)) = (&self.chain, self.loop_stacks()) else { return false };
        let waits = chain.share(Purpose::Thread);
        waits >= LOST_WAIT.value && !self.uses_gpu() && (stacks.fits_aside() || stacks.waits_in_model(waits))
    }

    /// Whether the code is in collectives while the loop waits for a process: that is another rank, or the exchange with it.
    fn waits_for_ranks(&self) -> bool {
        let collectives = self.main.as_ref().map_or(0.0, |main| main.share(Activity::Collective));
        collectives > LARGER_HALF.value * self.chain.as_ref().map_or(0.0, |chain| chain.lost(Purpose::Process))
    }

    fn is_at_something_else(&self, stacks: &LoopStacks, waits: f64) -> bool {
        // A thread that reads does so for a batch, whatever its name.
        let reads = self.chain.as_ref().is_some_and(|chain| chain.own_threads().at_source() >= LARGER_HALF.value);
        // A queue says little about what comes out of it if nothing trains on that: the loop hardly works, shows no model, and
        // uses no GPU.
        let works = self.main.as_ref().is_some_and(|main| main.shares.host_busy >= LOST_WAIT.value);
        let trains_on_it = works || stacks.shares.of_model() >= HARDLY.value || self.uses_gpu();
        let queue = if trains_on_it { 0.0 } else { stacks.shares.get(Activity::QueueWait) };
        let untold = stacks.shares.get(Activity::OtherWait) + queue;
        untold >= LARGER_HALF.value * waits
            && untold > stacks.shares.share_where(Activity::is_input) - queue
            && !reads
            && stacks.works_aside_at_something_else()
    }
}

/// Takes a share from the waits for data, then from those for the GPU; returns how much there was.
pub(in crate::diagnosis) fn take_waits(shares: &mut TimeSplit, wanted: f64) -> f64 {
    let mut missing = wanted.max(0.0);
    for activity in [LoopActivity::InputWait, LoopActivity::DeviceSync] {
        let part = missing.min(shares[activity].max(0.0));
        shares[activity] -= part;
        missing -= part;
    }
    wanted.max(0.0) - missing
}
